"""Summaries of real traces: what leads, and that no time is counted twice."""

from pathlib import Path

import pytest

from tests import corpus
from tests.stores import kineto_corpus
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
