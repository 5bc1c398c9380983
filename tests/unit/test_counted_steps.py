"""The steps that count in a comparison, against plain Python that decides for each step."""

from collections import defaultdict

import pyarrow as pa
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
        {"id": step, "run": run, "rank": rank, "step": number, "start_ns": 10 * step, "end_ns": 10 * step + 7}
        for run, steps in marked.items()
        for step, rank, number in steps
    ]
    work = [{"run": run, "step_id": step} for run in marked if has_gpu for step in (None, *working[run])]
    columns = pa.schema([("id", "int64"), ("run", "string"), ("rank", "int32"), ("step", "int64")])
    for name in ("start_ns", "end_ns"):
        columns = columns.append(pa.field(name, "int64"))
    memory.con.register("given_steps", pa.Table.from_pylist(step_rows, columns))
    memory.con.register("given_work", pa.Table.from_pylist(work, pa.schema([("run", "string"), ("step_id", "int64")])))
    rows = memory.con.execute(
        "select step_id, number, left_out, step_ns from counted_steps('given_steps', 'given_work')"
    ).fetchall()
    assert {step: (number, reason) for step, number, reason, _ in rows} == expected
    alone = memory.con.execute(
        "select step_id, number, left_out from counted_steps_alone('given_steps', 'given_work')"
    ).fetchall()
    assert {step: (number, reason) for step, number, reason in alone} == {
        step: found
        for run, steps in marked.items()
        for step, found in decide({run: steps}, {run: working[run]}).items()
    }
    assert len(rows) == len(step_rows)
    assert {step_ns for *_, step_ns in rows} == {7}
