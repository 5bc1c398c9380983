-- What ops take on the CPU, and on GPUs by what they launch.

-- counted_ops(executions, of_run, of_rank, replays): ops, be it all or some, with is_counted, and of naming_ops(), where it is false,
-- those that launch rows of them.
create or replace macro counted_ops(executions, of_run, of_rank, replays) as table
select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number, forward_tid, input_shapes, true as is_counted
from query_table(executions)
where matches(run, of_run) and matches(rank, of_rank)
union all
select run, source, rank, pid, tid, name, start_ns, end_ns, external_id, sequence_number, forward_tid, input_shapes, false
from naming_ops(of_run, of_rank, replays);

-- op_sums(executions, activity, api, replays): the sums of op_summary. `executions` are ops with `place`, a number of their own,
-- `detail`, which distinguishes them beside their name, and is_counted, false for those that only launch rows of others.
-- activity is filtered_activity(), api filtered_calls(), replays known_replays(). A row is one run, rank, name and detail.
create or replace macro op_sums(executions, activity, api, replays) as table
with _threads as materialized (
    from threads(executions)
),
_kinds as materialized (  -- a million calls have some hundred, and a number takes less memory than their columns
    select row_number() over () as kind, e.*, t.thread
    from (
        select run, source, rank, pid, tid, name, detail, is_counted
        from query_table(executions)
        group by run, source, rank, pid, tid, name, detail, is_counted
        having count(*) > 0  -- always so; but DuckDB then takes the kinds for few, and builds no hash table on the calls
    ) as e
    join hint_small('_threads') as t
        on e.run = t.run and e.source = t.source and e.pid is not distinct from t.pid and e.tid is not distinct from t.tid
),
_calls as materialized (  -- the last 31 bits of a call's id are its kind, those before its place in the trace
    select (e.place << 31) + k.kind as id, k.thread, e.start_ns, e.end_ns, e.external_id
    from query_table(executions) as e
    join _kinds as k
        on e.run = k.run and e.source = k.source and e.rank = k.rank and e.pid is not distinct from k.pid
        and e.tid is not distinct from k.tid and e.name is not distinct from k.name and e.detail is not distinct from k.detail
        and e.is_counted = k.is_counted
),
_replay_points as materialized (
    from replayed_points(activity, replays)
),
_replayers as materialized (  -- the runs and ranks that replay what was captured anywhere
    select row_number() over () as number, run, rank from (select distinct run, rank from query_table(replays))
),
_direct as not materialized (
    select run, source, pid, correlation, external_id, gpu_ns from query_table(activity) anti join _replay_points using (id)
),
_launched as materialized (
    from with_calls('_direct', api)
),
_calls_by_id as (  -- only of the ids that have to be looked for
    select k.run, k.source, k.pid, c.external_id, min(c.id) as id, arg_min_null(c.start_ns, c.id) as start_ns
    from _calls as c
    join _kinds as k on c.id & 2147483647 = k.kind
    where c.external_id in (select external_id from _launched where call_start_ns is null)
    group by k.run, k.source, k.pid, c.external_id
),
_points as materialized (  -- `op` where the id of a row names it, because its call is not recorded
    select row_number() over () as id, *
    from (
        select t.thread, null::bigint as replayer, l.call_start_ns as at_ns, l.gpu_ns, null::bigint as op
        from _launched as l
        join hint_small('_threads') as t
            on l.run = t.run and l.source = t.source and l.pid is not distinct from t.pid and l.call_tid is not distinct from t.tid
        where l.call_start_ns is not null
        union all
        select t.thread, r.number, p.at_ns, a.gpu_ns, null
        from _replay_points as p
        join query_table(activity) as a using (id)
        join _replayers as r on a.run = r.run and a.rank = r.rank
        join hint_small('_threads') as t
            on p.run = t.run and p.source = t.source and p.pid is not distinct from t.pid and p.tid is not distinct from t.tid
        union all
        select k.thread, null, c.start_ns, l.gpu_ns, c.id
        from _launched as l
        join _calls_by_id as c
            on l.run = c.run and l.source = c.source and l.pid is not distinct from c.pid and l.external_id = c.external_id
        join _kinds as k on c.id & 2147483647 = k.kind
        where l.call_start_ns is null and has_valid_interval(c.start_ns, c.start_ns)
    )
),
_calls_and_points as materialized (  -- a point is a call without duration; the last bit of an id states which of both a row is
    select thread, id * 2 as id, start_ns, end_ns from _calls where has_valid_interval(start_ns, end_ns)
    union all
    select thread, id * 2 + 1, at_ns, at_ns from _points where op is null
),
_nest as materialized (
    select id >> 1 as id, id & 1 = 1 as is_point, parent >> 1 as parent, end_ns - start_ns as dur_ns, crosses
    from thread_nesting('_calls_and_points')
),
_measures as (
    select
        id & 2147483647 as kind,
        count(*) as calls,
        count(*) filter (has_valid_interval(start_ns, end_ns)) as timed_calls,
        sum(case when has_valid_interval(start_ns, end_ns) then end_ns - start_ns end) as measured_ns,
        max(case when has_valid_interval(start_ns, end_ns) then end_ns - start_ns end) as max_ns
    from _calls
    group by kind
),
_self as (
    select kind, sum(self_ns) as self_ns, sum(overlapping_calls) as overlapping_calls
    from (
        select id & 2147483647 as kind, sum(dur_ns) as self_ns, sum(crosses::integer) as overlapping_calls
        from _nest
        where not is_point
        group by kind
        union all
        select parent & 2147483647 as kind, -sum(dur_ns), 0 from _nest where parent is not null group by kind
    )
    group by kind
),
_gpu_self as (
    select kind, replayer, sum(gpu_ns) as gpu_self_ns, count(*) as gpu_rows
    from (
        select n.parent & 2147483647 as kind, p.replayer, p.gpu_ns
        from _nest as n
        join _points as p using (id)
        where n.is_point and n.parent is not null
        union all
        select op & 2147483647, replayer, gpu_ns from _points where op is not null
    )
    group by kind, replayer
),
_calls_in_kinds as not materialized (
    select id & 2147483647 as lane, id, start_ns, end_ns from _calls
),
_outermost as materialized (
    select lane as kind, start_ns, end_ns from lane_outermost('_calls_in_kinds')
),
_outer as (
    select kind, count(*) as outermost_calls, sum(end_ns - start_ns) as total_ns from _outermost group by kind
),
_lanes as materialized (
    select row_number() over () as lane, thread, replayer from (select distinct thread, replayer from _points)
),
_outer_ranges as not materialized (
    select l.lane, o.kind as id, o.start_ns, o.end_ns
    from _outermost as o
    join _kinds as k using (kind)
    join _lanes as l using (thread)
),
_lane_points as not materialized (
    select l.lane, p.at_ns, p.gpu_ns, 1 as gpu_rows
    from _points as p
    join _lanes as l on p.thread = l.thread and p.replayer is not distinct from l.replayer
),
_gpu as materialized (
    select
        coalesce(o.kind, s.kind) as kind, coalesce(o.replayer, s.replayer) as replayer, o.gpu_ns, s.gpu_self_ns, s.gpu_rows
    from (
        select w.id as kind, l.replayer, w.gpu_ns
        from lane_summed_within('_outer_ranges', '_lane_points') as w
        join _lanes as l using (lane)
    ) as o
    full join _gpu_self as s on o.kind = s.kind and coalesce(o.replayer, 0) = coalesce(s.replayer, 0)
),
_of_kinds as (
    select
        k.run, k.rank, k.name, k.detail, m.calls, m.timed_calls, m.measured_ns, m.max_ns, o.total_ns, s.self_ns, g.gpu_ns,
        g.gpu_self_ns, g.gpu_rows, o.outermost_calls, s.overlapping_calls
    from _kinds as k
    join _measures as m using (kind)
    left join _self as s on k.kind = s.kind
    left join _outer as o on k.kind = o.kind
    left join _gpu as g on k.kind = g.kind and g.replayer is null
    where k.is_counted
    union all by name
    select  -- of a scope of executions: what ops outside of it launched
        k.run, k.rank, k.name, k.detail, 0 as calls, 0 as timed_calls, 0 as self_ns, g.gpu_ns, g.gpu_self_ns, g.gpu_rows,
        0 as overlapping_calls
    from _kinds as k
    join _gpu as g on k.kind = g.kind and g.replayer is null
    where not k.is_counted and (g.gpu_rows > 0 or g.gpu_ns > 0)
    union all by name
    select
        r.run, r.rank, k.name, k.detail, 0 as calls, 0 as timed_calls, 0 as self_ns, g.gpu_ns, g.gpu_self_ns, g.gpu_rows,
        0 as overlapping_calls
    from _gpu as g
    join _kinds as k using (kind)
    join _replayers as r on g.replayer = r.number
)
select
    run, rank, name, detail,
    as_bigint(sum(calls)) as calls,
    as_bigint(sum(timed_calls)) as timed_calls,
    sum(measured_ns) as measured_ns,
    max(max_ns) as max_ns,
    sum(total_ns) as total_ns,
    coalesce(sum(self_ns), 0) as self_ns,
    sum(gpu_ns) as gpu_ns,
    sum(gpu_self_ns) as gpu_self_ns,
    as_bigint(sum(gpu_rows)) as gpu_rows,
    as_bigint(sum(outermost_calls)) as outermost_calls,
    as_bigint(sum(overlapping_calls)) as overlapping_calls
from _of_kinds
group by run, rank, name, detail;
