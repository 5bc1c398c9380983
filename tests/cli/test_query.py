"""`tracelab query`: the list, a question's help, its options, its SQL and its picture."""

import json
import shlex
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest
from click.testing import Result

from tests.build import build_store
from tests.cli.conftest import QUESTION
from tracelab.cli.query import QueryCommand
from tracelab.query import execute, library

Run = Callable[..., Result]


def test_alone_it_lists_every_query_with_its_title(run: Run) -> None:
    listed = json.loads(run("query", "--format", "json").stdout)
    tools = {name: ", ".join(tools) for name, tools in library.variants().items()}
    assert [{name: row[name] for name in ("query", "title", "like")} for row in listed] == [
        {"query": name, "title": each.title, "like": tools.get(name)} for name, each in library.library().items()
    ]
    assert tools["gpu_breakdown"] == "hta, tracelens"


def test_the_list_marks_what_the_store_can_answer(run: Run, tmp_path: Path) -> None:
    kernels = [{"device": 0, "name": "k", "start_ns": 0, "dur_ns": 9}]
    store = build_store(tmp_path / "one", {"kernels": kernels})
    rows = {row["query"]: row for row in json.loads(run("query", "--store", store, "--format", "json").stdout)}
    assert (rows["kernel_summary"]["subject"], rows["kernel_summary"]["can_answer"]) == ("Kernels", True)
    assert rows["memory_peak"]["can_answer"] is False  # no row of memory_events
    assert rows["run_difference"]["can_answer"] is False  # it takes two runs
    lines = run("query", "--store", store, "--format", "table").stdout.splitlines()
    assert "Kernels:" in lines
    assert [line.split()[:2] for line in lines if " kernel_summary " in line] == [["✓", "kernel_summary"]]
    assert [line.split()[0] for line in lines if " memory_peak " in line] == ["memory_peak"]
    assert lines[-1].startswith(f"✓ {store} has data for ")


def test_without_a_store_no_query_is_marked(run: Run, tmp_path: Path) -> None:
    none = tmp_path / "none"
    text = run("query", "--store", none, "--format", "table").stdout
    assert text.splitlines()[-1] == (
        f"No query is marked: there is no store at {none}; ingest traces, or name one with --store."
    )
    assert "✓" not in text
    rows = json.loads(run("query", "--store", none, "--format", "json").stdout)
    assert {row["can_answer"] for row in rows} == {None}


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    rows = [{"name": name, "start_ns": at, "dur_ns": dur} for at, (name, dur) in enumerate([("mm", 30), ("add", 10)])]
    return build_store(tmp_path / "ops", {"ops": [row | {"start_ns": 100 * row["start_ns"]} for row in rows]})


def test_a_table_has_the_columns_that_matter_and_notes_on_the_others(run: Run, ops: Path) -> None:
    text = run("query", "op_summary", "--store", ops, "--format", "table", env={"COLUMNS": "100"}).stdout
    assert text.splitlines() == [
        "op   calls  self_ns  of_op_self_sum_ratio  total_ns",
        "───  ─────  ───────  ────────────────────  ────────",
        "mm       1    30 ns               75.00 %     30 ns",
        "add      1    10 ns               25.00 %     10 ns",
        "",
        "In every row above: run = r, rank = 0, shapes = NULL, module = NULL, stack = NULL, gpu_ns = 0 ns.",
        "8 more columns: --all shows them.",
    ]


def test_all_and_columns_leave_nothing_out(run: Run, ops: Path) -> None:
    result = run("query", "op_summary", "--store", ops, "--format", "table", "--all", env={"COLUMNS": "400"})
    everything = result.stdout.splitlines()
    assert everything[0].split() == list(library.find("op_summary").columns)
    assert len(everything) == 4
    selected = run("query", "op_summary", "--store", ops, "--format", "table", "--columns", "run,op").stdout
    assert [line.split() for line in selected.splitlines()] == [
        ["run", "op"],
        ["───", "───"],
        ["r", "mm"],
        ["r", "add"],
    ]


def test_data_have_every_column_unless_some_are_requested(run: Run, ops: Path) -> None:
    rows = json.loads(run("query", "op_summary", "--store", ops, "--format", "json").stdout)
    assert list(rows[0]) == list(library.find("op_summary").columns)
    assert rows[0]["of_op_self_sum_ratio"] == 0.75
    arguments = ("--columns", "op,self_ns", "--sort", "self_ns", "--limit", "1")
    result = run("query", "op_summary", "--store", ops, "--format", "json", *arguments)
    assert json.loads(result.stdout) == [{"op": "add", "self_ns": 10}]
    assert result.stderr == "The first 1 of 2 rows.\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--columns", "opp"], "no column 'opp' (did you mean 'op'?); the answer has run, rank, op"),
        (["--sort=-opp"], "no column 'opp'"),
        (["--all", "--columns", "op"], "--all and --columns were given; use one of them"),
        (["--limit", "1", "--plot", "plot.png"], "--plot draws the whole answer; add --format or -o FILE"),
    ],
)
def test_a_selection_that_cannot_be_made_is_refused(run: Run, ops: Path, arguments: list[str], said: str) -> None:
    result = run("query", "op_summary", "--store", ops, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


def test_a_parameter_of_a_query_replaces_an_option_of_its_name(run: Run, question: Path) -> None:
    question.write_text(QUESTION.replace("min_dur_ns", "limit"))
    rows = json.loads(run("query", question, "--limit", 1501, "--format", "json").stdout)
    assert [row["dur_ns"] for row in rows] == [2**53 + 1]


def test_help_lists_the_queries(run: Run) -> None:
    text = run("query", "--help").stdout
    assert all(name in text for name in library.library())
    assert "\n\nMore options: tracelab query NAME --help\n\n" in text


def test_help_of_a_query_comes_from_its_header(run: Run, question: Path) -> None:
    text = run("query", question, "--help").stdout
    for part in (
        "Which kernels ran long enough?",
        "A row is one kernel that ran long enough.",
        "--min-dur-ns INTEGER  Kernels shorter than this are left out.  [default: 0]",
        "--run TEXT            Only this run.",
        "dur_ns  Sum of durations.",
        "kernels  a row is one kernel execution",
        "tracelab query long_kernels.sql --min-dur-ns 0 --format json",
    ):
        assert part in text


@pytest.mark.parametrize("name", library.library())
def test_every_query_of_the_library_explains_itself(run: Run, name: str) -> None:
    result = run("query", name, "--help")
    assert result.exit_code == 0
    assert "Columns of the answer" in result.stdout
    assert result.stdout.count(f"  tracelab query {name}") == 2


@pytest.mark.parametrize("name", library.library())
def test_every_example_of_a_query_help_parses(name: str) -> None:
    question = QueryCommand(library.find(name))
    examples = [line.strip() for line in str(question.epilog).splitlines() if line.startswith("  tracelab query ")]
    assert len(examples) == 2
    for example in examples:
        question.make_context(name, shlex.split(example)[3:])


def test_like_is_in_the_help_of_exactly_the_queries_that_have_it(run: Run) -> None:
    said = {name for name in library.library() if "--like" in run("query", name, "--help").stdout}
    assert said == set(library.variants())


def test_like_runs_the_query_of_that_tool(run: Run, question: Path) -> None:
    answers = [
        run("query", "kernel_concurrency", *words, "--format", "json").stdout
        for words in (["--like", "nvprof"], ["--like=nvprof"], ["--device", 0, "--like", "nvprof"])
    ]
    assert "concurrency_percent" in json.loads(answers[0])[0]
    assert answers[0] == answers[1]
    assert {row["device"] for row in json.loads(answers[2])} == {0}


def test_help_with_like_states_what_differs_and_what_that_tool_takes(run: Run) -> None:
    text = " ".join(run("query", "gpu_breakdown", "--like", "hta", "--help").stdout.split())
    for part in (
        "It differs from gpu_breakdown",
        "--include-last-profiler-step",
        "--like [hta|tracelens]",
        "tracelab query gpu_breakdown --like hta --include-last-profiler-step true --format json",
    ):
        assert part in text


def test_a_flag_alone_means_true(run: Run, question: Path) -> None:
    shown = [
        run("query", "gpu_breakdown", "--like", "hta", *words, "--show-sql").stdout
        for words in (["--include-last-profiler-step"], ["--include-last-profiler-step", "true"], [])
    ]
    assert shown[0] == shown[1] != shown[2]
    assert "hta_rows('gpu', 'calls', 'marks', true, false, false)" in shown[0]


@pytest.mark.parametrize("name", [each.name for tools in library.variants().values() for each in tools.values()])
def test_every_example_of_a_definitions_help_parses(run: Run, name: str) -> None:
    text = run("query", *name.split(), "--help").stdout
    examples = [line.strip() for line in text.splitlines() if line.strip().startswith(f"tracelab query {name}")]
    assert len(examples) == 2
    for example in examples:
        result = run("query", *shlex.split(example)[2:], "--show-sql")
        assert (result.exit_code, result.stderr) == (0, "")


def test_a_parameter_without_a_value_to_show_is_in_no_example(run: Run, question: Path) -> None:
    question.write_text(QUESTION.replace("default = 0", 'type = "integer"'))
    text = run("query", question, "--help").stdout
    assert "None" not in text
    assert "tracelab query long_kernels.sql --plot long_kernels.svg" in text


def test_a_parameter_is_an_option(run: Run, question: Path) -> None:
    text = run("query", question, "--min-dur-ns", 1501, "--format", "json").stdout
    assert json.loads(text) == [{"run": "2024-01-05", "device": 0, "kernel": "gemm", "dur_ns": 2**53 + 1}]


def test_options_may_stand_before_the_name(run: Run, question: Path) -> None:
    first = run("query", "--format", "json", question, "--min-dur-ns", 1501)
    assert first.stdout == run("query", question, "--min-dur-ns", 1501, "--format", "json").stdout


def test_shown_sql_gives_the_same_answer_in_another_client(run: Run, question: Path) -> None:
    shown = run("query", question, "--min-dur-ns", 1500, "--run", "2024-01-05", "--show-sql").stdout
    con = duckdb.connect()
    con.execute(run("sql", "--init").stdout)
    answered = json.loads(
        run("query", question, "--min-dur-ns", 1500, "--run", "2024-01-05", "--format", "json").stdout
    )
    assert [dict(zip(answered[0], row, strict=True)) for row in con.sql(shown).fetchall()] == answered


def test_shown_sql_is_what_the_tests_of_the_library_compare_with_its_answers(run: Run) -> None:
    shown = {name: run("query", name, "--show-sql").stdout for name in library.library()}
    assert shown == {name: execute.render_sql(query, {}) + "\n" for name, query in library.library().items()}


@pytest.mark.parametrize("name", ["kernel_summary", "gpu_breakdown", "stream_summary", "advice"])
def test_shown_sql_of_the_library_gives_the_same_answer(run: Run, name: str) -> None:
    result = run("query", name, "--format", "json")
    with duckdb.connect() as con:
        con.execute(run("sql", "--init").stdout)
        shown = con.sql(run("query", name, "--show-sql").stdout)
        rows = [dict(zip(shown.columns, row, strict=True)) for row in shown.fetchall()]
    assert rows == json.loads(result.stdout)


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_a_plot_is_written_and_the_table_is_not(run: Run, question: Path, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"plot.{suffix}"
    result = run("query", question, "--plot", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"Wrote {path}\n")
    signs = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    assert path.read_bytes().startswith(signs[suffix])
    if suffix == "svg":  # a hostile name is no markup
        assert not [node for node in ET.parse(path).iter() if "script" in node.tag]  # noqa: S314  ours


def test_what_a_plot_has_no_room_for_is_reported_with_the_option_that_narrows(
    run: Run, question: Path, tmp_path: Path
) -> None:
    kernels = [{"run": f"r{number}", "source": "a", "device": 0, "name": "k", "dur_ns": 9} for number in range(30)]
    store, path = build_store(tmp_path / "many", {"kernels": kernels}), tmp_path / "plot.png"
    result = run("query", question, "--store", store, "--plot", path)
    said = f"Wrote {path}\n{path}: 18 of 30 panels not drawn; --run NAME narrows\n"
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", said)


def test_with_a_format_the_table_is_printed_beside_the_plot(run: Run, question: Path, tmp_path: Path) -> None:
    result = run("query", question, "--plot", tmp_path / "plot.png", "--format", "json")
    assert len(json.loads(result.stdout)) == 3


def test_a_plot_is_not_overwritten(run: Run, question: Path, tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    path.write_text("mine")
    assert (run("query", question, "--plot", path).exit_code, path.read_text()) == (1, "mine")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["kernel_sumary"], 2, "kernel_summary"),
        (["nowhere.sql"], 2, "nowhere.sql"),
        (["{question}", "--min-dur-sn", "1"], 2, "--min-dur-ns"),
        (["{question}", "--min-dur-ns", "long"], 2, "long"),
        (["{question}", "--run", "2024-01-06"], 3, "2024-01-05"),
        (["{question}", "--min-dur-ns", str(2**60), "--plot", "plot.png"], 3, "no rows to draw"),
        (["{question}", "--plot", "plot.gif"], 2, ".svg"),
        (["memcpy_throughput"], 3, "memcpys"),
        (["gpu_breakdown", "--like", "nvvp"], 2, "there are hta, tracelens"),
        (["kernel_shapes", "--like", "hta"], 2, "kernel_shapes has no definition of another tool"),
        (["{question}", "--like", "hta"], 2, "long_kernels has no definition of another tool"),
        (["gpu_breakdown", "--like"], 2, "--like"),
        (["gpu_breakdown", "--include-last-profiler-step"], 2, "gpu_breakdown has it with --like hta."),
        (["op_summary", "--recompute"], 2, "op_summary has it with --like tracelens."),
        (["op_summary", "--recomputed"], 2, "No such option"),
    ],
)
def test_what_cannot_be_answered_is_reported(
    run: Run, question: Path, arguments: list[str], code: int, said: str
) -> None:
    result = run("query", *(argument.replace("{question}", str(question)) for argument in arguments))
    assert result.exit_code == code
    assert said in result.stderr
    assert result.stdout == ""


def test_a_query_without_a_chart_has_nothing_to_draw(run: Run, question: Path) -> None:
    question.write_text("\n".join(line for line in QUESTION.splitlines() if "chart" not in line))
    result = run("query", question, "--plot", "plot.png")
    assert (result.exit_code, "no chart" in result.stderr) == (2, True)
