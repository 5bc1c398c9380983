-- Ranges that are named as steps are, inside other such ranges.
-- A row is one run and rank. A step is the outermost of them, that of PyTorch's profiler where two are equal; the others
-- are no steps of their own, or each would be cut short by the one that begins in it.
-- /// check
-- title = "Steps inside steps"
-- severity = "warning"
-- how_to_fix = "Give --step-name an expression that finds the steps you mean alone, say '^step \\d+$'; mark each step once."
-- ///
with ranges as (
    from step_ranges('annotations', '(?i)^(profiler)?step\s*#?\s*\d+$')
)
select
    run,
    rank,
    count(*) filter (nested) as count,
    format(
        '{} as steps are and {} inside others, as {} does; {}.',
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
