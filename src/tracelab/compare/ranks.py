"""Find the rank that a difference is of: one whose change is unlike those of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tracelab.compare.metrics import family_of, is_memory
from tracelab.compare.outlier_rule import least_distance
from tracelab.compare.recordings import Recording
from tracelab.compare.verdicts import MetricRow

_FAMILIES = frozenset({"headline", "class", "copy"})
LEAST_SHARE = 0.01
"""Share of the step, or of a value that is no part of it, by which the rank differs from the others at least."""


@dataclass(frozen=True)
class RankDifference:
    """A difference on one rank that is unlike that of the others; values are means over steps and recordings."""

    metric: str
    rank: int
    base: float
    candidate: float
    others: float
    """The median difference of the other ranks."""

    @property
    def excess(self) -> float:
        """Return by how much the rank differs from the others."""
        return abs(self.candidate - self.base - self.others)


def find_rank_differences(
    rows: Sequence[MetricRow], base: Sequence[Recording], candidate: Sequence[Recording]
) -> list[RankDifference]:
    """Return the differences that are of one rank, the largest excess first.

    A rank counts whose difference is an outlier (`outlier_rule`), by at least 1 % of the step, or of the memory.
    """
    found = []
    for row in rows:
        if family_of(row.metric) not in _FAMILIES:
            continue
        sides = [_mean_by_rank(side, row.metric) for side in (base, candidate)]
        if len(sides[0]) < 2 or sides[0].keys() != sides[1].keys():  # noqa: PLR2004
            continue
        each = _find_outlier(row.metric, *sides)
        whole = row.base if is_memory(row.metric) else rows[0].base
        if each is not None and each.excess >= LEAST_SHARE * whole:
            found.append(each)
    return sorted(found, key=lambda each: (is_memory(each.metric), -each.excess, each.metric))


def fullest_rank(side: Sequence[Recording]) -> int | None:
    """Return the rank whose memory is fullest in all recordings of a side; None of one rank, and where several are."""
    ranks = set()
    for recording in side:
        peaks = recording.by_rank.get("peak_memory", {})
        highest = [rank for rank, peak in peaks.items() if peak == max(peaks.values())]
        ranks.add(highest[0] if len(peaks) > 1 and len(highest) == 1 else None)
    return ranks.pop() if len(ranks) == 1 else None


def _is_whole(metric: str) -> bool:
    """Return whether a metric is of a whole step, so that a rank without a value is unknown."""
    return family_of(metric) == "headline"


def _mean_by_rank(side: Sequence[Recording], metric: str) -> dict[int, float]:
    """Return the mean over the recordings of a side by rank; a rank without the metric took no time for it."""
    ranks = {rank for each in side for rank in (each.by_rank.get(metric, {}) if _is_whole(metric) else each.ranks)}
    return {rank: fmean(each.by_rank.get(metric, {}).get(rank, 0.0) for each in side) for rank in ranks}


def _find_outlier(metric: str, base: Mapping[int, float], candidate: Mapping[int, float]) -> RankDifference | None:
    differences = {rank: candidate[rank] - value for rank, value in sorted(base.items())}
    middle = median(differences.values())
    rank = max(differences, key=lambda each: abs(differences[each] - middle))
    others = [value for each, value in differences.items() if each != rank]
    typical = median(others)
    deviation = median(abs(value - typical) for value in others)
    if abs(differences[rank] - typical) <= least_distance(typical, deviation):
        return None
    return RankDifference(metric, rank, base[rank], candidate[rank], typical)
