"""Read the published traces of ByteDance's study of stragglers: one row an operation of a worker in a step."""

import json
from typing import Any

import numpy as np
import polars as pl

from tests import corpus
from tracelab.paths.columns import Array
from tracelab.paths.slowdown import Schedule

FOLDER = corpus.ROOT / "multi_rank" / "bytedance_straggler"
BETWEEN_STAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
NEGATIVE_TRANSFER_S = -0.010
SAME_START_S = 1e-6


def read_trace(name: str) -> tuple[list[int], Schedule, Array]:
    """Return the steps of a job, its schedule, and the recorded step times."""
    rows = pl.read_parquet(FOLDER / f"trace-{name}.parquet").sort(
        "step", "dp_rank", "stage", "optype", "seq_id", "mb_id"
    )
    steps = rows["step"].unique().sort().to_list()
    first = rows.filter(pl.col("step") == steps[0])
    shape = len(steps), first.height
    stored = [rows[column].to_numpy().reshape(shape) for column in ("start_ts", "duration")]
    recorded = (stored[0] + stored[1]).max(1) - stored[0].min(1)
    start, duration = (column.astype(np.float64) for column in stored)
    types = first["optype"].to_list()
    dp_rank, stage = first["dp_rank"].to_numpy(), first["stage"].to_numpy()
    keys = [_group(*row) for row in zip(range(shape[1]), types, dp_rank, stage, first["seq_id"].to_list(), strict=True)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    group = np.array([numbers[key] for key in keys])
    entered = np.full((len(steps), len(numbers)), -np.inf)
    np.maximum.at(entered.T, group, start.T)
    several = np.bincount(group)[group] > 1
    own = np.where(several, start + duration - entered[:, group], duration)
    own[:, [kind in BETWEEN_STAGES for kind in types]] = _without_negative(
        own[:, [kind in BETWEEN_STAGES for kind in types]]
    )
    joined = {kind: kind.replace("send", "pp-comm").replace("recv", "pp-comm") for kind in BETWEEN_STAGES}
    names = [joined.get(kind, kind) for kind in types]
    slots = _slots((start - start.min(1, keepdims=True)).mean(0), dp_rank, stage)
    return steps, Schedule(slots, group, names, dp_rank, stage, own), recorded


def _without_negative(transfers: Array) -> Array:
    cleaned: Array = np.where(transfers <= NEGATIVE_TRANSFER_S, 0, transfers)
    return cleaned


def _group(number: int, kind: str, dp_rank: int, stage: int, seq: int) -> tuple[Any, ...]:
    """Return what names the communication of an operation; of one that computes its own number."""
    if kind in BETWEEN_STAGES:
        direction, role = kind.split("-")
        step = 1 if direction == "forward" else -1
        return direction, dp_rank, stage if role == "send" else stage - step, seq
    if kind in ("params-all-gather", "grads-reduce-scatter"):
        return kind, stage
    if kind == "embedding-grads-all-reduce":
        return kind, dp_rank
    return (kind,) if kind == "optimizer-clip-main-grad" else (kind, number)


def _slots(start: Array, dp_rank: Array, stage: Array) -> dict[tuple[int, int], list[list[int]]]:
    """Return what each worker runs one after the other, by the mean start; what starts at once is one slot."""
    slots: dict[tuple[int, int], list[list[int]]] = {}
    for number in np.argsort(start, kind="stable").tolist():
        listed = slots.setdefault((int(dp_rank[number]), int(stage[number])), [])
        if listed and start[number] - start[listed[-1][0]] < SAME_START_S:
            listed[-1].append(number)
        else:
            listed.append([number])
    return slots


def published(name: str) -> tuple[dict[str, Any], float, float]:
    """Return the published results of a job, its M_W and its M_S."""
    results, worst, last = (json.loads((FOLDER / f"{kind}-{name}.json").read_text()) for kind in ("result", "mw", "ms"))
    return results, worst["Mw"], last["Ms"]
