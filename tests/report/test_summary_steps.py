"""The step time of a summary: which steps count, and what the note beside it names."""

from pathlib import Path

import pytest

import tracelab
from tests.build import build_store
from tests.compare.small_runs import recording, together
from tracelab.query.library import library
from tracelab.report.answers import open_report_session
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.figures import compute_step_time
from tracelab.report.summary.summarize import summarize
from tracelab.report.windows import StepTime


def test_a_mean_step_is_of_steps_with_gpu_work_also_where_the_profiler_missed_that_of_others() -> None:
    """Two ranks have 3 steps each; the first of both was recorded without its kernels."""
    rows = [
        {"rank": rank, "step_ns": step_ns, "left_out": left_out, "is_marked": True}
        for rank in (0, 1)
        for step_ns, left_out in ((900, "no_gpu_work"), (100 + rank, "first_or_last"), (200 + rank, None))
    ]
    assert compute_step_time(rows) == StepTime(step_ns=602 / 4, recorded_ns=602 / 2)
    assert compute_step_time(rows[:1]) == StepTime(step_ns=900, recorded_ns=900)
    assert compute_step_time([]) is None


def test_steps_in_which_no_gpu_works_are_left_out_of_the_step_time(tmp_path: Path) -> None:
    ranges = [(0, 400), (400, 100), (500, 50)]
    tables = {
        "annotations": [
            {"name": f"ProfilerStep#{at}", "scope": "cpu", "pid": 1, "tid": 1, "start_ns": start, "dur_ns": dur}
            for at, (start, dur) in enumerate(ranges)
        ],
        "kernels": [
            {"name": "gemm", "pid": 1, "device": 0, "stream": 7, "start_ns": at + 10, "dur_ns": 20, "correlation": at}
            for at in (405, 505)
        ],
        "api_calls": [
            {"api": "runtime", "name": "l", "pid": 1, "tid": 1, "start_ns": at, "dur_ns": 5, "correlation": at}
            for at in (405, 505)
        ],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    step_time = next(each for each in found.figures if each.name == "step time")
    assert (step_time.value, step_time.note) == (
        75,
        "median of 2 recorded steps, 50 ns to 100 ns; left out: 1 without recorded GPU work",
    )


@pytest.mark.usefixtures("figures_alone")
def test_the_step_time_of_an_inference_names_the_query_of_latencies(tmp_path: Path) -> None:
    op = {"name": "aten::mm", "pid": 1, "tid": 1, "start_ns": 1, "dur_ns": 9}
    steps = [{"phase": phase, "step": 0, "start_ns": 0, "dur_ns": 100, "run": phase} for phase in ("decode", "train")]
    tables = {"steps": steps, "ops": [op | {"run": run} for run in ("decode", "train")]}
    notes = {each.run: each.figures[0].note for each in summarize(build_store(tmp_path / "lab", tables))}
    assert {run: note.endswith("further token: inference_latency") for run, note in notes.items()} == {
        "decode": True,
        "train": False,
    }


@pytest.mark.parametrize(
    ("second", "value", "note"),
    [
        (9, 100, "median of 3 recorded steps, each averaged over 2 ranks; no step is recorded on all ranks"),
        (4, 100, "1 recorded step, averaged over 2 ranks; left out: 2 first or last"),
    ],
)
@pytest.mark.usefixtures("figures_alone")
def test_ranks_without_a_step_in_common_are_named_with_the_step_time(
    tmp_path: Path, second: int, value: int, note: str
) -> None:
    ranges = [
        {"name": f"ProfilerStep#{first + at}", "scope": "cpu", "pid": 1, "tid": 1, "start_ns": 100 * at, "dur_ns": 100}
        | {"rank": rank}
        for rank, first in ((0, 4), (1, second))
        for at in range(3)
    ]
    ops = [{"name": "aten::mm", "pid": 1, "tid": 1, "start_ns": 1, "dur_ns": 9, "rank": rank} for rank in range(2)]
    (found,) = summarize(build_store(tmp_path / "lab", {"annotations": ranges, "ops": ops}))
    step_time = next(each for each in found.figures if each.name == "step time")
    assert (step_time.value, step_time.note.replace(", 100 ns to 100 ns", "")) == (value, note)


@pytest.fixture
def figures_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    needed = [library()[name] for name in ("recordings", "gpu_breakdown")]
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: needed)


@pytest.mark.usefixtures("figures_alone")
@pytest.mark.parametrize(
    ("marks", "note"),
    [
        (
            ("execute_context_1(888)_generation_8(8)", "capture_32_FULL", "execute_context_0(0)_generation_9(9)"),
            "an inference server marks 2 steps: query serving_steps; by prefill and decode serving_phases",
        ),
        (("capture_32_FULL",), "an inference server captures CUDA graphs, and marks no step: query serving_steps"),
    ],
)
def test_an_inference_server_is_not_advised_to_mark_training_steps(
    tmp_path: Path, marks: tuple[str, ...], note: str
) -> None:
    marked = [
        {"name": name, "scope": "cpu", "pid": 1, "tid": 1, "start_ns": 100 * at, "dur_ns": 90}
        for at, name in enumerate(marks)
    ]
    tables = {
        "annotations": marked,
        "kernels": [{"name": "gemm", "device": 0, "stream": 7, "start_ns": 10, "dur_ns": 20}],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    assert (found.figures[0].text, found.figures[0].note) == ("unknown", note)


@pytest.mark.usefixtures("figures_alone")
def test_the_step_time_is_that_of_a_comparison_without_first_and_cut_off_last_step(tmp_path: Path) -> None:
    """Steps of 10,000 and 11,000 ns; the last one of each run is recorded for 9,000 ns only."""
    store = build_store(tmp_path / "lab", together(recording("a"), recording("b", slower=1_000)))
    found = {each.run: each.figures[0] for each in summarize(store)}
    compared = tracelab.open(store).compare("a", "b").comparison.main
    assert compared.metric == "step_time"
    assert (found["a"].value, found["b"].value) == (compared.base, compared.candidate) == (10_000, 11_000)
    assert found["a"].note == "median of 3 recorded steps, 10.00 µs to 10.00 µs; left out: 2 first or last"


@pytest.mark.usefixtures("figures_alone")
def test_the_step_time_beside_a_comparison_is_of_its_steps(tmp_path: Path) -> None:
    """The second run has two steps, so that the first two of each count."""
    store = build_store(tmp_path / "lab", together(recording("a"), recording("b", slower=1_000, steps=2)))
    with open_report_session(store, ()) as session:
        answers = {each.query.name: each for each in session.run_all(summarize_module.needed_queries())}
        alone, beside = (
            summarize_module.summarize_answers(session, answers, None, compared=each) for each in (False, True)
        )
    notes = [summaries[0].figures[0].note for summaries in (alone, beside)]
    assert notes == [
        "median of 3 recorded steps, 10.00 µs to 10.00 µs; left out: 2 first or last",
        "median of 2 recorded steps, 10.00 µs to 10.00 µs; left out: 3 more than the shortest recording has",
    ]


@pytest.mark.usefixtures("figures_alone")
def test_steps_of_a_run_folder_count_without_first_and_last_too(tmp_path: Path) -> None:
    """Two ranks, whose steps take 500, 100, 110, 120 and 30 ns, the second one's 20 ns more: 120 is the median."""
    steps = [
        {"rank": rank, "phase": "train", "epoch": 0, "step": step, "start_ns": 1_000 * step, "dur_ns": dur + 20 * rank}
        for rank in (0, 1)
        for step, dur in enumerate((500, 100, 110, 120, 30))
    ]
    store = build_store(tmp_path / "lab", {"steps": steps, "ops": [{"name": "mm", "start_ns": 0, "dur_ns": 5}]})
    (found,) = summarize(store)
    assert (found.figures[0].value, found.figures[0].note) == (
        120,
        "median of 3 timed steps, each averaged over 2 ranks, 100 ns to 140 ns; left out: 2 first or last",
    )
