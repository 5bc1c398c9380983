"""Pipeline bubbles of simulated jobs, to the nanosecond."""

import pytest

from job_simulator import Job, SlowCompute, simulate
from tests.memory import MemoryStore
from tests.simulated import stored_tables

FIGURES = ("window_ns", "compute_ns", "communication_ns", "warm_up_ns", "steady_ns", "drain_ns", "bubble_ns", "stage")


@pytest.mark.parametrize(
    "job",
    [
        Job(ranks=4, pipeline=4, steps=2, layers=1, microbatches=6, seed=5),
        Job(ranks=8, pipeline=2, tensor=2, steps=2, layers=1, seed=6, delays=(SlowCompute(5, 130),)),
    ],
)
def test_bubbles_are_those_of_the_simulator(memory: MemoryStore, job: Job) -> None:
    simulation = simulate(job)
    answer = memory.filled(stored_tables(simulation)).query("pipeline_bubble").to_pylist()
    first = min(row["step"] for row in answer)
    measured = {(row["rank"], row["step"] - first): tuple(row[name] for name in FIGURES) for row in answer}
    assert measured == {
        (each.rank, each.step): tuple(getattr(each, name) for name in FIGURES) for each in simulation.bubbles()
    }
    microbatches = job.microbatches_per_step
    assert {(row["stages"], row["microbatches"]) for row in answer} == {(job.pipeline, microbatches)}
    slots = microbatches + job.pipeline - 1
    assert {row["ideal_ratio"] for row in answer} == {(job.pipeline - 1) / slots}
