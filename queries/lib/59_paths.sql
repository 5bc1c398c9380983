-- What a path through a run is made of: rows of devices and threads, what waited for what, and collectives: those of the whole
-- recording, in a scope or not, for a path leads through what a scope leaves out.

-- path_kernels(wanted): the kernels of one run. path_gpu_rows() takes the name of a CTE that reads them: DuckDB binds a
-- macro that reads a table when it is created, a fifth of the time that it takes to open a session.
create or replace macro path_kernels(wanted) as table
select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation from unscoped_kernels where run = wanted;

-- path_gpu_rows(executions, wanted): the kernels, copies, memsets and whole graphs of one run, in any order, each with its
-- class (that of the kernel's name, memcpy, memset or cuda_graph) and the kind of collective of a communication kernel.
-- executions is a relation like path_kernels(). The name of a copy is its direction; that of one from pageable memory ends
-- in pageable, for its call takes as long as the copy.
create or replace macro path_gpu_rows(executions, wanted) as table
with _kernels as not materialized (
    select *, {'pid': pid, 'stream': stream, 'correlation': correlation} as part from query_table(executions)
),
_others as (
    select source, rank, pid, device, stream, kind, name, start_ns, end_ns, correlation
    from unscoped_activity
    where run = wanted and kind not in ('kernel', 'memcpy')
    union all by name
    select
        source, rank, pid, device, stream, 'memcpy' as kind,
        direction || case when direction = 'HtoD' and src_memory = 'Pageable' then ' pageable' else '' end as name,
        start_ns, end_ns, correlation
    from unscoped_memcpys
    where run = wanted
),
_rows as (
    select
        source, rank, part.pid as pid, device, part.stream as stream, name, class, collective, start_ns, end_ns,
        part.correlation as correlation
    from with_class('_kernels')
    union all
    select
        source, rank, pid, device, stream, name,
        case kind when 'graph' then 'cuda_graph' else kind end, null,
        start_ns, end_ns, correlation
    from _others
)
from _rows
where has_valid_interval(start_ns, end_ns);

-- path_kind(kind): the kind of a CPU row, as path_cpu_rows() has it.
create or replace macro path_kind(kind) as kind::enum('range', 'loader', 'op', 'call', 'osrt');

-- path_marked_kind(kind, name): the same for a range or op of a name: loader for what an iterator over a data loader records, a
-- range or, in old recordings, an op.
create or replace macro path_marked_kind(kind, name) as
    path_kind(case when starts_with(name, 'enumerate(DataLoader)') then 'loader' else kind end);

-- path_cpu_rows(wanted): the ops, API calls and ranges of one run's threads, in any order. A kind is a number that has a name,
-- for millions of texts take long to hand over.
create or replace macro path_cpu_rows(wanted) as table
with _rows as (
    select
        source, rank, pid, tid,
        path_marked_kind('range', name) as kind,
        name, start_ns, end_ns, null::bigint as correlation, null::bigint as sequence_number, null::bigint as forward_tid
    from unscoped_annotations
    where run = wanted and scope = 'cpu'
    union all
    select source, rank, pid, tid, path_marked_kind('op', name), name, start_ns, end_ns, null, sequence_number, forward_tid
    from unscoped_ops
    where run = wanted
    union all
    select source, rank, pid, tid, path_kind(case api when 'osrt' then 'osrt' else 'call' end), name, start_ns, end_ns, correlation, null, null
    from unscoped_api_calls
    where run = wanted
)
from _rows
where has_valid_interval(start_ns, end_ns);

-- path_syncs(wanted): the recorded synchronizations of one run.
create or replace macro path_syncs(wanted) as table
select source, rank, pid, device, stream, kind, start_ns, end_ns, correlation, waits_for_stream, waits_for_correlation
from unscoped_syncs
where run = wanted;

-- path_collectives(waits, clocks, wanted): the collectives of one run, by the rows of wait_times() and rank_offsets(). A row is
-- one collective on one rank. last_rank, NULL unless the collective is matched and no rank can leave it before all have
-- entered, is the rank that starts last by aligned clocks. reference_rank is the rank on whose clock a time t of this rank is
-- t + offset_ns + drift_ppb / 1e9 * (t - offset_time_ns), NULL where that is not known.
create or replace macro path_collectives(waits, clocks, wanted) as table
select
    w.number, w.rank, w.source, w.device, w.stream, w.start_ns, w.end_ns, w.last_rank,
    case when o.verdict <> 'refused' then o.reference_rank end as reference_rank,
    on_reference_clock(coalesce(o.offset_time_ns, 0), o) - coalesce(o.offset_time_ns, 0) as offset_ns,
    coalesce(o.drift_ppb, 0)::double as drift_ppb,
    coalesce(o.offset_time_ns, 0) as offset_time_ns
from query_table(waits) as w
left join query_table(clocks) as o on w.run = o.run and w.rank = o.rank
where w.run = wanted;

-- path_steps(wanted, pattern): the steps that one run marks, by steps_of().
create or replace macro path_steps(wanted, pattern) as table
with _marked as (
    select run, source, rank, pid, name, scope, start_ns, end_ns from unscoped_annotations where run = wanted
)
select source, rank, pid, step, start_ns, end_ns
from steps_of('_marked', pattern)
where step is not null;

-- path_serving_steps(wanted, pattern): those of serving_steps(), of the processes without steps of that pattern.
create or replace macro path_serving_steps(wanted, pattern) as table
with _marks as not materialized (
    select run, source, rank, pid, name, scope, start_ns, end_ns from unscoped_annotations where run = wanted
)
select s.source, s.rank, s.pid, s.step, s.start_ns, s.end_ns
from serving_steps('_marks') as s
anti join steps_of('_marks', pattern) as o on s.source = o.source and s.rank = o.rank and s.pid is not distinct from o.pid
where s.step is not null;

-- path_starts(wanted, pattern): the starts of the programs of one run, by program_starts(), where a scope leaves them out.
create or replace macro path_starts(wanted, pattern) as table
with _marks as not materialized (
    select run, source, rank, pid, name, scope, start_ns, end_ns from unscoped_annotations where run = wanted
)
select source, rank, start_ns, end_ns
from program_starts('_marks', pattern)
where exists (from path_scope where is_after_start);

-- path_lanes(wanted): the threads and processes of one run with the keys by which a scope knows them, where it has ranges.
create or replace macro path_lanes(wanted) as table
with _lanes as (
    select run, source, rank, pid, tid from unscoped_ops where run = wanted
    union
    select run, source, rank, pid, tid from unscoped_api_calls where run = wanted
    union
    select run, source, rank, pid, tid from unscoped_annotations where run = wanted and scope = 'cpu'
    union
    select run, source, rank, pid, null from unscoped_activity where run = wanted
)
select source, rank, pid, tid, process_key(run, source, rank, pid) as process, thread_key(run, source, rank, pid, tid) as thread
from _lanes
where exists (from path_scope where is_within);

-- path_modules(wanted, pattern): the frames of nn.Modules of one run, where a pattern is given: a run has up to millions.
create or replace macro path_modules(wanted, pattern) as table
select source, rank, pid, tid, name, start_ns, end_ns
from unscoped_python_frames
where run = wanted and starts_with(name, 'nn.Module: ') and pattern::varchar is not null and has_valid_interval(start_ns, end_ns);

-- largest_unknown_ratio(): above this share of its window, what a path waited for is not known well enough to name what bounds
-- it, or to replay it.
create or replace macro largest_unknown_ratio() as 0.2::double;

-- left_out_reason(ranks): the sentence about ranks that a path leaves out, NULL for none.
create or replace macro left_out_reason(ranks) as
    case ranks
        when 0 then null
        when 1 then '1 rank is left out: no collective aligns its clock'
        else format('{} ranks are left out: no collective aligns their clocks', ranks)
    end;
