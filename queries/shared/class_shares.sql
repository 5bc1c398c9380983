-- The kernels of each class on a device, and when only they run. Of a wanted rank, or of all.
with activity as not materialized (  -- each use reads only its own columns
    select run, source, rank, device, start_ns, end_ns
    from gpu_activity
    where matches(run, $run) and matches(rank, $rank)
),
executions as not materialized (
    select run, source, rank, pid, device, stream, name, start_ns, end_ns, dur_ns, correlation
    from kernels
    where matches(run, $run) and matches(rank, $rank)
),
names as materialized (
    select name, name_id from classify('executions')
),
classes as materialized (
    select class, (row_number() over ())::smallint as class_id
    from (select class from kernel_rules union select unnest(['communication', 'unclassified']))
),
kinds as (  -- numbers for names and classes: each row would have a copy of its own of a text
    select k.run, k.source, k.rank, k.device, k.name_id, k.start_ns, k.end_ns, c.class_id as part
    from with_named_class('executions', 'names') as k
    join hint_small('classes') as c using (class)
),
others as materialized (
    select o.run, o.source, o.rank, o.device, c.class_id as part, o.start_ns, o.end_ns
    from out_of_scope_classes as o
    join hint_small('classes') as c using (class)
    where matches(o.run, $run) and matches(o.rank, $rank)
),
by_id as (
    select
        run, rank, device, part, name_id,
        count(*) as kernels,
        coalesce(sum(end_ns - start_ns) filter (has_valid_interval(start_ns, end_ns)), 0) as dur_ns
    from kinds
    group by run, rank, device, part, name_id
),
by_name as (
    select i.*, c.class, n.name
    from by_id as i
    join classes as c on i.part = c.class_id
    left join names as n on i.name_id = n.name_id
),
sums as (
    select
        run, rank, device, part, class,
        sum(kernels)::bigint as kernels,
        count(name_id) as names,
        sum(dur_ns) as dur_ns,
        arg_max(name, (dur_ns, name)) as longest_kernel,
        max(dur_ns) as longest_kernel_ns,
        coalesce(sum(dur_ns) filter (is_unaligned_product(name)), 0) as unaligned_ns,
        coalesce(sum(dur_ns) filter (class <> 'communication' and is_fp32_product(name)), 0) as own_fp32_product_ns,
        coalesce(sum(dur_ns) filter (is_layout_conversion(name)), 0) as layout_ns,
        coalesce(sum(kernels) filter (is_layout_conversion(name)), 0)::bigint as layout_kernels
    from by_name
    group by run, rank, device, part, class
),
fp32_places as (
    select run, rank, device from sums where own_fp32_product_ns > 0
),
cards as materialized (
    from specified_cards('fp32_places')
),
tf32_speedups as (
    select
        run, rank, device,
        max(per_s) filter (ceiling = 'tensor_tf32') / max(per_s) filter (ceiling = 'fp32') as factor
    from specified_ceilings('cards')
    group by run, rank, device
),
shares as (
    select
        *,
        sum(dur_ns) over device_rows as kernel_sum_ns,
        coalesce(sum(dur_ns) filter (class = 'unclassified') over device_rows, 0) as unclassified_ns,
        case
            when row_number() over (device_rows order by own_fp32_product_ns desc, class) = 1
            then sum(own_fp32_product_ns) over device_rows
            else 0
        end as fp32_product_ns
    from sums
    window device_rows as (partition by run, rank, device)
)
select
    s.run, s.rank, s.device, s.class,
    s.kernels, s.names,
    as_bigint(s.dur_ns) as dur_ns,
    as_bigint(s.kernel_sum_ns) as kernel_sum_ns,
    s.dur_ns / nullif(s.kernel_sum_ns, 0) as of_kernel_sum_ratio,
    zero_if_missing(a.run, a.busy_ns) as busy_ns,
    zero_if_missing(a.run, a.alone_ns) as alone_ns,
    zero_if_missing(w.run, w.window_ns) as window_ns,
    zero_if_missing(a.run, a.busy_ns) / nullif(w.window_ns, 0) as of_window_ratio,
    as_bigint(s.unclassified_ns) as unclassified_ns,
    s.unclassified_ns / nullif(s.kernel_sum_ns, 0) as unclassified_ratio,
    s.longest_kernel,
    as_bigint(s.longest_kernel_ns) as longest_kernel_ns,
    as_bigint(s.unaligned_ns) as unaligned_ns,
    as_bigint(s.fp32_product_ns) as fp32_product_ns,
    t.factor as tf32_speedup_factor,
    as_bigint(s.layout_ns) as layout_ns,
    s.layout_kernels
from shares as s
left join scope_solo_time('kinds', 'others') as a
    on s.run = a.run and s.rank = a.rank and s.device is not distinct from a.device and s.part = a.part
left join scope_windows('activity') as w on s.run = w.run and s.rank = w.rank and s.device is not distinct from w.device
left join tf32_speedups as t on s.run = t.run and s.rank = t.rank and s.device is not distinct from t.device
