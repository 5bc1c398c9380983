-- paired_cells(selected, setting, wanted_base, ignore): the cells of a relation of cell_speeds that have a speed, each with
-- the cell that differs in nothing but `setting` and has its base value: `wanted_base`, else false, none, fp32 or sgd, else
-- the smallest number, else the first text. Settings named in `ignore`, separated by commas, may differ too. A row is a
-- cell with another value than its base.
create or replace macro paired_cells(selected, setting, wanted_base, ignore) as table
with _valued as materialized (
    select
        *,
        settings[setting] as value,
        settings_except(settings, [setting] || string_split(replace(coalesce(ignore, ''), ' ', ''), ',')) as alike
    from query_table(selected)
    where settings[setting] is not null and samples_per_s is not null
),
_ranked as (
    select
        *,
        row_number() over (
            partition by sweep, alike
            order by
                wanted_base is not null and value is distinct from wanted_base, value not in ('false', 'none', 'fp32', 'sgd'),
                try_cast(value as double) nulls last, value, run
        ) as place
    from _valued
)
select
    c.* exclude (place),
    b.value as base_value,
    b.run as base_run,
    b.samples_per_s as base_samples_per_s,
    b.step_ns as base_step_ns,
    b.data_wait_ns as base_data_wait_ns,
    b.train_sum_ns as base_train_sum_ns
from _ranked as c
join _ranked as b on c.sweep is not distinct from b.sweep and c.alike = b.alike and b.place = 1
where c.value <> b.value and (wanted_base is null or b.value = wanted_base);

-- lacks_machine_pairs(of_sweep, of_model, ignore): no two cells with a speed differ in nothing but the machine.
create or replace macro lacks_machine_pairs(of_sweep, of_model, ignore) as
    not exists (
        select 1
        from cells as c
        join run_speeds as s on c.run = s.run
        where c.trained and s.step_ns is not null and matches(c.sweep, of_sweep) and matches(c.model, of_model)
        group by settings_except(settings, ['machine', 'gpu'] || string_split(replace(coalesce(ignore, ''), ' ', ''), ','))
        having count(distinct coalesce(settings['machine'], gpu, host)) > 1
    );

-- lacks_setting_pairs(of_sweep, of_model, setting, ignore): no two cells with a speed differ in nothing but the setting.
create or replace macro lacks_setting_pairs(of_sweep, of_model, setting, ignore) as
    not exists (
        select 1
        from cell_speeds
        where samples_per_s is not null and matches(sweep, of_sweep) and matches(model, of_model)
        group by sweep, settings_except(settings, [setting] || string_split(replace(coalesce(ignore, ''), ' ', ''), ','))
        having count(distinct settings[setting]) > 1
    );
