-- How often each op runs with inputs of each shape.
-- A row is one run, op and list of input shapes; ops without recorded shapes are left out.
select run, name as op, input_shapes, count(*) as calls
from ops
where input_shapes is not null
group by run, name, input_shapes
order by run, name, input_shapes
