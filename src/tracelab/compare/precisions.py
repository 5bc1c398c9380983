"""Compare the precisions that two sides multiply in, by the names of their kernels."""

from collections.abc import Sequence

import polars as pl

LEAST_DIFFERENCE = 0.1
"""Sides differ where the shares of a precision do by more: recordings of one version may choose other kernels."""
_LEAST_LISTED = 0.01


def compare_precisions(
    precisions: pl.DataFrame, base: Sequence[str], candidate: Sequence[str]
) -> tuple[str, str | None, str | None] | None:
    """Return the verdict on the precisions of two sides, and those of each side in words; None where neither has any.

    `precisions` has the columns run, precision and dur_ns, the time of matrix products and convolutions.
    """
    sides = [_share_precisions(precisions, runs) for runs in (base, candidate)]
    texts = [", ".join(_describe_share(*each) for each in side.items() if each[1] >= _LEAST_LISTED) for side in sides]
    if not any(sides):
        return None
    if not all(sides):
        return "unknown", texts[0] or None, texts[1] or None
    difference = max(abs(sides[0].get(each, 0.0) - sides[1].get(each, 0.0)) for each in (*sides[0], *sides[1]))
    return "different" if difference > LEAST_DIFFERENCE else "same", texts[0], texts[1]


def _share_precisions(precisions: pl.DataFrame, runs: Sequence[str]) -> dict[str, float]:
    """Return the share of each precision in the time of products, the largest first."""
    if not precisions.height:
        return {}
    rows = precisions.filter(pl.col("run").is_in(list(runs))).group_by("precision").agg(pl.col("dur_ns").sum())
    times = dict(rows.rows())
    total = sum(times.values())
    return {name: times[name] / total for name in sorted(times, key=lambda name: (-times[name], name))}


def _describe_share(precision: str, share: float) -> str:
    return f"{precision} {100 * share:.0f} %"
