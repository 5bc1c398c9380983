"""A session shows what is committed and nothing else, in the schema's types, whatever the store looks like."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.build import build_store, file_of, rewrite_commits, source_id
from tracelab import schema
from tracelab.errors import NoDataError, StoreError
from tracelab.query import execute, library, spec
from tracelab.store import computed_tables, session, shared_relations
from tracelab.store.commit_log import Part

KERNEL = {"name": "k", "device": 0, "start_ns": 5, "dur_ns": 10}


def test_a_missing_store_advises_to_ingest(tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="does not exist; run `tracelab ingest"):
        session.connect(tmp_path / "none")


def test_a_store_without_sources_advises_to_ingest(tmp_path: Path) -> None:
    with pytest.raises(NoDataError, match="contains no ingested trace; run `tracelab ingest"):
        session.connect(tmp_path)


def test_another_major_schema_is_refused(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    rewrite_commits(store, lambda part: replace(part, schema_version="9.0"))
    with pytest.raises(StoreError, match=r"schema 9\.0.*re-ingest"):
        session.connect(store)


def test_every_view_has_the_columns_of_the_schema_with_types_and_comments(tmp_path: Path) -> None:
    with session.connect(build_store(tmp_path / "lab", {"kernels": [KERNEL]}), comments=True) as con:
        found = con.execute(
            "select table_name, column_name, data_type, comment from duckdb_columns() where not internal"
        ).fetchall()
    shown = [row for row in found if row[0] in schema.BY_NAME]
    expected = [
        (table.name, column.name, column.duckdb, column.doc) for table in schema.TABLES for column in table.view_columns
    ]
    normalized = [(table, name, _short(kind), doc) for table, name, kind, doc in shown]
    assert sorted(normalized) == sorted(expected)


def _short(kind: str) -> str:
    return {"timestamp with time zone": "timestamptz"}.get(kind.lower(), kind.lower())


def test_end_is_start_plus_duration_and_null_beyond_64_bits(tmp_path: Path) -> None:
    kernels = [KERNEL, KERNEL | {"dur_ns": None}, KERNEL | {"start_ns": 2**63 - 1}]
    with session.connect(build_store(tmp_path / "lab", {"kernels": kernels}), referenced="kernels") as con:
        assert con.execute("select end_ns from kernels order by end_ns").fetchall() == [(15,), (None,), (None,)]


def test_a_store_of_an_older_layout_is_refused(tmp_path: Path) -> None:
    """Before version 3, a row in `sources` was the commit."""
    (tmp_path / "sources/run=r").mkdir(parents=True)
    row = {"run": "r", "source": source_id("a"), "schema_version": "2.2"}
    pq.write_table(schema.BY_NAME["sources"].rows([row]), tmp_path / "sources/run=r/a.parquet")
    with pytest.raises(StoreError, match=r"written with schema 2\.2, this tracelab has 3\.1; re-ingest the traces"):
        session.connect(tmp_path)


def test_files_that_no_commit_lists_are_not_shown(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    for table in ("kernels", "sources"):
        path = file_of(store, table)
        path.with_name("left-over.parquet").write_bytes(path.read_bytes())
    with session.connect(store, referenced="kernels sources") as con:
        assert con.execute("select count(*) from kernels").fetchall() == [(1,)]
        assert con.execute("select count(*) from sources").fetchall() == [(1,)]


def test_an_open_session_shows_what_was_committed_when_it_was_opened(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    with session.connect(store, referenced="kernels") as con:
        build_store(store, {"kernels": [KERNEL | {"source": "b", "name": "new"}]})
        assert con.execute("select name from kernels").fetchall() == [("k",)]
    with session.connect(store, referenced="kernels") as con:
        assert con.execute("select name from kernels order by name").fetchall() == [("k",), ("new",)]


def test_views_of_one_run_open_no_file_of_another(tmp_path: Path) -> None:
    tables = {"kernels": [KERNEL, KERNEL | {"run": "s"}], "ops": [{"run": "s", "name": "aten::mm"}]}
    store = build_store(tmp_path / "lab", tables)
    kernels = file_of(store, "kernels", "s")
    kernels.write_bytes(b"x" * kernels.stat().st_size)
    with session.connect(store, referenced="kernels ops sources", read_runs=["r"]) as con:
        assert con.execute("select run from kernels").fetchall() == [("r",)]
        assert con.execute("select run from sources order by run").fetchall() == [("r",), ("s",)]
        assert con.execute("select run from ops").fetchall() == [("s",)]  # a query knows that the store has some


def test_older_files_lack_columns_and_show_null(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL, KERNEL | {"source": "b", "registers": 7}]})
    old = file_of(store, "kernels", source=source_id("a"))
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(["registers", "args"]), old)

    def make_older(part: Part) -> Part:
        if not part.name.startswith(source_id("a")):
            return part
        size_bytes = old.stat().st_size
        file = part.files["kernels"]._replace(size_bytes=size_bytes)
        return Part.of(part.key, ("3.-1", 0.0), {**part.files, "kernels": file}, part.listed_sources)

    rewrite_commits(store, make_older)
    with session.connect(store, referenced="kernels") as con:
        assert con.execute("select registers from kernels order by registers").fetchall() == [(7,), (None,)]


@pytest.mark.parametrize("name", ["a*b", "q?", "[x]", "it's", "sources/run=x", "blank in", "ü\N{GRINNING FACE}"])
def test_any_store_path_works(name: str, tmp_path: Path) -> None:
    store = build_store(tmp_path / name / "lab", {"kernels": [KERNEL]})
    with session.connect(store, referenced="kernels") as con:
        assert con.execute("select count(*) from kernels").fetchall() == [(1,)]


def test_run_names_stay_text(tmp_path: Path) -> None:
    rows = [KERNEL | {"run": name} for name in ("2024-01-05", "012", "1e3")]
    with session.connect(build_store(tmp_path / "lab", {"kernels": rows}), referenced="kernels") as con:
        assert con.execute("select run from kernels order by run").fetchall() == [("012",), ("1e3",), ("2024-01-05",)]


def test_runs_has_exactly_one_row_a_run(tmp_path: Path) -> None:
    tables = {
        "kernels": [KERNEL | {"run": "traced", "source": "c"}],
        "runs": [
            {"run": "collected", "source": "a", "model": "resnet18", "tags": [("k", "v")]},
            {"run": "collected", "source": "b", "gpus": 2, "tags": None},
        ],
    }
    with session.connect(build_store(tmp_path / "lab", tables), referenced="runs") as con:
        rows = con.execute("select run, model, gpus, tags from runs order by run").fetchall()
    assert rows == [("collected", "resnet18", 2, {"k": "v"}), ("traced", None, None, None)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("kept") / "lab", {"kernels": [KERNEL], "ops": [{"name": "aten::mm"}]})


@pytest.fixture(scope="module")
def whole(kept: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with session.connect(kept) as con:
        yield con


@pytest.fixture
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions define their macros, so that they have only those that they need."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")


@pytest.mark.usefixtures("_no_cache")
def test_a_column_with_the_name_of_a_view_or_macro_brings_neither_into_a_session(kept: Path) -> None:
    with session.connect(kept, referenced="select sweep, layout_of from kernel_classes") as con:
        defined = con.execute("select function_name from duckdb_functions() where not internal").fetchall()
        views = con.execute("select view_name from duckdb_views() where not internal").fetchall()
    assert {"classify", "kernel_rule"} <= {name for (name,) in defined}
    assert not {"sweep", "layout_of"} & {name for (name,) in defined}
    assert ("cells",) not in views  # a word of the rules for names of kernels
    assert {("kernel_classes",), ("kernels",)} <= set(views)


def test_init_sql_gives_another_client_the_same(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    with duckdb.connect() as con:
        con.execute(session.init_sql(store))
        assert con.execute("select busy_ns from busy('kernels')").fetchall() == [(10,)]


@pytest.mark.usefixtures("_no_cache")
@pytest.mark.parametrize("each", library.library().values(), ids=lambda each: each.name)
def test_a_session_has_all_that_a_query_needs_and_no_more(
    each: spec.Query, kept: Path, whole: duckdb.DuckDBPyConnection
) -> None:
    """A session opened for one query has what its SQL names, or reports what the store lacks as a whole one does."""
    with session.connect(kept, referenced=execute.referenced_sql(each)) as part:
        if execute.answerable(whole, [each]):
            values = execute.bind(each, {})
            for is_kept in (False, True):
                sql = spec.prune_blocks(each.sql, values | {spec.KEPT: is_kept, spec.ORDERED: True})
                sql, needed = (sql, sql) if is_kept else shared_relations.write_unkept(sql)
                computed_tables.provide(part, needed, values)
                used = execute._select_used(sql, values)
                assert part.sql(sql, params=used).columns == list(each.columns)  # which binds and does not run it
        else:
            problems = []
            for con in (part, whole):
                with pytest.raises(NoDataError) as caught:
                    execute.run(con, each, {})
                problems.append(str(caught.value))
            assert problems[0] == problems[1]
        views = "select count(*) from duckdb_views() where not internal"
        assert part.execute(views).fetchall() < whole.execute(views).fetchall()


def test_the_box_can_read_the_views(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    with session.connect(store, referenced="kernels") as con:
        con.execute(f"set allowed_directories = ['{store.as_posix()}']")
        con.execute("set enable_external_access = false")
        assert con.execute("select count(*) from kernels").fetchall() == [(1,)]


def test_a_run_among_many_is_not_joined_row_by_row_in_time(tmp_path: Path) -> None:
    """Of one run DuckDB expects few rows, but it may have millions."""
    runs = [(run, 10 * at, at) for run in ("a", "b", "c") for at in range(99)]
    host = [{"run": run, "name": "h", "start_ns": at, "dur_ns": 5, "pid": 1, "tid": 1} for run, at, _ in runs]
    calls = [row | {"correlation": number} for row, (_, _, number) in zip(host, runs, strict=True)]
    kernels = [KERNEL | {"run": run, "pid": 1, "correlation": number} for run, _, number in runs]
    store = build_store(tmp_path, {"ops": host, "api_calls": calls, "kernels": kernels})
    asked = execute.render_sql(library.find("op_kernels"), {"run": "a"}).rstrip().rstrip(";")
    outside = duckdb.connect()
    outside.execute(session.init_sql(store))
    for con in (session.connect(store, referenced=asked), outside):
        plan = str(con.execute(f"explain (format json) {asked}").fetchall())
        assert "ASOF_JOIN" in plan
        assert "NESTED_LOOP_JOIN" not in plan


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        (
            "scope",
            {
                "recorded_kernels",
                "recorded_ops",
                "recorded_api_calls",
                "unscoped_activity",
                "filtered_calls",
                "scope_ops",
                "naming_rows",
                "half_layer_sums",
                "scope_solo_time",
                "scope_gaps",
                "scope_windows",
            },
        ),
        ("kernel_metrics", {"paired_runs", "match_launches"}),
        ("ceilings", set()),
    ],
)
def test_definitions_of_a_session_that_lacks_something_return_what_the_others_do(
    tmp_path: Path, lacking: str, expected: set[str]
) -> None:
    """Without a scope or a table, the definitions of queries/without return the same rows in the same types."""
    times = [(0, 10), (5, 20), (40, 3), (40, 9), (60, 0)]
    kernels = [KERNEL | {"start_ns": at, "dur_ns": dur, "stream": at % 2, "correlation": at} for at, dur in times]
    copies = [{"device": 1, "direction": "HtoD", "start_ns": 30, "dur_ns": 15}, {"device": 1, "start_ns": None}]
    calls = [{"name": "cudaLaunchKernel", "api": "runtime", "start_ns": 1, "dur_ns": 2, "pid": 1, "tid": 1}]
    ops = [{"name": "op", "rank": rank, "start_ns": 0, "dur_ns": 9, "pid": 1, "tid": 1} for rank in (0, 1)]
    store = build_store(tmp_path, {"kernels": kernels, "memcpys": copies, "api_calls": calls, "ops": ops})
    arguments = {"relation": "'gpu_rows'", "others": "'other_rows'", "lanes": "'gpu_lanes'", "replays": "'captures'"}
    arguments |= {"everywhere": "'unscoped_ops'", "left_out": "'left_out_ops'", "launching": "'around_ops'"}
    arguments |= {"of_run": "null", "of_rank": "0", "ncu": "null", "from_run": "null", "half": "'packed'"}
    arguments |= {"rows": "'layer_rows'"}
    arguments |= {"executions": "'timed'", "profiled": "'ncu_launches'", "cards": "'timed_cards'"}
    definitions = session.WITHOUT.joinpath(f"{lacking}.sql").read_text("utf-8")
    if lacking != "scope":
        arguments["relation"] = "'ncu_launches'"
    replaced, whole = duckdb.connect(), duckdb.connect()
    for con, absent in ((replaced, [lacking]), (whole, [])):
        stored = session.ParquetRows(store, session.list_parts(store))
        texts = session.render_session(stored, session.render_library(store, absent=absent))
        session.run_statements(con, *texts.views, *texts.library)
        con.execute("create view gpu_rows as select *, kind as part from gpu_activity")
        con.execute("create view other_rows as select *, kind as part, 0::tinyint as layer from out_of_scope_activity")
        con.execute("create view gpu_lanes as from lanes('gpu_rows')")
        con.execute(
            "create view layer_rows as select lane, coalesce(stream, 2)::tinyint as layer, start_ns, end_ns"
            " from with_lane('gpu_rows', 'gpu_lanes')"
        )
        con.execute("create view timed as select *, null::varchar as ncu_run from kernels")
        con.execute("create view timed_cards as from card_facts('timed', null)")
        con.execute(
            "create view captures as select run as capture_run, source as capture_source, 1 as capture_pid,"
            " 1 as capture_tid, 5 as begin_ns, 6 as end_ns from unscoped_ops"
        )
    calls_of = re.findall(r"^create or replace (?:view|macro) (\w+)(?:\((.*?)\))? as", definitions, re.MULTILINE)
    filled = set()
    for name, params in calls_of:
        given = ", ".join(arguments[param] for param in params.split(", ")) if params else ""
        sql = f"from {name}({given})" if params else f"from {name}"
        described = [
            con.execute(f"select column_name, column_type from (describe {sql})").fetchall()
            for con in (replaced, whole)
        ]
        assert described[0] == described[1], name
        rows = [con.execute(f"{sql} order by all").fetchall() for con in (replaced, whole)]
        assert rows[0] == rows[1], name
        filled |= {name} if rows[0] else set()
    assert filled == expected
