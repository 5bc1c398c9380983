-- Problems that readers recorded while reading: the rows of `diagnostics`, with their own severity, code and advice.
-- A row is one code of one run; it covers the same problem in several sources.
-- /// check
-- title = "Reader diagnostics"
-- severity = "info"
-- how_to_fix = ""
-- ///
with notes as (
    select run, source, path, d.severity, d.code, d.count, d.message, d.how_to_fix
    from diagnostics as d
    join sources using (run, source)
    where d.code <> 'negative_duration'  -- that check counts what is stored, over all tables
)
select
    run,
    null::integer as rank,
    as_bigint(sum(count)) as count,
    format('{}: {}', parse_filename(min_by(path, source)), min_by(message, source))
    || case when count(distinct source) > 1
        then format(' (The same of {}.)', count_phrase(count(distinct source) - 1, 'more source', 'more sources'))
        else ''
    end as message,
    severity,
    code,
    min_by(how_to_fix, source) as how_to_fix
from notes
group by run, severity, code
order by run, severity, code
