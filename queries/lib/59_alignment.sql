-- Times of ranks on one clock, by the collectives that they share.

-- clock_shifts(matched, offsets): what moves the times of each rank and source to the clock of the run's lowest rank, by the
-- rows of match_ranks() and rank_offsets(). `moves`: they are moved, for the clocks differ by more
-- than what scatters; `agrees`: they are then on that clock, whose kind is `reference_clock` (as sources.clock). The notes of a
-- run folder count on the clock of the host, as Kineto's traces do.
create or replace macro clock_shifts(matched, offsets) as table
with _noted as (
    select distinct run, source, rank from steps
    union
    select distinct run, source, rank from host_samples
),
_located as (
    select run, source, rank from clock_domains(matched)
    union
    select n.run, n.source, n.rank
    from _noted as n
    join query_table(offsets) as o on n.run = o.run and n.rank = o.rank and not starts_with(o.domain, 'source ')
),
_references as (
    select m.run, m.rank, min(s.clock) as clock
    from (select distinct run, source, rank from query_table(matched)) as m
    join sources as s on m.run = s.run and m.source = s.source
    group by m.run, m.rank
)
select
    l.run, l.source, l.rank, o.reference_rank, o.verdict, o.offset_ns, o.drift_ppb, o.offset_time_ns,
    o.verdict <> 'refused' and o.reference_rank = min(o.rank) over (partition by o.run) as agrees,
    agrees and (o.drift_ppb is not null or abs(o.offset_ns) > greatest(3 * o.spread_ns, 1_000)) as moves,
    case when r.clock = 'unix' then r.clock else 'aligned' end as reference_clock
from _located as l
join query_table(offsets) as o on l.run = o.run and l.rank = o.rank
left join _references as r on o.run = r.run and o.reference_rank = r.rank;

-- on_one_clock(relation): the rows of a relation (run, source, rank, start_ns, end_ns and any others, which stay) with times on
-- the clock of the run's lowest rank, by the collectives of all kernels. `is_aligned`: the times may be compared with those
-- of other ranks; those of a rank that nothing aligns stay as they are.
create or replace macro on_one_clock(relation) as table
with _executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation, in_scope
    from recorded_kernels
    where run in (select run from query_table(relation))
),
_communication as materialized (
    from collective_kernels('_executions')
),
_matched as materialized (
    from match_ranks('_communication')
),
_offsets as materialized (
    from rank_offsets('_matched')
),
_shifts as materialized (
    from clock_shifts('_matched', '_offsets')
)
select
    r.* replace (
        case when s.moves then shift_clock(r.start_ns, s) else r.start_ns end as start_ns,
        case when s.moves then shift_clock(r.start_ns, s) + (r.end_ns - r.start_ns) else r.end_ns end as end_ns
    ),
    coalesce(s.agrees, false) as is_aligned
from query_table(relation) as r
left join _shifts as s on r.run = s.run and r.source = s.source and r.rank = s.rank;
