"""Turn the kernels of recordings into what is matched and compared: mean times, launches of a step, and series."""

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np

from tracelab.compare.fetch import Answers, Source
from tracelab.compare.kernel_matching import Kernel, Launch, Matching
from tracelab.compare.recordings import Recording
from tracelab.compare.replacements import Times
from tracelab.compare.verdicts import MetricRow, Series

PREFIX = "kernel:"
"""What the metrics of kernels begin with."""


def kernel_names(answers: Answers) -> list[tuple[object, object, object]]:
    """Return each kernel once: its name, normalized key and class."""
    if not answers.gpu_rows.height:
        return []
    kernels = answers.gpu_rows.filter(answers.gpu_rows["kind"] == "kernel").drop_nulls("name")
    return [tuple(row) for row in kernels.select("name", "key", "class").unique(subset="name").sort("name").rows()]


def list_kernels(side: Sequence[Recording], known: Mapping[str, tuple[str, str]]) -> list[Kernel]:
    """Return the kernels of a side with their mean time in a step of its recordings."""
    totals: dict[str, list[float]] = {}
    for each in side:
        for metric, steps in each.series.items():
            if metric.startswith(PREFIX):
                totals.setdefault(metric.removeprefix(PREFIX), []).append(float(np.mean(steps)))
    return [
        Kernel(name, *known[name], fmean([*values, *[0.0] * (len(side) - len(values))]))
        for name, values in totals.items()
    ]


def kernel_times(rows: Sequence[MetricRow], kernels: tuple[Sequence[Kernel], Sequence[Kernel]]) -> Times:
    """Return the times of kernels on both sides: of matched ones the values of their rows, of others the means."""
    alone = {each.name: (each.dur_ns, 0.0) for each in kernels[0]} | {
        each.name: (0.0, each.dur_ns) for each in kernels[1]
    }
    return alone | {
        row.metric.removeprefix(PREFIX): (row.base, row.candidate) for row in rows if row.family == "kernel"
    }


def fetch_launches(source: Source, recording: Recording) -> list[Launch]:
    """Fetch the launches of a step in the middle of a recording, on its first rank and device."""
    if recording.lane is None or recording.middle_step is None:
        return []
    frame = source.launches(recording.run, *recording.lane, recording.middle_step)
    return [
        Launch(
            str(row["name"]),
            str(row["class"]),
            int(row["blocks"] or 0),
            row["op"],
            row["op_call"],
            row["input_shapes"],
            row["range_name"],
            float(row["dur_ns"]),
        )
        for row in frame.to_dicts()
    ]


def matched_series(side: Sequence[Recording], matching: Matching, number: int) -> list[Series]:
    """Return the series of each recording, its kernels under the names of their matches."""
    found: list[Series] = []
    for each in side:
        series = {name: steps for name, steps in each.series.items() if not name.startswith(PREFIX)}
        for match in matching.matches:
            names = (match.base, match.candidate)[number]
            parts = [each.series[f"{PREFIX}{name}"] for name in names if f"{PREFIX}{name}" in each.series]
            if parts:  # two functions of one key and of different classes share a label
                label = f"{PREFIX}{match.label}"
                series[label] = np.sum([*parts, *([series[label]] if label in series else [])], axis=0)
        found.append(series)
    return found
