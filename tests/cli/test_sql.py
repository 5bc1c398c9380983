"""`tracelab sql`: statements from the command line and from stdin, in every format."""

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.cli.conftest import HOSTILE

Run = Callable[..., Result]

EXACT = 2**53 + 1  # no double holds it
ALL = "select name, device, stream, dur_ns from kernels order by dur_ns desc"


def test_a_statement_is_answered_as_csv_in_a_pipe(run: Run) -> None:
    assert run("sql", "select dur_ns from kernels order by 1").stdout == f"dur_ns\n1\n1500\n{EXACT}\n"


def test_a_dash_reads_the_statement_from_stdin(run: Run) -> None:
    assert run("sql", "-", input="select 1 as one").stdout == "one\n1\n"


def test_json_is_an_array_of_objects_with_exact_integers_and_nulls(run: Run) -> None:
    rows = json.loads(run("sql", ALL, "--format", "json").stdout, parse_float=pytest.fail)
    assert rows[0] == {"name": "gemm", "device": 0, "stream": 7, "dur_ns": EXACT}
    assert rows[2] == {"name": "", "device": 1, "stream": None, "dur_ns": 1}


def test_jsonl_is_an_object_a_line(run: Run) -> None:
    lines = run("sql", ALL, "--format", "jsonl").stdout.splitlines()
    assert json.loads(lines[1])["name"] == HOSTILE
    assert len(lines) == 3


def test_an_answer_without_rows_is_an_empty_array(run: Run) -> None:
    assert json.loads(run("sql", "from kernels where false", "--format", "json").stdout) == []


def test_csv_keeps_hostile_names_and_distinguishes_null_from_empty(run: Run) -> None:
    text = run("sql", "select name, stream from kernels order by dur_ns", "--format", "csv").stdout
    assert list(csv.reader(io.StringIO(text)))[1:] == [["", ""], [HOSTILE, "7"], ["gemm", "7"]]
    assert text.splitlines()[1] == '"",'  # an empty text is quoted, a NULL is not


def test_parquet_goes_through_a_pipe(run: Run) -> None:
    table = pq.read_table(io.BytesIO(run("sql", ALL, "--format", "parquet").stdout_bytes))
    assert table.column("dur_ns").to_pylist() == [EXACT, 1500, 1]


def test_markdown_escapes_markup(run: Run) -> None:
    text = run("sql", ALL, "--format", "markdown").stdout
    assert f"| gemm | 0 | 7 | {EXACT} |" in text
    assert r"\$x\$ &lt;script&gt;\|\`\*\_\\n\\x1b\[2J核" in text


def test_a_table_prints_no_control_character(run: Run) -> None:
    text = run("sql", ALL, "--format", "table").stdout
    assert "\x1b" not in text
    assert r"\n\x1b[2J" in text


def test_a_table_shows_readable_durations(run: Run) -> None:
    assert "1.500 µs" in run("sql", ALL, "--format", "table").stdout


def test_columns_of_one_name_are_all_kept(run: Run) -> None:
    assert json.loads(run("sql", "select 1 as a, 2 as a", "--format", "jsonl").stdout) in (
        {"a": 1, "a_2": 2},
        {"a": 1, "a_1": 2},
        {"a": 1, "a:1": 2},
    )


def test_values_json_has_no_form_for_are_null(run: Run) -> None:
    statement = "select 'nan'::double as a, 'inf'::double as b, 1.5 as c, 170141183460469231731687303715884105727 as d"
    text = run("sql", statement, "--format", "jsonl").stdout
    assert json.loads(text) == {"a": None, "b": None, "c": 1.5, "d": 2**127 - 1}


def test_decimals_are_exact(run: Run) -> None:
    statement = "select 1.10::decimal(5, 2) as a, 12345678901234567890.0123456789 as b, [0.10] as c, {'d': 2.50} as e"
    exact = '{"a": 1.10, "b": 12345678901234567890.0123456789, "c": [0.10], "e": {"d": 2.50}}\n'
    assert run("sql", statement, "--format", "jsonl").stdout == exact
    csv_text = 'a,b,c,e\n1.10,12345678901234567890.0123456789,"[0.10]","{""d"": 2.50}"\n'
    assert run("sql", statement, "--format", "csv").stdout == csv_text


def test_what_is_no_number_is_empty_in_csv(run: Run) -> None:
    statement = "select 'nan'::double as a, '-inf'::float as b, 0.5::double as c, null::double as d"
    assert run("sql", statement, "--format", "csv").stdout == "a,b,c,d\n,,0.5,\n"


@pytest.mark.parametrize("fmt", ["jsonl", "csv", "markdown", "table"])
def test_times_are_text_in_every_format(run: Run, fmt: str) -> None:
    texts = {
        "interval '14 months 3 days 1.5 seconds'": "P14M3DT1.5S",
        "interval '-2 hours'": "P0M0DT-7200S",
        "'2024-01-01 00:00:00.123456789'::timestamp_ns": "2024-01-01 00:00:00.123456789",
        "'20240-01-01'::date": "20240-01-01",
    }
    columns = ", ".join(f"{value} as c{place}" for place, value in enumerate(texts))
    written = run("sql", f"select {columns}", "--format", fmt).stdout
    assert [text for text in texts.values() if text not in written] == []


@pytest.mark.parametrize("suffix", ["csv", "json", "jsonl", "md", "txt", "parquet"])
def test_a_file_gets_the_format_of_its_suffix(run: Run, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"out.{suffix}"
    result = run("sql", "select 1 as one", "-o", path)
    assert result.stdout == ""
    assert result.stderr == f"Wrote {path}\n"
    readers = {"csv": "read_csv", "json": "read_json", "jsonl": "read_json", "parquet": "read_parquet"}
    if suffix in readers:
        assert duckdb.sql(f"from {readers[suffix]}('{path}')").fetchall() == [(1,)]


def test_a_file_is_not_overwritten(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    result = run("sql", "select 1", "-o", path)
    assert (result.exit_code, path.read_text()) == (1, "mine")
    assert result.stderr == f"tracelab: {path} exists; add --force to overwrite it\n"


def test_force_overwrites(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    path.write_text("mine")
    assert run("sql", "select 1 as one", "-o", path, "--force").exit_code == 0
    assert path.read_text() == "one\n1\n"


def test_a_failing_statement_leaves_no_file(run: Run, tmp_path: Path) -> None:
    assert run("sql", "select error('no')", "-o", tmp_path / "out.csv").exit_code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["from kernel"], 2, "kernel"),
        (["selct 1"], 2, "selct"),
        (["copy (select 1) to 'x.csv'"], 2, "refusing COPY"),
        (["select error('no')"], 1, "no"),
        (["-"], 2, "no statement on stdin"),
        (["select 1", "-o", "out.xyz"], 2, "no format has this suffix"),
        (["select 1", "-o", "no_folder/out.csv"], 1, "no writable folder"),
        (["select 1", "-o", "/dev/null", "--force", "--format", "csv"], 1, "not a regular file"),
        (["select 1", "--init"], 2, "takes no statement"),
        (["select 1", "--formt", "csv"], 2, "--format"),
        (["select 1", "--store", "elsewhere"], 3, "elsewhere"),
        (["--init", "--store", "elsewhere"], 3, "elsewhere"),
    ],
)
def test_what_cannot_be_done_is_reported_in_one_line(run: Run, arguments: list[str], code: int, said: str) -> None:
    result = run("sql", *arguments)
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr


def test_a_type_that_parquet_lacks_is_one_sentence_and_no_file(run: Run, tmp_path: Path) -> None:
    result = run("sql", "select interval 1 day as a", "-o", tmp_path / "out.parquet")
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert result.stderr.startswith("tracelab: parquet has no form for a value of this answer (")
    assert [path.name for path in tmp_path.iterdir()] == ["lab"]


def test_init_gives_another_client_the_same_views(run: Run) -> None:
    con = duckdb.connect()
    con.execute(run("sql", "--init").stdout)
    assert con.sql("select sum(dur_ns) from kernels").fetchall() == [(EXACT + 1501,)]


def test_a_closed_pipe_is_no_error_to_read(lab: Path) -> None:
    command = f"{sys.executable} -m tracelab sql 'from range(3000000)' --store '{lab}' | head -n 2"
    piped = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True)
    assert (piped.stdout, piped.stderr) == ("range\n0\n", "")


def test_ctrl_c_ends_with_130(lab: Path) -> None:
    endless = "select 'go', count(*) from range(100000000000) a, range(1000) b where a.range * b.range % 7 = 3"
    script = (
        "import os, signal, threading; from tracelab.cli import main\n"
        "threading.Timer(3, os.kill, [os.getpid(), signal.SIGINT]).start()\n"
        f"main(['sql', {endless!r}, '--store', {str(lab)!r}])"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "tracelab: interrupted\n")


@pytest.mark.parametrize("arguments", [["--help"], ["sql", "select 1"], ["sql", "from range(100000)"], ["schema"]])
def test_a_full_disk_behind_stdout_is_reported(lab: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tracelab", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
            env=os.environ | {"TRACELAB_STORE": str(lab)},
        )
    assert (done.returncode, done.stderr) == (
        1,
        "tracelab: the output cannot be written: No space left on device\n",
    )


def test_a_folder_that_takes_no_file_is_reported(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr("tracelab.output.writers.write", refused)
    result = run("sql", "select 1", "-o", tmp_path / "x.csv")
    assert (result.exit_code, result.stderr) == (
        1,
        f"tracelab: {tmp_path / 'x.csv'} is not writable: Permission denied\n",
    )


@pytest.mark.usefixtures("modes_bind")
def test_a_folder_that_may_not_be_written_is_reported_before_the_work(run: Run, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    result = run("sql", "select error('asked')", "-o", closed / "x.csv")
    assert (result.exit_code, "no writable folder" in result.stderr) == (1, True)


def test_stdin_is_utf_8_whatever_the_locale(run: Run) -> None:
    assert run("sql", "-", input="select 'é' as a".encode("latin-1")).stderr == (
        "tracelab: stdin is not valid UTF-8 at byte 8\n"
    )


def test_a_statement_of_undecodable_bytes_is_refused(run: Run) -> None:
    result = run("sql", "select '\udce9'")
    assert (result.exit_code, "not valid UTF-8" in result.stderr) == (2, True)


def test_a_pipe_gets_a_table_as_wide_as_columns_states(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    statement = ("sql", "select repeat('x', 200) as name, 1 as n", "--format", "table")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, run(*statement).stdout.splitlines())) > 200
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, run(*statement).stdout.splitlines())) <= 50
