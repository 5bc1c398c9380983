-- Words for the sentences of `tracelab doctor` (queries/doctor).

-- format_duration(ns): a time as people read it, four digits: 987 ns, 12.35 µs. Nothing exact is made of it.
create or replace macro format_duration(ns) as
    case
        when abs(ns::double) < 1e3 then format('{:.4g} ns', ns::double)
        when abs(ns::double) < 1e6 then format('{:.4g} µs', ns / 1e3)
        when abs(ns::double) < 1e9 then format('{:.4g} ms', ns / 1e6)
        else format('{:,.4g} s', ns / 1e9)
    end;

-- percent(part, total): a share in words; 'no share' of nothing.
create or replace macro percent(part, total) as
    case when total > 0 then format('{:.3g} %', 100 * part / total) else 'no share' end;

-- count_phrase(number, one, many): a number with its noun: 1 kernel, 1,234 kernels.
create or replace macro count_phrase(number, one, many) as
    format('{:,} {}', number::bigint, case when number = 1 then one else many end);

-- recordings: when each rank was recorded. A row is one run, rank and source whose times mean anything, with the first
-- start and the last end of what ran on a device, of API calls and of ops.
create or replace view recordings as
with _rows as (
    select run, source, rank, start_ns, end_ns from gpu_activity
    union all
    select run, source, rank, start_ns, end_ns from api_calls
    union all
    select run, source, rank, start_ns, end_ns from ops
)
select run, rank, source, min(start_ns) as start_ns, max(end_ns) as end_ns
from _rows
where has_valid_interval(start_ns, end_ns)
group by run, rank, source;
comment on view recordings is 'one rank in one source, and when it was recorded: first start to last end of what was seen';
