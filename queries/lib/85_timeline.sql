-- Time cut into bins: sums over bins are the sums over the whole, to the nanosecond.

-- axis_of(relation): where each source's times are on the axis of its run. The relation has run, source, start_ns, end_ns.
-- A row is one source: `shift_ns` is what is added to its times, `length_ns` how long the run's axis is. Sources whose times
-- count from 1970, or are aligned, keep their distances; each of the others begins where the one before ends, for they cannot be compared.
-- Where they span more than 146 years, all begin together.
create or replace macro axis_of(relation) as table
with _recorded as (
    select run, source, min(start_ns) as first_ns, max(end_ns) as last_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
    group by run, source
),
_clocks as (
    select
        r.run,
        case when s.clock in ('unix', 'aligned') then s.clock else r.source end as own_source,
        list(distinct r.source) as of_sources,
        min(r.first_ns) as zero_ns,
        max(r.last_ns)::hugeint - min(r.first_ns) as span_ns
    from _recorded as r
    join sources as s on r.run = s.run and r.source = s.source
    group by r.run, own_source
),
_sums as (
    select
        run, of_sources, zero_ns, span_ns,
        sum(span_ns) over (partition by run order by own_source) - span_ns as before_ns,
        sum(span_ns) over (partition by run) as sum_ns,
        max(span_ns) over (partition by run) as longest_ns
    from _clocks
),
_placed as (
    select
        run, of_sources,
        (case when sum_ns < 4611686018427387904 then before_ns else 0 end - zero_ns)::bigint as shift_ns,
        (case when sum_ns < 4611686018427387904 then sum_ns else longest_ns end)::bigint as length_ns
    from _sums
)
select run, unnest(of_sources) as source, shift_ns, length_ns
from _placed;

-- bin_edge(number, first_ns, span_ns, bins): where a bin begins; bin_of(at_ns, …): the bin in which an instant lies. The
-- bins of a span are as equal as whole nanoseconds allow, and halving their number merges each two of them.
create or replace macro bin_edge(number, first_ns, span_ns, bins) as first_ns + (span_ns::hugeint * number // bins)::bigint;
create or replace macro bin_of(at_ns, first_ns, span_ns, bins) as (
    case
        when at_ns >= first_ns and at_ns - first_ns < span_ns and span_ns < 4611686018427387904 // bins
        then ((at_ns - first_ns + 1) * bins - 1) // span_ns  -- in 64 bits: a fifth of the time
        else ((at_ns - first_ns + 1)::hugeint * bins - 1) // span_ns
    end
)::integer;

-- split_at_bins(relation): rows (start_ns, end_ns; first_ns, span_ns, bins of their axis; and any others, which stay) cut
-- at the edges of the bins, `piece_start_ns` to `piece_end_ns`. What lies outside is left out. A row within one bin, as
-- almost all are, is not unnested.
create or replace macro split_at_bins(relation) as table
with _clipped as (
    select
        *,
        greatest(start_ns, first_ns) as piece_start_ns,
        least(end_ns, first_ns + span_ns) as piece_end_ns
    from query_table(relation)
),
_placed as materialized (
    select
        *,
        bin_of(piece_start_ns, first_ns, span_ns, bins) as first_bin,
        bin_of(piece_end_ns - 1, first_ns, span_ns, bins) as last_bin
    from _clipped
    where piece_start_ns < piece_end_ns
)
select * exclude (first_ns, span_ns, bins, first_bin, last_bin), first_bin as bin
from _placed
where first_bin = last_bin
union all by name
select
    * exclude (first_ns, span_ns, bins, first_bin, last_bin, piece_start_ns, piece_end_ns),
    greatest(piece_start_ns, bin_edge(bin, first_ns, span_ns, bins)) as piece_start_ns,
    least(piece_end_ns, bin_edge(bin + 1, first_ns, span_ns, bins)) as piece_end_ns
from (select *, unnest(range(first_bin, last_bin + 1))::integer as bin from _placed where first_bin < last_bin);

-- is_near_edge(start_ns, end_ns, near_ns, first_ns, span_ns, bins): whether a row is nearer to an edge of the bins than
-- near_ns; also true of some rows that are less than twice as far.
create or replace macro is_near_edge(start_ns, end_ns, near_ns, first_ns, span_ns, bins) as
    start_ns - near_ns::double <= first_ns + span_ns
    and end_ns + near_ns::double >= first_ns
    and floor((start_ns - first_ns - 2 * near_ns::double) * (bins / span_ns))
        < floor((end_ns - first_ns + 2 * near_ns::double) * (bins / span_ns));
