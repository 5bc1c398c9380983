-- Ranks of one run that were not recorded at the same time.
-- A row is one run with several ranks on the clock 'unix' whose recordings share no instant; `rank` is the one that
-- began last. Queries that compare ranks (stragglers, waits) compare different steps or jobs.
-- /// check
-- title = "Recordings apart in time"
-- severity = "warning"
-- how_to_fix = "Record the same steps on all ranks, with synchronized clocks; ingest other executions with a separate --run."
-- ///
with spans as (
    select r.run, r.rank, min(r.start_ns) as start_ns, max(r.end_ns) as end_ns
    from recordings as r
    join sources as s using (run, source)
    group by r.run, r.rank
    having count(*) = count(*) filter (s.clock = 'unix')
)
select
    run,
    arg_max(rank, (start_ns, rank)) as rank,
    count(*) as count,
    format(
        'The recordings of its {} ranks share no instant: rank {} begins {} after rank {} ends.',
        count(*), arg_max(rank, (start_ns, rank)), format_duration(max(start_ns) - min(end_ns)), arg_min(rank, (end_ns, rank))
    ) as message
from spans
group by run
having count(*) > 1 and max(start_ns) > min(end_ns)
order by run
