"""The steps that count in a comparison, against plain Python that decides for each step."""

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.memory import MemoryStore
from tests.properties import examples

LEAST_TO_TRIM = 3

Step = tuple[int, int, int | None]
"""The id of a step, its rank, and the number in its name."""

runs_of_steps = st.dictionaries(
    st.sampled_from("abc"),
    st.lists(
        st.tuples(st.sampled_from([0, 1]), st.sampled_from([None, 1, 2, 3, 4, 5, 6]), st.booleans()),
        min_size=1,
        max_size=12,
    ),
    min_size=1,
    max_size=2,
)


def share_steps(steps: list[Step], working: set[int]) -> list[list[int]]:
    """Return for each rank of one run the ids of the steps that all ranks have."""
    ranks = [
        [(step, number) for step, of, number in steps if of == rank and step in working]
        for rank in sorted({rank for _, rank, _ in steps})
    ]
    numbers = [[number for _, number in rank] for rank in ranks]
    if all(None not in each and len(set(each)) == len(each) for each in numbers):
        common = set.intersection(*map(set, numbers))
        return [[step for step, number in rank if number in common] for rank in ranks]
    return [[step for step, _ in rank[: min(map(len, ranks))]] for rank in ranks]


def decide(marked: dict[str, list[Step]], working: dict[str, set[int]]) -> dict[int, tuple[int | None, str | None]]:
    """Return for each step its number among those that count, or why it does not."""
    shared = {run: share_steps(steps, working[run]) for run, steps in marked.items()}
    least = min((len(rank) for ranks in shared.values() for rank in ranks if rank), default=0)
    decided: dict[int, tuple[int | None, str | None]] = {}
    for run, steps in marked.items():
        for step, _, _ in steps:
            decided[step] = (None, "not_on_all_ranks" if step in working[run] else "no_gpu_work")
        for rank in shared[run]:
            for place, step in enumerate(rank):
                if least < LEAST_TO_TRIM:
                    decided[step] = (place, None) if place < least else (None, "beyond_shortest")
                elif place in (0, len(rank) - 1):
                    decided[step] = (None, "first_or_last")
                else:
                    decided[step] = (place - 1, None)
    return decided


def register(memory: MemoryStore, steps: list[dict[str, Any]], work: list[tuple[str, int | None, int, int]]) -> None:
    """Give SQL the steps, and the rows of GPUs: run, step, start and end in ns."""
    columns = [(name, "int64") for name in ("id", "process", "step", "start_ns", "end_ns")]
    steps_schema = pa.schema([("run", "string"), ("rank", "int32"), *columns])
    memory.con.register("given_steps", pa.Table.from_pylist(steps, steps_schema))
    work_schema = pa.schema([("run", "string"), ("step_id", "int64"), ("start_ns", "int64"), ("end_ns", "int64")])
    rows = [dict(zip(work_schema.names, row, strict=True)) for row in work]
    memory.con.register("given_work", pa.Table.from_pylist(rows, work_schema))


@pytest.mark.parametrize(
    ("work_ends", "step_ns"),
    [
        ((60, 110, 160), (60, 50, 50)),  # the CPU runs ahead of the GPU
        ((8, 18, 28), (10, 10, 10)),
        ((12, 22, 31), (12, 10, 9)),
        ((60, 50, 70), (60, 0, 10)),  # another stream is ready earlier
        ((8, None, 28), (10, 10, 10)),
        ((-5, 18, 28), (10, 10, 10)),  # a row that ends before its start
    ],
)
def test_a_step_takes_until_its_work_is_done(
    memory: MemoryStore, work_ends: tuple[int | None, ...], step_ns: tuple[int, ...]
) -> None:
    steps = [
        {"id": n, "process": 1, "run": "a", "rank": 0, "step": n, "start_ns": 10 * n - 10, "end_ns": 10 * n}
        for n in (1, 2, 3)
    ]
    register(memory, steps, [("a", n, 0, end) for n, end in enumerate(work_ends, 1) if end is not None])
    rows = memory.con.execute(
        "select step_ns from completed_steps('given_steps', 'given_work') order by start_ns"
    ).fetchall()
    assert tuple(row[0] for row in rows) == step_ns


@examples(60)
@given(runs_of_steps, st.booleans())
def test_steps_count_as_plain_python_decides(
    memory: MemoryStore, listed: dict[str, list[tuple[int, int | None, bool]]], has_gpu: bool
) -> None:
    marked: dict[str, list[Step]] = defaultdict(list)
    working: dict[str, set[int]] = defaultdict(set)
    for run, steps in listed.items():
        for rank, number, works in steps:
            step = sum(map(len, marked.values())) + 1
            marked[run].append((step, rank, number))
            if works or not has_gpu:
                working[run].add(step)
    expected = decide(marked, working)
    step_rows = [
        {
            "id": step,
            "process": 2 * ord(run) + rank,
            "run": run,
            "rank": rank,
            "step": number,
            "start_ns": 10 * step,
            "end_ns": 10 * step + 7,
        }
        for run, steps in marked.items()
        for step, rank, number in steps
    ]
    work = [(run, step, 0, 1) for run in marked if has_gpu for step in (None, *working[run])]
    register(memory, step_rows, work)
    memory.con.execute("create or replace temp view completed as from completed_steps('given_steps', 'given_work')")
    rows = memory.con.execute("select step_id, number, left_out, step_ns from counted_steps('completed')").fetchall()
    assert {step: (number, reason) for step, number, reason, _ in rows} == expected
    alone = memory.con.execute("select step_id, number, left_out from counted_steps_alone('completed')").fetchall()
    assert {step: (number, reason) for step, number, reason in alone} == {
        step: found
        for run, steps in marked.items()
        for step, found in decide({run: steps}, {run: working[run]}).items()
    }
    assert len(rows) == len(step_rows)
    assert {step_ns for *_, step_ns in rows} == {7}
