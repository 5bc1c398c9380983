"""The prompt of `tracelab sql`: on a terminal, and line by line."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.cli.conftest import HOSTILE, QUESTION
from tracelab.sql.repl import Shell, execute_input, run_shell, terminal
from tracelab.sql.repl.completion import NameCompleter
from tracelab.sql.repl.statements import is_complete, split_statements

Said = Callable[..., tuple[str, str]]
COMPLETE = [
    "",
    "  \n",
    ".help",
    ".query kernel_summary --top 3",
    "select 1;",
    "select 1; -- done",
    "select 1; /* ; */ ",
    "select ';' as a;",
    "select $$ ' $$;",
    "select 'it''s';",
    'select 1 as "a;";',
    "select 1 - 1;",
]
INCOMPLETE = [
    "select 1",
    "select 1 -- done;",
    "select 1 /* ; */",
    "select 1 /* ;",
    "select ';",
    "select 'it''s;",
    'select "a;',
    "select $$ ;",
    "select 1 -- done;\n",
]


@pytest.fixture
def lab(opened_lab: tuple[Path, duckdb.DuckDBPyConnection]) -> Path:
    return opened_lab[0]


@pytest.fixture
def con(opened_lab: tuple[Path, duckdb.DuckDBPyConnection]) -> Iterator[duckdb.DuckDBPyConnection]:
    with opened_lab[1].cursor() as cursor:
        yield cursor


@pytest.fixture
def said(con: duckdb.DuckDBPyConnection, lab: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    """What a conversation prints for lines, on stdout and stderr."""

    def hear(*lines: str) -> tuple[str, str]:
        shell = Shell(con)
        for line in lines:
            execute_input(shell, lab, line)
        captured = capsys.readouterr()
        return captured.out, captured.err

    return hear


@pytest.mark.parametrize("text", COMPLETE)
def test_enter_sends_what_is_complete(text: str) -> None:
    assert is_complete(text)


@pytest.mark.parametrize("text", INCOMPLETE)
def test_enter_begins_a_line_where_more_must_come(text: str) -> None:
    assert not is_complete(text)


def test_statements_pasted_together_are_taken_apart(con: duckdb.DuckDBPyConnection) -> None:
    assert [part.strip() for part in split_statements(con, "select ';'; select 2; -- end\n")] == [
        "select ';';",
        "select 2; -- end",
    ]


def test_an_answer_is_printed_with_its_number_of_rows(said: Said) -> None:
    assert said("select device, count(*) as n from kernels group by device order by device;") == (
        "device  n\n──────  ─\n     0  2\n     1  1\n",
        "(2 rows)\n",
    )


def test_every_row_of_every_batch_is_there(said: Said) -> None:
    out, err = said(".rows 400", "select i // 10 as a, count(*) as n from range(4000) t(i) group by a;")
    assert (len(out.splitlines()), err) == (1 + 2 + 400, "(400 rows)\n")


def test_an_answer_without_rows_is_reported(said: Said) -> None:
    assert said("select name from kernels where false;") == ("name\n────\n", "(0 rows)\n")


@pytest.mark.parametrize(
    ("rows", "told"), [(500, "(500 rows)"), (501, "(the first 500 rows; .rows N changes the limit, ")]
)
def test_a_long_answer_is_cut_and_reports_it(said: Said, rows: int, told: str) -> None:
    out, err = said(f"from range({rows});")
    assert (len(out.splitlines()), err.startswith(told)) == (2 + 500, True)


def test_the_number_of_rows_can_be_set(said: Said) -> None:
    out, err = said(".rows 2", "from range(100000000000);")
    assert out.splitlines()[-2:] == ["    0", "    1"]
    assert err.startswith("(the first 2 rows")


def test_an_endless_answer_is_begun_and_not_finished(said: Said) -> None:
    began = time.monotonic()
    said("from range(100000000000);")
    assert time.monotonic() - began < 10


def test_several_statements_run_until_one_fails(said: Said) -> None:
    out, err = said("select 1 as a; select error('no'); select 3 as c;")
    assert (out, err.splitlines()[0], "no" in err) == ("a\n─\n1\n", "(1 row)", True)


def test_an_error_is_one_sentence(said: Said) -> None:
    assert said("select 1,\n  from kernel;") == (
        "",
        'tracelab: Catalog Error: Table with name kernel does not exist! Did you mean "kernels"?\n',
    )


def test_what_is_created_lasts(said: Said) -> None:
    out, err = said(
        "create temp table t as select 40 as n;",
        "create temp macro plus(a) as a + 2;",
        "create temp view v as select plus(n) as n from t;",
        "from v;",
    )
    assert out == "n \n──\n42\n".replace("n ", " n")
    assert err.splitlines()[0] == "(table t exists until you leave)"


def test_what_writes_is_refused(said: Said, lab: Path) -> None:
    out, err = said(f"copy (select 1) to '{lab}/x.csv';", "drop view kernels;", "create table t as select 1;")
    assert out == ""
    assert [re.match(r"tracelab: refusing (?:a )?(\w+)", line)[1] for line in err.splitlines()] == [
        "COPY",
        "DROP",
        "CREATE",
    ]
    assert not (lab / "x.csv").exists()


def test_help_names_every_command(said: Said) -> None:
    out, _ = said(".help")
    assert all(f".{name}" in out for name in ("tables", "schema", "queries", "query", "rows", "help", "quit"))


def test_tables_are_counted(said: Said) -> None:
    out, _ = said("create temp table mine as select 1;", ".tables")
    assert re.search(r"^kernels +3  one kernel execution$", out, re.MULTILINE)
    assert re.search(r"^mine +temporary table$", out, re.MULTILINE)


def test_schema_gives_columns_with_types_and_meanings(said: Said) -> None:
    out, _ = said(".schema memcpys")
    assert out.splitlines()[0] == "memcpys: a row is one copy."
    assert re.search(r"^size_bytes +bigint +Bytes copied", out, re.MULTILINE)


def test_schema_knows_views_and_what_was_created(said: Said) -> None:
    out, _ = said("create temp view mine as select 1 as one;", ".schema mine", ".schema kernel_rules;")
    assert re.search(r"^one +integer", out, re.MULTILINE)
    assert re.search(r"^pattern +varchar", out, re.MULTILINE)


def test_queries_are_listed_and_answered(said: Said) -> None:
    out, err = said(".queries", ".query kernel_summary --device 1 --top=1")
    assert "kernel_summary" in out
    assert "(no name)" in out
    assert err == "(1 row)\n"


def test_a_query_runs_in_the_definition_of_another_tool(said: Said) -> None:
    out, err = said(".queries", ".query kernel_summary --like nvprof --device 1")
    assert "--like nsys, nvprof" in out
    assert "time_percent" in "".join(out.split())
    assert err == "(1 row)\n"


def test_a_query_in_a_file_is_answered(said: Said, question: Path) -> None:
    assert said(f".query '{question}' --min-dur-ns 2000")[1] == "(1 row)\n"


def test_a_query_in_a_file_runs_in_the_sandbox(said: Said, question: Path, lab: Path) -> None:
    question.write_text(QUESTION.replace("select run,", f"with x as (copy (select 1) to '{lab}/x.csv') select run,", 1))
    out, err = said(f".query {question}")
    assert (out, err.startswith("tracelab: refusing COPY"), (lab / "x.csv").exists()) == ("", True, False)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (".tabels", "no command '.tabels'; did you mean '.tables'?"),
        (".schema kernel", "no table 'kernel'; did you mean 'kernels'?"),
        (".query", ".query takes a NAME; .queries lists them"),
        (".query kernel_sumary", "no query 'kernel_sumary'; did you mean 'kernel_summary'?"),
        (".query kernel_summary 3", "kernel_summary: '3' is not an option; write --name value"),
        (".query kernel_summary --top", "kernel_summary: --top needs a value"),
        (
            ".query kernel_summary --like hta",
            "kernel_summary has no definition like 'hta'; there are nsys, nvprof",
        ),
        (".query kernel_summary --top x", "kernel_summary: top = 'x' is not of type integer"),
        (".query 'kernel_summary", ".query 'kernel_summary: unclosed quote"),
        (".query memcpy_throughput", "memcpy_throughput needs memcpys, and the store has none"),
        (".rows 0", ".rows takes a whole number above 0, not '0'"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_reported(said: Said, line: str, sentence: str) -> None:
    out, err = said(line)
    assert (out, err.startswith(f"tracelab: {sentence}"), len(err.splitlines())) == ("", True, 1)


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_ctrl_c_is_understood_in_both_of_its_forms(
    said: Said, monkeypatch: pytest.MonkeyPatch, interrupt: BaseException
) -> None:
    def stopped(*_: object) -> None:
        raise interrupt  # DuckDB raises the second where it works on the main thread

    monkeypatch.setattr(duckdb, "tokenize", stopped)
    assert said("explain select 1;") == ("", "interrupted\n")


def test_names_of_a_trace_send_nothing_to_the_terminal(said: Said) -> None:
    out, _ = said("select name from kernels;")
    assert (HOSTILE in out, "\x1b" in out, r"\x1b[2J" in out) == (False, False, True)


def completed(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    names = NameCompleter(con)
    return [each.text for each in names.get_completions(Document(text), None)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("from kern", "kernels"),
        ("select collect", "collectives"),
        ("from kernels where regis", "registers"),
        ("select k.gri", "grid_x"),
        ("select * from collectives where o", "origin"),
        ("selec", "select"),
        ("SELEC", "select"),
        ("from regi", "regions"),
        ("select kernel_k", "kernel_key"),
        (".ta", ".tables"),
        (".schema memc", "memcpys"),
        (".query kernel_su", "kernel_summary"),
        (".query kernel_summary --to", "--top"),
        (".query kernel_summary --li", "--like"),
        (".query gpu_breakdown --like hta --inc", "--include-last-profiler-step"),
    ],
)
def test_tab_completes(con: duckdb.DuckDBPyConnection, text: str, first: str) -> None:
    assert first in completed(con, text)[:3]


def test_columns_of_the_tables_in_the_statement_are_the_only_ones(con: duckdb.DuckDBPyConnection) -> None:
    assert "direction" not in completed(con, "select * from kernels where dir")
    assert "direction" in completed(con, "select dir")


def test_what_was_created_is_completed(con: duckdb.DuckDBPyConnection, lab: Path) -> None:
    names = NameCompleter(con)
    execute_input(Shell(con, names.refresh), lab, "create temp table zebras as select 1 as stripes;")
    assert [each.text for each in names.get_completions(Document("from zeb"), None)] == ["zebras"]  # type: ignore[arg-type]


def typed(con: duckdb.DuckDBPyConnection, lab: Path, keys: str) -> None:
    """Type keys at a prompt until it is left."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys)
        prompt, names = terminal.create_prompt(con, InMemoryHistory())
        run_shell(Shell(con, names.refresh), lab, prompt.prompt)


def test_a_statement_may_take_several_lines(
    con: duckdb.DuckDBPyConnection, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(con, lab, "select 40 + 2\ras answer\r;\r\x04")
    assert capsys.readouterr().out == "answer\n──────\n    42\n"


def test_ctrl_c_clears_the_line(con: duckdb.DuckDBPyConnection, lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed(con, lab, "select nonsense\x03select 1 as a;\r\x04")
    assert capsys.readouterr().out == "a\n─\n1\n"


@pytest.mark.parametrize("leaving", ["\x04", ".quit\r", ".exit\r"])
def test_it_can_be_left(con: duckdb.DuckDBPyConnection, lab: Path, leaving: str) -> None:
    typed(con, lab, leaving)


def test_the_history_stands_in_the_state_directory_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    terminal.open_history().store_string("select 1;")
    path = tmp_path / "state" / "tracelab" / "sql_history"
    assert path.read_text().endswith("+select 1;\n")
    assert oct(path.stat().st_mode & 0o777) == "0o600"


def test_a_relative_state_directory_counts_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert terminal.history_path() == tmp_path / ".local" / "state" / "tracelab" / "sql_history"


def test_without_a_place_to_write_there_is_no_history_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert isinstance(terminal.open_history(), InMemoryHistory)


_PATIENCE_S = 300  # a machine that is busy with other tests takes its time to start Python


class Terminal:
    """A `tracelab` on a pseudo-terminal."""

    def __init__(self, store: Path, state: Path, *args: str) -> None:
        self._seen = ""
        self._ours, theirs = pty.openpty()
        environment = os.environ | {
            "PROMPT_TOOLKIT_NO_CPR": "1",
            "TERM": "xterm",
            "TRACELAB_STORE": str(store),
            "XDG_STATE_HOME": str(state),
            "TMPDIR": str(state),
            "PAGER": "sh -c 'echo secure:$LESSSECURE:$PAGERSECURE'",
        }
        script = (  # of a session of its own, whose terminal sends it Ctrl-C
            "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            f"from tracelab.cli import run; sys.argv[1:] = ['sql', *{args!r}]; run()"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", script],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, text: str) -> None:
        """Read until the text was printed, behind what was read before; fails after so long that nothing will come."""
        end = time.monotonic() + _PATIENCE_S
        while text not in self._seen and time.monotonic() < end:
            ready, _, _ = select.select([self._ours], [], [], 0.2)
            try:
                read = os.read(self._ours, 65536).decode(errors="replace") if ready else ""
            except OSError:  # Linux: the other end is closed
                break
            self._seen += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", read)
        assert text in self._seen
        self._seen = self._seen.partition(text)[2]

    def ended(self) -> int:
        return self.process.wait(timeout=_PATIENCE_S)


def test_sql_alone_on_a_terminal_is_a_prompt(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path) as opened:
        opened.until("tracelab>")
        opened.type("select sum(dur_ns) - 9007199254740993 as rest from kernels;\r")
        opened.until("1,501")
        opened.until("tracelab>")  # before, the terminal itself would take the Ctrl-D
        opened.type("\x04")
        assert opened.ended() == 0
    assert "select sum(dur_ns)" in (tmp_path / "tracelab" / "sql_history").read_text()


def test_ctrl_c_stops_a_statement_and_the_prompt_goes_on(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path) as opened:
        opened.until("tracelab>")
        endless = "select count(*) from range(100000000000) a, range(1000) b where a.range * b.range % 7 = 3"
        opened.type(f"select 1 as a; {endless};\r")
        opened.until("(1 row)")  # the second is under way
        opened.type("\x03")
        opened.until("interrupted")
        opened.until("tracelab>")
        opened.type("select 6 * 7 as answer;\r")
        opened.until("42")
        opened.until("tracelab>")
        opened.type(".quit\r")
        assert opened.ended() == 0


def test_sigterm_ends_the_prompt_and_its_temporary_folder(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path) as opened:
        opened.until("tracelab>")
        assert list(tmp_path.glob("tracelab-*"))
        opened.process.send_signal(signal.SIGTERM)
        assert opened.ended() == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("tracelab-*"))


def test_the_pager_of_the_prompt_runs_no_shell(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path) as opened:
        opened.until("tracelab>")
        opened.type("from range(200);\r")
        opened.until("secure:1:1")


def test_a_terminal_gets_the_first_rows_and_the_way_to_get_all(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path, "select range as n from range(1000000000000)") as opened:
        opened.until("\r\n499\r\nThe first 500 rows; --format csv or -o FILE writes all rows.")
        assert opened.ended() == 0


def test_a_time_limit_is_for_each_statement_of_the_prompt(lab: Path, tmp_path: Path) -> None:
    endless = "select count(*) from range(100000000000) a, range(1000) b where a.range * b.range % 7 = 3"
    with Terminal(lab, tmp_path, "--timeout", "0.5") as opened:
        opened.until("tracelab>")
        opened.type(f"{endless};\r")
        opened.until("stopped at the time limit of 0.5 s")
        opened.type("select 6 * 7 as answer;\r")
        opened.until("42")


def test_a_statement_that_fails_late_is_one_sentence(said: Said) -> None:
    late = "select case when range = 999999 then error('late')::int else range end from range(1000000);"
    assert said(".rows 1000000", late)[1] == "tracelab: Invalid Input Error: late\n"


def test_a_format_is_for_one_statement(lab: Path, tmp_path: Path) -> None:
    with Terminal(lab, tmp_path, "--format", "csv") as opened:
        opened.until("--format and -o need a statement")
        assert opened.ended() == 2
