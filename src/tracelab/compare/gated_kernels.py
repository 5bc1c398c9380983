"""Gates on kernels that only one side launches: each is on the kernels that replace each other."""

from collections.abc import Mapping, Sequence

import numpy as np

from tracelab.compare.kernel_matching import Kernel, Matching
from tracelab.compare.kernel_series import PREFIX
from tracelab.compare.recordings import Recording
from tracelab.compare.replacements import Replacement
from tracelab.compare.verdicts import Series

Groups = Mapping[str, Sequence[str]]
"""By metric of a gate the kernels that replace each other, of matched ones their labels."""


def list_alone(
    metrics: Sequence[str], known: Sequence[str], kernels: tuple[Sequence[Kernel], Sequence[Kernel]]
) -> dict[str, str]:
    """Return the metrics of kernels that are none of the known ones, each with the side that launches the kernel."""
    sides = {each.name: side for side, listed in zip(("base", "candidate"), kernels, strict=True) for each in listed}
    return {
        metric: sides[metric.removeprefix(PREFIX)]
        for metric in metrics
        if metric.startswith(PREFIX) and metric not in known and metric.removeprefix(PREFIX) in sides
    }


def group_replaced(alone: Mapping[str, str], matching: Matching, replacements: Sequence[Replacement]) -> Groups:
    """Return for each metric of one side the kernels of its match, or of its replacement; others are left out."""
    groups = {f"{PREFIX}{name}": [each.label] for each in matching.matches for name in (*each.base, *each.candidate)}
    groups |= {f"{PREFIX}{name}": each.names for each in replacements for name in each.names}
    return {metric: groups[metric] for metric in alone if metric in groups}


def add_groups(side: Sequence[Series], recordings: Sequence[Recording], groups: Groups) -> list[Series]:
    """Add to the series of each recording the time of each group of kernels."""
    added: list[Series] = []
    for series, recording in zip(side, recordings, strict=True):
        every = {**recording.series, **series}
        sums = {
            metric: np.sum(parts, axis=0)
            for metric, names in groups.items()
            if (parts := [every[f"{PREFIX}{name}"] for name in names if f"{PREFIX}{name}" in every])
        }
        added.append({**series, **sums})
    return added


def describe_groups(groups: Groups) -> list[str]:
    """Return which kernels each gate is on."""
    return [
        f"The gate on {metric} is on kernels that replace each other, added up: {', '.join(names)}."
        for metric, names in groups.items()
    ]


def explain_alone(side: str) -> str:
    """Return why a kernel that only one side launches, and that replaces no other one, is not compared."""
    return f"only the {side} launches this kernel, and no kernel of the other side is known to do its work"
