"""Few settings that together have every pair of options, and the pairs that no valid settings have."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tracelab.collect.settings import Settings, validate_settings
from tracelab.errors import UsageError

Pair = tuple[tuple[str, Any], tuple[str, Any]]
_TRIES_NEAR_DEFAULTS = 800
"""Settings to draw before a pair counts as refused."""
_TRIES = 60
"""Random settings of which the one with the most new pairs is taken."""


@dataclass(frozen=True)
class Cover:
    """Settings that have every pair of values between them, and why each other pair is refused."""

    rows: list[dict[str, Any]]
    refused: dict[Pair, str]


def cover_pairs(axes: dict[str, tuple[Any, ...]], fixed: dict[str, Any]) -> Cover:
    """Return settings with every pair of values of two axes; the same for the same axes."""
    generator = random.Random(0)
    uncovered = dict.fromkeys(_all_pairs(axes))
    rows: list[dict[str, Any]] = []
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
        best = max(valid, key=lambda each: _count_new(each, uncovered))
        best = _improve(best, axes, fixed, uncovered)
        rows.append(best)
        for each_pair in _pairs_of(best):
            uncovered.pop(each_pair, None)
    return Cover(rows, refused)


def _count_new(row: dict[str, Any], uncovered: dict[Pair, None]) -> int:
    return sum(pair in uncovered for pair in _pairs_of(row))


def _improve(
    row: dict[str, Any], axes: dict[str, tuple[Any, ...]], fixed: dict[str, Any], uncovered: dict[Pair, None]
) -> dict[str, Any]:
    """Change one value after the other where valid settings with more new pairs result."""
    most = _count_new(row, uncovered)
    for name, values in axes.items():
        for value in values:
            changed = row | {name: value}
            count = _count_new(changed, uncovered)
            if count > most and refusal(fixed | changed) is None:
                row, most = changed, count
    return row


def _find_valid(
    generator: random.Random, axes: dict[str, tuple[Any, ...]], fixed: dict[str, Any], pair: Pair
) -> list[dict[str, Any]]:
    """Return valid settings close to the defaults that have a pair of values, or none."""
    for _ in range(_TRIES_NEAR_DEFAULTS):
        drawn = {
            name: values[0] if generator.random() < 0.7 else generator.choice(values) for name, values in axes.items()
        }
        if refusal(fixed | drawn | dict(pair)) is None:
            return [drawn | dict(pair)]
    return []


def refusal(values: dict[str, Any]) -> str | None:
    """Return the sentence that refuses settings, or None for valid ones."""
    try:
        validate_settings(Settings(**values))
    except UsageError as error:
        return str(error)
    return None


def _all_pairs(axes: dict[str, tuple[Any, ...]]) -> Iterator[Pair]:
    for (first, ones), (second, others) in itertools.combinations(axes.items(), 2):
        for one, other in itertools.product(ones, others):
            yield (first, one), (second, other)


def _pairs_of(row: dict[str, Any]) -> Iterator[Pair]:
    yield from itertools.combinations(row.items(), 2)
