-- classify(relation): the class of each distinct `name` of the relation, by the first rule that it matches
-- (`kernel_rules`); 'unclassified' where none does. `collective` is set for communication only, 'unknown' where the
-- name does not show it. The rules run over distinct names: a million kernels have some hundred. `name_id` is the place
-- of the name among these, NULL for NULL: rows that are kept carry it in place of a long text.
create or replace macro classify(relation) as table
with _ruled as (
    select name, kernel_rule(name) as rule, case when name is not null then row_number() over (order by name) end::integer as name_id
    from (select distinct name from query_table(relation))
)
select
    _ruled.name,
    coalesce(kernel_rules.class, 'unclassified') as class,
    case when kernel_rules.class = 'communication' then coalesce(kernel_rules.collective, 'unknown') end as collective,
    kernel_rules.pattern as rule,
    _ruled.name_id
from hint_small('_ruled') as _ruled
left join kernel_rules using (rule);

create or replace view kernel_classes as select name, class, collective, rule from classify('kernels');
comment on view kernel_classes is 'one distinct kernel name and its class, by the rules of kernel_rules';
comment on column kernel_classes.name is 'Kernel name.';
comment on column kernel_classes.class is 'Class; unclassified where no rule matches.';
comment on column kernel_classes.collective is 'Kind of collective, of communication kernels; unknown where the name does not show it.';
comment on column kernel_classes.rule is 'The pattern that matched.';

-- is_same_kernel(a, b): whether two rows (run, source, pid, device, stream, start_ns, correlation) are about one kernel.
create or replace macro is_same_kernel(a, b) as
    a.run = b.run and a.source = b.source
    and a.pid is not distinct from b.pid and a.correlation is not distinct from b.correlation
    and a.device is not distinct from b.device and a.stream is not distinct from b.stream
    and a.start_ns is not distinct from b.start_ns;

-- with_noted_class(relation, named): the rows of a relation of kernels (run, source, rank, pid, device, stream, name,
-- start_ns, end_ns, dur_ns, correlation, and maybe a `part` that stays) with class, collective and name_id. What the profiler noted about
-- this very kernel (origin = 'kernel') wins over its name: such a kernel communicates, under any name; `notes` is how many rows of
-- `collectives` do, NULL for none. The range that launched a communication kernel (origin = 'range') names its collective: a
-- kernel called SendRecv may be an all-to-all. Notes count in a scope or not. `named` is a relation with the same names: where reading it is cheap, the rows
-- need not be computed twice.
create or replace macro with_noted_class(relation, named) as table
with _noted as (
    select
        run, source, pid, device, stream, start_ns, correlation,
        arg_min(collective, place) as collective,
        nullif(count(*) filter (place = 0), 0) as notes
    from (select *, case origin when 'kernel' then 0 else 1 end as place from unscoped_collectives where origin in ('kernel', 'range'))
    group by run, source, pid, device, stream, start_ns, correlation
    having count(*) > 0  -- always so; but DuckDB then takes the notes for few, and builds the hash table on them
),
_joined as (
    select
        k.run, k.source, k.rank, k.pid, k.device, k.stream, k.part, k.name, k.start_ns, k.end_ns, k.dur_ns, k.correlation,
        n.notes, c.name_id,
        n.collective as noted_collective,
        c.collective as named_collective,
        case when n.notes > 0 then 'communication' else c.class end as class
    from (select null as part where false union all by name from query_table(relation)) as k
    join classify(named) as c on k.name is not distinct from c.name
    left join _noted as n
        on k.run = n.run and k.source = n.source
        and k.pid is not distinct from n.pid and k.correlation is not distinct from n.correlation
        and k.device is not distinct from n.device and k.stream is not distinct from n.stream
        and k.start_ns is not distinct from n.start_ns
)
select
    run, source, rank, pid, device, stream, part, name, name_id, start_ns, end_ns, dur_ns, correlation, class,
    case when class = 'communication' then coalesce(noted_collective, named_collective, 'unknown') end as collective,
    notes
from _joined;

-- with_named_class(relation, named): with_noted_class() without the number of notes.
create or replace macro with_named_class(relation, named) as table
select * exclude (notes) from with_noted_class(relation, named);

-- with_class(relation): with_named_class() of the relation's own names.
create or replace macro with_class(relation) as table
from with_named_class(relation, relation);
