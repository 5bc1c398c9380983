"""Slowdowns of ByteDance's published jobs are those that its own simulator finds."""

import numpy as np
import pytest

from tests import bytedance, corpus
from tracelab.paths.slowdown import Slowdowns, slowdowns

pytestmark = corpus.needs_traces

JOBS = ("AR", "ST", "SE")


@pytest.fixture(scope="module")
def computed() -> dict[str, Slowdowns]:
    return {name: slowdowns(bytedance.read_trace(name)[1]) for name in JOBS}


@pytest.mark.parametrize("name", JOBS)
def test_recorded_step_times_are_exact(name: str) -> None:
    steps, _, recorded = bytedance.read_trace(name)
    expected = bytedance.published(name)[0]["step_t_base"]
    assert recorded.tolist() == [np.float32(expected[str(step)]) for step in steps]


@pytest.mark.parametrize(("name", "expected"), [("AR", 1.97305), ("ST", 1.17870), ("SE", 1.53736)])
def test_the_job_is_as_much_slower_than_ideal(computed: dict[str, Slowdowns], name: str, expected: float) -> None:
    assert computed[name].job == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("name", "worst_workers", "last_stage"), [("AR", 1.0017, -0.0012), ("ST", 0.0314, 1.2194), ("SE", 0.0251, 0.6877)]
)
def test_the_same_workers_and_stages_explain_it(
    computed: dict[str, Slowdowns], name: str, worst_workers: float, last_stage: float
) -> None:
    assert computed[name].worst_workers == pytest.approx(worst_workers, abs=0.02)
    assert computed[name].last_stage == pytest.approx(last_stage, abs=0.02)


@pytest.mark.parametrize("name", JOBS)
def test_slowdowns_by_type_rank_and_stage_are_the_published_ones(computed: dict[str, Slowdowns], name: str) -> None:
    results = bytedance.published(name)[0]
    for kind, found in (
        ("optype", computed[name].by_type),
        ("dp_rank", computed[name].by_dp_rank),
        ("stage", computed[name].by_stage),
    ):
        for each, value in results[f"blocking_decompose_by_{kind}"].items():
            assert {str(key): slowdown for key, slowdown in found.items()}[each] == pytest.approx(value, rel=0.02), each
