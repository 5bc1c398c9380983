"""Runs of a few literal rows, and what a row of a study says of them."""

from collections.abc import Sequence
from pathlib import Path

from tests.build import build_store
from tracelab.study import session, spec
from tracelab.study.evaluate import Answer, evaluate_row

Run = dict[str, object]
Rows = dict[str, list[Run]]

RUN: Run = {"sweep": "s", "model": "net", "world_size": 1, "status": "ok", "gpus": 1, "batch_size": 64}
K80: Run = {"gpu": "Tesla K80", "gpus": 4, "parallelism": "dp"}
P40: Run = K80 | {"gpu": "Tesla P40"}


def told(row: str, store: Path | None, *changes: str) -> Answer:
    """The row's answer, after changes to what was published."""
    with session.open_session(store) as con:
        for change in changes:
            con.execute(change)
        return evaluate_row(con, spec.find(row))


def trained(run: Run, step_ns: int = 1000, **step: object) -> Rows:
    """A run of two training steps."""
    own = {"run": run["run"]}
    steps = [
        own | {"phase": "train", "epoch": 0, "start_ns": 0, "dur_ns": step_ns, "samples": run["batch_size"]} | step
    ]
    return {"runs": [dict(run)], "steps": [each | {"step": place} for each in steps for place in (0, 1)]}


def together(parts: Sequence[Rows]) -> Rows:
    names = {name for part in parts for name in part}
    return {name: [row for part in parts for row in part.get(name, [])] for name in sorted(names)}


def store_of(tmp_path: Path, *parts: Rows) -> Path:
    return build_store(tmp_path / "lab", together(parts))
