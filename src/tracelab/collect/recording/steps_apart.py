"""Describe where the ranks of a run did not record the same steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Ranges = Sequence[Sequence[int]]
_MOST_NAMED = 4


def describe_steps_apart(outcomes: Mapping[int, Mapping[str, Any]]) -> str | None:
    """Return in words which steps the ranks recorded, and which of them all did; None where these are the same.

    An outcome has the first and last numbers of its recorded steps as `recorded_ranges`; ranks without any are not
    compared.
    """
    ranges = {rank: outcome["recorded_ranges"] for rank, outcome in outcomes.items() if outcome.get("recorded_ranges")}
    ranks_of: dict[str, list[int]] = {}
    for rank, recorded in sorted(ranges.items()):
        ranks_of.setdefault(_describe(recorded), []).append(rank)
    if len(ranks_of) < 2:  # noqa: PLR2004
        return None
    common = set.intersection(*({*_numbers(recorded)} for recorded in ranges.values()))
    named = [f"rank {', '.join(map(str, ranks))}: {steps}" for steps, ranks in list(ranks_of.items())[:_MOST_NAMED]]
    left_out = [f"{len(ranks_of) - _MOST_NAMED} more"] * (len(ranks_of) > _MOST_NAMED)
    in_common = f"{len(common)} of them in common" if common else "none of them in common"
    return f"the ranks recorded different steps, {in_common} ({'; '.join([*named, *left_out])})"


def _numbers(ranges: Ranges) -> Iterable[int]:
    return (step for first, last in ranges for step in range(first, last + 1))


def _describe(ranges: Ranges) -> str:
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)
