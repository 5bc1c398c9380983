"""Large answers: written as they are computed, whole or not at all, and within limits of memory and time."""

import csv
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

import tracelab
from tests.peak_memory import run_measured
from tests.traces import write_trace
from tracelab.errors import TracelabError, UsageError
from tracelab.output import writers
from tracelab.sql import sandbox
from tracelab.store import execution

Run = Callable[..., Result]

DATA_FORMATS = ["csv", "csv-spreadsheet", "json", "jsonl", "parquet", "markdown"]
LATE = "case when range = 59999 then error('late') else repeat('x', 1000) end"
FAILS_LATE = f"select {LATE} as n from range(60000)"
ENDLESS = "from range(1000000000000)"
COUNTED_FOR_EVER = "select count(*) from range(100000000000) a, range(1000) b where a.range * b.range % 7 = 3"
QUERY = """-- A row is a number.
-- /// query
-- title = "Numbers"
-- needs = []
-- [columns]
-- n = "A number."
-- ///
select {expression} as n from range({rows})
"""


@pytest.mark.parametrize(("fmt", "size_mb", "most_mb"), [("csv", 250, 290), ("jsonl", 250, 365), ("parquet", 500, 450)])
def test_memory_does_not_grow_with_the_rows(lab: Path, tmp_path: Path, fmt: str, size_mb: int, most_mb: int) -> None:
    """Every format takes some 85 MB less than its limit, and 80 MB more than it where the answer is kept whole."""
    statement = f"select repeat('x', 1000) || range as text from range({size_mb * 1000})"
    path = tmp_path / f"out.{fmt}"
    _, peak_mb = run_measured("-m", "tracelab", "sql", statement, "--store", lab, "-o", path)
    assert peak_mb < most_mb


@pytest.mark.parametrize("fmt", DATA_FORMATS)
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_batches_are_written_as_one_table_is(fmt: str, rows: int) -> None:
    table = pa.table(
        {"n": range(rows), "text": [f"={at}\n" for at in range(rows)], "list": [[at] for at in range(rows)]}
    )
    whole, streamed = io.BytesIO(), io.BytesIO()
    writers.write(table, fmt, whole)
    writers.write(table.to_reader(max_chunksize=2), fmt, streamed)
    if fmt == "parquet":
        assert pq.read_table(streamed) == pq.read_table(whole) == table
    else:
        assert streamed.getvalue() == whole.getvalue()


def test_row_groups_of_parquet_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(writers, "_GROUP_ROWS", 4)
    with (tmp_path / "out.parquet").open("wb") as stream:
        writers.write(pa.table({"n": range(10)}).to_reader(max_chunksize=2), "parquet", stream)
    written = pq.ParquetFile(tmp_path / "out.parquet")
    assert [written.metadata.row_group(at).num_rows for at in range(written.num_row_groups)] == [4, 4, 2]


def test_the_part_of_a_killed_process_is_deleted_by_the_next_one_that_writes_the_file(
    lab: Path, run: Run, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "tracelab", "sql", f"select range {ENDLESS}", "--store", str(lab)]
    endless = [subprocess.Popen([*command, "-o", str(out / name)]) for name in ("a.csv", "a.csv", "b.csv")]
    try:
        deadline = time.monotonic() + 60
        while len(list(out.iterdir())) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        parts = {name: sorted(path.name for path in out.glob(f".{name}.*")) for name in ("a.csv", "b.csv")}
        assert {name: len(found) for name, found in parts.items()} == {"a.csv": 2, "b.csv": 1}
        for process in endless:
            process.send_signal(signal.SIGSTOP)  # what is stopped still writes the file, and takes no time
        endless[0].kill()
        endless[2].kill()
        endless[0].wait()
        endless[2].wait()
        (out / ".a.csv.notes").touch()
        assert run("sql", "select 1 as n", "-o", out / "a.csv").exit_code == 0
        left = {path.name for path in out.iterdir()}
        assert len(left & set(parts["a.csv"])) == 1  # of the process that is still writing
        assert left - set(parts["a.csv"]) == {"a.csv", ".a.csv.notes", *parts["b.csv"]}
    finally:
        for process in endless:
            process.kill()
            process.wait()
    assert run("sql", "select 1 as n", "-o", out / "a.csv", "--force").exit_code == 0
    assert {path.name for path in out.iterdir()} == {"a.csv", ".a.csv.notes", *parts["b.csv"]}


@pytest.mark.parametrize("fmt", ["csv", "json", "parquet"])
def test_a_statement_that_fails_late_leaves_no_file(run: Run, tmp_path: Path, fmt: str) -> None:
    result = run("sql", FAILS_LATE, "--format", fmt, "-o", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (1, "tracelab: Invalid Input Error: late\n")
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_a_statement_that_fails_late_in_a_pipe_exits_with_1(run: Run) -> None:
    result = run("sql", FAILS_LATE)
    assert (result.exit_code, result.stderr) == (1, "tracelab: Invalid Input Error: late\n")


def test_a_query_file_that_fails_late_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "numbers.sql"
    path.write_text(QUERY.format(expression=LATE, rows=60_000))
    result = run("query", path, "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (1, f"tracelab: {path}: Invalid Input Error: late\n")
    assert not (tmp_path / "out.csv").exists()


def test_a_late_error_of_duckdb_has_its_class() -> None:
    with duckdb.connect() as con:
        late = "case when range = 1999999 then 'x' else '1' end"
        answer = execution.start_relation(con.sql(f"select ({late})::int as n from range(2000000)"))
        with pytest.raises(duckdb.ConversionException, match="Could not convert string 'x'"):
            answer.read_all()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_session_is_free_again_after_an_answer_that_was_not_read_to_its_end(
    lab: Path, error: type[BaseException]
) -> None:
    with sandbox.connect(lab) as con:
        with pytest.raises(error), sandbox.stream(con, ENDLESS) as rows:
            assert next(rows).num_rows > 0
            raise error
        with pytest.raises(TracelabError, match="late"):
            sandbox.run(con, FAILS_LATE)
        with pytest.raises(TracelabError, match="time limit"), sandbox.stream(con, ENDLESS, timeout_s=0.1) as rows:
            rows.read_all()
        assert sandbox.run(con, "select 6 * 7 as n").to_pylist() == [{"n": 42}]


@pytest.mark.parametrize("begins", [True, False])
def test_ctrl_c_while_the_thread_of_a_statement_starts_leaves_the_session_free(
    lab: Path, monkeypatch: pytest.MonkeyPatch, *, begins: bool
) -> None:
    start = threading.Thread.start

    def interrupted_start(thread: threading.Thread) -> None:
        if begins:
            start(thread)
        raise KeyboardInterrupt

    with sandbox.connect(lab) as con:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", interrupted_start)
            with pytest.raises(KeyboardInterrupt):
                execution.run_interruptible(con, lambda: con.execute(ENDLESS).fetchall())
        assert con.execute("select 6 * 7").fetchall() == [(42,)]


def interrupted(lab: Path, arguments: list[str], number: int, *, shell: str = 'exec "$@"') -> tuple[int, str]:
    """Start a command that writes into the folder of the store, and signal it when its hidden file has bytes."""
    temporary = lab.parent / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        ["sh", "-c", shell, "sh", sys.executable, "-m", "tracelab", *arguments],
        cwd=lab.parent,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TRACELAB_STORE": str(lab), "TMPDIR": str(temporary)},
    )
    end = time.monotonic() + 60
    while not any(path.stat().st_size for path in lab.parent.glob(".out.*")) and time.monotonic() < end:
        time.sleep(0.01)
    assert [path.name.startswith("tracelab-") for path in temporary.iterdir()] == [True]
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert list(temporary.iterdir()) == []
    temporary.rmdir()
    return process.returncode, stderr


def test_ctrl_c_leaves_no_file(lab: Path) -> None:
    ended = interrupted(lab, ["sql", ENDLESS, "-o", "out.csv"], signal.SIGINT)
    assert ended == (130, "tracelab: interrupted\n")
    assert [path.name for path in lab.parent.iterdir()] == ["lab"]


@pytest.mark.parametrize("shell", ['exec "$@"', 'trap "" INT; exec "$@"'])
def test_sigterm_leaves_no_file_also_where_sigint_is_ignored(lab: Path, shell: str) -> None:
    ended = interrupted(lab, ["sql", ENDLESS, "-o", "out.parquet"], signal.SIGTERM, shell=shell)
    assert ended == (128 + signal.SIGTERM, "")
    assert [path.name for path in lab.parent.iterdir()] == ["lab"]


def test_sigterm_ends_an_ingest_and_its_staging_folder(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "rank0.json", kernels=1)
    head, event = trace.read_text().removesuffix("]}").split("[", 1)
    trace.write_text(f"{head}[{','.join([event] * 400_000)}]}}")
    process = subprocess.Popen(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "tracelab", "ingest", str(trace)],
        cwd=tmp_path,
        env=os.environ | {"TRACELAB_STORE": str(tmp_path / "lab")},
    )
    end = time.monotonic() + 60
    staging = tmp_path / "lab" / ".staging"
    while not any(path.is_dir() for path in staging.glob("*")) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert list(staging.iterdir()) == []
    committed = {path.name for path in tmp_path.glob("lab/sources/*/*.parquet")}  # a reader may have been at its end
    assert {path.name for path in tmp_path.glob("lab/*/run=*/*.parquet")} == committed


@pytest.mark.parametrize("statement", [COUNTED_FOR_EVER, ENDLESS])
def test_the_time_limit_stops_a_statement_in_one_sentence(run: Run, tmp_path: Path, statement: str) -> None:
    began = time.monotonic()
    result = run("sql", statement, "--timeout", 0.3, "-o", tmp_path / "out.csv")
    assert (result.exit_code, result.stderr) == (
        1,
        "tracelab: stopped at the time limit of 0.3 s; raise it (--timeout), or select less\n",
    )
    assert time.monotonic() - began < 10
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_the_time_limit_stops_a_query(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "numbers.sql"
    path.write_text(QUERY.format(expression="range", rows=10**12))
    result = run("query", path, "--timeout", 0.3)
    assert (result.exit_code, result.stderr.startswith("tracelab: stopped at the time limit of 0.3 s")) == (1, True)


def test_a_statement_within_its_time_limit_is_answered(run: Run) -> None:
    assert run("sql", "select 42 as n", "--timeout", 60).stdout == "n\n42\n"


@pytest.mark.parametrize("arguments", [["--timeout", "0"], ["--timeout", "soon"], ["--memory-limit", "much"]])
def test_a_limit_that_is_none_is_refused(run: Run, arguments: list[str]) -> None:
    assert run("sql", "select 1", *arguments).exit_code == 2


@pytest.mark.parametrize("command", [["sql", "select 1"], ["query", "kernel_summary"]])
@pytest.mark.parametrize("limit", ["nan", "inf", "1e400", "1e15", "0", "-1"])
def test_a_wrong_time_limit_is_one_sentence(run: Run, lab: Path, command: list[str], limit: str) -> None:
    message = f"{float(limit)!r} is not a time limit; write a number of seconds above 0, of at most 31,536,000"
    result = run(*command, "--timeout", limit)
    assert (result.exit_code, result.stderr) == (2, f"tracelab: {message}\n")
    with pytest.raises(UsageError, match="is not a time limit"):
        tracelab.open(lab, timeout_s=float(limit))


@pytest.mark.parametrize("size", ["100", "2XB", "-1GB", "GB", "80%", "none", ""])
def test_a_wrong_size_of_memory_is_one_sentence(run: Run, size: str) -> None:
    assert run("sql", "select 1", "--memory-limit", size).stderr == (
        f"tracelab: {size!r} is not a size of memory; write a number and a unit, such as 500MB or 2GB\n"
    )


def test_the_memory_limit_is_that_of_the_session(run: Run, tmp_path: Path) -> None:
    shown = "current_setting('memory_limit')"
    path = tmp_path / "numbers.sql"
    path.write_text(QUERY.format(expression=shown, rows=1))
    assert run("sql", f"select {shown} as n", "--memory-limit", "512MiB").stdout == 'n\n"512.0 MiB"\n'
    assert run("query", path, "--memory-limit", "512 mib").stdout == 'n\n"512.0 MiB"\n'
    assert run("query", "--memory-limit", "512MiB", path).stdout == 'n\n"512.0 MiB"\n'


def test_a_query_of_the_library_has_the_limits_too(run: Run) -> None:
    result = run("query", "kernel_summary", "--memory-limit", "1KB")
    assert (result.exit_code, "raise the limit (--memory-limit)" in result.stderr) == (1, True)


def test_a_statement_that_needs_more_memory_fails_in_one_sentence(run: Run) -> None:
    result = run("sql", "select list(repeat('x', 1000) || range) from range(200000)", "--memory-limit", "50MB")
    assert result.exit_code == 1
    assert result.stderr.startswith("tracelab: Out of Memory Error: ")
    assert result.stderr.endswith("; raise the limit (--memory-limit), or select less\n")
    assert len(result.stderr.splitlines()) == 1


def test_the_python_client_has_the_same_limits(lab: Path) -> None:
    limited = tracelab.open(lab, memory_limit="512MiB", timeout_s=0.3)
    assert limited.sql("select current_setting('memory_limit') as n").to_pylist() == [{"n": "512.0 MiB"}]
    with pytest.raises(TracelabError, match=r"stopped at the time limit of 0\.3 s"):
        limited.sql(COUNTED_FOR_EVER)
    with pytest.raises(UsageError, match="'much' is not a size of memory"):
        tracelab.open(lab, memory_limit="much").query("kernel_summary")


def test_spreadsheets_run_no_text_as_a_formula(run: Run) -> None:
    texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "a=1", "'=1", "", "1"]
    values = ", ".join(f"(decode(unhex('{text.encode().hex()}')), {at - 5})" for at, text in enumerate(texts))
    statement = f"select a, n, [a] as list from (values {values}) as t(a, n)"
    exact = list(csv.reader(io.StringIO(run("sql", statement).stdout, newline="")))
    safe = list(csv.reader(io.StringIO(run("sql", statement, "--format", "csv-spreadsheet").stdout, newline="")))
    assert [row[0] for row in exact[1:]] == texts
    assert [row[0] for row in safe[1:]] == ["'" + text for text in texts[:7]] + texts[7:]
    assert [row[1:] for row in safe] == [row[1:] for row in exact]  # numbers stay numbers


def test_the_name_of_a_column_is_no_formula_either(run: Run) -> None:
    assert run("sql", 'select 1 as "=cmd"', "--format", "csv-spreadsheet").stdout == "'=cmd\n1\n"
