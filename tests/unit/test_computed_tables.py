"""Tables that Python computes are read like views: once a session, for the run in question, within the limits."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.build import build_store
from tracelab import computations, table_lookup
from tracelab.client import Lab
from tracelab.errors import TracelabError
from tracelab.paths import tables
from tracelab.query import execute, library
from tracelab.sql import sandbox, temp_objects
from tracelab.sql.repl import completion
from tracelab.store import computed_tables, execution, session


def op(run: str, start_ns: int, dur_ns: int) -> dict[str, Any]:
    return {"run": run, "pid": 1, "tid": 1, "name": "op", "start_ns": start_ns, "dur_ns": dur_ns}


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(build_store(tmp_path / "lab", {"ops": [op("first", 0, 10), op("second", 5, 30)]}))


def test_sql_reads_a_computed_table_of_all_runs(lab: Lab) -> None:
    rows = lab.sql("select run, sum(dur_ns)::bigint as dur_ns from path_rows group by run order by run").to_pylist()
    assert rows == [{"run": "first", "dur_ns": 10}, {"run": "second", "dur_ns": 30}]


def test_names_of_computed_tables_have_any_case(lab: Lab) -> None:
    assert lab.sql("select count(*) as rows from PATH_RUNS").to_pylist() == [{"rows": 2}]


def test_a_query_computes_the_run_that_it_names_alone(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []

    def compute(relations: dict[str, pa.Table], *rest: Any) -> dict[str, pa.Table]:
        counted.append(relations["cpu"].num_rows)
        return computed(relations, *rest)

    computed = tables.compute_paths
    monkeypatch.setattr(tables, "compute_paths", compute)
    assert len(lab.query("critical_path", run="second")) == 1
    assert counted == [1]


def test_computing_imports_no_pandas(lab: Lab) -> None:
    """Importing it takes longer than a path of a million rows; Arrow's conversions do where it is installed."""
    text = f"""
import sys
from pathlib import Path
from tracelab.client import Lab
lab = Lab(Path({str(lab.store)!r}))
for name in ("critical_path_rows", "what_if"):
    assert lab.query(name, run="second").num_rows
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)


def test_rows_of_paths_are_in_order_without_a_sort(tmp_path: Path) -> None:
    """Of several runs, and more of them than a thread of DuckDB takes at once; SQL that stands alone sorts."""
    query = library.find("critical_path_rows")
    ops = [op(run, 3 * start, 2) for run in ("job-9", "job-10") for start in range(35_000)]
    lab = Lab(build_store(tmp_path / "lab", {"ops": ops}))
    with session.connect(lab.store) as con:
        for answer in (execute.run(con, query, {}), execute.start(con, query, {}).read_all()):
            placed = list(zip(*answer.select(["run", "number"]).to_pydict().values(), strict=True))
            numbers = range(1, 70_000)
            assert placed == [(run, number) for run in ("job-10", "job-9") for number in numbers]
    assert "order by run, number" in execute.render_sql(query, {})


def test_a_session_computes_the_rows_of_a_run_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    computed = tables.compute_paths
    monkeypatch.setattr(tables, "compute_paths", lambda *given: counted.append("run") or computed(*given))
    with sandbox.connect(lab.store) as con:
        for text in ("from path_rows", "from path_runs", "select 1 as path_rows"):
            sandbox.run(con, text)
        assert len(counted) == 2
        computed_tables.forget(con)
        sandbox.run(con, "from path_rows")
    assert len(counted) == 4


def test_the_rows_of_a_session_are_arrows_and_no_names_of_the_shell(lab: Lab) -> None:
    with sandbox.connect(lab.store) as con:
        sandbox.run(con, "from path_rows")
        assert con.execute("from duckdb_tables() where table_name ilike 'path_rows%'").fetchall() == []
        assert [name for name in completion.load_names(con).relations if name.startswith("path_rows")] == ["path_rows"]


def test_the_shell_makes_temporary_tables_of_computed_ones(lab: Lab) -> None:
    with sandbox.connect(lab.store) as con:
        temp_objects.create(con, "create temp table path as select run, dur_ns from path_rows")
        assert sandbox.run(con, "from path order by run").to_pylist() == [
            {"run": "first", "dur_ns": 10},
            {"run": "second", "dur_ns": 30},
        ]


def test_other_clients_are_told_where_the_rows_are(lab: Lab) -> None:
    with duckdb.connect() as con:
        con.execute(session.init_sql(lab.store))
        with pytest.raises(
            duckdb.InvalidInputException, match="tracelab computes path_rows: query it with `tracelab sql`"
        ):
            con.execute("from path_rows")


def test_rows_that_exceed_the_memory_limit_are_refused(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(computed_tables, "_parse_size", lambda _: 500.0)
    with pytest.raises(TracelabError, match=r"path_rows and path_runs of run first take over .* raise the limit"):
        lab.sql("from path_rows")


@pytest.mark.parametrize(
    ("text", "size"), [("12.4 GiB", 12.4 * 2**30), ("500 bytes", 500), ("2.0 GB", 2e9), ("?", float("inf"))]
)
def test_limits_of_memory_are_read_as_duckdb_writes_them(text: str, size: float) -> None:
    assert computed_tables._parse_size(text) == size


def test_a_time_limit_stops_python(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def compute(_relations: object, _params: object, check: Any) -> None:
        while True:
            check()

    monkeypatch.setattr(tables, "compute_paths", compute)
    limited = Lab(lab.store, timeout_s=0.5)
    with pytest.raises(execution.TimeLimitError, match=r"stopped at the time limit of 0\.5 s"):
        limited.sql("from path_rows")


def test_a_time_limit_stops_the_relations_that_are_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (paths, *others) = computations.COMPUTATIONS
    endless = paths.relations | {"steps": "select sum(range * range) as step from range(1_000_000_000_000)"}
    monkeypatch.setattr(computations, "COMPUTATIONS", (dataclasses.replace(paths, relations=endless), *others))
    with pytest.raises(execution.TimeLimitError, match=r"stopped at the time limit of 0\.5 s"):
        Lab(lab.store, timeout_s=0.5).sql("from path_rows")
    monkeypatch.undo()
    assert len(lab.sql("from path_rows").to_pylist()) == 2


def test_an_error_in_one_relation_stops_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    (paths, *others) = computations.COMPUTATIONS
    broken = paths.relations | {
        "steps": "select sum(range * range) as step from range(1_000_000_000_000)",
        "syncs": "select error('no such clock') as kind",
    }
    monkeypatch.setattr(computations, "COMPUTATIONS", (dataclasses.replace(paths, relations=broken), *others))
    with pytest.raises(TracelabError, match="no such clock"):
        lab.sql("from path_rows")


def test_the_schema_describes_computed_tables(lab: Lab) -> None:
    assert "path_rows" in lab.schema().pl()["table"].to_list()
    assert lab.schema("path_runs").pl()["column"].to_list()[:2] == ["run", "step"]
    names = ", ".join(table_lookup.COMPUTED_TABLES)
    rows = lab.sql(f"select {names} from {names} limit 0").arrow()  # a column of each table's rows
    for name, table in table_lookup.COMPUTED_TABLES.items():
        columns = rows.schema.field(name).type.fields
        assert [each.name for each in columns] == [column.name for column in table.view_columns]


def test_a_relation_has_its_numbers_in_few_bytes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of one column differ in their types, and so do the numbers of their texts."""
    read: list[pa.Table] = []

    def compute(relations: dict[str, pa.Table], *_: Any) -> dict[str, pa.Table]:
        read.append(relations["cpu"])
        return {}

    monkeypatch.setattr(tables, "compute_paths", compute)
    rows = """
        select nullif(i % 100, 7)::bigint as few, i * i as many, (i % 300)::varchar as text, null::bigint as none
        from range(250_000) as numbers(i) order by i
    """
    of_path = computations.COMPUTATIONS[0]
    changed = dataclasses.replace(of_path, relations=of_path.relations | {"cpu": rows}, condensed=None)
    with sandbox.connect(lab.store) as con:
        computed_tables.compute_tables(con, changed, "first", changed.params)
    (table,) = read
    assert [str(kind) for kind in table.schema.types] == [
        "int8", "int64", "dictionary<values=string, indices=int16, ordered=0>", "int8",
    ]  # fmt: skip
    assert table.to_pydict() == {
        "few": [None if i % 100 == 7 else i % 100 for i in range(250_000)],
        "many": [i * i for i in range(250_000)],
        "text": [str(i % 300) for i in range(250_000)],
        "none": [None] * 250_000,
    }
