-- Two sources of one run that name the same rank and overlap in time.
-- A row is one run and rank. Each nanosecond counts once a source, so the rank's times are counted twice.
-- /// check
-- title = "One rank recorded twice"
-- severity = "error"
-- how_to_fix = "Make a new store; name each file after its rank (rank-N…), and ingest each other profiler's captures with a separate --run."
-- ///
with spans as (
    select r.run, r.rank, r.source, r.start_ns, r.end_ns, s.path
    from recordings as r
    join sources as s using (run, source)
    where s.clock = 'unix'
),
pairs as (
    select
        a.run, a.rank, least(a.path, b.path) as one, greatest(a.path, b.path) as other,
        least(a.end_ns, b.end_ns) - greatest(a.start_ns, b.start_ns) as shared_ns
    from spans as a
    join spans as b on a.run = b.run and a.rank = b.rank
    where a.source < b.source and a.start_ns < b.end_ns and b.start_ns < a.end_ns
)
select
    run,
    rank,
    count(*) as count,
    format(
        '{} and {} both name this rank and overlap for {}, which counts twice.',
        parse_filename(arg_max(one, (shared_ns, one, other))), parse_filename(arg_max(other, (shared_ns, one, other))),
        format_duration(max(shared_ns))
    ) as message
from pairs
group by run, rank
order by run, rank
