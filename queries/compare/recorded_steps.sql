-- Training steps as a run folder records them.
-- A row is one run, rank and step; `place` is that in the order of time.
select run, rank, row_number() over (partition by run, rank order by start_ns, step) as place, dur_ns as step_ns
from steps
where phase = 'train' and has_valid_interval(start_ns, end_ns)
order by run, rank, place
