"""In a scope, numbers, matches, clocks and waits of collectives are those of the whole recording."""

from collections import Counter
from pathlib import Path
from typing import Any

from job_simulator import Clock, Job, LoaderStall, SlowCompute, simulate
from tests.build import build_store
from tests.simulated import stored_tables
from tracelab.query import execute, library
from tracelab.store import session
from tracelab.store.scope.request import Scope
from tracelab.store.scope.row_choice import select_rows

JOB = Job(
    ranks=4,
    pipeline=2,
    steps=3,
    microbatches=2,
    layers=1,
    delays=(LoaderStall(0, 1, 3_000_000), SlowCompute(3, 150)),
    clocks=(Clock(), Clock(), Clock(700_000), Clock(700_000)),
)
"""Two stages of two ranks, on two clocks; one rank stalls and one computes longer."""
STEP_NAME = r"^ProfilerStep#\d+$"
QUERIES = {
    "clock_offsets": ("rank",),
    "collective_wait": ("number", "rank"),
    "straggler_causes": ("rank", "cause", "detail"),
}


def answer(store: Path, scope: Scope | None) -> dict[str, dict[tuple[Any, ...], dict[str, Any]]]:
    """Answer the queries in one session, each row by its key."""
    queries = {name: library.find(name) for name in QUERIES}
    referenced = "\n".join(query.sql for query in queries.values())
    mask = scope and select_rows(store, scope, step_name=STEP_NAME, referenced=referenced)
    with session.connect(store, mask=mask, referenced=referenced) as con:
        answers = {name: execute.run(con, query, {}).to_pylist() for name, query in queries.items()}
    return {name: {tuple(row[column] for column in key): row for row in answers[name]} for name, key in QUERIES.items()}


def test_disjoint_scopes_have_the_collectives_of_the_recording_and_their_costs_add_up_to_its(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", stored_tables(simulate(JOB)))
    whole = answer(store, None)
    waits = whole["collective_wait"]
    parts = [answer(store, scope) for scope in (Scope(steps="5"), Scope(steps="6-7"))]
    assert all(part["clock_offsets"] == whole["clock_offsets"] for part in parts)
    first, second = (part["collective_wait"] for part in parts)
    assert (len(first), len(second), first | second) == (28, 56, waits)
    costs: Counter[Any] = Counter()
    for part in parts:
        costs.update(costs_of(part))
    assert costs_of(whole)[0, "data", None] > 2_000_000
    assert {key: cost for key, cost in costs.items() if cost} == costs_of(whole)


def costs_of(answers: dict[str, dict[tuple[Any, ...], dict[str, Any]]]) -> dict[tuple[Any, ...], int]:
    return {key: row["cost_ns"] for key, row in answers["straggler_causes"].items() if row["cost_ns"]}
