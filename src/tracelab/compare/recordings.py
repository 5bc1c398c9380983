"""Turn the rows of each run into a recording: the values of every metric in every step that counts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from tracelab.compare.fetch import Answers
from tracelab.compare.left_out import BEYOND_SHORTEST, FIRST_OR_LAST
from tracelab.errors import NoDataError
from tracelab.query import execute

Array = np.ndarray[Any, np.dtype[np.float64]]

RANGES, RECORDED, WHOLE = "ranges", "recorded", "whole"
"""What a value is of: a step that a range marks, a step of a run folder, or the whole recording."""
LEAST_TO_TRIM = 3
"""With fewer steps in a recording the first and last stay in all, and no verdict is possible: as in counted_steps()."""
_WINDOW_TIMES = {
    "exposed_communication": "exposed_comm_ns",
    "exposed_copies": "exposed_memory_ns",
    "idle": "idle_ns",
}
"""Metrics of a GPU and step, and their columns of gpu_windows."""


@dataclass(frozen=True)
class StepCounts:
    """The steps of a recording: how many it marks on a rank, how many of them count, and why others do not."""

    marked: int
    counted: int
    left_out: Mapping[str, int]
    """Steps by the reason of counted_steps()."""


@dataclass(frozen=True)
class Recording:
    """One run as it is compared: for each metric its values in the steps that count, averaged over ranks or GPUs."""

    run: str
    steps: StepCounts
    series: Mapping[str, Array]
    lane: tuple[int, int | None] | None
    """The first rank and device, whose launches are compared one by one."""
    middle_step: int | None
    """The id of the step in the middle of that rank; None where whole recordings are compared."""
    families: frozenset[str]
    """Families of metrics that are recorded: a member without a value took no time."""
    ranks: frozenset[int] = frozenset()
    """The ranks with GPUs."""
    by_rank: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """Values by rank, of steps their mean: metrics of the step, classes, copies and memory."""

    @property
    def is_trimmed(self) -> bool:
        """Whether the first and last step are left out; if not, a recording has too few."""
        return not self.steps.counted or FIRST_OR_LAST in self.steps.left_out


def find_unusable(answers: Answers, runs: Sequence[str], failed: Mapping[str, str]) -> dict[str, str]:
    """Return the runs that cannot be compared with the others, each with why.

    They have no times at all, or `failed` and have no steps, which runs that did not fail have.
    """
    parts = {run: _OneRun(answers, run) for run in runs}
    marked, recorded = ({run for run, part in parts.items() if has(part)} for has in (_has_marks, _has_recorded))
    ended_well = set(runs) - failed.keys()
    unusable = {}
    for run, part in parts.items():
        status = f"status {failed[run]}, " if run in failed else ""
        if run not in marked | recorded and not part.has_times:
            unusable[run] = f"{status}no times"
        elif status and any(ended_well and ended_well <= steps and run not in steps for steps in (marked, recorded)):
            unusable[run] = f"{status}no steps"
    return unusable


def _has_marks(part: "_OneRun") -> bool:
    return part.counted.height > 0


def _has_recorded(part: "_OneRun") -> bool:
    return part.recorded > 0


def build_recordings(answers: Answers, runs: Sequence[str]) -> tuple[str, list[Recording]]:
    """Return what the values are of, and the recordings of the runs. Raises NoDataError for one without times."""
    parts = [_OneRun(answers, run) for run in runs]
    if all(part.counted.height for part in parts):
        unit = RANGES
    elif all(part.recorded for part in parts):
        unit = RECORDED
        least = min(part.recorded for part in parts)
        for part in parts:
            part.trim_recorded(least)
    else:
        unit = WHOLE
    recordings = []
    for part in parts:
        series = part.memory | part.series(unit)
        if not series.keys() - {"peak_memory"}:
            raise NoDataError(_describe_lack(part, parts))
        lane = next(iter(part.lanes_of(unit)), None)
        steps = part.step_counts(unit)
        middle = part.middle_step(lane[0]) if lane is not None and unit == RANGES else None
        ranks = frozenset(rank for rank, _ in part.lanes_of(unit))
        recordings.append(
            Recording(part.run, steps, series, lane, middle, part.families(unit), ranks, part.by_rank(unit))
        )
    return unit, recordings


def _describe_lack(part: "_OneRun", parts: Sequence["_OneRun"]) -> str:
    """Return why a run has no values, where not all have steps: it may have steps that another one lacks."""
    others = [each.run for each in parts if not (each.recorded or each.counted.height)]
    if part.recorded and others:
        return (
            f"run {part.run} has times of steps and no trace, and {execute.list_first(others)} no steps; record both "
            "with `tracelab collect train`"
        )
    return (
        f"run {part.run} has neither steps nor times on a GPU nor ops; record it with a profiler, or with "
        "`tracelab collect train`"
    )


class _OneRun:
    """The rows of one run."""

    def __init__(self, answers: Answers, run: str) -> None:
        def of_run(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(pl.col("run") == run) if frame.height else frame

        self.run = run
        self._marked = of_run(answers.steps)
        self._windows = of_run(answers.windows)
        self._gpu_breakdown = of_run(answers.gpu_breakdown)
        self._gpu_rows = of_run(answers.gpu_rows)
        self._gpu_windows = of_run(answers.gpu_windows)
        self._cpu_exposed = of_run(answers.cpu_exposed)
        self._ops = of_run(answers.host_ops)
        self._steps = of_run(answers.recorded_steps)
        self.lanes = [
            (int(rank), device) for rank, device in self._gpu_rows.select("rank", "device").unique().sort("*").rows()
        ]
        self.counted = self._marked.drop_nulls("number").rename({"number": "at"}).sort("rank", "at")
        self.recorded_times = self._recorded_step_times()
        self.recorded_left_out: dict[str, int] = {}
        self._memory = of_run(answers.memory)
        self.memory = _peak_memory(self._memory, of_run(answers.memory_peaks))

    @property
    def has_times(self) -> bool:
        """Return whether the whole recording has times on a GPU, or of ops."""
        return bool(self._gpu_breakdown.height or self._ops.height)

    @property
    def recorded(self) -> int:
        """Return the number of steps that the run folder records."""
        return len(self.recorded_times)

    def trim_recorded(self, least: int) -> None:
        """Choose steps of the run folder as counted_steps() does, where the shortest recording has `least`."""
        every = self.recorded
        self.recorded_times = self.recorded_times[slice(1, -1) if least >= LEAST_TO_TRIM else slice(least)]
        reason = FIRST_OR_LAST if least >= LEAST_TO_TRIM else BEYOND_SHORTEST
        if every > self.recorded:
            self.recorded_left_out[reason] = every - self.recorded

    def step_counts(self, unit: str) -> StepCounts:
        """Return how many steps count, and why others do not: of the rank that marks most."""
        if unit == RECORDED:
            return StepCounts(
                self.recorded + sum(self.recorded_left_out.values()), self.recorded, self.recorded_left_out
            )
        if unit == WHOLE:
            return StepCounts(0, 0, {})
        ranks = self._marked.group_by("rank").len().sort("len", "rank", descending=[True, False])
        of_rank = self._marked.filter(pl.col("rank") == ranks["rank"][0])
        reasons = of_rank.drop_nulls("left_out").group_by("left_out").len().sort("left_out").rows()
        return StepCounts(of_rank.height, of_rank.height - of_rank["left_out"].count(), dict(reasons))

    def middle_step(self, rank: int) -> int:
        """Return the id of the step in the middle of a rank with steps."""
        steps = self.counted.filter(pl.col("rank") == rank)["step_id"]
        return int(steps[len(steps) // 2])

    def series(self, unit: str) -> dict[str, Array]:
        """Return the values of all metrics in the steps, or in the whole recording."""
        if unit == RECORDED:
            return {"step_time": self.recorded_times}
        count = self.counted["at"].n_unique() if unit == RANGES else 1
        headline = self._step_metrics(count) if unit == RANGES else self._window_metrics()
        return headline | self._gpu_sums(unit, count) | self._op_sums(unit, count)

    def families(self, unit: str) -> frozenset[str]:
        """Return the families of metrics that the run records."""
        if unit == RECORDED:
            return frozenset({"headline"})
        on_gpu = {"class", "copy", "kernel"} if self.lanes_of(unit) else set()
        on_host = {"op"} if self._ops.height else set()
        return frozenset({"headline"} | on_gpu | on_host | ({"op_gpu"} if on_gpu and on_host else set()))

    def lanes_of(self, unit: str) -> list[tuple[int, int | None]]:
        """Return the ranks and devices that values are of: with steps only those of ranks that have some."""
        ranks = set(self.counted["rank"])
        return [lane for lane in self.lanes if unit != RANGES or lane[0] in ranks]

    def by_rank(self, unit: str) -> dict[str, dict[int, float]]:
        """Return by metric and rank the means over the steps and GPUs of a rank, and the peak memory of each rank."""
        peaks = self._memory.filter(pl.col("device").is_not_null()) if self._memory.height else self._memory
        values = {"peak_memory": dict(peaks.group_by("rank").agg(pl.col("peak_bytes").max()).rows())}
        if unit != RANGES:
            return values
        values["step_time"] = dict(self.counted.group_by("rank").agg(pl.col("step_ns").mean()).rows())
        lanes = Counter(rank for rank, _ in self.lanes_of(RANGES))
        count = self.counted["at"].n_unique()
        windows = self._placed(self._gpu_windows) if lanes else self._gpu_windows
        columns = {"gpu_time": "gpu_busy_ns", **_WINDOW_TIMES} if windows.height else {}
        sums = [windows.select("rank", metric=pl.lit(name), ns=column) for name, column in columns.items()]
        rows = self._placed(self._gpu_rows) if lanes else self._gpu_rows.clear()
        sums += [
            frame.filter(pl.col(column).is_not_null()).select(
                "rank", metric=pl.lit(prefix) + pl.col(column), ns="dur_ns"
            )
            for prefix, (frame, column) in _class_and_copy_rows(rows).items()
            if rows.height
        ]
        for rank, metric, total in (
            pl.concat(sums).group_by("rank", "metric").agg(pl.col("ns").sum()).rows() if sums else ()
        ):
            values.setdefault(metric, dict.fromkeys(lanes, 0.0))[rank] = total / lanes[rank] / count
        return values

    def _recorded_step_times(self) -> Array:
        """Return the step times that the run folder has, averaged over ranks by place."""
        if not self._steps.height:
            return np.zeros(0)
        ranks = self._steps.group_by("rank").len()
        shortest = int(ranks["len"].min())  # type: ignore[arg-type]  # of integers
        means = (
            self._steps.filter(pl.col("place") <= shortest)
            .group_by("place")
            .agg(pl.col("step_ns").mean())
            .sort("place")
        )
        return np.asarray(means["step_ns"].to_list(), dtype=float)

    def _placed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add to rows with step_id the number of the step that counts, `at`; leave out other rows."""
        return frame.join(self.counted.select("step_id", "at"), on="step_id")

    def _step_metrics(self, count: int) -> dict[str, Array]:
        series = {"step_time": _mean_by_step(self.counted, "step_ns", count)}
        lanes = len(self.lanes_of(RANGES))
        if lanes:
            windows = self._placed(self._gpu_windows)
            busy = _sums_by_step(windows.with_columns(name=pl.lit("gpu_time")), "", "name", "gpu_busy_ns", count)
            series |= {name: values / lanes for name, values in busy.items()}
            series |= {name: _mean_by_step(windows, column, count) for name, column in _WINDOW_TIMES.items()}
        elif self._cpu_exposed.height:
            exposed = self._placed(self._cpu_exposed)
            series["exposed_communication"] = _mean_by_step(exposed, "exposed_comm_ns", count)
        return series

    def _window_metrics(self) -> dict[str, Array]:
        if not self._gpu_breakdown.height:
            return (
                {"window_time": np.array([self._windows["window_ns"].mean()], dtype=float)} if self._ops.height else {}
            )
        parts = self._gpu_breakdown.select(
            window_time=pl.col("window_ns").mean(),
            gpu_time=(pl.col("window_ns") - pl.col("idle_ns")).mean(),
            exposed_communication=pl.col("exposed_comm_ns").mean(),
            exposed_copies=pl.col("exposed_memory_ns").mean(),
            idle=pl.col("idle_ns").mean(),
        )
        return {name: np.array([parts[name][0]], dtype=float) for name in parts.columns}

    def _gpu_sums(self, unit: str, count: int) -> dict[str, Array]:
        """Return the time of kernels by class and name, of copies by direction, and of GPU rows by op, of each GPU."""
        lanes = len(self.lanes_of(unit))
        if not lanes:
            return {}
        rows = self._placed(self._gpu_rows) if unit == RANGES else self._gpu_rows.with_columns(at=pl.lit(0))
        parts = _class_and_copy_rows(rows)
        sums = {**parts, "kernel:": (parts["class:"][0], "name"), "op_gpu:": (rows, "op")}
        return {
            key: values / lanes
            for prefix, (frame, column) in sums.items()
            for key, values in _sums_by_step(frame, prefix, column, "dur_ns", count).items()
        }

    def _op_sums(self, unit: str, count: int) -> dict[str, Array]:
        """Return the self time of ops by name, of each rank."""
        if not self._ops.height:
            return {}
        rows = self._placed(self._ops) if unit == RANGES else self._ops.with_columns(at=pl.lit(0))
        ranks = rows["rank"].n_unique()
        return {key: values / ranks for key, values in _sums_by_step(rows, "op:", "op", "self_ns", count).items()}


def _class_and_copy_rows(rows: pl.DataFrame) -> dict[str, tuple[pl.DataFrame, str]]:
    """Return by prefix of metrics kernels with the column of their class, and copies with that of their operation."""
    copies = rows.filter(pl.col("kind").is_in(["memcpy", "memset"])).with_columns(
        operation=pl.when(pl.col("kind") == "memset")
        .then(pl.lit("memset"))
        .otherwise(pl.col("name").fill_null("unknown"))
    )
    return {"class:": (rows.filter(pl.col("kind") == "kernel"), "class"), "copy:": (copies, "operation")}


def _mean_by_step(frame: pl.DataFrame, column: str, count: int) -> Array:
    means = dict(frame.group_by("at").agg(pl.col(column).mean()).rows())
    return np.array([means.get(at, np.nan) for at in range(count)], dtype=float)


def _sums_by_step(frame: pl.DataFrame, prefix: str, name: str, value: str, count: int) -> dict[str, Array]:
    sums: dict[str, Array] = {}
    grouped = frame.filter(pl.col(name).is_not_null()).group_by(name, "at").agg(pl.col(value).sum())
    for key, at, total in grouped.sort(name, "at").rows():
        sums.setdefault(f"{prefix}{key}", np.zeros(count))[at] = total
    return sums


def _peak_memory(peaks: pl.DataFrame, recorded: pl.DataFrame) -> dict[str, Array]:
    """Return the peak of the fullest device, or of the host where no device is recorded."""
    for frame in (
        peaks.filter(pl.col("device").is_not_null()) if peaks.height else peaks,
        recorded,
        peaks,
    ):
        if frame.height and (highest := frame["peak_bytes"].max()) is not None:
            return {"peak_memory": np.array([highest], dtype=float)}
    return {}
