"""Decide for each metric whether the candidate is faster, slower or the same, for all metrics together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracelab.compare import metrics, noise
from tracelab.compare.statistics import Shift, adjust_p_values, estimate_shift

Array = np.ndarray[Any, np.dtype[np.float64]]
Series = Mapping[str, Array]

FASTER, SLOWER, SAME, UNDECIDED = "faster", "slower", "same", "undecided"
LEAST_RECORDINGS = 4
"""With fewer recordings of a side no difference is certain: of 3 + 3, one arrangement in ten is as extreme as any."""
LEAST_EFFECT = 0.005
"""Effects below 0.5 % are never faster or slower, however quiet the machine is."""
WIDEST_SAME = 0.05
"""Where the interval reaches beyond ±5 % nothing is the same, however noisy the machine is."""
HEADLINE_LEVEL, DETAIL_LEVEL, FOLLOW_LEVEL = 0.04, 0.01, 0.05
"""Chance of any false alarm among the metrics of a step, and among classes, copies, ops and kernels.

Together these are 5 %. Once a metric of the step differs, the details that explain it are tested at 5 %.
"""
_MOST_BLOCKS = 8


@dataclass(frozen=True)
class MetricRow:
    """One metric of both sides: values, effect, interval and verdict."""

    metric: str
    family: str
    base: float
    candidate: float
    """Medians over the recordings, in ns a step or in bytes."""
    effect: float | None
    """Relative change; None where a value is 0."""
    low: float | None
    high: float | None
    difference: float
    """The effect in ns or bytes."""
    difference_low: float | None
    difference_high: float | None
    floor: float
    floor_measured: bool
    evidence: str
    """What varies: recordings; blocks, of the steps of too few recordings; none."""
    p_value: float | None
    verdict: str
    tendency: str | None
    """What the blocks show of these recordings alone; None where recordings decide."""
    step_share: float | None
    """The difference over the step time of the base."""


@dataclass(frozen=True)
class _Measured:
    """One metric on the scale of its effect: logarithms, or multiples of `unit` where a value is 0."""

    metric: str
    unit: float | None
    base: Array
    candidate: Array
    base_value: float
    candidate_value: float
    shift: Shift
    floor: float
    floor_measured: bool


def judge(
    names: Sequence[str],
    base: Sequence[Series],
    candidate: Sequence[Series],
    *,
    noise_runs: Sequence[Series] = (),
    assumed_floor: float = noise.ASSUMED_FLOOR,
    declared: Sequence[str] = (),
    can_decide: bool = True,
) -> list[MetricRow]:
    """Return a row for each metric that a recording has; the names of `declared` are tested with those of the step.

    Without `can_decide`, all verdicts are undecided.
    """
    step_time = _step_time(base)
    by_recording = can_decide and min(len(base), len(candidate)) >= LEAST_RECORDINGS
    measured = []
    for name in names:
        each = _measure(name, base, candidate, noise_runs, assumed_floor, by_recording=by_recording)
        if each is not None:
            measured.append(each)
    if not by_recording:
        return [_row(each, None, None, step_time, by_recording=False) for each in measured]
    is_headline = [metrics.family_of(each.metric) == "headline" or each.metric in declared for each in measured]
    headline = [each for each, first in zip(measured, is_headline, strict=True) if first]
    details = [each for each, first in zip(measured, is_headline, strict=True) if not first]
    rows = _test(headline, HEADLINE_LEVEL, step_time)
    differs = any(row.verdict in (FASTER, SLOWER) for row in rows)
    rows += _test(details, FOLLOW_LEVEL if differs else DETAIL_LEVEL, step_time)
    order = {name: place for place, name in enumerate(names)}
    return sorted(rows, key=lambda row: order[row.metric])


def _step_time(base: Sequence[Series]) -> float | None:
    for name in ("step_time", "window_time", "gpu_time"):
        values = [metrics.summarize(each[name], mean=False) for each in base if name in each]
        if values:
            return float(np.median(values))
    return None


def _test(measured: Sequence[_Measured], level: float, step_time: float | None) -> list[MetricRow]:
    """Decide a family of metrics together."""
    if not measured:
        return []
    values = np.array([np.concatenate([each.base, each.candidate]) for each in measured])
    p_values = adjust_p_values(values, len(measured[0].base))
    return [
        _row(each, float(p_value), level, step_time, by_recording=True)
        for each, p_value in zip(measured, p_values, strict=True)
    ]


def _measure(
    name: str,
    base: Sequence[Series],
    candidate: Sequence[Series],
    noise_runs: Sequence[Series],
    assumed_floor: float,
    *,
    by_recording: bool,
) -> _Measured | None:
    """Return the values of a metric on the scale of its effect; None where it is unknown or 0 in all recordings."""
    sides = [_steps_of(name, side) for side in (base, candidate)]
    if None in sides:
        return None
    base_steps, candidate_steps = (side or [] for side in sides)
    every = base_steps + candidate_steps
    values = [metrics.median(each) for each in every]
    mean = metrics.needs_mean(every, values)
    if mean:
        values = [metrics.summarize(each, mean=True) for each in every]
    if not any(values):
        return None
    if by_recording:
        samples = [np.array([value]) for value in values]
    else:
        samples = [_block_values(each, mean=mean) for each in every]
    is_log = min(values) > 0 and all(each.min() > 0 for each in samples)
    noise_steps = _steps_of(name, noise_runs) if noise_runs else None
    noise_values = [metrics.summarize(each, mean=mean) for each in noise_steps or []]
    if is_log and not all(value > 0 for value in noise_values):
        noise_values = []

    count = len(base_steps)
    medians = [metrics.median(np.array(part)) for part in (values[:count], values[count:])]
    unit = max(medians) or max(values)

    def scale(array: Array) -> Array:
        return np.log(array) if is_log else array / unit

    scaled = [scale(np.concatenate(part)) for part in (samples[:count], samples[count:])]
    shift = estimate_shift(scaled[0], scaled[1])
    if (
        shift.low is None or not by_recording
    ):  # recordings are too few for an estimate, so the effect is that of the values
        first, second = scale(np.array(medians))
        shift = _shift_of_values(float(second - first), shift)
    assumed = math.log1p(assumed_floor) if is_log else assumed_floor
    floor = noise.measure_floor(scale(np.array(noise_values))) if len(noise_values) > 1 else assumed
    return _Measured(
        metric=name,
        unit=None if is_log else unit,
        base=scaled[0],
        candidate=scaled[1],
        base_value=medians[0],
        candidate_value=medians[1],
        shift=shift,
        floor=floor,
        floor_measured=len(noise_values) > 1,
    )


def _shift_of_values(effect: float, blocks: Shift) -> Shift:
    """Return the effect of two values in the interval of the blocks of their steps, which then contains it."""
    if blocks.low is None or blocks.high is None:
        return Shift(effect, None, None)
    return Shift(effect, min(effect, blocks.low), max(effect, blocks.high))


def _steps_of(name: str, recordings: Sequence[Series]) -> list[Array] | None:
    """Return the steps of each recording; 0 for what others of a family have; None where a headline is not recorded.

    A recording has as many steps as its longest metric: its peak memory is a single value.
    """
    steps = [each.get(name) for each in recordings]
    if any(each is not None and np.isnan(each).all() for each in steps):
        return None
    if metrics.family_of(name) == "headline":
        known = [each for each in steps if each is not None]
        return known if len(known) == len(steps) else None
    return [
        np.zeros(max(map(len, recording.values()))) if each is None else each
        for each, recording in zip(steps, recordings, strict=True)
    ]


def _block_values(steps: Array, *, mean: bool) -> Array:
    """Return the values of up to 8 blocks of known steps that follow each other: neighbors are not independent."""
    known = steps[~np.isnan(steps)]
    blocks = np.array_split(known, min(_MOST_BLOCKS, len(known)))
    return np.array([metrics.summarize(each, mean=mean) for each in blocks])


def _row(
    each: _Measured, p_value: float | None, level: float | None, step_time: float | None, *, by_recording: bool
) -> MetricRow:
    shift, limit = each.shift, max(each.floor, LEAST_EFFECT)
    seen = _read_interval(shift, limit)
    verdict, tendency = UNDECIDED, None
    if by_recording and p_value is not None and level is not None:
        certain = seen == SAME or p_value <= level
        verdict = seen if certain else UNDECIDED
    elif shift.low is not None:
        tendency = seen
    ratios = [_ratio(each, value) for value in (shift.estimate, shift.low, shift.high)]
    differences = [_difference(each, value) for value in (shift.estimate, shift.low, shift.high)]
    evidence = "recordings" if by_recording else "none" if shift.low is None else "blocks"
    is_time = not metrics.is_memory(each.metric)
    difference = differences[0] or 0.0
    return MetricRow(
        metric=each.metric,
        family=metrics.family_of(each.metric),
        base=each.base_value,
        candidate=each.candidate_value,
        effect=ratios[0],
        low=ratios[1],
        high=ratios[2],
        difference=difference,
        difference_low=differences[1],
        difference_high=differences[2],
        floor=math.expm1(each.floor) if each.unit is None else each.floor,
        floor_measured=each.floor_measured,
        evidence=evidence,
        p_value=p_value,
        verdict=verdict,
        tendency=tendency,
        step_share=difference / step_time if is_time and step_time else None,
    )


def _read_interval(shift: Shift, limit: float) -> str:
    """Return what an interval shows: beyond 0 and the limit, within the limit, or neither."""
    if shift.low is None or shift.high is None:
        return UNDECIDED
    if shift.low > 0 and shift.estimate > limit:
        return SLOWER
    if shift.high < 0 and shift.estimate < -limit:
        return FASTER
    same = min(limit, WIDEST_SAME)
    return SAME if -same <= shift.low and shift.high <= same else UNDECIDED


def _ratio(each: _Measured, value: float | None) -> float | None:
    return math.expm1(value) if each.unit is None and value is not None else None


def _difference(each: _Measured, value: float | None) -> float | None:
    if value is None:
        return None
    return each.base_value * math.expm1(value) if each.unit is None else value * each.unit
