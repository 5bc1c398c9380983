"""No command passes terminal commands from files, file names, or query files to a terminal."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import kernel, trace
from tests.report.few_queries import report_only
from tracelab import foreign_text
from tracelab.cli import main

pty = pytest.importorskip("pty")

COMMANDS = ("\x1b]0;PWN", "\x1b[2J", "\x07", "\u202e", "\x9b")
"""Set a title, clear the screen, ring, reverse what follows, the one-character form of ESC [."""

NAME = "".join(COMMANDS) + "\nnext"
PATH = "PWN\x1b]0;PWN\x1b[2J\x07\u202e\nrank0.json"
DAMAGED = '{"ph":"X","cat":"cpu_op","name":"a"b\x1b]0;PWN\x07\x1b[2J\u202e\x9b","pid":1,"tid":1,"ts":2}'
QUERY = """-- A row is a kernel\x1b]0;PWN\x07\u202e.
-- /// query
-- title = "Kernels\\u001b[2J\\u202e"
-- needs = ["kernels"]
-- [columns]
-- name = "The name\\u001b]0;PWN\\u0007"
-- ///
select name from kernels
"""

On = Callable[..., str]


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> On:
    """Run `tracelab ARGS…` with stdout and stderr on a terminal; return the bytes that the terminal receives."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> str:
        terminal, ours = pty.openpty()
        received: list[bytes] = []

        def read() -> None:
            try:
                while data := os.read(terminal, 1 << 16):
                    received.append(data)
            except OSError:  # the other side is closed
                return

        reader = threading.Thread(target=read)
        reader.start()
        with os.fdopen(ours, "w", encoding="utf-8") as stream, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            patch.setattr(sys, "stderr", stream)
            with pytest.raises(SystemExit):
                main([str(arg) for arg in args])
        reader.join()
        os.close(terminal)
        return b"".join(received).decode()

    return run


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A trace whose name, names of kernels, and damage hold terminal commands."""
    path = tmp_path / PATH
    path.write_text(trace(kernel(NAME, ts=1000), DAMAGED, kernel("last", ts=3000)), encoding="utf-8")
    return path


def executed(received: str) -> list[str]:
    """Return the commands of the file that the terminal would execute."""
    return [command for command in COMMANDS if command in received]


def test_ingest_and_doctor_escape_names_and_samples(hostile: Path, on_terminal: On) -> None:
    texts = on_terminal("ingest", hostile, "--store", "lab"), on_terminal("ingest", hostile, "--store", "lab")
    texts += on_terminal("ingest", hostile, "--store", "lab2", "-q"), on_terminal("doctor", hostile)
    assert [executed(text) for text in texts] == [[], [], [], []]
    assert r"PWN\x1b]0;PWN\x1b[2J\x07\u202e\nrank0.json" in texts[0]


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="needs the shared corpus of traces")
def test_a_hostile_trace_of_the_corpus_is_escaped(on_terminal: On) -> None:
    path = corpus.ROOT / "hostile" / "esc.json"
    texts = on_terminal("ingest", path, "--store", "lab"), on_terminal("doctor", "--store", "lab")
    texts += (on_terminal("sql", "from ops", "--store", "lab", "--format", "csv"),)
    assert [executed(text) for text in texts] == [[], [], []]


@pytest.mark.parametrize("content", ["", "no trace", '{"traceEvents": 1}', "\x1b[2J"])
def test_refused_files_are_escaped(tmp_path: Path, on_terminal: On, content: str) -> None:
    (tmp_path / PATH).write_text(content)
    texts = [on_terminal(command, tmp_path / PATH) for command in ("ingest", "doctor")]
    assert [executed(text) for text in texts] == [[], []]
    assert all(r"\x1b]0;PWN" in text for text in texts)


def test_results_are_escaped_in_every_format(hostile: Path, on_terminal: On) -> None:
    on_terminal("ingest", hostile, "--store", "lab", "--run", "r")
    statement = f'select name, name as "{NAME}" from kernels'
    formats = ("table", "csv", "json", "jsonl", "markdown")
    texts = [on_terminal("sql", statement, "--store", "lab", "--format", each) for each in formats]
    texts += [on_terminal("query", "kernel_summary", "--store", "lab", "--format", each) for each in formats]
    assert [executed(text) for text in texts] == [[]] * 10
    assert all("PWN" in text for text in texts)
    cell = r'"\x1b]0;PWN\x1b[2J\x07\u202e\x9b\nnext"'
    assert texts[1].splitlines() == [f"name,{cell}", f"{cell},{cell}", '"last","last"']


def test_csv_in_a_file_is_exact(hostile: Path, on_terminal: On, tmp_path: Path) -> None:
    on_terminal("ingest", hostile, "--store", "lab", "--run", "r")
    on_terminal("sql", "select name from kernels order by start_ns limit 1", "--store", "lab", "-o", "names.csv")
    assert (tmp_path / "names.csv").read_text(encoding="utf-8") == f'name\n"{NAME}"\n'


def test_errors_of_sql_are_escaped(on_terminal: On, hostile: Path) -> None:
    on_terminal("ingest", hostile, "--store", "lab", "--run", "r")
    text = on_terminal("sql", f'select "{NAME}" from kernels', "--store", "lab")
    assert (executed(text), r"\x1b]0;PWN" in text) == ([], True)


def test_help_and_errors_of_query_files_are_escaped(on_terminal: On, hostile: Path, tmp_path: Path) -> None:
    on_terminal("ingest", hostile, "--store", "lab", "--run", "r")
    path = tmp_path / f"{PATH}.sql"
    path.write_text(QUERY, encoding="utf-8")
    texts = [
        on_terminal("query", path, *more, "--store", "lab") for more in (["--help"], ["--\x1b[2J"], ["--show-sql"])
    ]
    path.write_text(QUERY.replace("title", "title\x1b[2J"), encoding="utf-8")
    texts.append(on_terminal("query", path, "--store", "lab"))
    assert [executed(text) for text in texts] == [[]] * 4
    assert r"\x1b[2J" in texts[0]


def test_written_files_are_named_escaped(on_terminal: On, hostile: Path, tmp_path: Path) -> None:
    on_terminal("ingest", hostile, "--store", "lab", "--run", "r")
    name = NAME.replace("\n", "")
    with report_only("kernel_summary"):
        texts = [on_terminal("report", "--store", "lab", "-o", f"{name}.html")]
    texts += [
        on_terminal("export", "--run", "r", "--store", "lab", "-o", f"{name}.json"),
        on_terminal("query", "kernel_summary", "--store", "lab", "-o", f"{name}.csv"),
    ]
    assert [executed(text) for text in texts] == [[]] * 3
    assert [r"\x1b]0;PWN" in text for text in texts] == [True] * 3, texts
    assert b"\x1b" not in (tmp_path / f"{name}.html").read_bytes()


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("gemm<4>", "gemm<4>"),
        ("a\tb\nc", r"a\tb\nc"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\u202egpj", r"\u202egpj"),
        ("\ud800", r"\ud800"),
        ("\x9b2J\u2028", r"\x9b2J\u2028"),
        ("核 ü", "核 ü"),
    ],
)
def test_escaped_text_is_one_printable_line(text: str, escaped: str) -> None:
    assert foreign_text.escape_controls(text) == escaped


def test_names_of_any_bytes_become_text() -> None:
    assert foreign_text.escape_path(Path(os.fsdecode(b"a\xff\x1b.json"))) == r"a\xff\x1b.json"


def test_modules_print_through_one_function() -> None:
    """`click.echo` stays for lines with colors of our own, which escape their parts."""
    source = Path(foreign_text.__file__).parent
    printing = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if any(call in path.read_text(encoding="utf-8") for call in ("click.echo(", "click.secho(", " print("))
    }
    assert printing == {
        "cli/__init__.py",
        "cli/collect_sweep.py",
        "cli/completion.py",
        "cli/output.py",
        "foreign_text.py",
        "sql/repl/shell.py",
    }
