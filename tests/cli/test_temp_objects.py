"""CREATE TEMP at the prompt: what it lets through, and each way around it that is closed."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tracelab.errors import TracelabError, UsageError
from tracelab.sql import sandbox, temp_objects


@pytest.fixture
def lab(opened_lab: tuple[Path, duckdb.DuckDBPyConnection]) -> Path:
    return opened_lab[0]


@pytest.fixture
def con(opened_lab: tuple[Path, duckdb.DuckDBPyConnection]) -> Iterator[duckdb.DuckDBPyConnection]:
    with opened_lab[1].cursor() as cursor:
        yield cursor


@pytest.mark.parametrize(
    ("text", "asked", "answer"),
    [
        ("create temp table t as select 40 + 2 as n", "from t", 42),
        ("create or replace temporary table t(n) as (select 42);", "from t", 42),
        ("create temp table if not exists t as from range(42, 43); -- done", "from t", 42),
        ("create temp view v as select count(*) as n from kernels", "from v", 3),
        ('create temp view "as" as select 42 as n', 'from "as"', 42),
        ("create temp view é as select 42 as n", "from é", 42),
        ("/* é */ create temp macro plus(a, b := 2) as a + b -- done", "select plus(40)", 42),
        ("create temp macro nothing() as 42", "select nothing()", 42),
        ("create temp function most(a) as (select max(dur_ns) + a from kernels)", "select most(1)", 2**53 + 2),
        ("create temp macro long(ns) as table select count(*) from kernels where dur_ns > ns", "from long(1)", 2),
    ],
)
def test_what_it_makes_can_be_queried(con: duckdb.DuckDBPyConnection, text: str, asked: str, answer: int) -> None:
    temp_objects.create(con, text)
    assert sandbox.run(con, asked).column(0).to_pylist() == [answer]


def test_it_can_be_replaced(con: duckdb.DuckDBPyConnection) -> None:
    temp_objects.create(con, "create temp table t as select 1")
    temp_objects.create(con, "create or replace temp table t as select 2")
    assert sandbox.run(con, "from t").column(0).to_pylist() == [2]


REFUSED = {
    "not temporary": "create table t as select 1",
    "not a view": "create view v as select 1",
    "not a macro": "create macro f() as 1",
    "a table without rows": "create temp table t (a integer)",
    "a generated column": "create temp table t (a integer, b integer as (a + 1))",
    "a sequence": "create temp sequence s",
    "a type": "create temp type t as enum ('a')",
    "a secret": "create temp secret s (type s3)",
    "a schema": "create schema s",
    "an index": "create index i on t (a)",
    "another schema's name": "create temp table main.t as select 1",
    "copy in a table": "create temp table t as with x as (copy (select 1) to '{store}/x.csv') from x",
    "copy in a view": "create temp view v as with x as (copy (select 1) to '{store}/x.csv') from x",
    "copy in a macro": "create temp macro f() as (with x as (copy (select 1) to '{store}/x.csv') select 1 from x)",
    "copy in a table macro": "create temp macro f() as table with x as (copy (select 1) to '{store}/x.csv') from x",
    "a serialised copy": "create temp table t as from json_execute_serialized_sql(json_serialize_sql("
    "'with x as (copy (select 1) to ''{store}/x.csv'') from x'))",
    "a serialised copy in a macro": "create temp macro f() as (select count(*) from query('select 1'))",
    "a default that is a statement": "create temp macro f(a := (from query('select 1'))) as a",
    "a default with as": "create temp macro f(a := (with x as (copy (select 1) to '{store}/x.csv') select 1)) as a",
    "a second body": "create temp macro f(a) as a, (a, b) as (select count(*) from query('select 1'))",
    "an insert": "create temp table t as insert into kernels values (1) returning *",
    "two statements": "create temp table t as select 1; copy (select 1) to '{store}/x.csv'",
    "a file": "create temp table t as from '/etc/passwd'",
    "another verb": "attach temp table t as select 1",
    "explain analyze": "explain analyze create temp table t as select 1",
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused(con: duckdb.DuckDBPyConnection, lab: Path, text: str) -> None:
    before = set(lab.rglob("*"))
    with pytest.raises(TracelabError):
        temp_objects.create(con, text.replace("{store}", str(lab)))
    assert set(lab.rglob("*")) == before
    assert con.sql("select count(*) from duckdb_tables()").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "name", ["kernels", "KERNELS", '"kernels"', "gpu_activity", "busy", "count", "json_serialize_sql"]
)
def test_a_name_that_means_something_already_is_refused(con: duckdb.DuckDBPyConnection, name: str) -> None:
    with pytest.raises(UsageError, match="is already a name in tracelab or DuckDB; choose another"):
        temp_objects.create(con, f"create temp macro {name}(a) as a")


def test_the_check_listens_to_no_temporary_macro(con: duckdb.DuckDBPyConnection, lab: Path) -> None:
    con.execute("""create temp macro json_serialize_sql(a) as '{"error": false, "statements": []}'""").fetchall()
    con.execute("create temp macro duckdb_functions() as table select 'x' as function_name where false").fetchall()
    with pytest.raises(UsageError, match="refusing COPY"):
        sandbox.run(con, f"with x as (copy (select 1) to '{lab}/x.csv') from x")
    assert not (lab / "x.csv").exists()
