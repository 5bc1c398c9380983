-- Runs as points of lines: which of them differ in one setting alone, so that what differs between them is its doing.

-- lines_along(selected, axis): the lines that runs lie on along an axis, 'batch_size' or 'gpus'. `selected` names a
-- relation with the columns of `runs`; what it knows of model, batch size and GPU counts, from any source. A row is one run
-- and line: runs of one line share sweep, machine (the GPU, else the host) and every setting but the axis; those that share
-- the axis too are repeats. Along 'gpus' how they work together may differ from a cell that runs alone, which so lies on
-- several lines. `point` is the place on the axis, of processes where no GPU is used; `label` distinguishes the line from
-- others.
create or replace macro lines_along(selected, axis) as table
with _runs as materialized (
    select
        run, sweep, parallelism,
        case when gpus > 0 then gpus else world_size end as processors,
        layout_of(case when gpus > 0 then 'gpu' when gpus = 0 then 'cpu' end, processors, parallelism) as layout,
        case axis when 'gpus' then processors else batch_size end as point,
        model, batch_size, gpus, gpu, host
    from query_table(selected)
),
_settings as (
    select run, sweep, 'model' as name, model as value, 1 as place from _runs
    union all
    select run, sweep, 'batch_size', 'batch ' || batch_size, 2 from _runs where axis <> 'batch_size'
    union all
    select run, sweep, 'layout', layout, 3 from _runs where axis <> 'gpus'
    union all
    select
        run, sweep, 'machine',
        coalesce(gpu, case gpus when 0 then 'a processor' else 'a GPU' end || coalesce(' of ' || host, '')), 4
    from _runs
    union all
    select s.run, s.sweep, s.name, s.name || '=' || s.value, 5
    from run_settings as s
    semi join _runs using (run)
    where s.name not in ('model', 'batch_size', 'gpu', 'gpus', 'parallelism', 'device')
),
_counts as (
    select sweep, count(*) as runs from _runs group by sweep
),
_distinguishing as (  -- a model is always named; a setting that all runs of a sweep share distinguishes nothing
    select s.sweep, s.name
    from _settings as s
    join _counts as c on s.sweep is not distinct from c.sweep
    group by s.sweep, s.name
    having s.name = 'model' or count(distinct s.value) > 1 or count(s.value) < any_value(c.runs)
    union
    select sweep, name
    from _settings
    where name in (select name from _settings where place < 5 group by name having count(distinct value) > 1)
),
_keyed as (
    select
        s.run, s.sweep,
        list({'name': s.name, 'value': s.value} order by s.name)::varchar as alike,
        concat_ws(', ',
            string_agg(s.value, ', ' order by s.place, s.name) filter (t.name is not null),
            case when (select count(distinct coalesce(sweep, '')) from _runs) > 1 then coalesce(s.sweep, 'of no sweep') end
        ) as label
    from _settings as s
    left join _distinguishing as t on s.sweep is not distinct from t.sweep and s.name = t.name
    where s.value is not null
    group by s.run, s.sweep
),
_ways as (
    select distinct k.sweep, k.alike, r.parallelism as way
    from _keyed as k
    join _runs as r on k.run = r.run
    where axis = 'gpus' and r.processors > 1 and r.parallelism <> 'none'
)
select
    r.run, r.point::bigint as point,
    {'sweep': k.sweep, 'alike': k.alike, 'way': w.way}::varchar as line,
    concat_ws(', ', nullif(k.label, ''), w.way) as label
from _runs as r
join _keyed as k on r.run = k.run
left join _ways as w
    on k.sweep is not distinct from w.sweep and k.alike = w.alike
    and (r.parallelism = w.way or r.processors = 1 and coalesce(r.parallelism, 'none') = 'none')
where r.point is not null;

-- line_ends(answered, selected, axis): the two ends of each line that has two points or more. `answered` names a relation of
-- `run`, `study` and `corrected`, as the cells of a study have them; repeats are averaged first. A row is one line: `least`
-- and `most` are its ends, and has both figures at each end.
create or replace macro line_ends(answered, selected, axis) as table
with _points as (
    select l.line, any_value(l.label) as label, l.point, avg(a.study) as study, avg(a.corrected) as corrected
    from query_table(answered) as a
    join lines_along(selected, axis) as l on a.run = l.run
    group by l.line, l.point
)
select
    line,
    any_value(label) as label,
    count(*) as points,
    min(point) as least,
    max(point) as most,
    arg_min({'study': study, 'corrected': corrected}, point) as at_least,
    arg_max({'study': study, 'corrected': corrected}, point) as at_most
from _points
group by line
having count(*) > 1;

-- line_bests(answered, selected, axis): where on each line of two points or more `corrected` is largest; repeats are
-- averaged first. A row is one line; of equal points the smallest is the best.
create or replace macro line_bests(answered, selected, axis) as table
with _points as (
    select l.line, any_value(l.label) as label, l.point, avg(a.corrected) as corrected
    from query_table(answered) as a
    join lines_along(selected, axis) as l on a.run = l.run
    where a.corrected is not null
    group by l.line, l.point
)
select
    line,
    any_value(label) as label,
    min(point) as least,
    max(point) as most,
    arg_max(point, (corrected, -point)) as best_point,
    max(corrected) as best,
    min(corrected) as worst
from _points
group by line
having count(*) > 1;

-- join_list(texts): some texts as one, in their order, the first six of them and how many more there are; NULL for none.
create or replace macro join_list(texts) as
    nullif(array_to_string(texts[:6], '; ') || case when len(texts) > 6 then printf('; and %d more', len(texts) - 6) else '' end, '');

-- format_range(least, most): both ends of what was found, to three digits: 1.5 to 2, or 2 where they are the same.
create or replace macro format_range(least, most) as
    printf('%.3g', least::double)
    || case when printf('%.3g', most::double) <> printf('%.3g', least::double) then ' to ' || printf('%.3g', most::double) else '' end;
