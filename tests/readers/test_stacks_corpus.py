"""Stacks of recorded traces, against a plain walk over their frames."""

import re
from collections import Counter
from typing import Any

import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.client import Lab

pytestmark = corpus.needs_traces

NESTED = "sglang_Qwen3-8B_prefilldecode"
"""A trace of 57,000 calls without one that ends after the call that it began in."""
CALLS = """select pid, tid, start_ns, end_ns, name
from (select * from (select run, pid, tid, start_ns, end_ns, name from python_frames)
    union all (select run, pid, tid, start_ns, end_ns, name from ops))
where run = '{run}' order by pid, tid, start_ns, end_ns desc"""
WHOLE = {
    "gpu": "select run, rank, sum(dur_ns) as whole from gpu_activity group by all",
    "gpu_memory": "select run, rank, sum(size_bytes) as whole from memory_events "
    "where size_bytes > 0 and device is not null group by all",
}


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> list[Lab]:
    folder = tmp_path_factory.getbasetemp().parent
    return [Lab(kineto_corpus(folder)), Lab(second_kineto_corpus(folder))]


@pytest.mark.parametrize("measure", WHOLE)
def test_own_weights_add_up_to_all_that_was_recorded(labs: list[Lab], measure: str) -> None:
    compared = 0
    for lab in labs:
        rows = lab.query("stacks", measure=measure, by="module").to_pylist()
        sums: Counter[tuple[str, int]] = Counter()
        for row in rows:
            sums[row["run"], row["rank"]] += row["own"]
        recorded = {(row["run"], row["rank"]): int(row["whole"]) for row in lab.sql(WHOLE[measure]).to_pylist()}
        assert sums == recorded
        compared += len(recorded)
    assert compared >= 1


def test_own_times_are_those_of_a_walk_over_the_calls(labs: list[Lab]) -> None:
    walked = walk(labs[1].sql(CALLS.format(run=NESTED)).to_pylist())
    rows = labs[1].query("stacks", run=NESTED).to_pylist()
    frames = {row["node"]: row for row in rows}
    assert {path_of(row, frames): (row["own"], row["calls"]) for row in rows} == walked


def walk(calls: list[dict[str, Any]]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return own time and calls of each stack of calls that nest, in the order in which they begin."""
    own: Counter[tuple[str, ...]] = Counter()
    count: Counter[tuple[str, ...]] = Counter()
    thread, stack = None, [((), 0)]
    for call in calls:
        if (call["pid"], call["tid"]) != thread:
            thread, stack = (call["pid"], call["tid"]), []
        while stack and stack[-1][1] <= call["start_ns"]:
            stack.pop()
        above: tuple[str, ...] = stack[-1][0] if stack else ()
        path = (*above, re.sub(" at 0x[0-9a-fA-F]+", "", call["name"]))
        duration = call["end_ns"] - call["start_ns"]
        own[path] += duration
        count[path] += 1
        if above:
            own[above] -= duration
        stack.append((path, call["end_ns"]))
    return {path: (own[path], count[path]) for path in count}


def path_of(row: dict[str, Any], rows: dict[int, dict[str, Any]]) -> tuple[str, ...]:
    """Return the frames from the root to a node."""
    above = () if row["parent"] is None else path_of(rows[row["parent"]], rows)
    return (*above, row["frame"])
