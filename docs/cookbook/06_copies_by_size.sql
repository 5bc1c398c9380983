-- Are the copies large enough?
-- Throughput by power of two: small copies pay for their launch, large ones for the bus.
select
    direction, 2 ** floor(log2(size_bytes)) as from_bytes, count(*) as copies,
    sum(size_bytes)::bigint as size_bytes, sum(size_bytes) / nullif(sum(dur_ns), 0) as throughput_gb_per_s
from memcpys
where size_bytes > 0 and direction = 'HtoD'
group by direction, from_bytes
order by direction, from_bytes
