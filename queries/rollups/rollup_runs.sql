with known as (
    select
        run,
        list_sort(list_distinct(list(host) filter (host is not null))) as hosts,
        string_agg(distinct name, ', ' order by name) as gpu
    from cards
    group by run
)
select
    f.run,
    coalesce(d.started_at, to_timestamp(f.start_ns / 1e9)) as began_at,
    case
        when d.started_at is not null then 'started_at'
        when f.start_ns is not null then 'recording'
    end as began_from,
    coalesce(
        nullif(
            concat(
                array_to_string(k.hosts[:3], ', '),
                case when len(k.hosts) > 3 then format(' and {} more', len(k.hosts) - 3) end
            ),
            ''
        ),
        d.host
    ) as host,
    greatest(coalesce(len(k.hosts), 0), count(d.host) over (partition by f.run)) as hosts,
    coalesce(k.gpu, d.gpu) as gpu,
    d.program, d.model, d.world_size, d.global_batch_size, d.precision, d.parallelism, d.git_commit, d.status,
    f.files, f.events_skipped, f.incomplete, s.samples_per_s,
    d.gpus as used_gpus
from files as f
left join described as d on f.run = d.run
left join known as k on f.run = k.run
left join speeds as s on f.run = s.run
