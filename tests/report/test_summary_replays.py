"""What replays of a run without a lead change about its rank, its share, and its sentence."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from tests.report.leads import lead, replayable
from tracelab.query.library import library
from tracelab.report.summary.lead import Gain, Lead
from tracelab.report.summary.ranking import rank_leads
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import format_recoverable, format_short
from tracelab.resources import QUERIES


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
