"""The command line as a whole: what it imports, how it spells, how it exits, schema and completion."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import tracelab
from tests.readers.small import kernel
from tests.traces import write_trace
from tracelab import schema, table_lookup
from tracelab.cli import COMMANDS, main

Run = Callable[..., Result]

HEAVY = {"duckdb", "pyarrow", "polars", "matplotlib", "numpy", "rich", "isal", "torch", "prompt_toolkit", "pygments"}


def imported(arguments: list[str]) -> set[str]:
    """The packages that a command has imported at its end."""
    script = f"""
import sys
from tracelab.cli import main
try:
    main({arguments!r})
except SystemExit:
    pass
print(*sys.modules, sep="\\n", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    return {name.split(".")[0] for name in done.stderr.splitlines()}


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["misspelt"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(arguments) & HEAVY == set()


def test_to_read_a_trace_imports_nothing_that_only_other_readers_need(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "a.json", kernels=1)
    packages = imported(["ingest", str(trace), "--store", str(tmp_path / "lab")])
    assert packages & {"duckdb", "polars", "adbc_driver_manager", "torch"} == {"duckdb"}


def test_version() -> None:
    assert CliRunner().invoke(main, ["--version"], prog_name="tracelab").output == f"tracelab {tracelab.__version__}\n"


def test_alone_it_shows_its_help() -> None:
    result = CliRunner().invoke(main, [])
    assert (result.exit_code, all(name in result.output for name in COMMANDS)) == (2, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_and_ends_with_examples(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    examples = result.output[result.output.rindex("Examples:") :].splitlines()[1:]
    assert len(examples) >= 2
    assert all("tracelab" in line for line in examples)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name: str) -> None:
    context = click.Context(main)
    command = main.get_command(context, name)
    assert command is not None
    assert [param.name for param in command.params if isinstance(param, click.Option) and not param.help] == []


def test_help_is_printed_where_the_encoding_lacks_its_characters() -> None:
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "latin-1"}
    command = [sys.executable, "-m", "tracelab", "query", "--help"]
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr, b"[PARAMETERS]?" in done.stdout) == (0, b"", True)


def test_a_misspelt_verb_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(main, ["qurey"])
    assert (result.exit_code, "did you mean 'query'?" in result.stderr) == (2, True)


def test_schema_names_every_table(run: Run) -> None:
    listed = [line.split(",")[0].strip('"') for line in run("schema").stdout.splitlines()[1:]]
    assert listed == [table.name for table in schema.TABLES] + list(table_lookup.COMPUTED_TABLES)


def test_schema_of_a_table_names_every_column(run: Run) -> None:
    listed = [line.split(",")[0].strip('"') for line in run("schema", "kernels").stdout.splitlines()[1:]]
    assert listed == [column.name for column in schema.BY_NAME["kernels"].view_columns]


def test_schema_cuts_no_sentence(run: Run) -> None:
    text = " ".join(run("schema", "memcpys", "--format", "table").stdout.split())
    assert all(" ".join(column.doc.split()) in text for column in schema.BY_NAME["memcpys"].view_columns)


def test_schema_knows_near_names(run: Run) -> None:
    result = run("schema", "kernel")
    assert (result.exit_code, result.stderr) == (2, "tracelab: no table 'kernel'; did you mean 'kernels'?\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_prints_a_script(run: Run, shell: str) -> None:
    assert "_TRACELAB_COMPLETE" in run("completion", shell).stdout


def test_queries_are_completed() -> None:
    asked = {"_TRACELAB_COMPLETE": "bash_complete", "COMP_WORDS": "tracelab query kernel_su", "COMP_CWORD": "2"}
    command = [sys.executable, "-c", "from tracelab.cli import main; main(prog_name='tracelab')"]
    done = subprocess.run(command, capture_output=True, check=False, text=True, env=os.environ | asked)
    assert done.stdout == "plain,kernel_summary\n"


def on_a_terminal(*args: str, columns: int = 60, **environment: str) -> str:
    """What the command prints when stdout is a terminal."""
    reading, writing = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"COLUMNS": str(columns), "TERM": "xterm"} | environment
    command = [sys.executable, "-m", "tracelab", *args]
    process = subprocess.Popen(command, stdout=writing, stderr=writing, stdin=writing, env=variables)
    os.close(writing)
    text = b""
    while True:
        try:
            part = os.read(reading, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        text += part
    process.wait()
    os.close(reading)
    return text.decode()


def test_a_terminal_gets_a_table_of_its_width(lab: Path) -> None:
    text = on_a_terminal("sql", "select name, dur_ns from kernels", "--store", str(lab))
    lines = re.sub(r"\x1b\[\d+m", "", text).splitlines()
    assert lines[1].startswith("──")
    assert max(map(len, lines)) <= 60


def test_no_color_is_respected(lab: Path) -> None:
    arguments = ("sql", "select 1 as one", "--store", str(lab))
    assert "\x1b[" in on_a_terminal(*arguments)
    assert "\x1b[" not in on_a_terminal(*arguments, NO_COLOR="1")


def test_parquet_is_refused_on_a_terminal(lab: Path) -> None:
    text = on_a_terminal("sql", "select 1", "--format", "parquet", "--store", str(lab))
    assert "refusing to write binary Parquet to a terminal" in text


def test_python_runs_the_same(lab: Path, question: Path) -> None:
    opened = tracelab.open(lab)
    assert opened.query(str(question), min_dur_ns=1501).arrow().column("kernel").to_pylist() == ["gemm"]
    assert opened.sql("select count(*) as n from kernels").to_pylist() == [{"n": 3}]


def test_the_store_of_the_environment_is_the_default(run: Run) -> None:
    assert run("sql", "select count(*) as n from kernels").stdout == "n\n3\n"


def test_ranks_assumed_of_several_files_are_reported_in_one_line(run: Run, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": [kernel(name)]}))
    told = run("ingest", tmp_path / "a.json", tmp_path / "b.json", "--store", tmp_path / "lab").stderr
    (line,) = (line for line in told.splitlines() if line.startswith("info"))
    assert (
        line == "info: no rank in 2 files or their names; assuming 0 for each. "
        "Put the rank into the file name, such as rank-3.json."
    )


def test_ingest_names_each_run_once(run: Run, tmp_path: Path) -> None:
    for folder in ("job", "mixed"):
        (tmp_path / folder).mkdir()
    for rank in range(2):
        write_trace(tmp_path / "job" / f"rank{rank}.json", kernels=8, rank=rank)
    write_trace(tmp_path / "mixed" / "a.json", kernels=9)
    write_trace(tmp_path / "mixed" / "b.json", kernels=10, first_us=1_600_000_000_000_000)
    lines = run("ingest", tmp_path / "job", tmp_path / "mixed", "--store", tmp_path / "lab").stderr.splitlines()
    assert [line for line in lines if "job" in line] == ["job: 2 files; 16 kernels"]
    several = f"{tmp_path / 'mixed'}: 2 files, 2 runs, because not all are ranks recorded together"
    assert [line for line in lines if "mixed" in line] == [several]


def test_a_folder_without_files_is_named_with_what_is_expected(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty" / "deeper").mkdir(parents=True)
    result = run("ingest", tmp_path / "empty", "--store", tmp_path / "lab")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"{tmp_path / 'empty'}: no file to read; expected a file that `tracelab collect`")


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "kernel_summary"),
        ("query", "memcpy_throughput"),
        ("export", "-o", "x.json"),
        ("doctor",),
        ("report", "-o", "x.html"),
    ],
)
def test_an_unknown_run_is_the_same_sentence_everywhere(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "--run", "2024-01-06")
    sentence = "tracelab: the store has no run '2024-01-06'; nearest: 2024-01-05\n"
    assert (result.exit_code, result.stderr) == (3, sentence)


def test_a_file_without_events_reports_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"traceEvents": []}')
    told = run("ingest", tmp_path / "a.json", "--store", tmp_path / "lab").stderr
    assert "a: a.json; no events\n" in told
    assert "  warning: The trace has no events: the profiler recorded nothing. Do the work while" in told
    assert "1 without events: 0 events kept, none skipped" in told


def test_a_command_whose_standard_streams_are_closed_works(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracelab", "collect", "run", "--profiler", "none", "--sample-s", "0"]
    command += ["--out", str(tmp_path), "--run", "r", "--", "sh", "-c", "echo out; echo error >&2"]
    closed = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>"$0"', str(tmp_path / "errors"), *command], check=False)
    lines = (tmp_path / "errors").read_text().splitlines()
    assert (closed.returncode, lines[1]) == (0, "error")
    assert lines[2] == f"tracelab: {tmp_path / 'r'}: ok; next: tracelab ingest {tmp_path / 'r'}"
