-- What the reports of `nsys stats` have in common; the queries named like them (cuda_gpu_kern_sum …) are made of it.

-- one_decimal(number): as those reports print a mean or a percentage, one digit behind the point, halves away from 0.
create or replace macro one_decimal(number) as round(number, 1)::decimal(24, 1);

-- in_mb(bytes): as those reports print a size, in 1e6 bytes and three digits; the decimal nearest to the double.
create or replace macro in_mb(bytes) as format('{:.3f}', bytes / 1e6)::decimal(24, 3);

-- deviation(value): an aggregate, the standard deviation of a sample; 0 where there is one value, or none.
create or replace macro deviation(value) as coalesce(stddev_samp(value), 0);

-- operations: every copy and memset with the words that those reports have for it.
create or replace view memory_operations as
select
    run, rank, device, start_ns, end_ns, dur_ns, size_bytes,
    '[CUDA memcpy ' || coalesce(
        map {
            'HtoD': 'Host-to-Device', 'DtoH': 'Device-to-Host', 'DtoD': 'Device-to-Device', 'HtoH': 'Host-to-Host',
            'PtoP': 'Peer-to-Peer', 'HtoA': 'Host-to-Array', 'AtoH': 'Array-to-Host', 'AtoA': 'Array-to-Array',
            'AtoD': 'Array-to-Device', 'DtoA': 'Device-to-Array', 'UVM HtoD': 'Unified Host-to-Device',
            'UVM DtoH': 'Unified Device-to-Host', 'UVM DtoD': 'Unified Device-to-Device'
        }[direction],
        'Unknown'
    ) || ']' as operation
from memcpys
union all
select run, rank, device, start_ns, end_ns, dur_ns, size_bytes, '[CUDA memset]' from memsets;
comment on view memory_operations is 'one copy or memset, with the words that nsys stats has for it';

-- durations_by(relation): a report of `nsys stats` on a relation with run, part (of any type), start_ns, end_ns and
-- dur_ns. A row is one run and part with has_valid_interval() rows; `percent` is of `sum_ns`, the durations of the whole
-- run.
create or replace macro durations_by(relation) as table
with _parts as (
    select
        run, part,
        sum(dur_ns) as total_ns,
        count(*) as instances,
        one_decimal(avg(dur_ns)) as avg_ns,
        one_decimal(median(dur_ns)) as med_ns,
        min(dur_ns) as min_ns,
        max(dur_ns) as max_ns,
        one_decimal(deviation(dur_ns)) as deviation_ns
    from query_table(relation)
    where has_valid_interval(start_ns, end_ns)
    group by run, part
),
_sums as (
    select run, sum(total_ns) as sum_ns from _parts group by run
)
select
    run, part,
    as_bigint(sum_ns) as sum_ns,
    one_decimal(100 * total_ns / nullif(sum_ns, 0)) as percent,
    as_bigint(total_ns) as total_ns,
    instances, avg_ns, med_ns, min_ns, max_ns, deviation_ns
from _parts
join _sums using (run);
