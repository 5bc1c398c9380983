-- Which collectives are exposed most, and in which step.

-- with_label(operations): the rows of a relation of collective_kernels() with `label`, the kind of the collective and its
-- process group in words: by the role that the group's description states, else by description or name.
create or replace macro with_label(operations) as table
with _kinds as (
    select distinct collective, group_name, group_description from query_table(operations)
),
_labels as materialized (
    select
        *,
        collective || case
            when group_role(group_description) is not null then ' of the ' || group_role(group_description) || ' group'
            when coalesce(group_description, group_name) is not null then ' of group ' || coalesce(group_description, group_name)
            else ' (its group is not recorded)'
        end as label
    from _kinds
)
select o.*, l.label
from query_table(operations) as o
join hint_small('_labels') as l
    on o.collective is not distinct from l.collective and o.group_name is not distinct from l.group_name
    and o.group_description is not distinct from l.group_description;

-- with_entered_step(rows, steps): the rows of a relation (run, source, rank, start_ns) with the step of steps_of() that
-- contains their start, by the marks of their own rank; NULL outside all steps.
create or replace macro with_entered_step(rows, steps) as table
select r.*, case when r.start_ns < s.end_ns then s.step end as step
from query_table(rows) as r
asof left join query_table(steps) as s
    on r.run = s.run and r.source = s.source and r.rank = s.rank and r.start_ns >= s.start_ns;

-- slice_key(part, label, step): one text for the three, which is no part itself.
create or replace macro slice_key(part, label, step) as concat_ws(chr(31), part, label, coalesce(step::varchar, ''));

-- slices(spans): the rows of a relation (run, source, rank, device, start_ns, end_ns, part, label, step) with a part of its own
-- for each part, label and step. Beside the parts themselves one clip_to() sweeps both.
create or replace macro slices(spans) as table
select run, source, rank, device, start_ns, end_ns, slice_key(part, label, step) as part from query_table(spans);

-- most_exposed(spans, clipped): of each run, rank, device and part of a relation as slices() takes it the label with most
-- time outside of the cover, by clip_to() of its slices, and the step with most of that time. Of equal ones the first label and
-- step count. `exposed_ns` is the label's time; parts without such time have no row.
create or replace macro most_exposed(spans, clipped) as table
with _slices as (
    select distinct part, label, step from query_table(spans)
),
_exposed as (
    select c.run, c.rank, c.device, s.part, s.label, s.step, c.busy_ns - c.inside_ns as exposed_ns
    from query_table(clipped) as c
    join _slices as s on c.part = slice_key(s.part, s.label, s.step)
),
_labels as (
    select
        run, rank, device, part, label,
        sum(exposed_ns) as exposed_ns,
        arg_max(step, (exposed_ns, -step)) filter (step is not null) as step
    from _exposed
    group by run, rank, device, part, label
)
select run, rank, device, part, label, step, exposed_ns
from _labels
where exposed_ns > 0
qualify row_number() over (partition by run, rank, device, part order by exposed_ns desc, label) = 1;
