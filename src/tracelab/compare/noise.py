"""How much a metric differs between recordings of one version, which no verdict may fall below."""

from collections.abc import Sequence

import numpy as np

from tracelab.compare.statistics import LEVEL, Array, arrange

ASSUMED_FLOOR = 0.02
"""The floor without recordings of one version to measure it: 2 %."""
_LEAST_SPLIT = 8
"""With fewer recordings the largest difference of any two is the floor: splits of so few differ too little."""


def measure_floor(values: Sequence[float] | Array) -> float:
    """Return the floor of one metric from its values, on the scale of effects, in recordings of one version.

    From 8 recordings on it is the 95 % quantile of the effect between halves of them, of fewer the largest difference
    of two recordings.
    """
    ordered = np.asarray(values, float)
    if len(ordered) < _LEAST_SPLIT:
        return float(ordered.max() - ordered.min())
    sides = arrange(len(ordered), len(ordered) // 2).astype(bool).T
    effects = [abs(float(np.median(np.subtract.outer(ordered[~side], ordered[side])))) for side in sides]
    return float(np.quantile(effects, LEVEL))
