"""Compare steps of a job with those in which all operations take ideal times: slowdowns by type, worker and stage.

The definitions are those of ByteDance's study of stragglers (OSDI 2025, arXiv 2505.05713, equations 1, 2 and 5): ideal
is the mean over workers and steps for an operation that computes, and the median of the transfers for others.
"""

import math
from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import Array

WORST_WORKERS_RATIO = 0.03


@dataclass(frozen=True)
class Schedule:
    """The operations of one step on all workers, and their own times in all steps.

    `slots` lists for each worker, (data-parallel rank, stage), what it runs one after the other; the operations of one
    slot run at once, and the next slot begins when all have ended. Operations of one group are one communication: they
    end when the last of their workers has come, plus each one's transfer.
    """

    slots: dict[tuple[int, int], list[list[int]]]
    group: Array
    type_names: list[str]
    dp_rank: Array
    stage: Array
    own_s: Array
    """Steps by operations: durations, of a communication the transfer."""

    @property
    def communicates(self) -> Array:
        """Return for each operation whether it communicates with other workers."""
        sizes = np.bincount(self.group)
        several: Array = sizes[self.group] > 1
        return several


def step_times(schedule: Schedule, own_s: Array) -> Array:
    """Return how long each step takes if operations take these times and start as soon as they can."""
    slots, group = schedule.slots, schedule.group.tolist()
    missing = np.bincount(schedule.group).tolist()
    entered: list[Array] = [np.zeros(len(own_s)) for _ in missing]
    now = {worker: np.zeros(len(own_s)) for worker in slots}
    place = dict.fromkeys(slots, 0)
    pending = [worker for worker in slots if slots[worker]]
    for worker in pending:
        _enter(slots[worker][0], now[worker], group, missing, entered)
    while pending:
        waiting = []
        for worker in pending:
            while place[worker] < len(slots[worker]):
                slot = slots[worker][place[worker]]
                if any(missing[group[each]] for each in slot):
                    waiting.append(worker)
                    break
                now[worker] = np.maximum.reduce([entered[group[each]] + own_s[:, each] for each in slot])
                place[worker] += 1
                if place[worker] < len(slots[worker]):
                    _enter(slots[worker][place[worker]], now[worker], group, missing, entered)
        if len(waiting) == len(pending) and not _progressed(waiting, slots, place, missing, group):
            raise ValueError("operations wait for each other: the order of the slots differs between workers")
        pending = waiting
    times: Array = np.maximum.reduce(list(now.values()))
    return times


def _enter(slot: list[int], now: Array, group: list[int], missing: list[int], entered: list[Array]) -> None:
    """Count a worker as come to the operations of a slot."""
    for each in slot:
        missing[group[each]] -= 1
        entered[group[each]] = np.maximum(entered[group[each]], now)


def _progressed(
    waiting: list[tuple[int, int]],
    slots: dict[tuple[int, int], list[list[int]]],
    place: dict[tuple[int, int], int],
    missing: list[int],
    group: list[int],
) -> bool:
    """Return whether any waiting worker can go on."""
    return any(not any(missing[group[each]] for each in slots[worker][place[worker]]) for worker in waiting)


def ideal_times(schedule: Schedule) -> Array:
    """Return the ideal time of each operation, the same in all steps."""
    names, ideal = np.array(schedule.type_names), np.zeros_like(schedule.own_s)
    for name in set(schedule.type_names):
        some = names == name
        times = schedule.own_s[:, some]
        ideal[:, some] = np.median(times) if schedule.communicates[some].any() else times.mean()
    return ideal


@dataclass(frozen=True)
class Slowdowns:
    """How much slower a job is than with ideal operations, and what that is due to."""

    job: float
    """S: the mean step time by the mean ideal one."""
    by_type: dict[str, float]
    """S_t: the same if only operations of one type take their real times."""
    by_dp_rank: dict[int, float]
    by_stage: dict[int, float]
    by_worker: dict[tuple[int, int], float]
    """S_w: the lesser of those of its data-parallel rank and stage."""
    worst_workers: float
    """M_W: the share of the lost time that goes if the worst 3 % of the workers are ideal."""
    last_stage: float
    """M_S: the same for the last stage."""


def slowdowns(schedule: Schedule) -> Slowdowns:
    """Compute the metrics of a job."""
    real, ideal = schedule.own_s, ideal_times(schedule)
    names = np.array(schedule.type_names)
    job_s, ideal_s = step_times(schedule, real).mean(), step_times(schedule, ideal).mean()

    def with_real(some: Array) -> float:
        return float(step_times(schedule, np.where(some, real, ideal)).mean() / ideal_s)

    def share_without(some: Array) -> float:
        return float((job_s - step_times(schedule, np.where(some, ideal, real)).mean()) / (job_s - ideal_s))

    by_dp_rank = {int(each): with_real(schedule.dp_rank == each) for each in np.unique(schedule.dp_rank)}
    by_stage = {int(each): with_real(schedule.stage == each) for each in np.unique(schedule.stage)}
    by_worker = {worker: min(by_dp_rank[worker[0]], by_stage[worker[1]]) for worker in schedule.slots}
    count = math.ceil(WORST_WORKERS_RATIO * len(by_worker))
    worst = sorted(by_worker, key=lambda worker: -by_worker[worker])[:count]
    of_worst = np.zeros(len(names), dtype=bool)
    for dp_rank, stage in worst:
        of_worst |= (schedule.dp_rank == dp_rank) & (schedule.stage == stage)
    return Slowdowns(
        job=float(job_s / ideal_s),
        by_type={str(each): with_real(names == each) for each in np.unique(names)},
        by_dp_rank=by_dp_rank,
        by_stage=by_stage,
        by_worker=by_worker,
        worst_workers=share_without(of_worst),
        last_stage=share_without(schedule.stage == schedule.stage.max()),
    )
