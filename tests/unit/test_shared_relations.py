"""A session makes the relations that several queries read once for a run; other clients get them as CTEs."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.build import build_store
from tests.ranks import kernel
from tracelab.client import Lab
from tracelab.query import execute, library
from tracelab.resources import QUERIES
from tracelab.sql import sandbox, temp_objects
from tracelab.store import computed_tables, session, shared_relations

ALL = ["communication_kernels", "matched_collectives", "rank_clocks", "collective_waits"]


def job(run: str, wait_ns: int) -> list[dict[str, Any]]:
    """Return two collectives; rank 0 waits in both for rank 1."""
    return [
        kernel(rank, at + rank * wait_ns, at + 100, source=f"{run}{rank}", run=run)
        for rank in (0, 1)
        for at in (0, 500)
    ]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(build_store(tmp_path / "lab", {"kernels": [*job("first", 10), *job("second", 30)]}))


def test_sql_reads_them_of_all_runs(lab: Lab) -> None:
    text = "select run, sum(wait_ns)::bigint as wait_ns from collective_waits group by run order by run"
    assert lab.sql(text).to_pylist() == [{"run": "first", "wait_ns": 20}, {"run": "second", "wait_ns": 60}]


def test_a_relation_comes_after_those_that_it_reads() -> None:
    assert shared_relations.named("from COLLECTIVE_WAITS") == ALL
    assert shared_relations.named("from matched_collectives") == ALL[:2]
    assert shared_relations.named("from kernels") == []


def test_queries_of_a_session_make_each_once_for_a_run(lab: Lab) -> None:
    queries = [library.find(name) for name in ("collective_wait", "clock_offsets", "stragglers")]
    with session.connect(lab.store) as con:
        for run in ("second", "second", "first"):
            answers = [execute.run(con, query, {"run": run}).to_pylist() for query in queries]
            assert {row["run"] for answer in answers for row in answer} == {run}
        assert {row["rank"]: row["wait_ns"] for row in answers[2]} == {0: 20, 1: 0}
        made = con.execute("select table_name from duckdb_tables() where schema_name = 'computed'").fetchall()
    assert sorted(name.rpartition("_")[0] for (name,) in made) == sorted(2 * [*ALL, "cpu_layers", "clocked_waits"])


def test_waits_have_clocks_where_something_follows_from_them(tmp_path: Path) -> None:
    """Of a single rank the wait in a collective that synchronizes is not known; its compute need not be swept."""
    broadcast = kernel(0, 500, 600, name="ncclDevKernel_Broadcast_RING_LL")
    store = build_store(tmp_path / "lab", {"kernels": [kernel(0, 0, 100, name="gemm"), kernel(0, 50, 200), broadcast]})
    with session.connect(store) as con:
        shared_relations.provide(con, "clocked_waits", None)
        rows = con.execute(
            "select collective, start_clock_ns, end_clock_ns from clocked_waits order by start_ns"
        ).fetchall()
    assert rows == [("all_reduce", None, None), ("broadcast", 100, 100)]


def test_several_runs_are_read_together(lab: Lab) -> None:
    with session.connect(lab.store) as con:
        computed_tables.provide(con, "from matched_collectives", runs=["second", "first"])
        rows = con.execute("select run, count(*) from matched_collectives group by run order by run").fetchall()
    assert rows == [("first", 4), ("second", 4)]


def test_the_shell_makes_temporary_tables_of_them(lab: Lab) -> None:
    with sandbox.connect(lab.store) as con:
        temp_objects.create(con, "create temp table late as select * from collective_waits where rank = last_rank")
        assert sandbox.run(con, "select count(*) as rows from late").to_pylist() == [{"rows": 4}]


def test_the_text_of_a_query_has_them_for_other_clients(lab: Lab) -> None:
    query = library.find("collective_wait")
    shown = execute.render_sql(query, {"run": "second"})
    ctes = re.findall(r"^(?:with )?(\w+) as materialized \($", shown, re.MULTILINE)
    assert ctes == [*ALL, "cpu_layers", "clocked_waits"]
    with duckdb.connect() as con:
        con.execute(session.init_sql(lab.store))
        answered = con.sql(shown).to_arrow_table().to_pylist()
        assert answered == lab.query("collective_wait", run="second").to_pylist()
        with pytest.raises(duckdb.InvalidInputException, match="tracelab computes rank_clocks: query it with"):
            con.execute("from rank_clocks")
    assert [row["wait_ns"] for row in answered] == [30, 0, 30, 0]


def test_the_rows_of_a_run_are_part_of_those_of_all_where_a_session_has_these(lab: Lab) -> None:
    with session.connect(lab.store) as con:
        shared_relations.provide(con, "collective_waits", None)
        shared_relations.provide(con, "collective_waits", ["first"])
        assert con.execute("select distinct run from collective_waits").fetchall() == [("first",)]
        made = con.execute("select count(*) from duckdb_tables() where schema_name = ?", [shared_relations.SCHEMA])
        assert made.fetchall() == [(len(ALL),)]


def test_a_query_of_one_rank_computes_no_other_rank_unless_the_session_has_all(lab: Lab) -> None:
    query = library.find("gpu_breakdown")
    with session.connect(lab.store) as con:

        def answer(**params: object) -> list[dict[str, Any]]:
            return execute.run(con, query, {"run": "second", **params}).to_pylist()

        def count_rows() -> list[int]:
            made = con.execute("select table_name from duckdb_tables() where schema_name = 'computed'").fetchall()
            return sorted(con.table(f"computed.{name}").shape[0] for (name,) in made)

        late = answer(rank=1)
        assert [(row["rank"], row["window_ns"], row["comm_ns"]) for row in late] == [(1, 570, 140)]
        assert count_rows() == [1]
        everything = answer()
        assert everything[1:] == late
        assert [(row["rank"], row["window_ns"], row["comm_ns"]) for row in everything[:1]] == [(0, 600, 200)]
        assert answer(rank=0) == everything[:1]
        assert count_rows() == [1, 2]


def test_no_query_or_macro_calls_a_part_of_its_own_as_a_shared_relation() -> None:
    """A word of its text would have the relation computed for nothing."""
    part = re.compile(r"(?:^with (?:recursive )?|^)(\w+) as (?:not )?(?:materialized )?\(", re.MULTILINE)
    files = [path for path in QUERIES.rglob("*.sql") if path.parent.name != "shared"]
    named = {path.name: set(part.findall(path.read_text(encoding="utf-8"))) for path in files}
    assert len(named["stragglers.sql"]) > 20
    shared = {path.stem for path in (QUERIES / "shared").glob("*.sql")}
    assert {name: found for name, parts in named.items() if (found := parts & shared)} == {}


def test_a_relation_of_one_query_is_named_by_one_query_and_nothing_else() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in QUERIES.rglob("*.sql")}
    of_one = shared_relations._relations_of_one_query()
    assert {
        "copy_times",
        "device_states",
        "idle_times",
        "launch_times",
        "op_times",
        "recoverable_times",
        "role_times",
    } <= of_one
    for name in of_one:
        named_by = [path for path, text in texts.items() if re.search(rf"\b{name}\b", text)]
        assert [path.parent for path in named_by] == [QUERIES], name


def test_a_relation_of_one_query_is_kept_for_the_defaults_of_its_parameters() -> None:
    for query in library.library().values():
        defaults = {param.name: param.default for param in query.params}
        assert shared_relations.kept_values(query.sql).items() <= defaults.items(), query.name
    values = shared_relations.kept_values(library.find("straggler_causes").sql)
    assert sorted(values) == ["loader_name", "min_gap_ns"]


def test_a_relation_of_one_query_is_a_part_of_it_where_the_store_keeps_none(lab: Lab) -> None:
    """Its values are those of the query, and what it reads is made once."""
    sql, needed = shared_relations.write_unkept("select run from recoverable_times where matches(run, $run)")
    assert sql.startswith("with recoverable_times as materialized (\n    with activity as")
    assert shared_relations.named(needed) == []
    assert shared_relations.write_unkept("from device_times")[0] == "from device_times"
    query = library.find("recoverable_exposure")
    with session.connect(lab.store) as con:
        rows = execute.run(con, query, {"run": "first", "rank": 0}).to_pylist()
        assert con.execute("select count(*) from duckdb_tables() where schema_name = 'computed'").fetchall() == [(0,)]
    assert [(row["run"], row["rank"], row["window_ns"], row["exposed_comm_ns"]) for row in rows] == [
        ("first", 0, 600, 200)
    ]


def test_threads_make_different_relations_at_once_and_each_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=20)
    made: list[str] = []
    original = shared_relations._compute

    def compute(con: duckdb.DuckDBPyConnection, name: str, part: Any) -> str:
        made.append(name)
        if name in ("memset_times", "copy_times"):
            together.wait()
        return original(con, name, part)

    monkeypatch.setattr(shared_relations, "_compute", compute)
    with session.connect(lab.store) as con:

        def provide(name: str) -> None:
            with con.cursor() as cursor:
                shared_relations.provide(cursor, name, None)
                cursor.execute(f"from {name}").fetchall()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(provide, ["memset_times", "copy_times", "copy_times", "memset_times"]))
    assert sorted(made) == ["copy_times", "memset_times"]
