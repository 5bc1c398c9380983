"""Exact statistics of two small samples: shift, its confidence interval, and p-values of many metrics together."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]

LEVEL = 0.95
"""The confidence level of every interval."""
_MOST_ARRANGEMENTS = 5_000
"""Up to so many arrangements of recordings are all counted; of more, so many are drawn, always the same."""
_TOLERANCE = 1e-9
"""Variance within sides below this share of all is rounding."""
_SAME = 1e-6
"""Two arrangements whose differences agree to this are equally extreme, such as one and its mirror image."""


@dataclass(frozen=True)
class Shift:
    """By how much the second sample lies above the first; no interval where the samples are too small for one."""

    estimate: float
    low: float | None
    high: float | None


@lru_cache(maxsize=256)
def count_rank_sums(m: int, n: int) -> tuple[int, ...]:
    """Count the arrangements of m and n values for each value of Mann and Whitney's U, from 0 to m * n.

    The counts are the coefficients of the Gaussian binomial coefficient: the product of (1 - q^(n+i)) / (1 - q^i).
    """
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for place in range(m * n, n + i - 1, -1):
            counts[place] -= counts[place - n - i]
        for place in range(i, m * n + 1):
            counts[place] += counts[place - i]
    return tuple(counts)


@lru_cache(maxsize=256)
def interval_rank(m: int, n: int, level: float = LEVEL) -> int:
    """Return k: the interval reaches from the k-th smallest to the k-th largest of the m * n differences; 0: none does.

    It is the largest k for which U < k has at most half of 1 - level of all arrangements.
    """
    below, total = 0, math.comb(m + n, m)
    for k, count in enumerate(count_rank_sums(m, n)):
        below += count
        if 2 * below > (1 - level) * total + _TOLERANCE:
            return k
    return 0


def estimate_shift(base: Sequence[float] | Array, candidate: Sequence[float] | Array) -> Shift:
    """Return the shift of Hodges and Lehmann, the median of all differences, with the interval of Mann and Whitney."""
    differences = np.sort(np.subtract.outer(np.asarray(candidate, float), np.asarray(base, float)).ravel())
    k = interval_rank(len(base), len(candidate))
    middle = len(differences) // 2
    estimate = float(differences[middle] + differences[-middle - 1]) / 2
    return Shift(estimate, float(differences[k - 1]), float(differences[-k])) if k else Shift(estimate, None, None)


def adjust_p_values(values: Array, base_count: int) -> Array:
    """Return the p-value of each row of values, adjusted for all rows: the first `base_count` columns are the base.

    Step-down max-T of Westfall and Young: under the hypothesis that the versions do not differ, each arrangement of
    the recordings in two sides is as likely. The p-value of a row is the share of arrangements in which any row that
    is not more extreme reaches a difference as large as the observed one, measured in standard errors. So the chance
    of any false alarm among all rows is at most the level, for all distributions and dependences of rows.
    """
    values = np.asarray(values, float)
    rows, columns = values.shape
    if not rows:
        return np.zeros(0)
    chosen = arrange(columns, base_count)
    extremes = _standardized(values, chosen)
    order = np.argsort(-extremes[:, 0], kind="stable")
    highest = np.maximum.accumulate(extremes[order][::-1], axis=0)[::-1]
    observed = extremes[order, :1]
    reached = (highest >= observed * (1 - _SAME)).mean(axis=1)
    adjusted = np.empty(rows)
    adjusted[order] = np.maximum.accumulate(reached)
    return adjusted


@lru_cache(maxsize=64)
def arrange(columns: int, base_count: int) -> Array:
    """Return the arrangements of recordings in two sides, the observed one first.

    A column is one arrangement, with 1 for each recording that it puts into the base.
    """
    if math.comb(columns, base_count) <= _MOST_ARRANGEMENTS:
        picks = np.array(list(itertools.combinations(range(columns), base_count)))
    else:
        generator = np.random.default_rng(0)
        drawn = [np.sort(generator.permutation(columns)[:base_count]) for _ in range(_MOST_ARRANGEMENTS - 1)]
        picks = np.array([np.arange(base_count), *drawn])
    chosen = np.zeros((columns, len(picks)))
    chosen[picks.T, np.arange(len(picks))] = 1
    return chosen


def _standardized(values: Array, chosen: Array) -> Array:
    """Return the difference of means over its standard error for each row and arrangement, without sign."""
    columns, base_count = values.shape[1], float(chosen[:, 0].sum())
    rest_count = columns - base_count
    centered = values - values.mean(axis=1, keepdims=True)
    total = (centered**2).sum(axis=1, keepdims=True)
    difference = np.abs((centered @ chosen) * (1 / base_count + 1 / rest_count))
    within = total - difference**2 * base_count * rest_count / columns
    scale = np.maximum(within, _TOLERANCE * total) * columns / (base_count * rest_count) / max(1, columns - 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > _TOLERANCE**2, difference / np.sqrt(scale), 0.0)
