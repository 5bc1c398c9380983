"""Measure every library query on a store, each in a new process: its cost, or why the store has no data for it."""

import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from process_cost import cost, median, python

REPEATS = 3
FEW_REPEATS = 1
"""Of a store so large that a question takes seconds."""

VALUES = {"run_difference": {"before": "before", "after": "after"}}
"""Runs that a question must be told, where a store has more than two; each other question is asked as it stands."""


@dataclass(frozen=True)
class Answer:
    """One question: the times of its runs in one process, the first one first, and the most memory of that process."""

    seconds: list[float]
    peak_bytes: int
    rows: list[dict[str, Any]]

    @property
    def first_s(self) -> float:
        return self.seconds[0]

    @property
    def again_s(self) -> float:
        return median(self.seconds[1:])


@dataclass
class Asked:
    """One store: what it holds, what each question took, and why the others were left out."""

    name: str
    held: str
    answers: dict[str, Answer] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def ask(store: Path, name: str, held: str, *, repeats: int = REPEATS) -> Asked:
    """Ask the whole library. What a store lacks decides what is left out: no list here can forget a question."""
    from tracelab.query import library

    asked = Asked(name, held)
    for question in library.library():
        done = cost(python(__file__, str(store), question, str(repeats)))
        said = json.loads(done.last_line)
        if "left_out" in said:
            asked.left_out[question] = said["left_out"]
        else:
            asked.answers[question] = Answer(said["seconds"], done.peak_bytes, said["rows"])
    return asked


def repeats_of(events: int) -> int:
    """Return how often a question about so many events is asked after the first time."""
    return REPEATS if events <= 2_000_000 else FEW_REPEATS


def _ask_one(store: Path, name: str, repeats: int) -> dict[str, Any]:
    from tracelab.errors import NoDataError, UsageError
    from tracelab.query import execute, library
    from tracelab.store import session

    question = library.find(name)
    con = session.connect(store)
    seconds = []
    for _ in range(1 + repeats):
        started = time.perf_counter()
        try:
            answer = execute.run(con, question, _values(con, name))
        except (NoDataError, UsageError) as error:
            return {"left_out": str(error).partition("; ")[0]}
        seconds.append(time.perf_counter() - started)
    # Only the short answers are compared with anything, and a row a step or a launch would be megabytes of text.
    return {"seconds": seconds, "rows": answer.to_pylist() if answer.num_rows < 5_000 else []}


def _values(con: Any, name: str) -> dict[str, str]:  # noqa: ANN401  duckdb, imported late
    runs = {run for (run,) in con.execute("select run from sources").fetchall()}
    return {param: run for param, run in VALUES.get(name, {}).items() if run in runs}


if __name__ == "__main__":
    print(json.dumps(_ask_one(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])), default=str))
