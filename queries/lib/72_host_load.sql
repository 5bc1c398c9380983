-- host_load: whether the processes of a run had the cores that they could use, by the samples that `tracelab collect` takes
-- beside it. A row is one run: of several hosts the one where threads waited most. Only samples of intervals in which a step
-- ran count, all of a run without steps. `wait_ratio` is the share of the time in which threads could run that they waited for
-- a core; `own_cores` are the cores that the run's processes kept busy on average, `other_cores` those that others did. The
-- kernel does not count threads that end between two samples. `is_overloaded`: `wait_ratio` is a quarter or more, and
-- `sentence` states it.
create or replace view host_load as
with _samples as (
    select
        run, host, time_ns, util_ratio, cores, own_cpu_ns, own_wait_ns,
        time_ns - lag(time_ns) over (partition by run, source, host order by time_ns) as past_ns
    from host_samples
    where device is null and own_cpu_ns is not null
),
_trained as (
    select run, min(start_ns) as first_ns, max(end_ns) as last_ns from steps where phase = 'train' group by run
),
_hosts as (
    select
        s.run, s.host,
        max(s.cores) as cores,
        sum(s.own_wait_ns) / nullif(sum(s.own_cpu_ns) + sum(s.own_wait_ns), 0) as wait_ratio,
        sum(s.own_cpu_ns) / sum(s.past_ns) as own_cores,
        sum(s.util_ratio * s.past_ns) / sum(s.past_ns) * max(s.cores) as busy_cores
    from _samples as s
    left join _trained as t using (run)
    where s.past_ns > 0 and (t.run is null or (s.time_ns > t.first_ns and s.time_ns - s.past_ns < t.last_ns))
    group by s.run, s.host
),
_fullest as (
    from _hosts
    qualify row_number() over (partition by run order by wait_ratio desc nulls last, host) = 1
)
select
    run, host, cores, wait_ratio, own_cores,
    greatest(busy_cores - own_cores, 0) as other_cores,
    coalesce(wait_ratio >= 0.25, false) as is_overloaded,
    case
        when is_overloaded then format(
            'its threads waited for a core for {} of the time in which they could run, while its processes kept {:.1f} of {}{}',
            percent(wait_ratio, 1), own_cores, count_phrase(cores, 'core', 'cores'),
            case
                when busy_cores is null then ' busy'
                else format(' busy and others {:.1f}', greatest(busy_cores - own_cores, 0))
            end
        )
    end as sentence
from _fullest;
comment on view host_load is 'whether the processes of a run had the cores that they could use: one run';
