"""Few settings that together have every pair of options, and the pairs that no valid settings have."""

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tracelab.collect.option_effects import check_effects
from tracelab.collect.settings import Settings, validate_settings
from tracelab.collect.workloads import find_workload
from tracelab.errors import UsageError

Pair = tuple[tuple[str, Any], tuple[str, Any]]
Row = dict[str, Any]
_TRIES_NEAR_DEFAULTS = 800
"""Settings to draw before a pair counts as refused."""
_TRIES = 60
"""Random settings of which the one of the highest value is taken."""


@dataclass(frozen=True)
class Cover:
    """Settings that have every pair of values between them, and why each other pair is refused."""

    rows: list[Row]
    refused: dict[Pair, str]


def cover_pairs(axes: dict[str, tuple[Any, ...]], fixed: Row, cost: Callable[[Row], float]) -> Cover:
    """Return settings with every pair of values of two axes, where those of a high cost do not meet without need.

    They are the same for the same axes.
    """
    generator = random.Random(0)
    uncovered = dict.fromkeys(_all_pairs(axes))
    rows: list[Row] = []
    refused: dict[Pair, str] = {}
    while uncovered:
        pair = next(iter(uncovered))
        defaults = {name: values[0] for name, values in axes.items()}
        candidates = [defaults | dict(pair)]
        for _ in range(_TRIES):
            drawn = {name: generator.choice(values) for name, values in axes.items()}
            candidates.append(drawn | dict(pair))
        valid = [each for each in candidates if refusal(fixed | each) is None] or _find_valid(
            generator, axes, fixed, pair
        )
        if not valid:
            refused[pair] = str(refusal(fixed | candidates[0]))
            del uncovered[pair]
            continue
        best = max(valid, key=lambda each: _value(each, uncovered, cost))
        best = _improve(best, axes, fixed, uncovered, cost)
        rows.append(best)
        for each_pair in _pairs_of(best):
            uncovered.pop(each_pair, None)
    return Cover(rows, refused)


def _value(row: Row, uncovered: dict[Pair, None], cost: Callable[[Row], float]) -> float:
    """Return the pairs that a row adds, over the root of its cost: cheap rows that add little would be many."""
    return sum(pair in uncovered for pair in _pairs_of(row)) / math.sqrt(cost(row))


def _improve(
    row: Row,
    axes: dict[str, tuple[Any, ...]],
    fixed: Row,
    uncovered: dict[Pair, None],
    cost: Callable[[Row], float],
) -> Row:
    """Change one value after the other where valid settings of a higher value result."""
    most = _value(row, uncovered, cost)
    for name, values in axes.items():
        for value in values:
            changed = row | {name: value}
            changed_value = _value(changed, uncovered, cost)
            if changed_value > most and refusal(fixed | changed) is None:
                row, most = changed, changed_value
    return row


def _find_valid(generator: random.Random, axes: dict[str, tuple[Any, ...]], fixed: Row, pair: Pair) -> list[Row]:
    """Return valid settings close to the defaults that have a pair of values, or none."""
    for _ in range(_TRIES_NEAR_DEFAULTS):
        drawn = {
            name: values[0] if generator.random() < 0.7 else generator.choice(values) for name, values in axes.items()
        }
        if refusal(fixed | drawn | dict(pair)) is None:
            return [drawn | dict(pair)]
    return []


def refusal(values: Row) -> str | None:
    """Return the sentence that refuses settings, or None for valid ones."""
    try:
        check_effects(validate_settings(Settings(**values)), _find_workload(values["workload"]))
    except UsageError as error:
        return str(error)
    return None


_find_workload = functools.cache(find_workload)


def _all_pairs(axes: dict[str, tuple[Any, ...]]) -> Iterator[Pair]:
    for (first, ones), (second, others) in itertools.combinations(axes.items(), 2):
        for one, other in itertools.product(ones, others):
            yield (first, one), (second, other)


def _pairs_of(row: Row) -> Iterator[Pair]:
    yield from itertools.combinations(row.items(), 2)
