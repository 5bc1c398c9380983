-- Ranges named like steps inside other such ranges.
-- A row is one run and rank. The outermost range is the step, that of PyTorch's profiler where two are equal; the others
-- do not count as steps, because each would be cut short by the one that begins in it.
-- /// check
-- title = "Steps inside steps"
-- severity = "warning"
-- how_to_fix = "Pass a --step-name that matches only the steps you mean, such as '^step \\d+$', and mark each step once."
-- ///
with ranges as (
    from step_ranges('annotations', '(?i)^(profiler)?step\s*#?\s*\d+$')
)
select
    run,
    rank,
    count(*) filter (nested) as count,
    format(
        '{} like steps and {} inside others, as {} does; {}.',
        count_phrase(count(*) filter (nested), 'range is named', 'ranges are named'),
        case count(*) filter (nested) when 1 then 'lies' else 'lie' end,
        arg_min(name, (start_ns, name)) filter (nested),
        case count(*) filter (not nested)
            when 1 then 'the outermost is the step' else format('the {:,} outermost are the steps', count(*) filter (not nested))
        end
    ) as message
from ranges
group by run, rank
having count(*) filter (nested) > 0
order by run, rank
