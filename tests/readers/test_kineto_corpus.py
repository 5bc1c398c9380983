"""Every real Kineto file of the corpus reads as the oracle reads it, alone and all of them together."""

import gc
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from pathlib import Path
from types import NoneType

import duckdb
import pyarrow.parquet as pq
import pytest

import tracelab
from tests import corpus
from tests.readers import oracle
from tests.readers.small import Lab, ingest_paths
from tests.stores import kineto_corpus
from tracelab import schema
from tracelab.errors import NoDataError

pytestmark = corpus.needs_traces

CPU = ("pid", "tid", "start_ns", "dur_ns", "name")
GPU = ("pid", "device", "context", "stream", "start_ns", "dur_ns", "correlation")
SHAPE = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
MESSAGE = ("collective", "raw_name", "in_elements", "out_elements", "dtype", "size_bytes")
COLUMNS = {
    "kernels": (*GPU, "name", "external_id", *SHAPE, "registers", "occupancy_ratio"),
    "memcpys": (*GPU, "external_id", "direction", "src_memory", "dst_memory", "size_bytes"),
    "memsets": (*GPU, "external_id", "memory", "size_bytes"),
    "syncs": (*GPU, "kind", "event_id", "waits_for_stream", "waits_for_correlation"),
    "api_calls": (*CPU, "correlation", "external_id"),
    "ops": (*CPU, "external_id", "sequence_number", "forward_tid"),
    "annotations": ("start_ns", "dur_ns", "name", "scope", "device", "stream"),
    "python_frames": (*CPU, "frame", "parent_frame", "module"),
    "memory_events": ("pid", "tid", "time_ns", "device", "address", "size_bytes", "allocated_bytes", "reserved_bytes"),
    "collectives": (
        *("origin", "start_ns", "dur_ns", "device", "stream", "correlation", "external_id"),
        *MESSAGE,
        *("group_name", "group_size", "group_ranks"),
    ),
    "other_events": ("start_ns", "dur_ns"),
}
SAMPLE = 5_000
"""Events of a file whose every argument is compared; of larger files about so many, those of every n-th microsecond."""

CONCURRENCY = """
with edges as (select device, start_ns as t, 1 as d from kernels where dur_ns > 0
               union all select device, start_ns + dur_ns, -1 from kernels where dur_ns > 0),
     merged as (select device, t, sum(d) as d from edges group by all),
     depths as (select device, sum(d) over w as depth, lead(t) over w - t as span from merged
                window w as (partition by device order by t)),
     overlap as (select device, sum(span) filter (where depth >= 1)::bigint as busy_ns,
                        coalesce(sum(span) filter (where depth >= 2), 0)::bigint as concurrent_ns
                 from depths group by all),
     activity as (select device, start_ns, dur_ns from kernels union all select device, start_ns, dur_ns from memcpys
                  union all select device, start_ns, dur_ns from memsets),
     windows as (select device, max(start_ns + dur_ns) - min(start_ns) as window_ns from activity group by all),
     counts as (select device, count(*) as kernels from kernels group by all)
select device, counts.kernels, busy_ns, concurrent_ns, window_ns
from overlap join windows using (device) join counts using (device) order by device
"""

COPIES = """
select device, direction, src_memory, dst_memory, count(*), coalesce(sum(size_bytes), 0)::bigint, sum(dur_ns)::bigint
from memcpys group by all
"""


ALONE = sorted(corpus.kineto_files(), key=lambda path: path.stat().st_size)
"""The files, which are also ingested alone, the smallest first."""


@dataclass(frozen=True)
class Case:
    """A file, the rows of it in the store of all files, and those of the oracle."""

    path: Path
    source_id: str
    files: dict[str, list[Path]]
    expected: oracle.Reading
    db: duckdb.DuckDBPyConnection

    def rows(self, table: str) -> list[dict[str, object]]:
        """The rows of a table."""
        tables = (pq.ParquetFile(path).read(use_threads=False) for path in self.files[table])
        return [row for each in tables for row in each.to_pylist() if row["source"] == self.source_id]

    @cached_property
    def source(self) -> dict[str, object]:
        """The only row of `sources`."""
        (row,) = self.rows("sources")
        return row

    @cached_property
    def counts(self) -> list[tuple[str, int, list[int]]]:
        """Of each table the rows and the ranks."""
        counts = (f"select '{table}', count(*), coalesce(list(distinct rank), []) from {table}" for table in COLUMNS)
        return self.db.sql(" union all ".join(counts)).fetchall()


def stored_files(store: Path, parts: str = "run=*/*") -> dict[str, list[Path]]:
    """The files of each table, or those of some parts."""
    names = (*COLUMNS, "devices", "diagnostics", "sources")
    return {name: sorted(store.glob(f"{name}/{parts}-*.parquet")) for name in names}


def connect(files: dict[str, list[Path]], source: str | None = None) -> duckdb.DuckDBPyConnection:
    """The tables as bare views, without tracelab's own session; of one source, or of all that the files hold."""
    db = duckdb.connect()
    of_source = "" if source is None else f" where source = '{source}'"
    statements = []
    for name, paths in files.items():
        if paths:
            listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
            rows = f"from read_parquet([{listed}], hive_partitioning = false){of_source}"
            statements.append(f"create view {name} as {rows}")
        else:
            columns = ", ".join(f'"{column.name}" {column.duckdb}' for column in schema.BY_NAME[name].columns)
            statements.append(f"create table {name} ({columns})")
    db.execute(";".join(statements))
    return db


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Lab]:
    """Files ingested alone, filled as the tests go."""
    return {}


def alone(path: Path, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory) -> Lab:
    if path not in stores:
        stores[path] = ingest_paths(tmp_path_factory.mktemp("alone"), [path], run=None)
    return stores[path]


@dataclass(frozen=True)
class Answers:
    """What the store of all files has for each of them."""

    store: Path

    @cached_property
    def sources(self) -> dict[Path, tuple[str, str, bool]]:
        """Run, source, and completeness of each file."""
        rows = connect(stored_files(self.store)).sql("select path, run, source, complete from sources").fetchall()
        return {Path(path).resolve(): (run, source, complete) for path, run, source, complete in rows}

    def files(self, path: Path) -> dict[str, list[Path]]:
        """The files of the tables that hold the rows of a trace: its own, or those of small traces of its run."""
        run, source, _ = self.sources[path.resolve()]
        own = stored_files(self.store, f"run={run}/{source}")
        return own if own["sources"] else stored_files(self.store, f"run={run}/many")

    def of_case(self, query: str, case: Case) -> list[dict[str, object]]:
        """The rows of a query that are about the run and rank of a file."""
        run, *_ = self.sources[case.path.resolve()]
        return self._by_rank(query).get((run, case.expected.rank or 0), [])

    def _by_rank(self, query: str) -> dict[tuple[object, object], list[dict[str, object]]]:
        if query not in self.__dict__:
            rows: dict[tuple[object, object], list[dict[str, object]]] = defaultdict(list)
            for row in tracelab.open(self.store).query(query).to_pylist():
                rows[row["run"], row["rank"]].append(row)
            self.__dict__[query] = rows
        return self.__dict__[query]


@pytest.fixture(scope="module")
def together(shared_stores: Path) -> Answers:
    """The whole folder, ingested at once into one store."""
    return Answers(kineto_corpus(shared_stores))


@pytest.fixture(scope="module", params=corpus.kineto_files(), ids=lambda path: path.name[:32])
def case(request: pytest.FixtureRequest, together: Answers) -> Iterator[Case]:
    files = together.files(request.param)
    gc.disable()  # it would look at millions of new rows, none of which can go
    try:
        expected = oracle.read(request.param)
    finally:
        gc.enable()
    _, source, _ = together.sources[request.param.resolve()]
    with connect(files, source) as db:
        yield Case(request.param, source, files, expected, db)


def count_rows(columns: Sequence[Sequence[object]]) -> Counter:
    """Count the rows that these columns hold, with values that can be compared."""
    return Counter(
        zip(
            *(column if set(map(type, column)) <= {int, NoneType} else map(plain, column) for column in columns),
            strict=True,
        )
    )


def plain(value: object) -> object:
    """A value that can be counted and compared: lists as tuples, numbers at nine digits, Unknown as absent."""
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, float):
        return round(value, 9)
    return None if value == "Unknown" else value


@cache
def canonical_text(text: str) -> object:
    """The canonical form of JSON text, which many events share."""
    return canonical(json.loads(text))


def canonical_list(value: object, known: dict[str, object] = {}) -> object:  # noqa: B006 - of the whole run
    """The canonical form of a list, which many events share."""
    key = repr(value)
    if key not in known:
        known[key] = canonical(value)
    return known[key]


def canonical(value: object) -> object:
    """JSON whose numbers compare, however they were printed."""
    return json.dumps(
        value, sort_keys=True, default=lambda number: float(number) if isinstance(number, Decimal) else "?"
    )


def differences(expected: Counter, stored: Counter) -> dict[str, list[object]]:
    """A few rows of each side that the other lacks; empty sides when they agree."""
    return {"missing": list((expected - stored).items())[:3], "unexpected": list((stored - expected).items())[:3]}


NONE = {"missing": [], "unexpected": []}


def test_file_is_stored_whole(case: Case) -> None:
    assert case.source["complete"] is True


def test_every_element_of_the_array_is_read_and_kept(case: Case) -> None:
    counts = tuple(case.source[f"events_{name}"] for name in ("read", "kept", "skipped"))
    assert counts == (case.expected.events, case.expected.events, 0)


def test_every_event_is_a_row_of_one_table(case: Case) -> None:
    carriers = [table for table in COLUMNS if table != "collectives"]
    stored = {table: count for table, count, _ in case.counts}
    expected = {table: len(case.expected.tables.get(table, [])) for table in COLUMNS}
    assert (stored, sum(stored[table] for table in carriers)) == (expected, case.expected.events)


def test_rows_equal_the_oracles(case: Case) -> None:
    different = {}
    for table, columns in COLUMNS.items():
        quoted = ", ".join(f'"{column}"' for column in columns)
        rows = case.db.sql(f"select {quoted} from {table}").to_arrow_table()
        stored = count_rows([column.to_pylist() for column in rows.columns])
        listed = case.expected.tables.get(table, [])
        expected = count_rows([[row.get(column) for row in listed] for column in columns])
        if stored != expected:
            different[table] = differences(expected, stored)
    assert different == {}


def test_rank_is_the_files(case: Case) -> None:
    named = 0 if case.expected.rank is None else case.expected.rank
    stored = {rank for _, _, ranks in case.counts for rank in ranks}
    assert stored == {named}


def test_api_calls_are_runtime_or_driver(case: Case) -> None:
    rows = case.expected.tables.get("api_calls", [])
    expected = Counter(row["api"] for row in rows if row["api"])
    stored = dict(case.db.sql("select api, count(*) from api_calls group by all").fetchall())
    assert {api: stored.get(api) for api in ("runtime", "driver") if api in expected} == dict(expected)


def test_shapes_of_ops_are_json(case: Case) -> None:
    rows = case.db.sql("select start_ns, name, input_shapes, input_types from ops").fetchall()
    stored = Counter((*row[:2], *(text and canonical_text(text) for text in row[2:])) for row in rows)
    expected = Counter(
        (
            row["start_ns"],
            row["name"],
            *(None if row[key] is None else canonical_list(row[key]) for key in ("input_shapes", "input_types")),
        )
        for row in case.expected.tables.get("ops", [])
    )
    assert differences(expected, stored) == NONE


def unmapped(table: str, args: dict[str, object]) -> dict[str, object]:
    """The arguments that no column holds; the scope of an instant ("s") may stand among those stored."""
    columns = mapped(table)
    return {key: value for key, value in args.items() if key not in columns}


@cache
def mapped(table: str) -> set[str]:
    """The arguments that a column of a table holds."""
    return {"s"} | oracle.MAPPED[table] | (oracle.COLLECTIVE_KEYS if table in ("kernels", "ops") else set())


def test_arguments_without_a_column_are_kept(case: Case) -> None:
    different = {}
    for table in oracle.MAPPED:
        expected = Counter(key for row in case.expected.tables.get(table, []) for key in unmapped(table, row["_args"]))
        keys = f"select unnest(json_keys(args)) as key from {table} where args is not null"
        stored = dict(case.db.sql(f"select key, count(*) from ({keys}) group by all").fetchall())
        if {key: stored.get(key, 0) for key in expected} != dict(expected):
            different[table] = (expected, stored)
    assert different == {}


def test_values_of_kept_arguments_are_the_files(case: Case) -> None:
    different, every = {}, case.expected.events // SAMPLE + 1
    for table in sorted(set(oracle.MAPPED) - {"other_events"}):
        time = "time_ns" if table == "memory_events" else "start_ns"
        sample = f"select {time}, args from {table} where {time} // 1000 % {every} = 0"
        stored = Counter(
            (start, canonical(unmapped(table, json.loads(args or "{}"))))
            for start, args in case.db.sql(sample).fetchall()
        )
        expected = Counter(
            (row[time], canonical(unmapped(table, row["_args"])))
            for row in case.expected.tables.get(table, [])
            if row[time] // 1000 % every == 0
        )
        if stored != expected:
            different[table] = differences(expected, stored)
    assert different == {}


def test_busy_concurrent_and_window_are_exact(case: Case) -> None:
    stored = {row[0]: row[1:] for row in case.db.sql(CONCURRENCY).fetchall()}
    assert stored == oracle.concurrency(case.expected)


def test_copies_are_counted_sized_and_timed(case: Case) -> None:
    stored = {tuple(plain(key) for key in row[:4]): row[4:] for row in case.db.sql(COPIES).fetchall()}
    expected = {tuple(plain(key) for key in keys): value for keys, value in oracle.copies(case.expected).items()}
    assert stored == expected


def test_devices_are_those_the_file_lists(case: Case) -> None:
    stored = case.db.sql("select device, name, memory_bytes, sm_count from devices order by device").fetchall()
    assert stored == sorted(
        (device["id"], device["name"] or None, device.get("totalGlobalMem"), device.get("numSms"))
        for device in case.expected.top.get("deviceProperties", [])
    )


def test_user_and_job_names_are_not_stored(case: Case) -> None:
    private = {value for key, value in case.expected.top.items() if key.startswith(("tw_", "mast_", "username"))}
    tables = ("sources", "devices", "diagnostics")
    stored = {str(value) for table in tables for row in case.rows(table) for value in row.values()}
    assert {str(value) for value in private if value and not str(value).isdigit()} & stored == set()


def test_queries_give_the_oracles_figures(
    case: Case, together: Answers, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not case.expected.tables.get("kernels"):
        with pytest.raises(NoDataError, match="kernel_concurrency needs kernels"):
            tracelab.open(alone(case.path, stores, tmp_path_factory).store).query("kernel_concurrency")
    stored = {
        row["device"]: (row["kernels"], row["busy_ns"], row["concurrent_ns"], row["window_ns"])
        for row in together.of_case("kernel_concurrency", case)
    }
    assert stored == oracle.concurrency(case.expected)


def test_queries_give_the_oracles_copies(
    case: Case, together: Answers, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not case.expected.tables.get("memcpys"):
        with pytest.raises(NoDataError, match="memcpy_throughput needs memcpys"):
            tracelab.open(alone(case.path, stores, tmp_path_factory).store).query("memcpy_throughput")
    keys = ("device", "direction", "src_memory", "dst_memory")
    stored = {
        tuple(plain(row[key]) for key in keys): (row["copies"], row["size_bytes"], row["dur_ns"])
        for row in together.of_case("memcpy_throughput", case)
    }
    expected = {tuple(plain(key) for key in keys): value for keys, value in oracle.copies(case.expected).items()}
    assert stored == expected


def test_all_files_are_in_one_store(together: Answers) -> None:
    complete = {path: complete for path, (*_, complete) in together.sources.items()}
    assert complete == {path.resolve(): True for path in corpus.kineto_files()}


def test_eight_ranks_of_one_folder_are_one_run(together: Answers) -> None:
    runs = connect(stored_files(together.store)).sql(
        "select run, list(distinct rank order by rank) from kernels group by all"
    )
    ranks = [ranks for _, ranks in runs.fetchall() if len(ranks) > 1]
    assert ranks == [list(range(8))]


def test_every_other_file_is_a_run_of_its_own(together: Answers) -> None:
    sources = (
        connect(stored_files(together.store)).sql("select count(*), count(distinct run) from sources").fetchall()[0]
    )
    files = len(corpus.kineto_files())
    assert sources == (files, files - 7)


@pytest.mark.parametrize("path", ALONE, ids=lambda path: path.name[:32])
def test_file_alone_is_stored_whole(
    path: Path, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lab = alone(path, stores, tmp_path_factory)
    assert (lab.file.status, lab.source["complete"], lab.counts[2]) == ("stored", True, 0)


def test_together_results_in_the_same_rows_as_alone(
    together: Answers, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    tables = [*COLUMNS, "devices"]
    of_all = [stored_files(together.store)]
    of_each = [stored_files(alone(path, stores, tmp_path_factory).store) for path in ALONE]
    ours, theirs = (
        connect({table: [file for files in each for file in files[table]] for table in tables})
        .sql(" union all ".join(HASHED.format(table) for table in tables))
        .fetchall()
        for each in (of_all, of_each)
    )
    assert ours == theirs


HASHED = "select '{0}', count(*), sum(hash(row)) from (select * exclude (run) from {0}) as row"


GOLDEN_OVERLAPS = """
with acts as (select start_ns as s, start_ns + dur_ns as e, 'k' as what, name ilike '%nccl%' as comm from kernels
              union all select start_ns, start_ns + dur_ns, 'm', false from memcpys
              union all select start_ns, start_ns + dur_ns, 'm', false from memsets),
     edges as (select s as t, (what = 'k' and not comm)::int as c, (what = 'k' and comm)::int as n, 1 as d from acts
               union all
               select e, -(what = 'k' and not comm)::int, -(what = 'k' and comm)::int, -1 from acts),
     merged as (select t, sum(c) as c, sum(n) as n, sum(d) as d from edges group by all),
     depths as (select sum(c) over w as c, sum(n) over w as n, sum(d) over w as d, lead(t) over w - t as span
                from merged window w as (order by t))
select coalesce(sum(span) filter (where d >= 1), 0)::bigint as any_ns,
       coalesce(sum(span) filter (where c >= 1), 0)::bigint as compute_ns,
       coalesce(sum(span) filter (where n >= 1), 0)::bigint as comm_ns,
       coalesce(sum(span) filter (where c >= 1 and n >= 1), 0)::bigint as both_ns,
       coalesce(sum(span) filter (where d = 0), 0)::bigint as idle_ns
from depths
"""


def golden(name: str, stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    (path,) = [path for path in corpus.kineto_files() if name in str(path)]
    return connect(stored_files(alone(path, stores, tmp_path_factory).store))


def test_golden_figures_of_control(stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory) -> None:
    db = golden("control.json", stores, tmp_path_factory)
    assert db.sql(CONCURRENCY).fetchall() == [(3, 8_568, 369_257_000, 77_556_000, 464_594_000)]
    assert db.sql(GOLDEN_OVERLAPS).fetchall() == [(388_587_000, 281_336_000, 163_535_000, 75_614_000, 76_007_000)]


def test_golden_figures_of_ns_resolution_trace(
    stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory
) -> None:
    db = golden("ns_resolution_trace", stores, tmp_path_factory)
    assert db.sql(CONCURRENCY).fetchall() == [(0, 4_350, 468_153_602, 0, 480_029_179)]
    assert db.sql(GOLDEN_OVERLAPS).fetchall() == [(472_454_441, 468_153_602, 0, 0, 7_574_738)]


def test_recording_window_is_the_profilers_span(case: Case) -> None:
    spans = [
        row
        for row in case.expected.tables.get("other_events", [])
        if row["name"] and row["name"].startswith("PyTorch Profiler")
    ]
    assert case.source["window_start_ns"] == (spans[0]["start_ns"] if spans else None)


def test_ingesting_again_changes_nothing(stores: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory) -> None:
    (path,) = [path for path in corpus.kineto_files() if "event_sync" in str(path)]
    folder = alone(path, stores, tmp_path_factory).store.parent
    assert ingest_paths(folder, [path], run=None).file.status == "unchanged"
