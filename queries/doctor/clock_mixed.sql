-- Sources of one run whose times count from different beginnings.
-- A row is one run with sources on the clock 'unix' and others on 'session'. Each rank is right in itself; times of
-- different ranks cannot be compared.
-- /// check
-- title = "Several clocks in one run"
-- severity = "warning"
-- how_to_fix = "Record all ranks with one profiler, or keep its captures apart as runs of their own (--run)."
-- ///
select
    run,
    null::integer as rank,
    count(*) as count,
    format(
        'Times count from 1970 in {}, and from the capture''s own start in {}: they cannot be compared.',
        count_phrase(count(*) filter (clock = 'unix'), 'source', 'sources'),
        count_phrase(count(*) filter (clock = 'session'), 'source', 'sources')
    ) as message
from sources
group by run
having count(*) filter (clock = 'unix') > 0 and count(*) filter (clock = 'session') > 0
order by run
