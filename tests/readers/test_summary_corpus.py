"""Summaries of real traces: what leads, and that no time is counted twice."""

from pathlib import Path

import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.summarize import RunSummary, summarize

pytestmark = corpus.needs_traces

LEAST = 0.01


@pytest.fixture(scope="module")
def found(shared_stores: Path) -> dict[str, RunSummary]:
    return {each.run: each for each in summarize(kineto_corpus(shared_stores))}


def test_dlrm_leads_with_late_launches_and_notes_the_rank_whose_recording_begins_late(
    found: dict[str, RunSummary],
) -> None:
    dlrm = found["param_dlrm_8ranks"]
    assert [each.query for each in dlrm.leads[:3]] == ["idle_causes", "straggler_causes", "straggler_causes"]
    assert (dlrm.leads[1].rank, "CPU side launches work later" in dlrm.leads[1].sentence) == (7, True)
    assert dlrm.leads[0].rest == dlrm.leads[0].share  # its loaders work before the GPUs do: that is no part of it
    (late,) = dlrm.unranked
    assert (late.rank, "enters its first collective late" in late.sentence) == (7, True)


def test_findings_of_recorded_runs_do_not_count_time_twice(found: dict[str, RunSummary]) -> None:
    """No symptom stands beside causes that explain most of it, and no topic has more than the whole time."""
    assert sum(bool(each.leads) for each in found.values()) >= 5
    for summary in found.values():
        for each in summary.leads:
            assert LEAST <= each.rest <= each.share <= 1
            assert each.rest >= each.share / 2


IDLE = frozenset({"data", "host", "launches", "dependency"})
COMMUNICATION = frozenset({"waiting", "transfer", "receiving"})
EXCLUSIVE = (
    ("straggler_causes", "its GPU is slow", "its kernels take longer than those", "in all it computes no longer"),
    ("stragglers", "of its broadcasts and reductions is transfer", "of its broadcasts and reductions runs"),
)
"""Texts of a query of which at most one holds for a run and rank."""
EPSILON = 1e-9


def figure(summary: RunSummary, name: str) -> float | None:
    return next((each.value for each in summary.figures if each.name == name), None)


def test_findings_that_exclude_each_other_are_never_together(shared_stores: Path, found: dict[str, RunSummary]) -> None:
    """Findings cost no more than the figure that they are part of, and of rules that exclude each other one holds."""
    checked = 0
    for summary in (*found.values(), *summarize(second_kineto_corpus(shared_stores), all_findings=True)):
        leads = [*summary.leads, *summary.unranked]
        whole = [each for each in leads if not each.part_of]
        if (busy := figure(summary, "GPU busy")) is not None:
            idle = sum(each.rest for each in whole if set(each.topics) <= IDLE)
            assert idle <= 1 - busy + EPSILON, summary.run
            exposed = figure(summary, "exposed communication") or 0
            assert sum(each.rest for each in whole if set(each.topics) <= COMMUNICATION) <= exposed + EPSILON, (
                summary.run
            )
            checked += len(whole)
        for query, *texts in EXCLUSIVE:
            stated = [
                (each.rank, text)
                for each in leads
                if each.query == query
                for text in texts
                if text in plain_text(each.sentence)
            ]
            assert len({rank for rank, _ in stated}) == len(stated), (summary.run, stated)
    assert checked >= 30
