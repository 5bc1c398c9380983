-- In which precision the kernels of matrix products and convolutions multiply, as far as their names show it.
-- A row is one run and precision.
with names as (
    select run, name, sum(dur_ns) as dur_ns
    from kernels
    where has_valid_interval(start_ns, end_ns)
    group by run, name
)
select n.run, product_precision_by_name(n.name) as precision, sum(n.dur_ns)::double as dur_ns
from names as n
join classify('names') as c on n.name is not distinct from c.name
where c.class in ('gemm', 'implicit_gemm', 'convolution', 'winograd') and not is_layout_conversion(n.name)
    and product_precision_by_name(n.name) is not null
group by n.run, product_precision_by_name(n.name)
having sum(n.dur_ns) > 0
order by n.run, dur_ns desc, precision
