-- Runs as cells of sweeps: the settings of each, those that differ from its neighbors', and its speed.

-- run_settings: the settings of each run. A row is one run and setting: a column of `runs`, or a tag that is an option of
-- the collector or the user's own word. What was found out (versions, sizes, files, the environment) and how it was captured is none, but
-- for the profiler and its window, which change the speed.
create or replace view run_settings as
with _runs as materialized (
    from runs
),
_columns as (
    select run, sweep, unnest([
        {'name': 'workload', 'value': workload}, {'name': 'model', 'value': model}, {'name': 'dataset', 'value': dataset},
        {'name': 'image_size', 'value': image_size::varchar}, {'name': 'batch_size', 'value': batch_size::varchar},
        {'name': 'gpus', 'value': gpus::varchar}, {'name': 'parallelism', 'value': parallelism},
        {'name': 'precision', 'value': precision}, {'name': 'optimizer', 'value': optimizer},
        {'name': 'learning_rate', 'value': learning_rate::varchar},
        {'name': 'data_fraction', 'value': data_fraction::varchar}, {'name': 'pin_memory', 'value': pin_memory::varchar},
        {'name': 'workers', 'value': workers::varchar}, {'name': 'pretrained', 'value': pretrained::varchar},
        {'name': 'epochs', 'value': epochs::varchar}, {'name': 'profiler', 'value': profiler},
        {'name': 'gpu', 'value': card}
    ], recursive := true)
    from (
        select
            *,
            case  -- a cell that did not run will run where the others of its sweep did
                when gpu is null and sweep is not null and coalesce(gpus, 1) > 0 and min(gpu) over cells = max(gpu) over cells
                then min(gpu) over cells
                else gpu
            end as card
        from _runs
        window cells as (partition by sweep)
    )
),
_tags as (
    select run, sweep, unnest(map_keys(tags)) as name, unnest(map_values(tags)) as value from _runs
)
select run, sweep, name, value from _columns where value is not null
union all
select run, sweep, name, value
from _tags
where not regexp_matches(
    name,
    '^(versions|capture|ranks|truth|sweep|environment)\.|^(classes|dataset_size|ended_at|complexity|short_epoch|weights|truth|steps|warmup|validate|active'
    || '|wait|cycles|memory|shapes|stacks|flops|clock_control|metrics|timeout_s|sample_s|data_root)$'
);
comment on view run_settings is 'one setting of one run';

-- settings_except(settings, names): the settings other than those named, as one text: equal where only those named differ.
create or replace macro settings_except(settings, names) as
    list_filter(map_entries(settings), lambda entry: not list_contains(names, entry.key))::varchar;

-- samples_per_step(batch_size, tags): samples of one process's training step, which may accumulate several batches.
create or replace macro samples_per_step(batch_size, tags) as
    batch_size::bigint * coalesce(try_cast(tags['accumulate'] as bigint), 1);

-- layout_of(kind, processors, parallelism): where a run ran, in words: 1 GPU, 4 GPUs ddp, CPU, 2 CPU processes ddp.
create or replace macro layout_of(kind, processors, parallelism) as
    case
        when kind is null then null
        when kind = 'gpu' then processors || case processors when 1 then ' GPU' else ' GPUs' end
        when coalesce(processors, 1) = 1 then 'CPU'
        else processors || ' CPU processes'
    end
    || case when processors > 1 and parallelism <> 'none' then ' ' || parallelism else '' end;

-- cells: every run as a cell of its sweep (runs without one are the cells of a sweep without a name), with its settings as a
-- map. `variant` are those that differ within the sweep, less what has columns of its own. `kind` is gpu or cpu, and
-- `processors` the GPUs, on a CPU the processes. A GPU that is not known (the cell did not run) differs from none.
-- `expected_iterations` are those of an epoch over the whole data set.
create or replace view cells as
with _runs as materialized (
    from runs
),
_settings as materialized (
    from run_settings
),
_counts as (
    select sweep, count(*) as runs from _runs group by sweep
),
_varied as (
    select s.sweep, s.name
    from _settings as s
    join _counts as c on s.sweep is not distinct from c.sweep
    where s.name not in ('model', 'batch_size', 'gpus', 'parallelism', 'device')
    group by s.sweep, s.name
    having count(distinct s.value) > 1 or (s.name <> 'gpu' and count(*) < any_value(c.runs))
),
_texts as (
    select
        s.run,
        map_from_entries(list({'key': s.name, 'value': s.value} order by s.name)) as settings,
        string_agg(s.name || '=' || s.value, ', ' order by s.name) filter (v.name is not null) as variant
    from _settings as s
    left join _varied as v on s.sweep is not distinct from v.sweep and s.name = v.name
    group by s.run
)
select
    r.run, r.sweep, r.repeat, r.status, r.error, r.model, r.dataset, r.batch_size, r.global_batch_size, r.gpus, r.world_size,
    r.parallelism, r.gpu, r.host, r.profiler, r.tags, r.parameters, r.parameter_bytes, r.flop_per_sample,
    coalesce(t.settings, map([]::varchar[], []::varchar[])) as settings,
    t.variant,
    case
        when r.gpus > 0 then 'gpu'
        when r.gpus = 0 then 'cpu'
        when r.tags['device'] = 'cuda' then 'gpu'
        when r.tags['device'] = 'cpu' then 'cpu'
    end as kind,
    case when r.gpus > 0 then r.gpus else r.world_size end as processors,
    layout_of(kind, processors, r.parallelism) as layout,
    try_cast(r.tags['dataset_size'] as bigint) as dataset_size,
    as_bigint(case  -- a graph is of one shape, so that the rest, less than a batch, is left out
        when r.tags['cuda_graphs'] = 'true' then floor(ceil(dataset_size / r.world_size) / nullif(r.batch_size, 0))
        else ceil(dataset_size / nullif(
            coalesce(r.global_batch_size::bigint, samples_per_step(r.batch_size, r.tags) * coalesce(r.world_size, 1)), 0
        ))
    end) as expected_iterations,
    coalesce(r.status, 'ok') in ('ok', 'timeout', 'profiler_error', 'no_kernels', 'permission_denied') as trained
from _runs as r
left join _texts as t on r.run = t.run;
comment on view cells is 'one run as a cell of its sweep: its settings, and those of them that differ within the sweep';

-- run_speeds: how fast each run trained, by the steps that it wrote down (phase train: warm-up and validation do not count).
-- Times are of the steps that a profiler disturbed least: of those without one, else with one attached, else of recorded
-- ones; `profiler_state` is which, and NULL where the run did not write it down.
-- `train_ns` is the slowest rank's sum of its steps, `train_sum_ns` that of all ranks; an epoch is as long as on its slowest
-- rank, and `iterations` are the most steps that a rank took in an epoch. An epoch is whole where it came to its end with as
-- many iterations as the data set holds: a limit of steps makes none whole. Where the data set is not known, each that
-- ended is.
create or replace view run_speeds as
with _states as (
    select *, case profiler_state when 'recording' then 2 when 'attached' then 1 else 0 end as disturbance
    from steps
    where phase = 'train'
),
_steps as (
    select *, disturbance = min(disturbance) over (partition by run) as counts from _states
),
_passes as materialized (
    select
        run, rank, epoch,
        count(*) as iterations,
        any_value(profiler_state) filter (counts) as profiler_state,
        count(*) filter (counts and has_valid_interval(start_ns, end_ns)) as timed,
        sum(dur_ns) filter (counts and has_valid_interval(start_ns, end_ns)) as train_ns,
        sum(dur_ns) filter (counts and has_valid_interval(start_ns, end_ns) and samples is not null) as sampled_ns,
        sum(samples) filter (counts and has_valid_interval(start_ns, end_ns)) as samples,
        sum(data_wait_ns) filter (counts) as data_wait_ns
    from _steps
    group by run, rank, epoch
),
_ranks as (
    select
        run, rank,
        max(iterations) as iterations,
        sum(iterations) as steps,
        any_value(profiler_state) as profiler_state,
        sum(timed) as timed,
        sum(train_ns) as train_ns,
        sum(sampled_ns) as sampled_ns,
        sum(samples) as samples,
        sum(data_wait_ns) as data_wait_ns
    from _passes
    group by run, rank
),
_sums as (
    select
        run,
        max(iterations) as iterations,
        max(steps) as steps,
        any_value(profiler_state) as profiler_state,
        max(train_ns) as train_ns,
        max(sampled_ns) as sampled_ns,
        sum(train_ns) as train_sum_ns,
        sum(timed) as timed,
        sum(samples) as samples,
        sum(data_wait_ns) as data_wait_ns
    from _ranks
    group by run
),
_ended as (
    select run, epoch, max(dur_ns) as dur_ns from steps where phase = 'epoch' and dur_ns >= 0 group by run, epoch
),
_epochs as (
    select e.run, count(*) as epochs, avg(e.dur_ns) as epoch_ns
    from _ended as e
    left join cells as c on e.run = c.run
    left join (select run, epoch, max(iterations) as iterations from _passes group by run, epoch) as p
        on e.run = p.run and e.epoch is not distinct from p.epoch
    where p.iterations is null or c.expected_iterations is null or p.iterations >= c.expected_iterations
    group by e.run
)
select
    s.run,
    as_bigint(s.steps) as steps,
    s.iterations,
    as_bigint(s.train_ns) as train_ns,
    as_bigint(s.train_sum_ns) as train_sum_ns,
    as_bigint(s.samples) as samples,
    s.samples * 1e9 / nullif(s.sampled_ns, 0) as samples_per_s,
    s.sampled_ns,
    as_bigint(round(s.train_sum_ns / nullif(s.timed, 0))) as step_ns,
    s.timed,
    as_bigint(s.data_wait_ns) as data_wait_ns,
    e.epochs as whole_epochs,
    as_bigint(round(e.epoch_ns)) as epoch_ns,
    s.profiler_state
from _sums as s
left join _epochs as e on s.run = e.run;
comment on view run_speeds is 'one run: how fast it trained, by the steps that it wrote down';

-- cell_speeds: the cells of each sweep, repeats taken together. The speed is that of the runs that trained: a time limit or
-- a profiler that failed takes nothing from the steps before it, but what ran out of memory or crashed has no speed. A cell
-- without one stays, with its status.
create or replace view cell_speeds as
select
    c.sweep, c.settings,
    min(c.run) as run,
    count(*) as runs,
    count(*) filter (c.trained and s.samples_per_s is not null) as measured_runs,
    string_agg(distinct c.status, ', ' order by c.status) as status,
    any_value(c.model) as model,
    any_value(c.dataset) as dataset,
    any_value(c.batch_size) as batch_size,
    any_value(c.global_batch_size) as global_batch_size,
    any_value(c.parallelism) as parallelism,
    any_value(c.gpus) as gpus,
    any_value(c.gpu) as gpu,
    any_value(c.kind) as kind,
    any_value(c.processors) as processors,
    any_value(c.layout) as layout,
    any_value(c.variant) as variant,
    sum(s.samples) filter (c.trained) * 1e9 / nullif(sum(s.sampled_ns) filter (c.trained), 0) as samples_per_s,
    as_bigint(round(sum(s.train_sum_ns) filter (c.trained) / nullif(sum(s.timed) filter (c.trained), 0))) as step_ns,
    as_bigint(round(avg(s.epoch_ns) filter (c.trained))) as epoch_ns,
    as_bigint(sum(s.data_wait_ns) filter (c.trained)) as data_wait_ns,
    as_bigint(sum(s.train_sum_ns) filter (c.trained)) as train_sum_ns
from cells as c
left join run_speeds as s on c.run = s.run
group by c.sweep, c.settings;
comment on view cell_speeds is 'one cell of a sweep, its repeats taken together: status and speed';

-- compared_cells(selected, same, ignore): the cells of a relation of cell_speeds, each with the cell that differs in
-- nothing but the GPUs and how they work together, and has the fewest of them: of several, the one of the same parallelism,
-- else the one without. Both share the batch size of a process or, where `same` is global, of a step over all; settings
-- named in `ignore`, separated by commas, may differ too. The fewest are those of the whole line of batch sizes: where that
-- cell has no speed (such as out of memory) there is none to compare with, for another base would break the line. A
-- cell of the fewest is compared with itself, but not where these are several and all others of the line are as many: of
-- what more of them bring nothing is known then. `cpu_samples_per_s` is that of the CPU cell of the fewest processes.
create or replace macro compared_cells(selected, same, ignore) as table
with _cells as materialized (
    select
        *,
        row_number() over (order by sweep, settings::varchar) as id,
        case when same = 'global' then global_batch_size else batch_size end as shared_batch,
        settings_except(
            settings,
            ['gpus', 'parallelism', 'device', 'batch_size', 'gpu'] || string_split(replace(coalesce(ignore, ''), ' ', ''), ',')
        ) as alike
    from query_table(selected)
),
_measured as (
    select *, min(processors) over line as fewest, max(processors) over line as most
    from _cells
    where samples_per_s is not null
    window line as (partition by sweep, alike, kind, settings['gpu'])
),
_bases as (
    select c.id, b.id as base_id
    from _cells as c
    join _measured as b
        on c.sweep is not distinct from b.sweep and c.alike = b.alike and c.kind = b.kind
        and c.shared_batch is not distinct from b.shared_batch and c.settings['gpu'] is not distinct from b.settings['gpu']
    where b.processors is not distinct from b.fewest and (coalesce(b.fewest, 1) = 1 or b.most > b.fewest)
    qualify row_number() over (
        partition by c.id
        order by b.parallelism is distinct from c.parallelism, b.parallelism is distinct from 'none', b.run
    ) = 1
),
_processors as (
    select c.id, b.samples_per_s as cpu_samples_per_s
    from _cells as c
    join _measured as b
        on c.sweep is not distinct from b.sweep and c.alike = b.alike and c.shared_batch is not distinct from b.shared_batch
    where b.kind = 'cpu'
    qualify row_number() over (partition by c.id order by b.processors, b.run) = 1
)
select
    c.* exclude (id),
    b.run as base_run,
    b.processors as base_processors,
    b.samples_per_s as base_samples_per_s,
    b.step_ns as base_step_ns,
    b.batch_size as base_batch_size,
    b.global_batch_size as base_global_batch_size,
    c.samples_per_s / nullif(b.samples_per_s, 0) as speedup_factor,
    p.cpu_samples_per_s
from _cells as c
left join _bases as l on c.id = l.id
left join _cells as b on l.base_id = b.id
left join _processors as p on c.id = p.id;

-- run_learning: what each run had learned after each epoch. A row is one run and epoch, each sample of all ranks counted
-- alike. Accuracy and loss are those of validation where the run measured it (`measured_on`), else of the training steps,
-- in which the model still changes. `elapsed_ns` counts from the first start of the first epoch to the end of this one,
-- its validation included. An epoch that was cut off (`finished` is false) has neither: there was no end to measure at.
-- That is one without a row of its own, where the run wrote such rows, or did not come to its own end.
create or replace view run_learning as
with _phases as (
    select
        run, epoch, phase,
        sum(accuracy * coalesce(samples, 1)) / nullif(sum(coalesce(samples, 1)) filter (accuracy is not null), 0) as accuracy,
        sum(loss * coalesce(samples, 1)) / nullif(sum(coalesce(samples, 1)) filter (loss is not null), 0) as loss,
        sum(samples) as samples,
        count(*) filter (loss is null) as lossless,
        count(*) as steps,
        min(start_ns) filter (has_valid_interval(start_ns, end_ns)) as start_ns,
        max(end_ns) filter (has_valid_interval(start_ns, end_ns)) as end_ns,
        max(dur_ns) filter (dur_ns >= 0) as dur_ns
    from steps
    where epoch is not null and phase in ('train', 'epoch', 'validate')
    group by run, epoch, phase
),
_epochs as (
    select
        run, epoch,
        max(accuracy) filter (phase = 'validate') as validation_accuracy,
        max(loss) filter (phase = 'validate') as validation_loss,
        max(samples) filter (phase = 'validate') as validation_samples,
        coalesce(max(accuracy) filter (phase = 'epoch'), max(accuracy) filter (phase = 'train')) as training_accuracy,
        coalesce(max(loss) filter (phase = 'epoch'), max(loss) filter (phase = 'train')) as training_loss,
        coalesce(max(samples) filter (phase = 'train'), max(samples) filter (phase = 'epoch')) as training_samples,
        coalesce(max(steps) filter (phase = 'train'), 0) as training_steps,
        coalesce(max(lossless) filter (phase = 'train'), 0) as lossless_steps,
        max(dur_ns) filter (phase = 'epoch') as epoch_ns,
        count(*) filter (phase = 'epoch') > 0 as has_end,
        min(start_ns) as start_ns,
        max(end_ns) as end_ns
    from _phases
    group by run, epoch
),
_runs as (
    select
        e.run,
        count(e.validation_accuracy) > 0 as is_validated,
        count(*) filter (e.has_end) > 0 or coalesce(any_value(r.status), 'ok') <> 'ok' as has_ends,
        min(e.start_ns) as start_ns
    from _epochs as e
    join runs as r on e.run = r.run
    group by e.run
)
select
    e.run, e.epoch::bigint as epoch,
    case when r.is_validated then 'validation' else 'training' end as measured_on,
    e.has_end or e.validation_accuracy is not null or not r.has_ends as finished,
    case when r.is_validated then e.validation_accuracy when finished then e.training_accuracy end as accuracy,
    case when r.is_validated then e.validation_loss when finished then e.training_loss end as loss,
    as_bigint(case when r.is_validated then e.validation_samples else e.training_samples end) as samples,
    e.training_accuracy, e.training_loss, e.training_steps, e.lossless_steps, e.epoch_ns,
    try(e.end_ns - r.start_ns) as elapsed_ns
from _epochs as e
join _runs as r on e.run = r.run;
comment on view run_learning is 'one epoch of one run: accuracy and loss after it, and the time until then';

-- run_memory: the most memory that any one device of a run had allocated, reserved, and in use by everyone.
create or replace view run_memory as
with _written as (
    select
        run,
        max(allocated_bytes) as allocated_bytes, max(reserved_bytes) as reserved_bytes, max(used_bytes) as used_bytes
    from memory_peaks
    group by run
),
_recorded as (
    select run, max(allocated_bytes) as allocated_bytes, max(reserved_bytes) as reserved_bytes
    from memory_events
    where device is not null
    group by run
),
_sampled as (
    select run, max(used_bytes) as used_bytes, max(total_bytes) as total_bytes
    from host_samples
    where device is not null
    group by run
)
select
    r.run,
    greatest(w.allocated_bytes, e.allocated_bytes) as allocated_bytes,
    greatest(w.reserved_bytes, e.reserved_bytes) as reserved_bytes,
    greatest(w.used_bytes, s.used_bytes) as used_bytes,
    s.total_bytes
from runs as r
left join _written as w on r.run = w.run
left join _recorded as e on r.run = e.run
left join _sampled as s on r.run = s.run;
comment on view run_memory is 'one run: the most memory that any one device of it took';

-- busy_sums(activity, calls): how long each run of rows of GPUs and of ops worked, as sweep_runtime has it. A row is one run.
create or replace macro busy_sums(activity, calls) as table
with _threads_busy as (  -- a thread is a part: what runs inside an op on its thread adds nothing
    select run, source, rank, null::integer as device, {'pid': pid, 'tid': tid} as part, start_ns, end_ns from query_table(calls)
),
_cpu_self as (
    select run, sum(busy_ns) as cpu_self_ns from busy('_threads_busy') group by run
),
_cpu_total as (
    select run, sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)) as cpu_total_ns from query_table(calls) group by run
),
_gpu_sums as (
    select run, count(distinct (rank, device)) as devices, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as gpu_sum_ns
    from query_table(activity)
    group by run
),
_gpu_busy as (
    select b.run, sum(b.busy_ns) as gpu_busy_ns, sum(w.window_ns) as gpu_window_ns
    from busy(activity) as b
    join windows(activity) as w on b.run = w.run and b.rank = w.rank and b.device is not distinct from w.device
    group by b.run
),
_recorded as (
    select run, count(distinct rank) as ranks
    from (select run, rank from query_table(calls) union all select run, rank from query_table(activity))
    group by run
)
select
    r.run, r.ranks, s.devices,
    as_bigint(p.cpu_self_ns) as cpu_self_ns,
    as_bigint(t.cpu_total_ns) as cpu_total_ns,
    as_bigint(s.gpu_sum_ns) as gpu_sum_ns,
    as_bigint(b.gpu_busy_ns) as gpu_busy_ns,
    as_bigint(b.gpu_window_ns) as gpu_window_ns
from _recorded as r
left join _cpu_self as p on r.run = p.run
left join _cpu_total as t on r.run = t.run
left join _gpu_sums as s on r.run = s.run
left join _gpu_busy as b on r.run = b.run;

-- gpu_share_sums(activity, executions): kernels of the kinds whose shares sweep_shares compares, and what they are shares of. A row is
-- one run with rows of activity and `part`, also one of which it has none.
create or replace macro gpu_share_sums(activity, executions) as table
with _kinds as (
    select
        run, source, rank, device, start_ns, end_ns, dur_ns,
        case
            when collective in ('broadcast', 'all_reduce') then collective
            when class = 'winograd' then 'winograd'
            when class in ('implicit_gemm', 'convolution') then 'other_convolution'
            when class = 'pooling_backward' and regexp_matches(name, '(?i)max_?pool') then 'max_pool_backward'
            when class = 'pooling_backward' then 'other_pool_backward'
        end as part
    from with_class(executions)
),
_parts as materialized (  -- swept and counted: classified once
    select * from _kinds where part is not null
),
_counts as (
    select run, part, count(*) as calls, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as dur_ns
    from _parts
    group by run, part
),
_busy as (
    select run, part, sum(busy_ns) as busy_ns from busy('_parts') group by run, part
),
_activity as (
    select run, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as gpu_activity_ns
    from query_table(activity)
    group by run
),
_kernels as (
    select run, coalesce(sum(dur_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as kernel_sum_ns
    from query_table(executions)
    group by run
),
_kernel_busy as (
    select run, sum(busy_ns) as kernel_busy_ns from busy(executions) group by run
),
_windows as (
    select run, sum(window_ns) as window_ns from windows(activity) group by run
)
select
    a.run, p.part,
    coalesce(c.calls, 0) as calls,
    as_bigint(coalesce(c.dur_ns, 0)) as dur_ns,
    as_bigint(coalesce(b.busy_ns, 0)) as busy_ns,
    as_bigint(a.gpu_activity_ns) as gpu_activity_ns,
    as_bigint(coalesce(k.kernel_sum_ns, 0)) as kernel_sum_ns,
    as_bigint(coalesce(u.kernel_busy_ns, 0)) as kernel_busy_ns,
    as_bigint(w.window_ns) as window_ns
from _activity as a
cross join (
    values ('broadcast'), ('all_reduce'), ('winograd'), ('other_convolution'), ('max_pool_backward'), ('other_pool_backward')
) as p(part)
left join _counts as c on a.run = c.run and p.part = c.part
left join _busy as b on a.run = b.run and p.part = b.part
left join _kernels as k on a.run = k.run
left join _kernel_busy as u on a.run = u.run
left join _windows as w on a.run = w.run;
