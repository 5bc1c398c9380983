-- matches(value, wanted): whether a row passes a filter that may be left out; true for every row where nothing is wanted.
create or replace macro matches(value, wanted) as wanted is null or value = wanted;

-- has_valid_interval(start_ns, end_ns): whether a row has a place in time. A row without start or duration, or with a
-- duration below 0, is a call without measure; so is one more than 146 years from 0, where differences would leave 64 bits.
-- One `case`, not three conditions: DuckDB takes each condition to keep a fifth of the rows, and would then believe a
-- million kernels to be fewer than their names and build its joins' hash tables on the kernels.
create or replace macro has_valid_interval(start_ns, end_ns) as
    case when end_ns >= start_ns then start_ns >= -4611686018427387904 and end_ns < 4611686018427387904 else false end;

-- as_bigint(number): a sum or mean as a whole number of 64 bits, NULL where it leaves them: one absurd size or time in a
-- trace must not fail the query for every other row.
create or replace macro as_bigint(number) as try_cast(number as bigint);

-- zero_if_missing(key, value): the value of a left join, 0 where the join found no row (`key` is NULL); a NULL of its own
-- stays.
create or replace macro zero_if_missing(key, value) as case when key is null then 0 else value end;

-- gpu_activity: everything that occupied a device. A row is a kernel, a copy, a memset or a whole graph.
create or replace view gpu_activity as
select run, source, rank, pid, device, stream, 'kernel' as kind, name, start_ns, dur_ns, end_ns, correlation, context, graph,
    external_id, graph_node
from kernels
union all
select run, source, rank, pid, device, stream, 'memcpy', direction, start_ns, dur_ns, end_ns, correlation, context, graph,
    external_id, null
from memcpys
union all
select run, source, rank, pid, device, stream, 'memset', memory, start_ns, dur_ns, end_ns, correlation, context, graph,
    external_id, null
from memsets
union all
select run, source, rank, pid, device, stream, 'graph', name, start_ns, dur_ns, end_ns, correlation, context, graph,
    null as external_id, null
from graph_launches;
comment on view gpu_activity is 'one kernel, copy, memset or whole graph: everything that occupied a device';

-- hint_small(relation): the same rows, which DuckDB estimates as one, so that a join builds its hash table on them. It
-- takes each filter to keep a fifth, and would build on a million filtered kernels rather than on the names that they have.
create or replace macro hint_small(relation) as table
select unnest(listed, max_depth := 2)
from (select list(each) as listed from query_table(relation) as each);
