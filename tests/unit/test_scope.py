"""Sessions restricted to a part of a recording: their views have only its rows, whatever reads them."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.report.few_queries import report_of
from tests.unit.scope_rows import TWO_STEPS, call, mark, work
from tracelab.cli import main, options
from tracelab.client import Lab
from tracelab.errors import NoDataError, UsageError
from tracelab.query import library
from tracelab.store.scope.request import By, Scope


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("scope") / "lab", TWO_STEPS)


def names_in(store: Path, **scope: Any) -> list[str]:
    rows = Lab(store).scoped(**scope).sql("select name from kernels order by start_ns").to_pylist()
    return [each["name"] for each in rows]


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, ["unlinked", "late", "mm", "mm_backward", "sum"]),
        ({"steps": "0"}, ["unlinked", "late"]),
        ({"steps": "1"}, ["mm", "mm_backward", "sum"]),
        ({"steps": "0-1"}, ["unlinked", "late", "mm", "mm_backward", "sum"]),
        ({"steps": "0", "by": "execution"}, ["unlinked"]),
        ({"steps": "1", "by": "execution"}, ["late", "mm", "mm_backward"]),
        ({"within": "^forward$"}, ["mm"]),
        ({"within": "backward"}, ["mm_backward", "sum"]),
        ({"within": "Linear"}, ["mm"]),
        ({"within": "^nn.Module: Lin"}, ["mm"]),
        ({"within": "aten::mm"}, ["late", "mm"]),
        ({"within": "MmBackward"}, ["mm_backward", "sum"]),
        ({"within": "MmBackward", "by": "execution"}, None),
        ({"within": "aten::mm", "by": "execution"}, ["mm"]),
        ({"stream": "20"}, ["mm_backward"]),
        ({"stream": "1-19,20"}, ["unlinked", "late", "mm", "mm_backward", "sum"]),
        ({"linked": True}, ["late", "mm", "mm_backward", "sum"]),
        ({"steps": "1", "stream": "7", "linked": True}, ["mm", "sum"]),
        ({"to": "115ns"}, ["unlinked", "late"]),
        ({"from_": "115ns"}, ["mm", "mm_backward", "sum"]),
        ({"from_": "0.115us", "to": "150"}, ["mm"]),
        ({"to": "115ns", "by": "execution"}, ["unlinked", "late"]),
        ({"from_": "0", "to": "126ns", "by": "execution"}, ["unlinked", "late", "mm"]),
        ({"after_start": True}, ["unlinked", "late", "mm", "mm_backward", "sum"]),
    ],
)
def test_kernels_count_where_they_were_launched_or_ran(
    two_steps: Path, scope: dict[str, Any], expected: list[str] | None
) -> None:
    if expected is None:
        with pytest.raises(NoDataError, match=r"no row lies in the scope: within 1 op \(MmBackward\)"):
            names_in(two_steps, **scope)
    else:
        assert names_in(two_steps, **scope) == expected


@pytest.mark.parametrize(
    ("scope", "counts"),
    [
        ({"steps": "0"}, {"annotations": 1, "ops": 1, "api_calls": 1, "memcpys": 0, "python_frames": 0}),
        ({"steps": "1"}, {"annotations": 3, "ops": 2, "api_calls": 3, "memcpys": 1, "memory_events": 1}),
        ({"within": "^forward"}, {"annotations": 1, "ops": 1, "python_frames": 1, "memory_events": 1, "memcpys": 0}),
        ({"within": "Linear"}, {"annotations": 0, "ops": 1, "api_calls": 1, "python_frames": 1, "memory_events": 1}),
        ({"stream": "20"}, {"annotations": 4, "ops": 3, "api_calls": 4, "memcpys": 0, "gpu_activity": 1}),
    ],
)
def test_rows_of_a_cpu_count_where_they_begin(two_steps: Path, scope: dict[str, Any], counts: dict[str, int]) -> None:
    lab = Lab(two_steps).scoped(**scope)
    columns = ", ".join(f"(select count(*) from {table}) as {table}" for table in counts)
    assert lab.sql(f"select {columns}").to_pylist() == [counts]


def test_words_of_a_scope_among_the_parameters_of_a_query_name_scoped(two_steps: Path) -> None:
    message = "kernel_summary has no parameter 'steps'; choose rows with lab.scoped(steps='1', within='x').query(...)"
    with pytest.raises(UsageError, match=re.escape(message)):
        Lab(two_steps).query("kernel_summary", steps="1", within="x")


def test_options_of_a_scope_are_those_of_the_command() -> None:
    scope = Scope(steps="1", linked=True, after_start=True, by="execution")
    assert scope.options == ("--steps", "1", "--linked", "--after-start", "--scope-by", "execution")
    assert Scope(after_start=True)
    assert not Scope(by="execution")


def test_every_query_has_the_scope_and_says_so(two_steps: Path) -> None:
    lab = Lab(two_steps).scoped(steps="1")
    answer = lab.query("gpu_breakdown")
    assert [(row["compute_ns"], row["window_ns"]) for row in answer.to_pylist()] == [(90, 125)]
    assert answer.notes == (
        "Scope: steps 1 of 0–1; rows of GPUs by the time of their launch; 3 of 5 kernels, 1 of 1 memcpys. "
        "1 rows of GPUs without a recorded launch count by their own start.",
    )
    assert str(answer).endswith(answer.notes[0])
    assert {row["step"] for row in lab.query("step_breakdown").to_pylist()} == {1, None}


def test_a_query_whose_own_parameter_names_steps_decides_what_a_step_is(two_steps: Path) -> None:
    with pytest.raises(NoDataError, match="no range marks a step"):
        Lab(two_steps).scoped(steps="1").query("step_breakdown", step_name="^epoch")


def test_steps_of_an_inference_server_have_the_numbers_of_serving_steps(tmp_path: Path) -> None:
    store = build_store(
        tmp_path / "lab",
        {
            "annotations": [
                mark(0, 20, "capture_8_FULL"),
                mark(20, 40, "execute_context_1(512)_generation_0(0)"),
                mark(70, 30, "execute_context_0(0)_generation_8(8)"),
            ],
            "api_calls": [call(5, 1), call(30, 2), call(80, 3)],
            "kernels": [work(10, "captured", 1), work(75, "prefill", 2), work(110, "decode", 3)],
        },
    )
    assert [names_in(store, steps=step) for step in "01"] == [["prefill"], ["decode"]]
    with pytest.raises(NoDataError, match="the scope has no step; there are steps 0–1"):
        names_in(store, steps="2")


def test_what_was_launched_before_a_scope_of_executions_has_its_names(two_steps: Path) -> None:
    # In step 1 run, 30 ns each: `late`, which aten::mm of step 0 launched, mm of the op of step 1, and mm_backward.
    lab = Lab(two_steps).scoped(steps="1", by="execution")

    def figures(query: str, *columns: str, **params: Any) -> set[tuple[Any, ...]]:
        return {tuple(row[column] for column in columns) for row in lab.query(query, **params).to_pylist()}

    own = {("aten::mm", 1, 60), ("MmBackward", 1, 30)}
    assert figures("op_summary", "op", "calls", "gpu_self_ns") == own
    assert figures("op_flop", "op", "calls", "gpu_ns") == {("aten::mm", 2, 60), ("MmBackward", 1, 30), (None, 0, 5)}
    ranges = {row[0]: row[1:] for row in figures("annotation_gpu_time", "annotation", "ranges", "exclusive_gpu_ns")}
    assert ranges["ProfilerStep#0"] == (0, 30)
    assert ranges["forward"] == (1, 30)
    own_of_modules = figures("module_time", "module", "phase", "own_ns")
    assert own_of_modules >= {(None, "forward", 30), (None, "backward", 30), ("Linear_0", None, 30)}
    stacks = figures("stacks", "frame", "depth", "own", measure="gpu")
    assert ("aten::mm", 1, 30) in stacks
    assert sum(own for _, _, own in stacks) == 95


def test_the_sentence_of_a_module_is_that_its_backward_pass_is_part_of_it(two_steps: Path) -> None:
    (note,) = Lab(two_steps).scoped(within="^Linear_0$").query("op_summary").notes
    assert note.startswith(
        "Scope: within 1 module (Linear_0; with their backward pass, and recomputation); rows of GPUs"
    )


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ({"steps": "7"}, "the scope has no step; there are steps 0–1"),
        ({"within": "forwrd"}, "the name of no range, op or module matches 'forwrd'; nearest: forward, "),
        ({"stream": "9"}, "no row of a GPU in the scope is on stream 9; there are streams 7, 20"),
        ({"steps": "0", "stream": "20"}, "no row of a GPU in the scope is on stream 20; there are streams 7"),
        ({"from_": "1s", "to": "2s"}, "no event is from 1s to 2s: the longest run lasts 2.5e-07 s"),
        ({"from_": "90ns", "to": "99ns"}, "no row lies in the scope: from 90ns to 99ns; rows of GPUs"),
    ],
)
def test_an_empty_scope_is_an_error_that_lists_what_there_is(
    two_steps: Path, scope: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(NoDataError) as error:
        Lab(two_steps).scoped(**scope).query("kernel_summary")
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("scope", "sentence"),
    [
        ({"steps": "x"}, "'x' are no steps; write numbers and spans, such as 3-5,8 or 10-"),
        ({"steps": "5-3"}, "the steps '5-3' end before they begin"),
        ({"to": "1.2-2"}, "'1.2-2' is no time; write it as 1.5s, 20ms, 300us or 1234567 (ns)"),
        ({"from_": "2s", "to": "1s"}, "the scope ends at 1s, not after its start at 2s"),
        ({"within": "("}, "--within '(' is no regular expression"),
        ({"steps": "0", "by": "end"}, "rows of GPUs count by launch or execution, not by 'end'"),
    ],
)
def test_a_scope_that_cannot_be_read_is_an_error(two_steps: Path, scope: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        Lab(two_steps).scoped(**scope).query("kernel_summary")
    assert str(error.value).startswith(sentence)


@pytest.mark.parametrize(
    ("scope", "parts"),
    [
        ({"stream": "20"}, "stream 20"),
        ({"linked": True}, "with a recorded launch"),
        (
            {"stream": "9", "steps": "0"},
            "steps 0 of 0–1, stream 9; rows of GPUs by the time of their launch; 1 of 4 api_calls",
        ),
    ],
)
def test_rows_of_a_cpu_are_on_any_stream(two_steps: Path, scope: dict[str, Any], parts: str) -> None:
    answer = Lab(two_steps).scoped(**scope).query("api_summary")
    assert [row["calls"] for row in answer.to_pylist()] == [1 if "steps" in scope else 4]
    needless = "The answer reads no rows of GPUs, which alone have streams and launches."
    assert answer.notes == (f"Scope: {parts}. {needless}",)


def test_an_empty_answer_of_a_scope_has_a_sentence(two_steps: Path) -> None:
    sentence = "The answer is empty: the scope has nothing that it lists."
    assert Lab(two_steps).scoped(steps="0").query("collective_summary").notes[1:] == (sentence,)
    assert len(Lab(two_steps).scoped(steps="0").query("kernel_summary").notes) == 1
    for query, expected in (("collective_summary", [sentence]), ("kernel_summary", [])):
        result = CliRunner().invoke(main, ["query", query, "--steps", "0", "--store", str(two_steps)])
        assert result.exit_code == 0
        assert [line for line in result.stderr.splitlines() if not line.startswith("Scope: ")][:1] == expected


def test_a_query_of_rows_outside_of_recordings_takes_no_scope(two_steps: Path) -> None:
    with pytest.raises(UsageError, match="no scope applies to steps: only rows of a recording have a place in one"):
        Lab(two_steps).scoped(steps="0").query("sweep_throughput")


def test_no_query_of_the_library_has_a_parameter_that_hides_an_option_of_the_scope() -> None:
    queries = [*library.library().values(), *(each for tools in library.variants().values() for each in tools.values())]
    names = {option.name for option in options.SCOPE}
    assert not {(query.name, param.name) for query in queries for param in query.params if param.name in names}


def test_a_report_has_the_scope_in_its_head_and_its_commands_repeat_it(two_steps: Path) -> None:
    page = report_of(("gpu_breakdown",), two_steps, scope=Scope(steps="1", by="execution"))
    assert "Scope: steps 1 of 0–1; rows of GPUs by the time of their execution; 3 of 5 kernels, 1 of 1 memcpys" in page
    assert f"tracelab query gpu_breakdown --format csv --steps 1 --scope-by execution --store {two_steps}" in page


def roofline(store: Path, *options: str) -> tuple[str, str]:
    columns = ["--columns", "kernel,launches,flop", "--format", "csv", "--store", str(store)]
    result = CliRunner().invoke(main, ["query", "roofline", *options, *columns])
    return result.stdout, result.stderr


def test_an_option_takes_a_choice_of_the_query_and_a_time_of_the_scope(two_steps: Path) -> None:
    header, of_late = "kernel,launches,flop\n", '"MmBackward",1,\n'
    assert roofline(two_steps, "--from", "shapes") == (f'{header}{of_late}"aten::mm",2,\n"aten::mm",2,\n,0,\n', "")
    part, note = roofline(two_steps, "--from", "shapes", "--from", "130ns", "--to", "1ms")
    assert part == f"{header}{of_late},0,\n"
    assert note.startswith("Scope: from 130ns to 1ms; rows of GPUs by the time of their launch; ")
    assert "; 1 of 3 ops, 2 of 5 kernels. " in note
    assert roofline(two_steps, "--from", "130ns", "--from", "shapes", "--to", "1ms") == (part, note)
    _, note = roofline(two_steps, "--from", "shape")
    assert note == "tracelab: --from 'shape' is neither counters, shapes, both nor a time, such as 350ms\n"


@pytest.mark.parametrize(
    ("to", "by", "past_ns", "window_ns"),
    [("120ns", "launch", 35, 155 - 5), ("120ns", "execution", 15, 135 - 5), ("160ns", "execution", 0, 160 - 5)],
)
def test_a_scope_of_times_states_how_long_its_rows_run_past_its_end(
    two_steps: Path, to: str, by: By, past_ns: int, window_ns: int
) -> None:
    """By launch the kernel called at 115 is in the scope to 120, and runs to 155; by execution one runs to 135."""
    answer = Lab(two_steps).scoped(to=to, by=by).query("gpu_breakdown")
    sentence = f" Rows of GPUs in it run up to {past_ns} ns past its end, and so does its window: no row is cut."
    assert [note.endswith(sentence) for note in answer.notes if note.startswith("Scope")] == [past_ns > 0]
    assert [each["window_ns"] for each in answer.to_pylist()] == [window_ns]


def test_a_query_without_its_rows_names_the_choice_whose_rows_the_store_has(two_steps: Path) -> None:
    _, note = roofline(two_steps)
    assert note.startswith("tracelab: roofline needs kernel_metrics, and the store has none; to get them: ")
    assert note.endswith("; without them: --from shapes, of ops and kernels\n")


def test_a_summary_has_the_work_outside_of_its_scope_and_no_advice_on_what_that_leaves_out(two_steps: Path) -> None:
    def summary(*scope: str) -> str:
        result = CliRunner().invoke(main, ["summary", "--store", str(two_steps), *scope])
        assert result.stderr == (f"Scope: {' '.join(scope)}\n" if scope else "")
        return " ".join(result.stdout.split())

    of_stream = summary("--stream", "7")  # of 245 ns stream 20 alone runs for 30, 30 behind the row before; 75 are idle
    assert "; computing 44.9 %, work outside of the scope 24.5 %" in of_stream
    lost = "idle 30.6 %, exposed communication 0.0 %, exposed copies 0.0 %, work outside of the scope 24.5 %."
    assert f"GPUs compute for 44.9 % of the measured time; the rest: {lost}" in of_stream
    assert "step time 115 ns 1 recorded step" in summary("--steps", "1")  # step 0 runs until 135 of 250
    of_range = summary("--within", "forward")
    assert "no step begins in the scope" in of_range
    assert "no kernel of the scope communicates; " in of_range
    whole = summary()
    assert "of the scope" not in whole
    assert "no kernel communicates; " in whole


def test_what_reads_whole_recordings_takes_no_scope(two_steps: Path) -> None:
    lab = Lab(two_steps).scoped(steps="1")
    with pytest.raises(UsageError, match="doctor reads whole recordings; open the store without a scope"):
        lab.doctor()
    with pytest.raises(UsageError, match="compare reads whole recordings"):
        lab.compare("r", "r")


def test_files_of_a_store_do_not_change(two_steps: Path) -> None:
    files = {path: path.read_bytes() for path in two_steps.rglob("*.parquet")}
    assert len(names_in(two_steps, steps="1")) == 3
    assert {path: path.read_bytes() for path in two_steps.rglob("*.parquet")} == files


def test_commands_have_options_and_print_the_scope(two_steps: Path) -> None:
    where = ["--store", str(two_steps)]
    result = CliRunner().invoke(
        main, ["query", "kernel_concurrency", "--steps", "1", "--scope-by", "execution", *where]
    )
    assert result.stdout.splitlines()[1].split(",")[3] == "3"
    assert result.stderr == ("Scope: steps 1 of 0–1; rows of GPUs by the time of their execution; 3 of 5 kernels.\n")
    result = CliRunner().invoke(main, ["sql", "select count(*) as n from KERNELS", "--stream", "20", *where])
    assert (result.stdout, result.stderr[:17]) == ("n\n1\n", "Scope: stream 20;")
    result = CliRunner().invoke(main, ["sql", "--init", "--within", "^forward$", *where])
    with duckdb.connect() as con:
        con.execute(result.stdout)
        assert con.sql("select name from kernels").fetchall() == [("mm",)]


def test_a_file_of_sql_is_scoped_in_the_sandbox(two_steps: Path, tmp_path: Path) -> None:
    path = tmp_path / "names.sql"
    path.write_text(
        '-- Names.\n-- /// query\n-- title = "Names"\n-- needs = ["kernels"]\n-- [columns]\n-- name = "Name."\n-- ///\n'
        "select name from kernels order by name"
    )
    assert Lab(two_steps).scoped(steps="0").query(str(path)).to_pylist() == [{"name": "late"}, {"name": "unlinked"}]
