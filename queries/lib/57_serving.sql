-- The steps of inference servers, as their marks describe them.

-- serving_tokens(inside): the tokens of a group of requests: 888 of `888`, of `888_788544` (tokens, and their products with
-- the keys) and of `sq888sk900sqsq788544sqsk799200` (queries, keys, and sums of their products).
create or replace macro serving_tokens(inside) as as_bigint(regexp_extract(inside, '^(sq)?(\d+)', 2));

-- serving_steps(relation): the steps of a relation of annotations (run, source, rank, pid, name, scope, start_ns, end_ns) that
-- vLLM marks (execute_context_1(888)_generation_8(8), with the tokens of the batch: execute_8192_context_…) and SGLang
-- (step[DECODE bs=32]; step[DRAFT_LOOP raw_bs=3 bs=4] with the requests before padding), and their captures of CUDA graphs
-- (capture_32_FULL). One inside another is part of it, but SGLang's in
-- one of vLLM's form, which an adapter sets around the whole batch: that one also waits for the batch before. A row is one
-- step as of steps_of(), with `phase`, its requests and tokens, and a number, `step`, that counts the steps of the process
-- from 0 without the captures: the marks have none.
create or replace macro serving_steps(relation) as table
with _inner as materialized (  -- mostly none
    select run, source, rank, pid, start_ns, end_ns
    from query_table(relation)
    where starts_with(name, 'step[') and scope = 'cpu' and has_valid_interval(start_ns, end_ns)
),
_around as (
    select r.run, r.source, r.rank, r.pid, r.start_ns, r.name
    from (from query_table(relation) where starts_with(name, 'execute_')) as r
    asof join _inner as i
        on r.run = i.run and r.source = i.source and r.rank = i.rank and coalesce(r.pid, -1) = coalesce(i.pid, -1)
        and r.start_ns <= i.start_ns
    where i.end_ns <= r.end_ns
),
_marks as not materialized (
    select m.*
    from query_table(relation) as m
    anti join _around as a
        on m.run = a.run and m.source = a.source and m.rank = a.rank and m.pid is not distinct from a.pid
        and m.start_ns = a.start_ns and m.name = a.name
),
_steps as (
    select * exclude (step)
    from steps_of('_marks', '^(execute_(\d+_)?context_\d+\(.*\)_generation_\d+\(.*\)|step\[\w+ (raw_bs=\d+ )?bs=\d+.*\]|capture_\d+_[A-Z_]+)$')
),
_parts as (
    select
        *,
        regexp_extract(name, '^execute_(?:(\d+)_)?context_(\d+)\(([^)]*)\)_generation_(\d+)\(([^)]*)\)$',
            ['padded', 'contexts', 'context', 'generations', 'generation']) as of_vllm,
        regexp_extract(name, '^step\[(\w+) (?:raw_)?bs=(\d+)(?: bs=\d+)?(?: toks=(\d+))?', ['mode', 'requests', 'tokens']) as of_sglang,
        starts_with(name, 'capture_') as is_capture
    from _steps
),
_kinds as (
    select
        *,
        case
            when of_sglang.mode in ('EXTEND', 'PREFILL', 'SPLIT_PREFILL') then 'prefill'
            when of_sglang.mode = 'DECODE' then 'decode'
            when of_sglang.mode in ('TARGET_VERIFY', 'VERIFY', 'DRAFT', 'DRAFT_EXTEND', 'DRAFT_EXTEND_V2', 'DRAFT_LOOP')
                then 'speculation'  -- of requests in decode: the tokens that DRAFT_EXTEND extends are none of a prompt
        end as sglang_kind
    from _parts
),
_counted as (
    select
        * exclude (of_vllm, of_sglang, sglang_kind),
        case
            when of_vllm.contexts <> '' then as_bigint(of_vllm.contexts)
            when sglang_kind = 'prefill' then as_bigint(of_sglang.requests)
            when sglang_kind in ('decode', 'speculation') then 0
        end as prefill_requests,
        case
            when of_vllm.contexts <> '' then as_bigint(of_vllm.generations)
            when sglang_kind = 'prefill' then 0
            when sglang_kind in ('decode', 'speculation') then as_bigint(of_sglang.requests)
        end as decode_requests,
        case
            when of_vllm.contexts <> '' then serving_tokens(of_vllm.context)
            when sglang_kind = 'prefill' then as_bigint(of_sglang.tokens)
            when sglang_kind in ('decode', 'speculation') then 0
        end as prefill_tokens,
        case  -- SGLang does not mark those of a decode: each request has one; how many are drafted is not known without
            when of_vllm.contexts <> '' then serving_tokens(of_vllm.generation)
            when sglang_kind = 'prefill' then 0
            when sglang_kind = 'decode' then coalesce(as_bigint(of_sglang.tokens), as_bigint(of_sglang.requests))
            when sglang_kind = 'speculation' then as_bigint(of_sglang.tokens)
        end as decode_tokens,
        sglang_kind is not distinct from 'speculation' as is_speculation,
        lower(of_sglang.mode) as mode
    from _kinds
)
select
    * exclude (mode, is_capture, is_speculation),
    case
        when is_capture then 'capture'
        when is_speculation then mode
        when prefill_requests > 0 and decode_requests > 0 then 'mixed'
        when prefill_requests > 0 then 'prefill'
        when decode_requests > 0 then 'decode'
        when prefill_requests is null then mode
        else 'empty'
    end as phase,
    case
        when not is_capture then (count_if(not is_capture) over (partition by run, source, rank, pid order by place) - 1)::bigint
    end as step
from _counted;

-- serving_times(steps, activity, calls): what each of serving_steps() costs. `activity` are GPU rows (run, source, rank, pid,
-- device, stream, correlation, start_ns, end_ns, dur_ns), `calls` API calls (run, source, pid, correlation, start_ns,
-- end_ns). A row is one step, `id`: the GPU rows that it launched, from the first start to the last end, the time in which
-- any of them ran, and the durations of the calls that launched them.
create or replace macro serving_times(steps, activity, calls) as table
with _work as materialized (
    select run, source, rank, pid, null::integer as device, correlation, start_ns, end_ns, step_id as part
    from with_step(activity, steps)
    where step_id is not null and has_valid_interval(start_ns, end_ns)
),
_busy as (
    select part, sum(busy_ns) as gpu_busy_ns from busy('_work') group by part
),
_spans as (
    select
        part, count(*) as gpu_rows, max(end_ns) as gpu_end_ns, max(end_ns) - min(start_ns) as gpu_span_ns
    from _work
    group by part
),
_launches as (
    select part, sum(call_ns) as launch_ns
    from (select distinct run, source, pid, correlation, part from _work) as w
    join (
        select run, source, pid, correlation, max(end_ns) - min(start_ns) as call_ns
        from query_table(calls)
        where correlation is not null and has_valid_interval(start_ns, end_ns)
        group by run, source, pid, correlation
    ) as c
        on w.run = c.run and w.source = c.source and w.pid is not distinct from c.pid and w.correlation = c.correlation
    group by part
)
select s.part as id, s.gpu_rows, s.gpu_end_ns, s.gpu_span_ns, b.gpu_busy_ns, l.launch_ns
from _spans as s
left join _busy as b on s.part = b.part
left join _launches as l on s.part = l.part;

-- timed_serving_steps(of_run, of_rank): serving_steps() of a run and rank (NULL: of all) with their serving_times(). `dur_ns` is that
-- of the range, `latency_ns` lasts from its start to the later of its end and the end of its GPU work.
create or replace macro timed_serving_steps(of_run, of_rank) as table
with _marked as (
    select run, source, rank, pid, tid, name, scope, start_ns, end_ns
    from annotations
    where matches(run, of_run) and matches(rank, of_rank)
),
_steps_of_servers as materialized (
    from serving_steps('_marked')
),
_server_activity as (
    select run, source, rank, pid, device, stream, correlation, start_ns, end_ns, dur_ns
    from gpu_activity
    where matches(run, of_run) and matches(rank, of_rank)
),
_server_calls as (
    select run, source, pid, correlation, start_ns, end_ns
    from api_calls
    where matches(run, of_run) and matches(rank, of_rank) and contains(name, 'Launch')
)
select
    s.run, s.rank, s.step, s.phase, s.prefill_requests, s.decode_requests, s.prefill_tokens, s.decode_tokens, s.start_ns,
    s.range_end_ns - s.start_ns as dur_ns,
    greatest(s.range_end_ns, t.gpu_end_ns) - s.start_ns as latency_ns,
    t.gpu_rows, t.gpu_span_ns, t.gpu_busy_ns, t.launch_ns
from _steps_of_servers as s
left join serving_times('_steps_of_servers', '_server_activity', '_server_calls') as t using (id);
