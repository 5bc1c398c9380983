-- What runs do in the steps that count: the time of a step on a device, its parts, and what is typical of many steps.

-- step_stretches(work): the time that each step takes on a device: from the start of its first kernel or graph to that of the
-- next step; the last one ends with its own last row. A host runs ahead of its device, so what a device does in a step is no
-- part of that step's time on the host. The relation has lane, step_id and place (of the step, in the order of time; NULL for
-- none), kind, start_ns and end_ns. A row is one lane and step with kernels; its time never begins before that of an earlier one.
create or replace macro step_stretches(work) as table
with _begun as (
    select
        lane, step_id, place, min(start_ns) filter (kind in ('kernel', 'graph')) as first_ns, max(end_ns) as last_ns
    from query_table(work)
    where step_id is not null
    group by lane, step_id, place
    having first_ns is not null
),
_ordered as (
    select lane, step_id, place, max(first_ns) over earlier as start_ns, max(last_ns) over earlier as last_ns
    from _begun
    window earlier as (partition by lane order by place rows between unbounded preceding and current row)
)
select lane, step_id, start_ns, coalesce(lead(start_ns) over (partition by lane order by place), last_ns) as end_ns
from _ordered;

-- median_of_steps(times, steps): the median of as many numbers as there are steps: those of a list, and 0 for each other step.
create or replace macro median_of_steps(times, steps) as (
    list_transform(
        [list_sort(coalesce(times, []))],
        lambda sorted: (
            case when (steps - 1) // 2 >= steps - len(sorted) then sorted[(steps - 1) // 2 - steps + len(sorted) + 1] else 0 end
            + case when steps // 2 >= steps - len(sorted) then sorted[steps // 2 - steps + len(sorted) + 1] else 0 end
        ) / 2
    )[1]
);

-- typical_times(series, runs): what things take in a step of two runs. `series` has section, name, place (of the name, NULL
-- for none), run, number (of a counted step, NULL for other time), listed, dur_ns, and each_ns, the time per device or rank;
-- `runs` have run, is_after and steps. A row is one section and name, with counts, sums, and the times in a step of both:
-- the medians over the steps that count, as 0 where it takes no time; the means where a median hides all of it, as what occurs in
-- fewer than half of the steps. Of sections `window` and `breakdown` steps without a time are left out.
create or replace macro typical_times(series, runs) as table
with _sides as (
    select
        s.section, s.name, s.place, r.is_after,
        as_bigint(sum(s.listed)) as listed,
        as_bigint(coalesce(sum(s.dur_ns), 0)) as dur_ns,
        if(s.section in ('window', 'breakdown'), count(s.each_ns) filter (s.number is not null), any_value(r.steps)) as step_count,
        median_of_steps(list(s.each_ns) filter (s.number is not null and s.each_ns is not null), step_count) as median_ns,
        coalesce(sum(s.each_ns) filter (s.number is not null), 0) / nullif(step_count, 0) as mean_ns
    from query_table(series) as s
    join query_table(runs) as r using (run)
    group by s.section, s.name, s.place, r.is_after
),
_paired as (
    select
        coalesce(b.section, a.section) as section,
        coalesce(b.name, a.name) as name,
        coalesce(b.place, a.place) as place,
        case when b.section is null then 0 else b.listed end as before_count,
        case when a.section is null then 0 else a.listed end as after_count,
        coalesce(b.dur_ns, 0) as before_ns,
        coalesce(a.dur_ns, 0) as after_ns,
        coalesce((b.median_ns = 0 and b.mean_ns > 0) or (a.median_ns = 0 and a.mean_ns > 0), false) as is_rare,
        case when b.section is null then 0 when is_rare then b.mean_ns else b.median_ns end as before_each,
        case when a.section is null then 0 when is_rare then a.mean_ns else a.median_ns end as after_each
    from (from _sides where not is_after) as b
    full join (from _sides where is_after) as a on b.section = a.section and b.name is not distinct from a.name
)
select * exclude (is_rare) from _paired;

-- layers_of_stretches(work, stretches): where the time of lanes goes in stretches of it. The work has lane, layer (0 to 2, NULL
-- for none), start_ns and end_ns; the stretches lane, step_id and start_ns, each lasting to the next one of its lane, and
-- end_ns, which counts for the last one. A row is one stretch: window_ns; first_ns, second_ns and third_ns, the time in which a
-- row of layer 0 runs, else of 1, else of 2; and idle_ns, in which none runs.
create or replace macro layers_of_stretches(work, stretches) as table
with _rows as (
    select lane, layer, start_ns, end_ns from query_table(work) where layer is not null
),
_slots as materialized (
    select lane, step_id, start_ns, end_ns, 2 * row_number() over (order by lane, start_ns, step_id) as slot
    from query_table(stretches)
),
_sums as (
    select slot, layer, sum(dur_ns) as dur_ns from layers_in_steps('_rows', '_slots') group by slot, layer
)
select
    s.lane, s.step_id,
    coalesce(sum(t.dur_ns), 0) as window_ns,
    coalesce(sum(t.dur_ns) filter (t.layer = 0), 0) as first_ns,
    coalesce(sum(t.dur_ns) filter (t.layer = 1), 0) as second_ns,
    coalesce(sum(t.dur_ns) filter (t.layer = 2), 0) as third_ns,
    coalesce(sum(t.dur_ns) filter (t.layer = 3), 0) as idle_ns
from _slots as s
left join _sums as t using (slot)
group by s.lane, s.step_id;
