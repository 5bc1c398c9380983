"""Summaries of runs of a few rows: figures and findings added up by hand."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.build import build_store
from tracelab.cli import main
from tracelab.query.library import library
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.figures import compute_mfu
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import Summaries, describe_rest, describe_runs

KERNEL = {"device": 0, "stream": 7, "name": "gemm"}


def two_steps(rank: int) -> dict[str, list[dict[str, object]]]:
    """Two steps of 1000 ns; in each the GPU computes 600 ns (rank 1: 500), and waits for a launch at the end of 200."""
    kernels, calls, steps = [], [], []
    for step in (0, 1):
        at = 1000 * step
        steps.append({"rank": rank, "scope": "cpu", "name": f"ProfilerStep#{step}", "start_ns": at, "dur_ns": 1000})
        for start, dur, launched in ((0, 400, -50), (600, 200 - 100 * rank, 590)):
            number = len(kernels)
            kernels.append(
                KERNEL | {"rank": rank, "start_ns": at + start, "dur_ns": dur, "correlation": number, "pid": rank}
            )
            calls.append(
                {
                    "rank": rank,
                    "pid": rank,
                    "tid": 1,
                    "name": "cudaLaunchKernel",
                    "start_ns": at + launched,
                    "dur_ns": 5,
                    "correlation": number,
                }
            )
    return {"kernels": kernels, "api_calls": calls, "annotations": steps}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> RunSummary:
    ranks = [two_steps(rank) for rank in (0, 1)]
    store = build_store(
        tmp_path_factory.mktemp("steps") / "lab", {name: [*ranks[0][name], *ranks[1][name]] for name in ranks[0]}
    )
    (found,) = summarize(store)
    return found


def test_figures_are_those_added_up_by_hand(summary: RunSummary) -> None:
    """The windows are 1800 and 1700 ns, of which 1200 and 1000 ns are busy; each of the gaps ends with a launch."""
    known = {each.name: each.value for each in summary.figures}
    assert known["step time"] == 1000
    assert known["GPU busy"] == pytest.approx(2200 / 3500)
    assert known["exposed communication"] == 0
    assert known["MFU"] is None


def test_the_lead_is_the_idle_time_with_its_share_and_command(summary: RunSummary) -> None:
    (first, *_) = summary.leads
    assert first.query in {"idle_causes", "gpu_breakdown"}
    assert first.share == pytest.approx(1300 / 3500)
    assert first.next_command.startswith("tracelab query ")


def test_a_run_on_the_cpu_has_figures_of_the_cpu(tmp_path: Path) -> None:
    """Two steps of 100 ns that only the run folder has; gloo runs for 40 of 200 ns, of which an op hides 10.

    From 100 to 130 ns nothing works.
    """
    tables = {
        "ops": [{"name": "aten::mm", "tid": 1, "start_ns": at, "dur_ns": 70} for at in (0, 130)],
        "annotations": [{"name": "gloo:all_reduce", "scope": "cpu", "tid": 2, "start_ns": 60, "dur_ns": 40}],
        "steps": [{"phase": "train", "epoch": 0, "step": step, "start_ns": 0, "dur_ns": 100} for step in (0, 1)],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    known = {each.name: (each.value, each.text) for each in found.figures}
    assert known["step time"][0] == 100
    assert known["GPU busy"] == (None, "no GPU")
    (mfu,) = (each for each in found.figures if each.name == "MFU")
    assert (mfu.text, mfu.note) == ("unknown", "a share of what a GPU can reach, and no activity of one is recorded")
    assert known["exposed communication"][0] == pytest.approx(30 / 200)
    leads = {each.query: each.rest for each in found.leads}
    assert leads == {"cpu_communication": pytest.approx(30 / 200), "cpu_breakdown": pytest.approx(30 / 200)}
    assert found.work == "Self time of ops: aten::mm 100.0 %"
    text = " ".join(repr(Summaries([found])).split())
    assert (
        "as shares of 200 ns, the windows (first to last activity) of all ranks of the run on the CPU added up, and of "
        "a mean step of 100 ns:"
    ) in text


def test_a_late_rank_of_a_run_on_the_cpu_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 enters three all-reduces 60 ns after rank 0, of which both compute for 10 ns; each then takes 10 ns."""
    ranges, ops = [], []
    for step, start in enumerate((0, 100, 200)):
        for rank, entry in ((0, start + 20), (1, start + 80)):
            at = {"rank": rank, "pid": rank, "scope": "cpu"}
            ranges.append(at | {"name": f"ProfilerStep#{step}", "tid": 1, "start_ns": start, "dur_ns": 100})
            ranges.append(at | {"name": "gloo:all_reduce", "tid": 2, "start_ns": entry, "dur_ns": start + 90 - entry})
            ops.append({"rank": rank, "pid": rank, "name": "aten::mm", "tid": 1, "start_ns": start, "dur_ns": 30})
    names = ("stragglers", "cpu_communication", "cpu_breakdown", "recordings")
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: [library()[name] for name in names])
    (found,) = summarize(build_store(tmp_path / "lab", {"annotations": ranges, "ops": ops}))
    lead = next(each for each in found.leads if "waiting" in each.topics)
    assert (lead.query, lead.rank, lead.cost_ns, lead.whole_ns) == ("stragglers", 0, 3 * 50, 2 * 300)
    assert plain_text(lead.sentence).startswith(
        "Rank 0: of its collectives 85.71 % (180 ns of 210 ns) is waiting for ranks that enter later, most for rank 1, "
        "most in all_reduce (its group is not recorded), worst in step 0."
    )
    assert lead.next_command.startswith("tracelab query rank_balance --run r ")
    assert [each.what_if_command for each in found.leads] == [None] * len(found.leads)
    notes = {each.name: each.note for each in found.figures}
    assert notes["exposed communication"] == "of the windows of 2 ranks, by gloo; waiting for late ranks 25.0 %"


def test_waiting_that_several_ranks_do_not_show_is_unknown_for_the_reason_of_collective_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a send and its receive no clock is known, as no collective ends everywhere at once."""
    kernels = [
        KERNEL | {"name": "ncclDevKernel_SendRecv", "rank": rank, "start_ns": 500 * at + 100 * rank, "dur_ns": 100}
        for rank in (0, 1)
        for at in range(5)
    ]
    names = ("recordings", "gpu_breakdown", "stragglers")
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: [library()[name] for name in names])
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    assert {each.name: each.note for each in found.figures}["exposed communication"].endswith(
        "; how much of it is waiting is not known (collective_wait: no collective that ends everywhere at once shows "
        "whether the order agrees)"
    )


@pytest.mark.parametrize(("ratio", "text"), [(0.000274, "≥ 0.027 %"), (0.00149, "≥ 0.1 %"), (0.4, "≥ 40.0 %")])
def test_a_small_bound_of_the_mfu_is_not_rounded_to_nothing(ratio: float, text: str) -> None:
    of_shapes = {"flop_source": "shapes", "matched_ratio": 0.5, "ncu_run": None, "run": "a"}
    peak = {"peak_gflop_per_s": 15_700.0, "precision": "fp32", "peak_source": "specification"}
    assert compute_mfu([of_shapes | peak | {"mfu_ratio": ratio}], {}).text == text


def test_an_unknown_peak_is_all_that_the_mfu_of_known_flops_lacks() -> None:
    reason = "no peak of tensor_bf16 is known: measure ceilings, or add --peak-gflop-per-s"
    unknown = {"mfu_ratio": None, "flop": None, "flop_source": None, "refused": reason}
    assert compute_mfu([unknown | {"flop": 600}], {}).note == reason
    assert compute_mfu([unknown | {"flop_source": "shapes"}], {}).note == reason
    assert "record shapes" in compute_mfu([unknown], {}).note


def test_reasons_of_ranks_that_differ_in_a_percentage_are_one_with_its_range() -> None:
    refused = [f"FLOPs of {share} % are known, below 50 %" for share in ("2.8", "10.1", "3")]
    rows = [{"mfu_ratio": None, "flop": 1, "flop_source": None, "refused": each} for each in (*refused, "no peak")]
    assert compute_mfu(rows, {}).note == "FLOPs of 2.8 % to 10.1 % are known, below 50 %; no peak"


def test_a_run_of_counters_alone_has_no_figures_and_names_the_query(tmp_path: Path) -> None:
    metrics = [{"launch": 0, "device": 0, "kernel": "k", "metric": "dram__bytes.sum", "value": 7.0}]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernel_metrics": metrics}))
    assert (found.figures, found.leads) == ((), ())
    store = tmp_path / "lab"
    assert found.next_commands == (f"tracelab query roofline --run r --store {store}",)
    assert "no GPU" not in found.description


def test_a_run_that_failed_or_was_recorded_in_part_has_that_in_its_first_line(tmp_path: Path) -> None:
    notes = {"ranks.0.note": "only 3 of 9 steps", "ranks.1.note": "only 3 of 9 steps", "ranks.3.note": "no step"}
    runs = [
        {
            "run": "a",
            "status": "failed",
            "error": "killed by SIGKILL.",
            "world_size": 2,
            "tags": dict([*notes.items()][:2]),
        },
        {"run": "b", "status": "ok", "tags": {"ranks.0.note": "only 3 of 9 steps"}},
        {"run": "c", "world_size": 4, "status": "ok", "tags": notes | {"ranks.0.status": "ok"}},
        {"run": "d", "status": "ok", "error": "x"},
        {"run": "e", "status": "oom"},
        {"run": "f", "status": "failed", "error": "word " * 99},
        {"run": "g"},
    ]
    samples = [
        {"run": "g", "host": "node", "time_ns": at, "cores": 8, "own_cpu_ns": 20, "own_wait_ns": 30}
        for at in (1_000, 1_100)
    ]
    store = build_store(tmp_path / "lab", {"runs": runs, "host_samples": samples})
    found = {each.run: each.description for each in summarize(store)}
    ends = {run: text.removeprefix("no GPU · kineto").removeprefix(" · ") for run, text in found.items()}
    assert ends == {
        "a": "status failed: killed by SIGKILL · only 3 of 9 steps",
        "b": "only 3 of 9 steps",
        "c": "ranks 0, 1: only 3 of 9 steps · rank 3: no step",
        "d": "",
        "e": "status oom",
        "f": f"status failed: {'word ' * 39}…",
        "g": "its threads waited for a core for 60 % of the time in which they could run, while its processes kept 0.2 "
        "of 8 cores busy",
    }


def test_waiting_that_one_rank_cannot_tell_is_stated_with_what_to_record(tmp_path: Path) -> None:
    collective = KERNEL | {"name": "ncclDevKernel_AllReduce_Sum_f32", "rank": 0, "start_ns": 500, "dur_ns": 100}
    kernels = [KERNEL | {"rank": 0, "start_ns": 0, "dur_ns": 400}, collective | {"stream": 8}]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    note = {each.name: each.note for each in found.figures}["exposed communication"]
    assert note.startswith("of the windows; all communication 16.7 %; how much")
    assert note.endswith("ingest the traces of all ranks as one run")


def test_a_run_of_steps_alone_is_not_taken_for_one_without_losses(tmp_path: Path) -> None:
    """Of a run on a GPU only three steps are recorded: nothing is known of its communication and of what costs most."""
    steps = [{"phase": "train", "epoch": 0, "step": at, "start_ns": 100 * at, "dur_ns": 100} for at in range(3)]
    store = build_store(tmp_path / "lab", {"steps": steps, "runs": [{"run": "r", "gpu": "P100", "status": "ok"}]})
    (found,) = summarize(store)
    assert found.note == (
        "Only the times of steps are recorded, and no timeline: what they spend their time on is not known."
    )
    figures = {each.name: each.text for each in found.figures}
    assert (figures["GPU busy"], figures["exposed communication"]) == ("not recorded", "unknown")
    assert describe_runs([found] * 2) == "2 runs: 2 on a GPU that was not recorded."
    assert describe_rest([found] * 2, [], []) == "Of 2 runs no timeline is recorded, so findings are not known."


def test_elementwise_kernels_are_noted_for_what_fusing_saves_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 1,000 ns, 2 kernels add for 300; copies take 200, which is not more than a fifth."""
    names = ("gpu_breakdown", "kernel_class_share")
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: [library()[name] for name in names])
    add, copy = (
        f"void at::native::vectorized_elementwise_kernel<4, at::native::{functor}>(int)"
        for functor in ("CUDAFunctor_add<float>", "direct_copy_kernel_cuda")
    )
    rows = [(0, 100, add), (100, 200, add), (300, 200, copy), (500, 500, "ampere_sgemm_32x32")]
    kernels = [KERNEL | {"name": name, "start_ns": start, "dur_ns": dur_ns} for start, dur_ns, name in rows]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    (note,) = (each for each in found.unranked if "fusing" in each.advice)
    assert plain_text(note.sentence) == (
        "2 kernels of class elementwise take 30.00 % (300 ns of 1.000 µs) of the kernel time."
    )
    assert note.rest == pytest.approx(0.3)


def test_a_limit_bounds_the_findings_of_texts_and_of_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("gpu_breakdown", "idle_causes", "kernel_class_share")
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: [library()[name] for name in names])
    softmax = "void cunn_SoftMaxForward<8, float, at::native::SoftMaxForwardEpilogue>(float*)"
    rows = [(0, 100, softmax), (600, 400, "gemm")]  # idle for 500 of 1,000 ns, softmax for 100
    kernels = [KERNEL | {"name": name, "start_ns": start, "dur_ns": dur_ns} for start, dur_ns, name in rows]
    store = str(build_store(tmp_path / "lab", {"kernels": kernels}))
    counts = []
    for option in ((), ("--limit", "1"), ("--limit", "0")):
        text, data = (
            CliRunner().invoke(main, ["summary", "--store", store, *option, "--format", fmt]).stdout
            for fmt in ("table", "csv")
        )
        counts.append((len(re.findall(r"^  \d\. ", text, re.MULTILINE)), data.count('"finding"')))
        assert ("What costs most" in text, "\n\n\n" in text) == (counts[-1][0] > 0, False)
    assert counts == [(2, 2), (1, 1), (0, 0)]
