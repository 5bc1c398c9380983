-- Recordings of several GB could not be opened in the visual profiler. Here a reader streams them into columns for SQL
-- queries; the memory that it takes does not depend on their size.
-- /// study
-- title = "Size of recordings"
-- study = "a viewer that must hold all"
-- corrected = "bytes read, events kept"
-- fits = "sources"
-- capture = "tracelab collect sweep S3"
-- example = ["generated/generated-4rank-ddp"]
-- ///
select
    'recording' as quantity,
    s.run,
    f.model,
    f.gpu as machine,
    f.batch_size,
    s.format as setting,
    'bytes' as unit,
    null::double as study,
    s.size_bytes as corrected,
    printf('%s events kept, %s skipped', format('{:,}', s.events_kept), format('{:,}', s.events_skipped)) as claim
from sources as s join fitting as f using (run)
where s.events_kept is not null
order by s.size_bytes desc, s.run, s.source;

select printf('%d recordings of %s bytes in all are stored; the largest has %s bytes.', count(*),
    format('{:,}', sum(corrected)::bigint), format('{:,}', max(corrected)::bigint)) as verdict from cells
