"""Sessions restricted to a part of a recording: their views have only its rows, whatever reads them."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from tests import stores
from tests.build import build_store
from tests.report.few_queries import report_of
from tests.unit.scope_rows import ENGINE, MAIN, call, event, mark, on, work
from tracelab.cli import main, options
from tracelab.client import Lab
from tracelab.collect.recording.recorder import PROGRAM_START
from tracelab.errors import NoDataError, UsageError
from tracelab.query import execute, library
from tracelab.store.scope.request import By, Scope

TWO_STEPS: dict[str, list[dict[str, Any]]] = {
    "annotations": [
        mark(0, 90, "ProfilerStep#0"),
        mark(100, 90, "ProfilerStep#1"),
        mark(110, 20, "forward"),
        mark(140, 40, "backward"),
    ],
    "ops": [
        on(MAIN, 10, 20, name="aten::mm"),
        on(MAIN, 112, 15, name="aten::mm"),
        on(ENGINE, 145, 30, name="MmBackward"),
    ],
    "python_frames": [on(MAIN, 111, 18, name="nn.Module: Linear_0"), on(MAIN, 108, 30, name="train.py(3): forward")],
    "api_calls": [call(15, 1), call(115, 2), call(150, 3, ENGINE), call(170, 4, ENGINE)],
    "kernels": [
        work(5, "unlinked", 99),
        work(105, "late", 1),
        work(125, "mm", 2),
        work(185, "mm_backward", 3, stream=20),
        work(220, "sum", 4),
    ],
    "memcpys": [event(130, 5, device=0, stream=7, direction="HtoD")],
    "memory_events": [{"pid": 10, "tid": MAIN, "time_ns": 113, "size_bytes": 8}],
}


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("scope") / "lab", TWO_STEPS)


def names_in(store: Path, **scope: Any) -> list[str]:
    rows = Lab(store).scoped(**scope).sql("select name from kernels order by start_ns").to_pylist()
    return [each["name"] for each in rows]


def count(store: Path, table: str, **scope: Any) -> int:
    return int(Lab(store).scoped(**scope).sql(f"select count(*) as n from {table}").to_pylist()[0]["n"])


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


# Two processes of rank 0, and one of rank 1: the first records its start, to 100.
STARTED: dict[str, list[dict[str, Any]]] = {
    "annotations": [
        mark(0, 100, PROGRAM_START),
        mark(100, 50, "ProfilerStep#1"),
        mark(100, 50, "ProfilerStep#1", pid=20),
        mark(0, 100, PROGRAM_START, pid=30, rank=1),
        mark(10, 20, "step 0", pid=30, rank=1),
    ],
    "ops": [
        on(MAIN, 20, name="aten::randn"),
        on(MAIN, 100, name="aten::mm"),
        on(MAIN, 20, name="aten::randn", pid=20),
        on(MAIN, 20, name="aten::randn", pid=30, rank=1),
    ],
    "api_calls": [call(80, 1), call(100, 2), call(170, 3)],
    "kernels": [
        work(85, "early", 1),
        work(105, "mm", 2),
        work(115, "late", 1, stream=20),
        work(180, "replay", 3),
        work(99, "unlinked"),
        work(100, "unlinked"),
        work(20, "other process") | {"pid": 20},
        work(20, "other rank") | {"pid": 30, "rank": 1},
    ],
    "memory_events": [{"pid": 10, "tid": MAIN, "time_ns": at, "size_bytes": 8} for at in (99, 100)],
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("started") / "lab", STARTED)


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, ["mm", "other process", "other rank", "replay", "unlinked"]),
        ({"by": "execution"}, ["late", "mm", "other process", "other rank", "replay", "unlinked"]),
        ({"steps": "1"}, ["mm", "unlinked"]),
        ({"linked": True}, ["mm", "replay"]),
        ({"stream": "20", "by": "execution"}, ["late"]),
        ({"from_": "10ns", "to": "105ns"}, ["mm", "other process", "other rank", "unlinked"]),
        ({"within": "randn", "by": "execution"}, ["other process", "other rank"]),
    ],
)
def test_the_start_of_a_program_is_left_out_of_its_process(
    started: Path, scope: dict[str, Any], expected: list[str]
) -> None:
    """Kernels count by their launch: `late` runs behind the start that launched it. No step follows rank 1's start."""
    rows = Lab(started).scoped(after_start=True, **scope).sql("select name from kernels order by name").to_pylist()
    assert [each["name"] for each in rows] == expected


def test_rows_of_a_cpu_count_from_the_end_of_the_start(started: Path) -> None:
    counts = {table: count(started, table, after_start=True) for table in ("annotations", "ops", "memory_events")}
    assert counts == {"annotations": 4, "ops": 3, "memory_events": 1}


@pytest.mark.parametrize("by", ["launch", "execution"])
def test_what_is_left_out_with_a_start_and_the_rest_add_up_to_the_whole(started: Path, by: Any) -> None:
    whole, lab = Lab(started), Lab(started).scoped(after_start=True, by=by)
    parts = [
        lab.sql(f"select count(*) as n, sum(dur_ns)::bigint as ns from {table}").to_pylist()[0]
        for table in ("gpu_activity", "out_of_scope_activity")
    ]
    (all_rows,) = whole.sql("select count(*) as n, sum(dur_ns)::bigint as ns from gpu_activity").to_pylist()
    assert {name: parts[0][name] + parts[1][name] for name in all_rows} == all_rows == {"n": 8, "ns": 240}
    assert parts[1]["n"] == {"launch": 3, "execution": 2}[by]


def test_the_sentence_has_the_length_of_the_start(started: Path, two_steps: Path, tmp_path: Path) -> None:
    def note(store: Path) -> str:
        return Lab(store).scoped(after_start=True).query("kernel_summary").notes[0].partition(";")[0]

    ranks = [{name: [row | {"rank": rank} for row in rows] for name, rows in STARTED.items()} for rank in range(2)]
    both = {name: [*ranks[0][name], *ranks[1][name]] for name in STARTED}
    both["annotations"][0]["dur_ns"] = 90
    assert note(started) == "Scope: after the program's start of 100 ns"
    assert note(build_store(tmp_path / "lab", both)) == "Scope: after the starts of 2 programs of 90 ns to 100 ns"
    assert note(two_steps) == "Scope: after the program's start (none precedes a recorded step)"
    with pytest.raises(NoDataError, match="no row lies in the scope: after the program's start of 100 ns, to 10ns"):
        Lab(started).scoped(after_start=True, to="10ns").query("kernel_summary")


def test_options_of_a_scope_are_those_of_the_command() -> None:
    scope = Scope(steps="1", linked=True, after_start=True, by="execution")
    assert scope.options == ("--steps", "1", "--linked", "--after-start", "--scope-by", "execution")
    assert Scope(after_start=True)
    assert not Scope(by="execution")


def test_a_query_of_a_run_folder_names_the_start_that_it_includes(started: Path, tmp_path: Path) -> None:
    def notes(store: Path, *options: str) -> str:
        return CliRunner().invoke(main, ["query", "gpu_breakdown", "--store", str(store), *options]).stderr

    steps = [{"phase": "train", "epoch": 0, "step": 0, "start_ns": 0, "dur_ns": 100}]
    recorded = build_store(tmp_path / "lab", STARTED | {"steps": steps})
    sentence = "The answer includes the program's start of r, 100 ns; --after-start leaves it out.\n"
    assert notes(recorded) == notes(recorded, "--run", "r") == sentence
    assert notes(recorded, "--after-start").startswith("Scope: after the program's start of 100 ns; ")
    assert notes(started) == ""


def test_a_query_of_one_run_names_no_start_of_another_whose_counters_it_may_read(tmp_path: Path) -> None:
    tables = {table: [{"run": run} | row for run in ("r", "other") for row in rows] for table, rows in STARTED.items()}
    tables["annotations"] = [
        row for row in tables["annotations"] if row["run"] == "other" or "start" not in row["name"]
    ]
    steps = [{"run": run, "phase": "train", "step": 0, "start_ns": 0, "dur_ns": 100} for run in ("r", "other")]
    store = build_store(tmp_path / "lab", tables | {"steps": steps})

    def notes(run: str) -> str:
        return CliRunner().invoke(main, ["query", "op_flop", "--run", run, "--store", str(store)]).stderr

    assert ("program's start of other" in notes("other"), "program's start" in notes("r")) == (True, False)
    answered = [
        execute.answered_runs(library.library()[name], {"run": "r"}) for name in ("roofline", "module_time", "mfu")
    ]
    assert answered == [["r"]] * 3
    assert execute.answered_runs(library.library()["roofline"], {}) is None


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


def test_a_graph_finds_its_capture_in_another_run_that_the_scope_does_not_cut(tmp_path: Path) -> None:
    capture = {"run": "capture", "source": "c"}
    store = build_store(
        tmp_path / "lab",
        {
            "annotations": [mark(100, 90, "ProfilerStep#0"), mark(200, 90, "ProfilerStep#1")],
            "ops": [on(MAIN, 2, 5, name="aten::mm", input_shapes="[[2,3],[3,5]]") | capture],
            "api_calls": [
                on(MAIN, 1, 1, api="runtime", name="hipStreamBeginCapture") | capture,
                on(MAIN, 3, 1, api="runtime", name="hipLaunchKernel", args='{"kernel":"gemm"}') | capture,
                on(MAIN, 9, 1, api="runtime", name="hipStreamEndCapture") | capture,
                on(MAIN, 210, 1, api="runtime", name="hipGraphLaunch", correlation=1),
            ],
            "kernels": [work(220, "gemm", 1)],
        },
    )
    for lab, run in ((Lab(store), "r"), (Lab(store).scoped(steps="1"), "r"), (Lab(store).scoped(steps="1"), None)):
        assert [(row["op"], row["capture_run"]) for row in lab.query("graph_replays", run=run).to_pylist()] == [
            ("aten::mm", "capture")
        ]


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(
        tmp_path_factory.mktemp("replayed") / "lab",
        {
            "annotations": [mark(0, 90, "ProfilerStep#0"), mark(100, 90, "ProfilerStep#1")],
            "ops": [on(MAIN, 22, 5, name="aten::mm"), on(MAIN, 105, 2, name="aten::copy_")],
            "python_frames": [
                on(MAIN, 21, 8, name="nn.Module: Linear_0"),
                on(MAIN, 104, 4, name="nn.Module: Sample_0"),
            ],
            "api_calls": [
                on(MAIN, 20, 1, api="runtime", name="hipStreamBeginCapture"),
                on(MAIN, 23, 1, api="runtime", name="hipLaunchKernel", args='{"kernel":"gemm"}'),
                on(MAIN, 30, 1, api="runtime", name="hipStreamEndCapture"),
                *(on(MAIN, at, 1, api="runtime", name="hipGraphLaunch", correlation=at) for at in (40, 110)),
            ],
            "kernels": [work(50, "gemm", 40), work(120, "gemm", 110)],
        },
    )


def test_a_capture_outside_of_the_scope_keeps_its_ops_and_frames(replayed: Path) -> None:
    lab = Lab(replayed).scoped(steps="1")
    for by, detail in (("name", None), ("module", "Linear_0")):
        (row,) = (row for row in lab.query("op_summary", by=by).to_pylist() if row["op"] == "aten::mm")
        assert [row[name] for name in ("calls", "gpu_ns", "module")] == [0, 30, detail]
    (row,) = (row for row in lab.query("module_time").to_pylist() if row["module"] == "Linear_0")
    assert [row[name] for name in ("calls", "gpu_ns")] == [0, 30]
    frames = {row["frame"]: row["total"] for row in lab.query("stacks", measure="gpu").to_pylist()}
    assert frames == {"nn.Module: Linear_0": 30, "aten::mm": 30}
    (row,) = [row for row in Lab(replayed).query("op_summary").to_pylist() if row["op"] == "aten::mm"]
    assert [row["calls"], row["gpu_ns"]] == [1, 60]


def test_a_replay_has_the_ops_of_its_capture_in_a_scope_without_ops_of_its_own(replayed: Path) -> None:
    lab = Lab(replayed).scoped(from_="108ns")
    answer = lab.query("op_summary")
    assert [(row["op"], row["gpu_ns"]) for row in answer.to_pylist()] == [("aten::mm", 30)]
    assert answer.notes[0].endswith("0 of 2 ops, 1 of 2 kernels.")
    assert [(row["op"], row["gpu_ns"]) for row in lab.query("op_flop").to_pylist()] == [("aten::mm", 30)]
    assert {row["frame"]: row["total"] for row in lab.query("stacks", measure="gpu").to_pylist()}["aten::mm"] == 30
    with pytest.raises(NoDataError, match=r"no row lies in the scope: .*; 0 of 2 ops\."):
        Lab(replayed).scoped(from_="111ns").query("op_summary")


def test_hints_are_of_what_was_recorded_and_not_of_the_scope(replayed: Path) -> None:
    query = library.find("graph_replays")
    assert Lab(replayed).scoped(from_="111ns", by="execution").find_hints(query, {}) == []


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


def test_ranks_that_are_moved_to_one_clock_keep_their_steps(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    (step,) = {row["step"] for row in lab.query("step_breakdown", rank=0).to_pylist()[:1]}
    plain, aligned = (
        Lab(lab.store, aligned=aligned)
        .scoped(steps=str(step))
        .sql("select rank, count(*) as n from kernels group by 1 order by 1")
        for aligned in (False, True)
    )
    assert plain.to_pylist() == aligned.to_pylist()


def test_all_of_a_recording_is_the_recording(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    for name in ("gpu_breakdown", "op_kernels", "critical_path"):
        assert lab.scoped(from_="0").query(name).to_pylist() == lab.query(name).to_pylist()


def test_steps_and_what_lies_outside_add_up_to_the_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    tables = ("kernels", "memcpys", "ops", "api_calls")
    sums = " union all ".join(f"select count(*), sum(dur_ns)::bigint from {table}" for table in tables)

    def add_up(*scopes: dict[str, str]) -> list[int]:
        rows = [lab.scoped(**scope).sql(f"select * from ({sums}) as sums(n, dur_ns)").to_pylist() for scope in scopes]
        return [sum(each[at][key] or 0 for each in rows) for at in range(len(tables)) for key in ("n", "dur_ns")]

    steps = sorted({row["step"] for row in lab.query("step_breakdown", rank=0).to_pylist()} - {None})
    assert len(steps) > 1
    assert add_up(*({"steps": str(step)} for step in steps)) == add_up({"steps": f"{steps[0]}-"})
    halves = ({"to": "31.5ms"}, {"from_": "31.5ms"})
    assert add_up(*halves) == add_up({})

    def idle_ns(*scopes: dict[str, str], query: str = "gpu_breakdown") -> int:
        answers = [lab.scoped(**scope).query(query, rank=0).to_pylist() for scope in scopes]
        return sum(row["idle_ns"] for rows in answers for row in rows)

    assert idle_ns(*halves) == idle_ns(*halves, query="idle_causes") == idle_ns({}) > 0
    assert idle_ns(*(half | {"by": "execution"} for half in halves)) == idle_ns({})

    assert idle_ns(*({"steps": str(step)} for step in steps)) == idle_ns({"steps": f"{steps[0]}-"}) > 0


def test_parts_of_a_window_and_rows_outside_of_the_scope_add_up_to_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent)).scoped(stream="7")
    parts = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "out_of_scope_ns")
    rows = lab.query("gpu_breakdown").to_pylist()
    assert all(sum(row[part] for part in parts) == row["window_ns"] for row in rows)
    assert all(row["out_of_scope_ns"] > 0 for row in rows)
    idle = {row["rank"]: row["idle_ns"] for row in rows}
    assert {row["rank"]: row["idle_ns"] for row in lab.query("idle_causes").to_pylist()} == idle
    binned = dict.fromkeys(idle, 0)
    for row in lab.query("timeline").to_pylist():
        binned[row["rank"]] += row["idle_ns"]
        assert row["outside_ns"] + sum(row[part] for part in parts[:-1]) == row["bin_ns"]
    balance = {(row["rank"], row["term"]): row["amount"] for row in lab.query("rank_balance").to_pylist()}
    assert {rank: balance[rank, "idle"] for rank in idle} == binned  # these count gaps that rows outside end, too
    for row in rows:
        rank = row["rank"]
        terms = ("compute", "communication", "copies")
        assert [balance[rank, term] for term in terms] == [row[part] for part in parts[:3]]
        first_gap_ns = row["window_ns"] - balance[rank, "window"]
        others_ns = balance[rank, "idle"] + balance[rank, "out of scope"]
        assert row["idle_ns"] + row["out_of_scope_ns"] == others_ns + first_gap_ns
    exposed: dict[int, int] = {}
    for row in lab.query("step_frontier").to_pylist():
        exposed[row["step"]] = exposed.get(row["step"], row["step_ns"]) - row["exposed_ns"]
        assert row["stage"] != "out of scope" or row["stage_ns"] > 0
    assert set(exposed.values()) == {0}


def test_communication_of_a_scope_is_exposed_as_in_the_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    ((stream,),) = (
        row.values()
        for row in whole.sql("select distinct stream from kernels where contains(name, 'nccl')").to_pylist()
    )
    scoped = whole.scoped(stream=str(stream))
    exposed = [row["exposed_comm_ns"] for row in whole.query("gpu_breakdown").to_pylist()]
    rows = scoped.query("gpu_breakdown").to_pylist()
    assert [row["exposed_comm_ns"] for row in rows] == exposed
    assert all(row["overlapped_comm_ns"] > 0 == row["compute_ns"] for row in rows)
    for name, column, keep in (
        ("timeline", "exposed_comm_ns", {}),
        ("rank_balance", "amount", {"term": "communication"}),
        ("nccl_share", "exposed_ns", {"collective": "all"}),
        ("module_time", "exposed_comm_ns", {}),
    ):
        of_rank = dict.fromkeys(range(4), 0)
        for row in scoped.query(name).to_pylist():
            if keep.items() <= row.items():
                of_rank[row["rank"]] += row[column]
        assert list(of_rank.values()) == exposed, name
    for name, column in (("gpu_breakdown", "exposed_comm_ns"), ("nccl_share", "overlap_ns")):
        like = "tracelens" if name == "gpu_breakdown" else "hta"
        answers = (lab.query(name, like=like).to_pylist() for lab in (whole, scoped))
        assert len({tuple(row[column] for row in answer) for answer in answers}) == 1, name
