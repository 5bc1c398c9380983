-- The macros of queries/lib that have to do with measured ceilings, for a session without `ceilings`, where they replace those
-- of the same names: nothing was measured there.

create or replace macro measured_ceilings(cards, from_run) as table
select
    run, rank, device, null::varchar as ceiling, null::varchar as of_run, null::varchar as metric,
    null::double as per_s, null::varchar as basis, null::double as best_per_s
from query_table(cards)
where false;
