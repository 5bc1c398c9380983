"""Turn the rows of each run into a recording: the values of every metric in every step that counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tracelab.compare.fetch import Answers
from tracelab.errors import NoDataError

Array = np.ndarray[Any, np.dtype[np.float64]]

RANGES, RECORDED, WHOLE = "ranges", "recorded", "whole"
"""What a value is of: a step that a range marks, a step of a run folder, or the whole recording."""
LEAST_TO_TRIM = 3
"""With fewer steps in a recording, the first and last stay in all, and no verdict is possible."""
_WINDOW_TIMES = {
    "exposed_communication": "exposed_comm_ns",
    "exposed_copies": "exposed_memory_ns",
    "idle": "idle_ns",
}
"""Metrics of a GPU and step, and their columns of gpu_windows."""


@dataclass(frozen=True)
class Recording:
    """One run as it is compared: for each metric its values in the steps that count, averaged over ranks or GPUs."""

    run: str
    steps: int
    """Steps that count; 0 where whole recordings are compared."""
    series: Mapping[str, Array]
    lane: tuple[int, int | None] | None
    """The first rank and device, whose launches are compared one by one."""
    places: tuple[int, ...]
    """The places of its steps that count, in the order of time; 0 is the whole recording."""
    families: frozenset[str]
    """Families of metrics that are recorded: a member without a value took no time."""
    is_trimmed: bool = True
    """Whether the first and last step are left out; if not, a recording has fewer than LEAST_TO_TRIM."""


def build_recordings(answers: Answers, runs: Sequence[str]) -> tuple[str, list[Recording]]:
    """Return what the values are of, and the recordings of the runs. Raises NoDataError for one without times."""
    parts = [_OneRun(answers, run) for run in runs]
    if all(part.ranges for part in parts):
        unit = RANGES
    elif all(part.recorded for part in parts):
        unit = RECORDED
    else:
        unit = WHOLE
    least = least_steps(parts, unit)
    for part in parts:
        part.choose_steps(unit, least)
    is_trimmed = unit == WHOLE or least >= LEAST_TO_TRIM
    recordings = []
    for part in parts:
        series = part.memory | part.series(unit)
        if not series.keys() - {"peak_memory"}:
            raise NoDataError(
                f"run {part.run} has neither steps nor times on a GPU nor ops; record it with a profiler, or with "
                "`tracelab collect train`"
            )
        places = part.ranges if unit == RANGES else {}
        lane = next(iter(part.lanes_of(unit)), None)
        first = places.get(lane[0] if lane else min(places), ()) if places else (0,)
        steps = {RANGES: len(first), RECORDED: part.recorded, WHOLE: 0}[unit]
        recordings.append(Recording(part.run, steps, series, lane, tuple(first), part.families(unit), is_trimmed))
    return unit, recordings


def least_steps(parts: "Sequence[_OneRun]", unit: str) -> int:
    """Return the number of steps of the recording with the fewest, the first and last included; 0 without steps."""
    counts = {RANGES: [part.range_count for part in parts], RECORDED: [part.recorded for part in parts], WHOLE: [0]}
    return min(counts[unit])


class _OneRun:
    """The rows of one run."""

    def __init__(self, answers: Answers, run: str) -> None:
        def of_run(frame: pl.DataFrame) -> pl.DataFrame:
            return frame.filter(pl.col("run") == run) if frame.height else frame

        self.run = run
        self._breakdown = of_run(answers.breakdown)
        self._windows = of_run(answers.windows)
        self._gpu_breakdown = of_run(answers.gpu_breakdown)
        self._gpu_rows = of_run(answers.gpu_rows)
        self._gpu_windows = of_run(answers.gpu_windows)
        self._ops = of_run(answers.host_ops)
        self._steps = of_run(answers.recorded_steps)
        self.lanes = [
            (int(rank), device) for rank, device in self._gpu_rows.select("rank", "device").unique().sort("*").rows()
        ]
        self.ranges = self._ranges()
        self.recorded_times = self._recorded_step_times()
        self.memory = _peak_memory(of_run(answers.memory), of_run(answers.memory_peaks))

    @property
    def range_count(self) -> int:
        """Return the number of steps that ranges mark."""
        return len(next(iter(self.ranges.values()), ()))

    @property
    def recorded(self) -> int:
        """Return the number of steps that the run folder records."""
        return len(self.recorded_times)

    def choose_steps(self, unit: str, least: int) -> None:
        """Leave out the first and the last step, or, if a recording has few, keep the first `least` of each."""
        if unit == WHOLE:
            return
        chosen = slice(1, -1) if least >= LEAST_TO_TRIM else slice(least)
        self.ranges = {rank: steps[chosen] for rank, steps in self.ranges.items()}
        self.recorded_times = self.recorded_times[chosen]

    def series(self, unit: str) -> dict[str, Array]:
        """Return the values of all metrics in the steps, or in the whole recording."""
        if unit == RECORDED:
            return {"step_time": self.recorded_times}
        count = len(next(iter(self.ranges.values()))) if unit == RANGES else 1
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
        return [lane for lane in self.lanes if unit != RANGES or lane[0] in self.ranges]

    def _ranges(self) -> dict[int, tuple[int, ...]]:
        """Return for each rank the places of the steps that are recorded on all ranks.

        Steps whose kernels were not recorded do not count. Ranks match by the number of the step, where all have one.
        """
        if not self._breakdown.height:
            return {}
        stepped = self._breakdown.filter(pl.col("step_ns").is_not_null()).with_columns(
            place=pl.int_range(pl.len()).over("run", "rank", "device") + 1
        )
        if not stepped.height:
            return {}
        work = pl.col("kernels") + pl.col("copies") + pl.col("memsets") > 0
        covered = stepped.filter(work) if self.lanes else stepped
        by_rank = {
            int(rank): dict(
                covered.filter(pl.col("rank") == rank).select("place", "step").unique().sort("place").rows()
            )
            for rank in stepped["rank"].unique().sort()
        }
        if not all(by_rank.values()):
            return {}
        numbered = [list(steps.values()) for steps in by_rank.values()]
        if all(None not in numbers and len(set(numbers)) == len(numbers) for numbers in numbered):
            common = set(numbered[0]).intersection(*numbered)
            places = {
                rank: tuple(place for place, number in steps.items() if number in common)
                for rank, steps in by_rank.items()
            }
        else:
            shortest = min(map(len, numbered))
            places = {rank: tuple(steps)[:shortest] for rank, steps in by_rank.items()}
        return places if all(places.values()) else {}

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
        """Add to rows with rank and place the number of the step that counts; leave out other rows."""
        rows = [(rank, place, at) for rank, places in self.ranges.items() for at, place in enumerate(places)]
        numbers = pl.DataFrame(rows, schema={"rank": pl.Int32, "place": pl.Int64, "at": pl.Int64}, orient="row")
        return frame.with_columns(pl.col("rank").cast(pl.Int32), pl.col("place").cast(pl.Int64)).join(
            numbers, on=["rank", "place"]
        )

    def _step_metrics(self, count: int) -> dict[str, Array]:
        stepped = self._breakdown.filter(pl.col("step_ns").is_not_null()).with_columns(
            place=pl.int_range(pl.len()).over("run", "rank", "device") + 1
        )
        placed = self._placed(stepped)
        steps = placed.group_by("at", "rank").agg(pl.col("step_ns").first())
        series = {"step_time": _mean_by_step(steps, "step_ns", count)}
        if self.lanes:
            of_gpus = placed.filter(pl.col("compute_ns").is_not_null())
            series["gpu_time"] = _mean_by_step(of_gpus, "gpu_busy_ns", count)
            windows = self._placed(self._gpu_windows)
            series |= {name: _mean_by_step(windows, column, count) for name, column in _WINDOW_TIMES.items()}
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
        kernels = rows.filter(pl.col("kind") == "kernel")
        copies = rows.filter(pl.col("kind").is_in(["memcpy", "memset"])).with_columns(
            operation=pl.when(pl.col("kind") == "memset")
            .then(pl.lit("memset"))
            .otherwise(pl.col("name").fill_null("unknown"))
        )
        sums = {
            "class:": (kernels, "class"),
            "kernel:": (kernels, "name"),
            "copy:": (copies, "operation"),
            "op_gpu:": (rows, "op"),
        }
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
