-- Sources of one run whose clocks have different origins.
-- A row is one run with sources on the clock 'unix' and others on 'session'. Times within a rank are right; times of
-- different ranks cannot be compared.
-- /// check
-- title = "Several clocks in one run"
-- severity = "warning"
-- how_to_fix = "Compare ranks with --aligned, where they share collectives; else record all ranks with one profiler, or ingest each profiler's captures as a separate run (--run)."
-- ///
select
    run,
    null::integer as rank,
    count(*) as count,
    format(
        'Times count from 1970 in {}, and from the start of the capture in {}: they cannot be compared.',
        count_phrase(count(*) filter (clock = 'unix'), 'source', 'sources'),
        count_phrase(count(*) filter (clock = 'session'), 'source', 'sources')
    ) as message
from sources
group by run
having count(*) filter (clock = 'unix') > 0 and count(*) filter (clock = 'session') > 0
order by run
