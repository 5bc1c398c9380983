-- Sources whose file was cut off, or holds events that could not be read.
-- A row is one such source. Results are right about the stored events and lack the others.
-- /// check
-- title = "Stored in part"
-- severity = "error"
-- how_to_fix = "Copy or export the trace again, giving the process time to write all, and ingest that."
-- ///
select
    run,
    null::integer as rank,
    1 as count,
    case
        when events_skipped > 0
        then format(
            '{} was stored in part: {} of {} could not be read.',
            parse_filename(path), format('{:,}', events_skipped), count_phrase(events_read, 'event', 'events')
        )
        else format('{} was stored in part: it is cut off or damaged.', parse_filename(path))
    end as message
from sources
where not complete
order by run, path
