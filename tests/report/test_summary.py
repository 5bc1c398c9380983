"""The summary of a run: figures added up by hand, and findings that count each time once."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tests.compare.small_runs import recording, together
from tests.report.per_step import check_costs_per_step
from tests.stores import eight_ranks, four_ranks, h200
from tracelab.cli import main
from tracelab.errors import NoDataError
from tracelab.output.commands import StoreCommands
from tracelab.query.library import library
from tracelab.query.report_rules import Cost, Finding, WhatIf
from tracelab.report.answers import open_report_session
from tracelab.report.page import Page
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.alike import join_alike
from tracelab.report.summary.derivation import derive_shares
from tracelab.report.summary.figures import compute_mfu, compute_step_time
from tracelab.report.summary.html import MOST_WHOLE, render_summaries
from tracelab.report.summary.lead import Ceiling, Gain, Lead, list_single, order_with_losses, plain_text
from tracelab.report.summary.overview import group_by_lead
from tracelab.report.summary.ranking import add_consequences, explain, limit, rank_leads
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import (
    Summaries,
    describe_rest,
    describe_runs,
    format_recoverable,
    format_short,
    summary_lines,
)
from tracelab.report.windows import StepTime
from tracelab.resources import QUERIES

LEAST = 0.01


def lead(name: str, share: float, detail: int, *topics: str) -> Lead:
    cost = Cost("1", None, adds=None, topics=topics, detail=detail)
    finding = Finding("true", "1", name, None, 1, None, cost)
    return Lead(
        query="advice",
        finding=finding,
        cost_ns=1_000_000 * share,
        whole_ns=1_000_000,
        added=1,
        share=share,
        unexplained=share,
        rest=share,
        rank=None,
        step=None,
        sentence=name,
        advice="",
        matching=1,
        checked=1,
        next_command="",
        figures_command="",
    )


def rests(*found: Lead) -> list[tuple[str, float]]:
    return [(each.sentence, round(each.rest, 6)) for each in explain(found, LEAST)]


def test_a_cause_explains_its_symptom() -> None:
    cause, symptom = lead("cause", 0.3, 3, "waiting"), lead("symptom", 0.35, 1, "waiting")
    assert rests(symptom, cause) == [("cause", 0.3)]


def test_a_tenth_of_the_run_that_is_left_of_a_cause_is_listed_and_of_a_figure_it_is_not() -> None:
    loader = lead("loader", 0.4, 2, "data")
    assert rests(loader, lead("host", 0.55, 1, "host", "data")) == [("loader", 0.4), ("host", 0.15)]
    assert rests(loader, lead("host", 0.45, 1, "host", "data")) == [("loader", 0.4)]
    assert rests(loader, lead("idle", 0.55, 0, "host", "data")) == [("loader", 0.4)]
    late = lead("late", 0.4, 2, "waiting")
    assert rests(late, lead("waits", 0.55, 1, "waiting")) == [("late", 0.4)]


def test_what_is_left_of_a_cause_is_listed_where_it_costs_as_much_as_another_finding() -> None:
    """The loader explains 0.29 of 0.384; the rest is more than the copies, and of 0.31 it is less."""
    loader, copies = lead("loader", 0.29, 2, "data"), lead("copies", 0.03, 2, "copies")
    copies = replace(copies, finding=replace(copies.finding, rule="x"))
    for host, names in ((0.384, ["loader", "host", "copies"]), (0.31, ["loader", "copies"])):
        found = rank_leads([loader, lead("host", host, 1, "host", "data")], [copies], [], 0)
        assert [each.sentence.split()[0] for each in found.leads] == names
        assert sum(each.rest for each in found.leads) == pytest.approx(0.414 if "host" in names else 0.32)
    alone = rank_leads([loader, lead("host", 0.384, 1, "host", "data")], [], [], 0)
    assert [each.sentence.split()[0] for each in alone.leads] == ["loader"]


def test_a_larger_loss_of_unknown_cause_is_listed_in_its_place_without_a_number() -> None:
    """The late start of 30 % is between findings of 40 and 20 %; a kernel of 50 % is no loss, a bound of 45 % is."""
    leads = [lead("host", 0.4, 1, "host"), lead("late CPU", 0.2, 2, "waiting")]
    copies = bounded("copies", 0.45)
    notes = [
        lead("kernel", 0.5, 1, "kernels"),
        copies,
        lead("start", 0.3, 2, "waiting"),
        lead("late", 0.1, 2, "waiting"),
    ]
    placed, others = order_with_losses(leads, notes)
    assert [(number, each.sentence) for number, each in placed] == [
        *((None, "copies"), (1, "host"), (None, "start"), (2, "late CPU")),
    ]
    assert [each.sentence for each in others] == ["kernel", "late"]
    assert [format_recoverable(each) for each in (copies, leads[0])] == ["45.0 % at most", "40.0 %"]
    assert [format_short(each) for each in (copies, leads[0])] == ["≤ 45.0 %", "40.0 %"]


def bounded(name: str, share: float) -> Lead:
    found = lead(name, share, 1, "kernels")
    cost = replace(found.finding.cost, is_bound=True) if found.finding.cost else None
    return replace(found, finding=replace(found.finding, cost=cost))


def test_what_is_left_of_a_symptom_is_ranked_by_the_rest() -> None:
    cause, symptom = lead("cause", 0.3, 3, "waiting"), lead("symptom", 0.8, 1, "waiting", "transfer")
    other = lead("other", 0.4, 2, "data")
    assert rests(symptom, cause, other) == [("symptom", 0.5), ("other", 0.4), ("cause", 0.3)]


def test_findings_together_cost_no_more_than_the_figure_that_they_are_part_of() -> None:
    late, sent, idle = lead("late", 0.3, 3, "waiting"), lead("sent", 0.1, 2, "transfer"), lead("idle", 0.2, 1, "host")
    ceilings = [
        Ceiling(frozenset({"waiting", "transfer"}), 0.2, "exposed communication"),
        Ceiling(frozenset({"host"}), 0.5, "idle time"),
    ]
    limited = limit(explain([late, sent, idle], LEAST), ceilings, LEAST)
    assert [(each.sentence, round(each.rest, 6)) for each in limited] == [("idle", 0.2), ("late", 0.15), ("sent", 0.05)]


def replayable(name: str, share: float, detail: int, topic: str, change: str = "no_data_waits") -> Lead:
    found = lead(name, share, detail, topic)
    return replace(found, finding=replace(found.finding, what_if=WhatIf((("change", change),), "Without it")))


def gaining(*, open_ns: int = 0, **gain_ns: int) -> Callable[[Sequence[Lead]], list[Lead]]:
    """Return a replay of a window of 1,000 ns, with what each change gains, and for how long it waits for unknowns."""
    return lambda leads: [
        replace(each, gain=Gain(gain_ns[str(dict(what_if.params)["change"])], 1_000, open_ns)) if what_if else each
        for each in leads
        for what_if in (each.finding.what_if,)
    ]


def test_what_gains_less_than_one_percent_by_a_replay_is_counted_and_not_ranked() -> None:
    leads = [replayable("sent", 0.05, 2, "transfer", "ideal_network"), lead("idle", 0.02, 1, "host")]
    found = rank_leads(leads, [], [], 3, gaining(ideal_network=6))
    assert ([each.sentence.split()[0] for each in found.leads], found.below) == (["idle"], 4)


def test_what_costs_less_than_one_percent_is_ranked_where_a_replay_gains_more() -> None:
    """Of two with one change the more expensive one is replayed; what a listed finding's replay is without is not."""
    small = [replayable("few", 0.004, 2, "data"), replayable("more", 0.006, 2, "data")]
    idle = lead("idle", 0.03, 1, "host")
    found = rank_leads([idle], [], [], 2, gaining(no_data_waits=55), small)
    first, second = found.leads
    assert (first.sentence.split()[0], first.recoverable, found.below) == ("more", 0.055, 1)
    assert (second.rest, second.unexplained) == (0.03, 0.03)  # of which the small one explains nothing
    assert "counted in" not in second.sentence
    loader = replayable("loader", 0.02, 2, "data")
    listed = rank_leads([idle, loader], [], [], 2, gaining(no_data_waits=55), small)
    assert ([each.sentence.split()[0] for each in listed.leads], listed.below) == (["loader", "idle"], 2)
    assert rank_leads([idle], [], [], 2, gaining(no_data_waits=9), small).below == 2


def test_a_replay_bounds_what_kernels_cost_unless_recording_slows_the_cpu_side_of_it() -> None:
    """Kernels take 30 %, and a run that waits for its CPU side gains 2 % without them."""
    kernels, host = (replayable(topic, 0.3, 1, topic, "scale") for topic in ("kernels", "host"))
    (found,) = rank_leads([kernels], [], [], 0, gaining(scale=20)).leads
    assert (found.recoverable, format_recoverable(found)) == (0.02, "2.0 % at most by a replay")
    (slowed,) = rank_leads([replace(kernels, is_slowed=True)], [], [], 0, gaining(scale=20)).leads
    assert (slowed.recoverable, format_recoverable(slowed)) == (0.3, "30.0 %")
    assert slowed.details == (
        "Without it, a replay of the run takes 20 ns of 1.000 µs less; recording slows the CPU side, so that the run "
        "may gain more without the profiler."
    )
    (waits,) = rank_leads([replace(host, is_slowed=True)], [], [], 0, gaining(scale=20)).leads
    assert waits.recoverable == 0.02


def test_replays_without_kernels_find_them_by_the_patterns_of_their_macros() -> None:
    patterns = [
        str(params["kernel"])
        for each in library()["kernel_class_share"].report.findings  # type: ignore[union-attr]
        if each.what_if and "kernel" in (params := dict(each.what_if.params))
    ]
    macros = (QUERIES / "lib" / "35_names.sql").read_text(encoding="utf-8")
    assert [pattern in macros for pattern in patterns] == [True] * 3


@pytest.mark.parametrize(
    ("gain_ns", "open_ns", "share", "label"),
    [
        (300, 0, 0.3, "30.0 % at most by a replay"),
        (300, 50, 0.35, "35.0 % at most by a replay"),
        (300, 100, 0.4, "40.0 %"),
        (500, 0, 0.4, "40.0 %"),
    ],
)
def test_a_replay_without_more_than_the_loss_bounds_it(gain_ns: int, open_ns: int, share: float, label: str) -> None:
    """GPUs wait for the host for 40 %; a CPU side that takes no time may end waits that are not recorded, too."""
    host = replayable("host", 0.4, 1, "host", "scale")
    (found,) = rank_leads([host], [], [], 0, gaining(open_ns=open_ns, scale=gain_ns)).leads
    assert (found.recoverable, format_recoverable(found)) == (pytest.approx(share), label)
    is_bound = "at most" in label
    assert format_short(found) == ("≤ " * is_bound + label.removesuffix(" at most by a replay"))
    assert [row["is_bound"] for row in summary_rows([RunSummary("r", "", (), "", (found,), "")]).to_pylist()] == [
        is_bound
    ]
    text = found.sentence if found.is_replayed else found.details
    assert f"Without it, a replay of the run takes {gain_ns} ns of 1.000 µs less" in text
    assert ("less, more than is lost to this, because it leaves out other time, too." in text) == (gain_ns == 500)
    assert ("for 50 ns of the rest it waits for what is not recorded" in text) == (open_ns == 50)
    assert rank_leads([host], [], [], 0, gaining(scale=9)).below == 1


def test_a_part_whose_loss_the_replay_of_a_finding_removes_is_stated_there() -> None:
    """The part of finding 2 has a share above that of finding 3, and the change of finding 1."""
    idle, copies = lead("idle", 0.3, 1, "data"), lead("copies", 0.02, 2, "copies")
    late = replayable("late", 0.1, 4, "waiting")
    part = replace(replayable("steps", 0.04, 2, "data"), added=3, added_rows="3 steps")
    part = replace(part, finding=replace(part.finding, rule="x"))
    first, second, third = rank_leads([idle, copies, late], [part], [], 0, gaining(no_data_waits=500)).leads
    names = [each.sentence.split()[0] for each in (first, second, third)]
    assert names == ["late", "idle", "copies"]
    assert first.details == "The same costs 40.00 µs in 3 steps, which finding 2 includes."
    alone = rank_leads([idle, copies], [part], [], 0).leads
    assert [(each.sentence.split()[0], each.part_of) for each in alone] == [
        ("idle", ()),
        ("steps", (1,)),
        ("copies", ()),
    ]


def test_causes_of_one_detail_stand_beside_each_other() -> None:
    assert rests(lead("a", 0.1, 3, "waiting"), lead("b", 0.2, 3, "waiting")) == [("b", 0.2), ("a", 0.1)]


def test_less_than_one_percent_is_left_out() -> None:
    assert rests(lead("a", 0.0099, 3, "waiting"), lead("b", 0.01, 1, "data")) == [("b", 0.01)]


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


@pytest.fixture(scope="module")
def first(lab: Path) -> RunSummary:
    (found,) = summarize(lab, ("first",))
    return found


def test_unknown_figures_state_what_to_record(first: RunSummary) -> None:
    notes = {each.name: each.note for each in first.figures if each.value is None}
    assert "pass a schedule to torch.profiler.profile and call profiler.step()" in notes["step time"]
    assert "ncu" in notes["MFU"]
    assert {each.name: each.value for each in first.figures}["GPU busy"] == pytest.approx(0.55)


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


def test_many_runs_are_a_table_and_the_one_that_is_selected(first: RunSummary) -> None:
    runs = [replace(first, run=f"run {at}") for at in range(MOST_WHOLE + 1)]
    page = render_summaries(runs, named=True, drawn={"run 1"})
    assert page.count("<tr>") == 1 + len(runs)
    assert "<th scope=row>run 3<td>" in page
    assert 'id="summary-3" data-only="3" hidden' in page
    assert "<table" not in render_summaries(runs[:MOST_WHOLE], named=True)


def test_a_finding_links_to_its_rank_and_step_in_a_timeline_that_is_drawn(first: RunSummary) -> None:
    run = replace(first, leads=(replace(lead("late", 0.5, 1, "waiting"), rank=2, step=7),))
    place = f'<a href="#timeline" data-place="{first.run}" data-step="7" data-rank="2">Timeline</a>'
    assert place in render_summaries([run], named=False, drawn={first.run})
    assert "#timeline" not in render_summaries([run], named=False)
    assert 'href="#' in render_summaries([run], named=False)
    assert 'href="#' not in render_summaries([run], named=False, on_page=False)


def test_a_report_prints_as_one_line_and_is_its_html_otherwise() -> None:
    page = Page("<p>" + "a" * 1_996 + "</p>")
    line = "<tracelab report, 2.003 kB of HTML; .save(PATH) writes it>"
    assert (repr(page), str(page), f"{page}", page.html) == (line, line, line, "".join(page))
    assert page.html.startswith("<p>a")


def test_a_run_that_is_not_there_is_refused(lab: Path) -> None:
    with pytest.raises(NoDataError, match="no run 'thrid'; nearest: "):
        summarize(lab, ("thrid",))


@pytest.fixture
def no_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the queries of the figures alone: those that may lead take several times as long."""
    figures = [library()[name] for name in summarize_module._FIGURES]
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: figures)


@pytest.mark.usefixtures("no_leads")
def test_the_command_prints_text_also_in_a_pipe_and_rows_on_request(lab: Path) -> None:
    run = CliRunner().invoke
    text = run(main, ["summary", "--store", str(lab), "--run", "first"], catch_exceptions=False).stdout
    assert text.splitlines()[0] == "first"
    assert re.search(r"^  GPU busy +55\.0 %", text, re.MULTILINE)
    rows = json.loads(run(main, ["summary", "first", "--store", str(lab), "--format", "json"]).stdout)
    assert [row["name"] for row in rows if row["kind"] == "figure"] == [
        *("step time", "GPU busy", "exposed communication", "host-bound", "MFU"),
    ]
    both = run(main, ["summary", "first", "--run", "first", "--store", str(lab)])
    assert both.exit_code == 2


@pytest.mark.usefixtures("no_leads")
def test_python_has_the_text_the_rows_and_html(lab: Path) -> None:
    found = tracelab.open(lab).summary("first")
    assert repr(found).startswith("first\n")
    assert repr(tracelab.open(lab).summary(["first"])) == repr(found)
    with pytest.raises(NoDataError, match="the store has no run 'fourth'"):
        tracelab.open(lab).summary(run="fourth")
    assert re.search(r"<dt>GPU busy<dd>[\d.]+ % <small>", found._repr_html_())
    assert found.rows.column_names[:5] == ["run", "kind", "name", "value", "unit"]
    units = {row["name"]: row["unit"] for row in found.rows.to_pylist()}
    assert units.pop("step time") == "ns"
    assert set(units.values()) == {"ratio"}


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


def test_all_findings_of_many_runs_are_listed_whole(first: RunSummary) -> None:
    runs = [replace(first, run=f"r{number}") for number in range(20)]
    lines = list(summary_lines(runs, 100, most_leads=None, is_whole=True))
    assert sum("GPU busy" in line for line in lines) == 20
    assert [line for line in lines if line in {each.run for each in runs}] == [each.run for each in runs]


@pytest.mark.parametrize("command", ["summary", "doctor"])
def test_help_states_the_format_in_a_pipe(command: str) -> None:
    text = " ".join(CliRunner().invoke(main, [command, "--help"]).stdout.split())
    assert "[default: by the suffix of -o; table, in a pipe too]" in text


def test_no_line_is_wider_than_the_terminal(first: RunSummary) -> None:
    lines = list(summary_lines([first], 80))
    assert max(len(line) for line in lines if ": tracelab " not in line and "Evidence" not in line) <= 80


@pytest.fixture(scope="module")
def job(shared_stores: Path) -> RunSummary:
    (found,) = summarize(eight_ranks(shared_stores), ("generated-8rank-pipeline",))
    return found


def test_the_generated_job_leads_with_its_transfers_and_its_straggler(job: RunSummary) -> None:
    """Without any transfer it would be 16.4 % shorter, without the slow GPU 11.0 % (3.961 ms), by its simulator."""
    first, second, *others = job.leads
    gains = [each.gain for each in job.leads[:3]]
    assert [each and (each.gain_ns, each.window_ns) for each in gains] == [
        (5_936_097, 35_908_181),
        (3_784_886, 35_908_181),
        (2_470_326, 35_908_181),
    ]
    assert [round(each.recoverable, 4) for each in job.leads[:3]] == [0.1653, 0.1054, 0.0688]
    assert (first.query, "sends and receives" in first.sentence) == ("stragglers", True)
    assert (second.query, second.rank) == ("straggler_causes", 2)
    assert plain_text(second.sentence) == (
        "Rank 2 is late because its GPU is slow: it computes for 1.644 times the median of the ranks, and longer in "
        "all of its 6 classes of kernels (gemm 65 %, attention 21 %, norm 5 %, optimizer 5 %). The others wait for it, "
        "most of all in step 5 and 4 other steps. GPUs lose 40.21 ms of 285.7 ms to it. With rank 2 on time, a replay "
        "of the run takes 3.785 ms of 35.91 ms less."
    )
    assert plain_text(second.details).endswith(
        "Rank 2 is the last in 98.18 % (54 of 55) of the collectives; the others wait 47.48 ms for it, added up."
    )
    (loader,) = (each for each in others if each.rank == 5)
    assert (second.step, loader.query, loader.step) == (5, "data_loader_wait", 7)
    (bubble,) = job.unranked
    assert ("sends and receives is waiting" in bubble.sentence, round(bubble.rest, 3)) == (True, 0.155)


def test_findings_are_ranked_by_what_a_step_gains_also_within_the_thresholds(job: RunSummary) -> None:
    shares = [each.recoverable for each in job.leads]
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= LEAST
    within = [each for each in job.leads if each.finding.rule is not None]
    assert within
    assert all(each.evidence.endswith("within the threshold of its rule") for each in within)
    text = " ".join("\n".join(summary_lines([job], 100)).split())
    assert f"{len(job.leads) - 3} more of 1 % or more are not listed: tracelab summary" in text
    assert "not listed" not in "\n".join(summary_lines([job], 100, most_leads=None))


def test_costs_per_step_are_shares_of_the_step_time_also_where_the_windows_lack_steps(
    shared_stores: Path, job: RunSummary
) -> None:
    """The GPU windows of alexnet-batch256 have 298.6 ms for its 3 steps, of which the one that counts has 237.3."""
    (windows,) = summarize(h200(shared_stores), ("alexnet-batch256",))
    assert [check_costs_per_step(each) >= 3 for each in (job, windows)] == [True, True]
    assert windows.measured_step_ns == pytest.approx(298_629_000 / 3, rel=1e-5)
    for lead in (each for each in windows.leads if not each.is_replayed and each.hidden == 0):
        assert windows.cost_per_step_ns(lead.recoverable, is_of_whole_steps=False) == pytest.approx(
            lead.cost_ns / 3, rel=1e-5
        )


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


def test_a_stalled_loader_has_its_own_time_and_what_the_other_ranks_wait_for_it(shared_stores: Path) -> None:
    """Of 320.0 ms: two steps of 8.903 and 5.303 ms, for which other ranks wait 37.6 ms, most of it in broadcasts."""
    (run,) = summarize(four_ranks(shared_stores), ("generated-4rank-ddp",))
    slow, first = run.leads[:2]
    assert slow.rank == 2  # whose CPU the generator slows down in steps 6 and 7
    assert plain_text(slow.sentence) == (
        "Rank 2 is late because its CPU side launches work later than those of the others, which wait for it, most of "
        "all in steps 6 and 7. GPUs lose 29.05 ms of 320.0 ms to it, and 52.94 ms with 2 lesser causes. With rank 2 on "
        "time, a replay of the run takes 16.53 ms of 80.09 ms less."
    )
    # the program run anew takes 17.38 ms less with a quick CPU, and 7.282 ms less with a loader that never waits
    assert [each.gain and each.gain.gain_ns for each in (slow, first)] == [16_530_148, 7_289_339]
    assert "Rank 2 still computes when the others enter" in plain_text(slow.details)
    assert (first.query, first.cost_ns, first.rank, first.step) == ("data_loader_wait", 14_205_364, 1, 8)
    (waiting,) = first.included
    assert (waiting.query, waiting.cost_ns, waiting.added) == ("straggler_causes", 37_559_900, 2)
    assert first.rest == pytest.approx(first.cost_ns / first.whole_ns + waiting.rest)
    assert plain_text(first.sentence).endswith(
        "In total, 2 steps lose 14.21 ms of 320.0 ms to this, and ranks that wait for it 28.23 ms. Without waits for "
        "data, a replay of the run takes 7.289 ms of 80.09 ms less."
    )
    assert "are waits for data, during which the other ranks wait, too, longest for rank 1 in step 8" in plain_text(
        first.details
    )
    assert first.evidence == (
        "data_loader_wait finds it in 2 of 16 steps; straggler_causes finds it in 2 of 16 causes of late ranks"
    )
    assert not any("broadcasts and reductions is waiting" in plain_text(each.sentence) for each in run.leads)


def test_what_others_lose_to_a_cause_is_no_finding_beside_it() -> None:
    loader, waits, other = (
        lead("loader", 0.1, 2, "data"),
        lead("waits", 0.3, 3, "waiting"),
        lead("other", 0.2, 1, "host"),
    )
    loader = replace(loader, query="data_loader_wait")
    cost = replace(waits.finding.cost, adds_to="data_loader_wait")  # type: ignore[type-var]
    waits = replace(waits, query="straggler_causes", finding=replace(waits.finding, cost=cost))
    first, second = add_consequences([waits, other, loader])
    assert (second.sentence, second.topics, round(second.rest, 6)) == ("loader", ("data", "waiting"), 0.4)
    assert (round(second.rest_of(["data"]), 6), round(second.rest_of(["waiting"]), 6)) == (0.1, 0.3)
    assert (first.sentence, second.included) == ("other", (waits,))
    assert add_consequences([waits, other]) == [waits, other]  # without the cause among them it is a finding


def late(name: str, share: float, rank: int, cause: str, **cost: Any) -> Lead:
    found = lead(f"{name}.", share, 3, "waiting")
    of_cause = replace(found.finding, text=cause, cost=replace(found.finding.cost, joins=True, adds=("rank",), **cost))  # type: ignore[type-var]
    return replace(found, rank=rank, finding=of_cause)


def test_a_rule_within_and_above_its_threshold_is_one_finding_unless_each_is_about_its_own_kernel() -> None:
    """The one above the threshold is first, though it is smaller."""
    cost = Cost("1", None, adds=(), topics=("transfer",), detail=2)
    above = replace(lead("rank 2.", 0.02, 2, "transfer"), rank=2, finding=Finding("a", "1", "t", None, 1, None, cost))
    within = replace(above, sentence="3 ranks.", rest=0.03, added=3, added_rows="3 ranks", matching=3, checked=4)
    within = replace(within, query="stragglers", finding=replace(above.finding, when="b", rule="a"))
    above = replace(above, query="stragglers", checked=4)
    (found,) = derive_shares(join_alike([within, above], [], []), ())
    assert (found.rank, round(found.rest, 9), found.evidence) == (2, 0.05, "stragglers finds it in all 4 ranks")
    assert found.sentence == "rank 2. It costs 20.00 µs of 1.000 ms, and 50.00 µs with the same in 3 ranks."
    assert found.details == "The same costs 30.00 µs in 3 ranks, within the threshold of the rule."
    own = [
        replace(each, finding=replace(each.finding, cost=replace(cost, adds=("kernel",)))) for each in (within, above)
    ]
    assert join_alike(own, [], []) == own


def test_late_ranks_that_share_a_rank_or_a_cause_are_one_finding() -> None:
    """Ranks 7 and 5 share a cause, rank 7 has another one; rank 2 shares nothing, and explains nothing of rank 7."""
    first, second, third = (
        late("7 host", 0.1, 7, "host"),
        late("5 host", 0.06, 5, "host"),
        late("7 compute", 0.04, 7, "compute"),
    )
    other, start = late("2 slow", 0.15, 2, "slow"), late("7 start", 0.3, 7, "start", ranked=False)
    waits, last = (replace(late(name, 0.5, 7, name), query="stragglers") for name in ("waits", "last"))
    waits, last = (
        replace(each, finding=replace(each.finding, cost=replace(each.finding.cost, opens="advice", adds=adds)))  # type: ignore[type-var]
        for each, adds in ((waits, ()), (last, None))
    )
    host = lead("idle", 0.17, 1, "host")
    leads = join_alike([host, other, first, second, third], [last, waits], [start])
    found = {each.sentence: round(each.rest, 6) for each in leads}
    assert found == {"idle": 0.17, "2 slow.": 0.15, "7 host.": 0.2}
    assert ([each.sentence for each in leads[1].symptoms], leads[1].notes) == ([], ())
    joined = derive_shares(leads, ())[2]
    assert joined.sentence == (
        "7 host. It costs 100.0 µs of 1.000 ms, and 200.0 µs with the same on rank 5 and 1 lesser cause."
    )
    assert joined.details == "waits. last. The same costs 60.00 µs on rank 5. 7 compute. That is 40.00 µs."
    assert [each.sentence for each in joined.notes] == ["7 start. That is 300.0 µs of 1.000 ms."]
    run = RunSummary("r", "", (), "", (joined,), "", ended=("status failed: killed",))
    rows = summary_rows([run]).to_pylist()
    assert [(row["kind"], row["rank"], row["value"]) for row in rows] == [
        ("note", None, None),
        *(("finding", 7, pytest.approx(0.2)), ("part", 7, 0.1), ("part", 5, 0.06), ("part", 7, 0.04)),
    ]
    assert (rows[0]["name"], rows[0]["text"]) == ("recording", "status failed: killed")
    assert order_with_losses([joined], [start]) == ([(1, joined)], [])
    placed, _ = order_with_losses([host], [start])  # without its finding, which may not be listed
    assert [number for number, _ in placed] == [None, 1]


def test_of_several_runs_each_has_its_end_and_a_second_finding_that_costs_much() -> None:
    """5 % or more: the late rank of a run that its host bounds is named, too."""
    leads = (lead("host", 0.5, 1, "host"), lead("late", 0.09, 3, "waiting"), lead("copies", 0.08, 2, "copies"))
    run = RunSummary("r", "", (), "", leads, "", ended=("status failed: killed", "only 3 of 9 steps"))
    other = replace(run, run="s", leads=(leads[0], replace(leads[1], rest=0.04)), ended=())
    lines = list(summary_lines([run, other, other, other], 100))
    assert lines[:6] == [
        *("r", "  status failed: killed · only 3 of 9 steps", "  50.0 %  host", "  9.0 %  late"),
        *("s", "  50.0 %  host"),
    ]
    assert not any("Shares are" in line or "≤" in line for line in lines)
    bounded = replace(replayable("host", 0.5, 1, "host", "scale"), gain=Gain(300, 1_000))
    shown = [*summary_lines([run, other, other, replace(other, run="t", leads=(bounded,))], 200)]
    assert "  ≤ 30.0 %  host" in shown
    assert (
        '"≤" marks what a run gains or loses at most, such as by a replay that leaves out more than the cause. Other'
        in " ".join(shown)
    )
    within = replace(leads[0], finding=replace(leads[0].finding, when="b", rule="a"))
    groups = group_by_lead([replace(other, leads=(within,)), run])
    assert [(each.first.run, each.lead.sentence, len(each.members)) for each in groups] == [
        ("s", "host", 2),
        ("r", "late", 1),
    ]


def test_late_ranks_cost_no_more_than_all_waits(shared_stores: Path, job: RunSummary) -> None:
    lab = tracelab.open(eight_ranks(shared_stores))
    waits = sum(row["wait_ns"] for row in lab.query("stragglers").to_pylist())
    causes = lab.query("straggler_causes").to_pylist()
    assert (waits, sum(row["charged_ns"] for row in causes)) == (65_490_696, 65_490_696)
    late = sum(lead.cost_ns for lead in list_single(job.leads) if lead.query == "straggler_causes")
    assert 0.75 * waits < late <= waits  # the others cost less than 1 % each


def test_evidence_and_sums_count_what_an_engineer_counts(job: RunSummary) -> None:
    slow = next(each for each in job.leads if each.rank == 2)
    assert slow.evidence == "straggler_causes finds it in 1 of 20 causes of late ranks"
    assert "GPUs lose 40.21 ms of 285.7 ms to it." in plain_text(slow.sentence)
    sent = next(each for each in job.leads if each.query == "stragglers")
    assert sent.evidence == "stragglers finds it in all 8 ranks"


def test_an_exposed_collective_has_its_kind_group_and_worst_step_and_ranks_that_are_alike_are_one(
    job: RunSummary,
) -> None:
    """All ranks expose 4.59 to 4.83 ms of transfers in collectives."""
    sent = next(each for each in job.leads if each.query == "stragglers")
    assert plain_text(sent.sentence) == (
        "All 8 ranks: part of their transfers runs while nothing computes, most in all_reduce of the tp group, worst "
        "in step 6 of rank 4: 36.61 % (37.83 ms of 103.3 ms; each 28.59 % to 75.15 %) of their collectives, 5.790 % "
        "(4.383 ms of 75.70 ms; each 2.710 % to 19.30 %) of their sends and receives. In total, 8 ranks lose 42.21 ms "
        "of 285.7 ms to this. With transfers that take no time, a replay of the run takes 5.936 ms of 35.91 ms less."
    )
    assert (sent.rank, sent.step) == (4, 6)
    (bubble,) = job.unranked
    assert plain_text(bubble.sentence).startswith(
        "Ranks 0 and 1: 55.65 % (22.50 ms of 40.44 ms; each 55.24 % to 56.06 %)"
    )
    assert "most in send_recv of the pp group, worst in step 7 of rank 1." in plain_text(bubble.sentence)


def test_a_slow_gpu_is_one_finding_and_sends_count_as_transfers(shared_stores: Path, job: RunSummary) -> None:
    lab = tracelab.open(eight_ranks(shared_stores))
    causes = lab.query("straggler_causes", rank=2).to_pylist()
    transfers = lab.query("stragglers").to_pylist()
    window_ns = sum(row["window_ns"] for row in lab.query("gpu_breakdown").to_pylist())
    sent, slow, *_ = job.leads
    assert (slow.cost_ns, slow.whole_ns) == (
        sum(row["charged_ns"] for row in causes if row["cause"] == "compute"),
        window_ns,
    )
    assert sent.cost_ns == sum(row["exposed_transfer_ns"] + row["exposed_p2p_ns"] for row in transfers)
    keys = [(lead.finding.when, lead.rank) for lead in job.leads]
    assert len(set(keys)) == len(keys)


CONTRADICTIONS = (("host", "ahead"), ("every event", "skipped"))


@pytest.mark.parametrize(("topic", "denial"), CONTRADICTIONS)
def test_no_text_denies_what_a_finding_of_another_query_states(topic: str, denial: str) -> None:
    """Whether the host is late is decided by idle_causes alone, and whether events are missing by the health."""
    texts = [each.report.ok_text or "" for each in library().values() if each.report]
    assert [text for text in texts if topic in text.lower() and denial in text.lower()] == []


def test_commands_have_lines_of_their_own_with_the_store(first: RunSummary) -> None:
    name = "r" * 40
    commands = StoreCommands(Path("my store"))
    following = (commands.query("roofline", run=name),)
    run = replace(first, run=name, leads=(), note="Nothing exceeds.", next_commands=following, commands=commands)
    for runs in ([run], [run] * 5):
        lines = {line.strip() for line in summary_lines(runs, 60)}
        assert f"Next: tracelab query roofline --run {name} --store 'my store'" in lines


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
    tables = {"annotations": marked, "kernels": [KERNEL | {"start_ns": 10, "dur_ns": 20}]}
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
        alone, beside = (summarize_module.summarize_answers(session, answers, compared=each) for each in (False, True))
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


def test_a_summary_has_no_two_empty_lines(tmp_path: Path) -> None:
    metrics = [{"launch": 0, "device": 0, "kernel": "k", "metric": "dram__bytes.sum", "value": 7.0}]
    lines = list(summary_lines(summarize(build_store(tmp_path / "lab", {"kernel_metrics": metrics})), 100))
    assert ("", "") not in list(itertools.pairwise(lines))
