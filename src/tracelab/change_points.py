"""Find where the level of a series changes: the largest rank-sum statistic over all splits, with a permutation test.

The statistic is that of the nonparametric change-point model of Hawkins & Deng (Journal of Quality Technology 42,
2010): of all splits of a series the one with the largest standardized Mann-Whitney statistic. Its chance is that of a
permutation test (Dwass, Annals of Mathematical Statistics 28, 1957), which is exact: where the values of a series are
exchangeable, the test finds a change in at most a share `alpha` of such series. Each half of a split series is tested
in the same way (binary segmentation: Scott & Knott, Biometrics 30, 1974).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

LEAST_RUNS = 3
"""Runs on each side of a change: a single run is an outlier, no new level."""
PERMUTATIONS = 1_999
_AT_ONCE_VALUES = 1 << 20
_SEED = 1

Array = np.ndarray[Any, np.dtype[np.float64]]
Params = Mapping[str, str | int | float | bool | None]


def compute_segments(
    relations: Mapping[str, pa.Table], params: Params, check: Callable[[], None]
) -> dict[str, pa.Table]:
    """Return the rows of `run_segments`: the stretches between changes, of each series in the order of `points`."""
    points = relations["points"].select(["run", "series", "value"]).to_pylist()
    of_series: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        if point["value"] is not None and point["series"] is not None:
            of_series.setdefault(point["series"], []).append(point)
    rows: list[dict[str, object]] = []
    for listed in of_series.values():
        values = np.array([point["value"] for point in listed], np.float64)
        changes = dict(find_changes(values, float(params["alpha"] or 0), check))
        segment = 1
        for place, point in enumerate(listed):
            segment += place in changes
            rows.append(
                {"run": point["run"], "place": place + 1, "segment": segment, "chance": changes.get(place)},
            )
    return {"run_segments": pa.Table.from_pylist(rows)} if rows else {}


def find_changes(values: Array, alpha: float, check: Callable[[], None] = lambda: None) -> Sequence[tuple[int, float]]:
    """Return the index of the first value of each new level and the chance of the change, in order."""
    return sorted(_split(values, 0, alpha, check))


def _split(values: Array, first: int, alpha: float, check: Callable[[], None]) -> Iterator[tuple[int, float]]:
    pending = [(first, values)]
    while pending:
        start, part = pending.pop()
        place, chance = best_change(part, alpha, check)
        if chance is not None:
            yield start + place, chance
            pending += [(start, part[:place]), (start + place, part[place:])]


def best_change(values: Array, alpha: float, check: Callable[[], None] = lambda: None) -> tuple[int, float | None]:
    """Return where a series is split best, and the chance of so good a split; None where it is over `alpha`."""
    if len(values) < 2 * LEAST_RUNS or values.min() == values.max():
        return 0, None
    ranks = mid_ranks(values)
    statistics = split_statistics(ranks[np.newaxis])[0]
    place = int(statistics.argmax())
    most = statistics[place] * (1 - 1e-9)  # equal statistics, added up in another order
    rng = np.random.default_rng(_SEED)
    as_good, done = 0, 0
    while done < PERMUTATIONS:
        check()
        count = min(PERMUTATIONS - done, max(1, _AT_ONCE_VALUES // len(values)))
        permuted = rng.permuted(np.broadcast_to(ranks, (count, len(ranks))), axis=1)
        as_good += int((split_statistics(permuted).max(axis=1) >= most).sum())
        done += count
        if (1 + as_good) / (1 + PERMUTATIONS) > alpha:  # also if no other order is as good
            return place + LEAST_RUNS, None
    return place + LEAST_RUNS, (1 + as_good) / (1 + PERMUTATIONS)


def mid_ranks(values: Array) -> Array:
    """Return the ranks of values from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean: Array = (last - (counts - 1) / 2)[inverse]
    return mean


def split_statistics(ranks: Array) -> Array:
    """Return for each row of ranks the standardized rank sums before each split with enough values on both sides."""
    n = ranks.shape[1]
    before = np.arange(LEAST_RUNS, n - LEAST_RUNS + 1)
    sums = np.cumsum(ranks, axis=1)[:, LEAST_RUNS - 1 : n - LEAST_RUNS]
    variance = ranks[0].var() * before * (n - before) / (n - 1)
    statistics: Array = np.abs(sums - before * (n + 1) / 2) / np.sqrt(variance)
    return statistics
