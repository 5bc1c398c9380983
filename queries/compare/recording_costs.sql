-- How long steps take while a profiler records, and otherwise, as of recording_costs(): means over the ranks of each run.
select
    run,
    avg(recorded_ns) as recorded_ns,
    avg(other_ns) as other_ns,
    bool_or(is_slower) as is_slower
from recording_costs('unscoped_annotations')
group by run
order by run
