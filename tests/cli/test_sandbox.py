"""The box around analysts' SQL: one test a hole. Each refusal leaves the disk as it was."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from tests.cli.conftest import QUESTION, small_store
from tracelab.client import Lab
from tracelab.errors import TracelabError, UsageError
from tracelab.sql import sandbox


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, `lab`, from which links lead to what it must not give away, in `outside`."""
    folder = tmp_path_factory.mktemp("box")
    small_store(folder / "lab")
    (folder / "outside").mkdir()
    (folder / "outside" / "secret.txt").write_text("secret")
    (folder / "lab" / "way_out").symlink_to(folder / "outside")
    (folder / "lab" / "way_out.txt").symlink_to(folder / "outside" / "secret.txt")
    return folder


@pytest.fixture(scope="module")
def shared(around: Path) -> Iterator[DuckDBPyConnection]:
    with sandbox.connect(around / "lab") as opened:
        yield opened


@pytest.fixture
def con(shared: DuckDBPyConnection, around: Path, monkeypatch: pytest.MonkeyPatch) -> DuckDBPyConnection:
    """A box, of someone who stands outside the store; nothing that is run in it can change it."""
    monkeypatch.chdir(around / "outside")
    return shared


def files(*folders: Path) -> set[Path]:
    return {path for folder in folders for path in folder.rglob("*")}


READS = {
    "select": "select count(*) from kernels",
    "from": "from kernels",
    "values": "values (1), (2)",
    "cte": "with long as (select * from kernels where dur_ns > 9) select name from long",
    "recursive": "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) from n",
    "union": "select 1 union all select 2",
    "trailing semicolon and comment": "select 1; -- done\n",
    "leading comment": "/* é */ -- x\nselect 1",
    "describe": "describe kernels",
    "summarize": "summarize kernels",
    "show": "show tables",
    "explain": "explain select 1",
    "explain analyze": "explain analyze select name, count(*) from kernels group by all",
    "explain options": "explain (format json) select (1) from kernels",
    "explain parenthesis": "explain (select 1)",
    "explain behind a comment": "/* é */ explain/**/analyze--\n select 1",
    "pivot with values": "pivot kernels on device in (0, 1) using sum(dur_ns) group by name",
    "unnest": "select unnest([1, 2])",
    "range": "from range(3)",
    "json": "from json_each('{\"a\": 1}')",
    "query_table": "from query_table('kernels')",
    "window": "select sum(dur_ns) over (order by start_ns) from kernels",
    "catalogue": "select column_name, comment from duckdb_columns() where table_name = 'kernels'",
}


@pytest.mark.parametrize("text", READS.values(), ids=READS)
def test_what_only_reads_runs(con: DuckDBPyConnection, text: str) -> None:
    assert sandbox.run(con, text).num_rows > 0


WRITES = {
    "copy": "copy (select 1) to '{store}/x.csv'",
    "copy outside": "copy (select 1) to '{outside}/x.csv'",
    "copy in a cte": "with x as (copy (select 1) to '{store}/x.csv') from x",
    "copy in a nested cte": "with a as (with x as (copy (select 1) to '{store}/x.csv') from x) from a",
    "copy in a subquery": "select * from (with x as (copy (select 1) to '{store}/x.csv') from x)",
    "copy in a union": "(with x as (copy (select 1) to '{store}/x.csv') from x) union all select 1",
    "copy in a set operation's cte": "with x as (copy (select 1) to '{store}/x.csv') select 1 union all from x",
    "explain analyze copy": "explain analyze copy (select 1) to '{store}/x.csv'",
    "explain analyze copy behind comments": "/* é */ explain/**/analyze--\n copy (select 1) to '{store}/x.csv'",
    "explain (analyze) copy": "explain (analyze) copy (select 1) to '{store}/x.csv'",
    "explain analyze copy in a cte": "explain analyze with x as (copy (select 1) to '{store}/x.csv') from x",
    "explain (analyze) copy in a cte": "explain (analyze) with x as (copy (select 1) to '{store}/x.csv') from x",
    "serialised copy": "from json_execute_serialized_sql(json_serialize_sql("
    "'with x as (copy (select 1) to ''{store}/x.csv'') from x'))",
    "serialised copy, quoted and in capitals": 'from "JSON_EXECUTE_SERIALIZED_SQL"(json_serialize_sql('
    "'with x as (copy (select 1) to ''{store}/x.csv'') from x'))",
    "serialised copy, qualified": "from system.main.json_execute_serialized_sql(json_serialize_sql("
    "'with x as (copy (select 1) to ''{store}/x.csv'') from x'))",
    "serialised copy in query()": "from query('from json_execute_serialized_sql(json_serialize_sql("
    "''with x as (copy (select 1) to ''''{store}/x.csv'''') from x''))')",
    "query()": "from query('select 1')",
    "copy in query()": "from query('copy (select 1) to ''{store}/x.csv''')",
    "two statements": "select 1; copy (select 1) to '{store}/x.csv'",
    "two statements behind a comment": "select 1 /* ; */; -- \n copy (select 1) to '{store}/x.csv'",
    "prepare": "prepare p as copy (select 1) to '{store}/x.csv'",
    "execute": "execute p",
    "export": "export database '{store}/x'",
    "import": "import database '{store}'",
    "attach": "attach '{store}/x.db'",
    "attach sqlite": "attach '{store}/x.db' (type sqlite)",
    "create table": "create table t as select 1",
    "create view": "create or replace view kernels as select 1",
    "create macro": "create macro f() as 1",
    "create secret": "create secret s (type s3)",
    "insert": "insert into kernels values (1)",
    "insert in a cte": "with a as (insert into kernels values (1) returning *) from a",
    "update in a cte": "with a as (update kernels set rank = 1 returning *) from a",
    "delete in a cte": "with a as (delete from kernels returning *) from a",
    "drop": "drop view kernels",
    "set": "set threads = 1",
    "set variable": "set variable x = 1",
    "reset": "reset threads",
    "unlock": "set lock_configuration = false",
    "pragma": "pragma database_list",
    "pragma that sets": "pragma enable_profiling",
    "call": "call pragma_version()",
    "checkpoint": "checkpoint",
    "install": "install httpfs",
    "load": "load httpfs",
    "update extensions": "update extensions",
    "use": "use memory",
    "begin": "begin transaction",
    "vacuum": "vacuum",
    "logging": "from enable_logging(storage = 'file', storage_path = '{store}/log')",
    "profiling": "from enable_profiling(save_location = '{store}/x.json')",
    "external resources": "from register_external_resource_type('a', 'b', 'c', 'd', 'e', 'f', 'g')",
    "pivot without values": "pivot kernels on device using sum(dur_ns)",
    "nothing": "",
    "only a comment": "-- select 1",
    "only semicolons": ";;",
    "no sql": "this is not sql",
    "half a statement": "select 'unclosed",
    "explain of nothing": "explain",
}


@pytest.mark.parametrize("text", WRITES.values(), ids=WRITES)
def test_everything_but_one_select_is_refused(con: DuckDBPyConnection, around: Path, text: str) -> None:
    before = files(around)
    with pytest.raises(UsageError):
        sandbox.run(con, text.replace("{store}", str(around / "lab")).replace("{outside}", str(around / "outside")))
    assert files(around) == before


REACHES = {
    "read_text": "from read_text('{outside}/secret.txt')",
    "read_blob": "from read_blob('{outside}/secret.txt')",
    "read_csv": "from read_csv('{outside}/secret.txt')",
    "read_json": "from read_json('{outside}/secret.txt')",
    "read_parquet": "from read_parquet('{outside}/secret.txt')",
    "a list of files": "from read_text(['{outside}/secret.txt'])",
    "file name": "from '{outside}/secret.txt'",
    "file name of a format": "from '{outside}/secret.csv'",
    "relative": "from read_text('secret.txt')",
    "dots": "from read_text('{store}/../outside/secret.txt')",
    "symlinked file": "from read_text('{store}/way_out.txt')",
    "symlinked folder": "from read_text('{store}/way_out/secret.txt')",
    "glob of a symlinked folder": "from read_text('{store}/way_out/*')",
    "file url": "from read_text('file://{outside}/secret.txt')",
    "glob": "from glob('{outside}/*')",
    "glob of the root": "from glob('/**')",
    "glob of the working directory": "from glob('*')",
    "the working directory's .tmp": "from read_text('.tmp/*')",
    "password file": "from read_text('/etc/passwd')",
    "environment": "from read_blob('/proc/self/environ')",
    "getenv": "select getenv('HOME')",
    "stdin": "from read_text('/dev/stdin')",
    "home": "from read_text('~/.bashrc')",
    "sniff_csv": "from sniff_csv('{outside}/secret.txt')",
    "parquet_metadata": "from parquet_metadata('{outside}/secret.txt')",
    "http": "from read_csv('http://localhost:1/x.csv')",
    "https file name": "from 'https://localhost:1/x.parquet'",
    "s3": "from read_parquet('s3://bucket/x.parquet')",
    "sqlite": "from sqlite_scan('{store}/x', 'y')",
    "another database": "from read_duckdb('{outside}/x.db')",
    "secrets": "from duckdb_secrets()",
    "which_secret": "from which_secret('s3://x', 's3')",
    "extensions": "from duckdb_extensions()",
    "table function by name": "from query_table('pragma_database_list()')",
    "database list": "from pragma_database_list()",
    "a file by query_table": "from query_table('{outside}/secret.txt')",
    "python variable": "from secret",
    "python function": "from python_map_function((select 1), 1)",
    "arrow pointer": "from arrow_scan(1, 2, 3)",
}


@pytest.mark.parametrize("text", REACHES.values(), ids=REACHES)
def test_nothing_outside_the_store_is_reached(con: DuckDBPyConnection, around: Path, text: str) -> None:
    secret = pa.table({"n": [1]})  # noqa: F841  DuckDB could find it by its name
    with pytest.raises(TracelabError):
        sandbox.run(con, text.replace("{store}", str(around / "lab")).replace("{outside}", str(around / "outside")))


def test_what_is_spilled_is_private_and_goes_with_the_session(lab: Path) -> None:
    with sandbox.connect(lab, memory_limit="50MB") as con:
        ((folder,),) = con.sql("select current_setting('temp_directory')").fetchall()
        with sandbox.stream(con, "select distinct repeat('x', 200) || range from range(500000)") as rows:
            assert sum(path.stat().st_size for path in Path(folder).iterdir()) > 1_000_000
            assert sum(batch.num_rows for batch in rows) == 500_000
        assert Path(folder).parent.stat().st_mode & 0o077 == 0
    assert not Path(folder).exists()


def test_the_lock_holds_for_the_connection_itself(con: DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error):
        con.execute("set enable_external_access = true")


def test_a_statement_nested_without_end_is_refused(con: DuckDBPyConnection) -> None:
    with pytest.raises(TracelabError):
        sandbox.run(con, "select " + "(" * 50_000 + "1" + ")" * 50_000)


def test_parameters_without_values_are_named(con: DuckDBPyConnection) -> None:
    with pytest.raises(UsageError, match=r"\$name"):
        sandbox.run(con, "select $name")


def test_a_store_behind_a_symlink_is_read(lab: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(lab)
    with sandbox.connect(link) as con:
        assert sandbox.run(con, "from kernels").num_rows == 3


def test_a_store_whose_name_is_a_pattern_is_read(lab: Path, tmp_path: Path) -> None:
    moved = lab.rename(tmp_path / "l[a]b's *?")
    with sandbox.connect(moved) as con:
        assert sandbox.run(con, "from kernels").num_rows == 3


def test_a_file_of_the_analyst_runs_in_the_box(lab: Path, question: Path) -> None:
    select = QUESTION[QUESTION.index("select run") :]
    copying = f"with x as (copy (select $min_dur_ns, $run) to '{lab}/x.csv') from x"
    question.write_text(QUESTION.replace(select, copying))
    with pytest.raises(UsageError, match="refusing COPY"):
        Lab(lab).query(str(question))
    assert not (lab / "x.csv").exists()


@pytest.mark.parametrize("text", ["from sqlite_scan('a', 'b')", "select st_point(1, 2)"])
def test_advice_that_the_box_refuses_is_not_passed_on(con: DuckDBPyConnection, text: str) -> None:
    with pytest.raises(UsageError, match=r"The sandbox loads no extensions\.$") as raised:
        sandbox.run(con, text)
    assert not {"INSTALL", "LOAD", "SET"} & set(str(raised.value).split())


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        *(
            (text, True)
            for text in ("desc", "desc kernels", " DESC kernels", "/* what */ desc kernels", "explain desc x")
        ),
        *((text, True) for text in ("from (desc kernels)", 'from (desc "a b")', "-- what\ndesc", "select 1; desc")),
        *(
            (text, True)
            for text in ("show tables", "from (describe kernels)", "summarize kernels", "from duckdb_views()")
        ),
        *(
            (f"from kernels order by dur_ns desc{rest}", False)
            for rest in ("", ";", ", name", " nulls last", " limit 3")
        ),
        *((f"select max(n order by n desc) {rest}", False) for rest in ("from kernels", "as descent from kernels")),
        ("(from ops order by dur_ns desc\nlimit 1) union all from ops order by dur_ns desc offset 1", False),
    ],
)
def test_only_what_lists_tables_or_columns_reads_the_catalog(text: str, reads: bool) -> None:
    assert sandbox.reads_catalog(text) is reads
