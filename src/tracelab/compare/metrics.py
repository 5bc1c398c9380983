"""The metrics that are compared: their names, families, units, and one value of each recording."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from tracelab.errors import UsageError, suggest_close

Array = np.ndarray[Any, np.dtype[np.float64]]

HEADLINE = {
    "step_time": "time from the completion of one step, on the host and its GPUs, to that of the next",
    "window_time": "time of the whole recording, where it has no steps",
    "gpu_time": "time in which a GPU row of the step ran",
    "exposed_communication": "time of a step in which a GPU, else a rank on the CPU, communicates and does not compute",
    "exposed_copies": "time of a step in which a GPU copies, and neither computes nor communicates",
    "idle": "time of a step in which a GPU runs nothing",
    "peak_memory": "most memory allocated, of the fullest device",
}
"""Metrics of a whole step, and what each is."""

FAMILIES = {
    "class": "kernels of a class, such as class:gemm; durations added up",
    "copy": "copies of a direction, or memsets: copy:HtoD",
    "op_gpu": "GPU rows that an op launches itself: op_gpu:aten::mm",
    "op": "an op on the CPU, without the ops inside it: op:aten::mm",
    "kernel": "one kernel, matched between base and candidate: kernel:NAME",
}
"""Families of metrics whose names have a prefix, and what each is."""


_WAITS = frozenset({"op:aten::_local_scalar_dense", "op:aten::item", "op:aten::is_nonzero"})
"""Ops that wait on the CPU until the GPU has computed a value: with a slower GPU they are longer, and not slower."""


def family_of(metric: str) -> str:
    """Return the family of a metric: headline, or its prefix."""
    prefix, colon, _ = metric.partition(":")
    return prefix if colon and prefix in FAMILIES and metric not in HEADLINE else "headline"


def is_memory(metric: str) -> bool:
    """Return whether a metric counts bytes; the others are times."""
    return metric == "peak_memory"


def spell_verdict(metric: str, verdict: str) -> str:
    """Return a verdict in the word for its metric: idle and exposed time, copies, waits and memory are more or less."""
    is_work = family_of(metric) not in ("headline", "copy") or metric in ("step_time", "window_time", "gpu_time")
    is_work = is_work and metric not in _WAITS
    return verdict if is_work else {"slower": "more", "faster": "less"}.get(verdict, verdict)


def median(steps: Array) -> float:
    """Return the median of the steps that are known; some microseconds faster than NumPy's for few steps."""
    if len(steps) == 1:
        return float(steps[0])
    ordered = np.sort(steps)  # what is unknown comes last
    known = len(ordered) - int(np.isnan(ordered[-1]) and np.isnan(ordered).sum())
    return float(ordered[(known - 1) // 2] + ordered[known // 2]) / 2 if known else float("nan")


def needs_mean(series: Sequence[Array], medians: Sequence[float]) -> bool:
    """Return whether a metric is 0 in half of the steps of any recording, so that its median would hide the rest."""
    return any(value == 0 and np.nansum(each) > 0 for each, value in zip(series, medians, strict=True))


def summarize(steps: Array, *, mean: bool) -> float:
    """Return the value of a recording, or of a block of its steps: the median, or the mean."""
    return float(np.nanmean(steps)) if mean else median(steps)


HOST_METRICS = ("step_time", "window_time", "idle", "exposed_communication", "exposed_copies")
"""Metrics that depend on how fast the host launches, which each profiler slows down by its own measure."""
_DIRECTIONS = (
    *("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA"),
    *("UVM HtoD", "UVM DtoH", "UVM DtoD", "memset", "unknown"),
)


def explain_unknown(
    metric: str,
    known: Iterable[str],
    families: Collection[str],
    classes: Collection[str],
    *,
    mixed_profilers: bool,
) -> str | None:
    """Return why a metric is not compared; None if it is, or is 0 on both sides.

    `classes` are those that a kernel may have. Raises UsageError with the metrics of the recordings if none of their
    `families` has one of this name.
    """
    names = list(known)
    family = family_of(metric)
    if metric in names:
        return None
    if mixed_profilers and (metric in HOST_METRICS or family == "op"):
        return "two profilers recorded the sides, and each slows down the host by its own measure"
    if metric in HEADLINE or family not in families:
        todo = "; record with profile_memory=True" if is_memory(metric) else ""
        return f"not every recording has {metric if family == 'headline' else f'metrics {family}:NAME'}{todo}"
    member = metric.partition(":")[2]
    if (family == "copy" and member in _DIRECTIONS) or (family == "class" and member in classes):
        return None
    hint = suggest_close("", metric, [*names, *HEADLINE])
    plain = [name for name in names if family_of(name) == "headline"]
    counts = {family: sum(family_of(name) == family for name in names) for family in FAMILIES}
    families = [f"{count:,} of {family}:NAME" for family, count in counts.items() if count]
    raise UsageError(
        f"no metric {metric!r} in these recordings{hint}; they have {', '.join([*plain, *families])} "
        "(tracelab compare --all lists them)"
    )
