"""Shifts, intervals and adjusted p-values, against cases by hand and plain counting."""

import itertools
import math
from collections import Counter
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tracelab.compare.noise import measure_floor
from tracelab.compare.statistics import (
    adjust_p_values,
    count_rank_sums,
    estimate_shift,
    interval_rank,
)

values = st.lists(st.integers(-50, 50).map(float), min_size=1, max_size=6)


def counted_rank_sums(m: int, n: int) -> tuple[int, ...]:
    """Count the values of U over all arrangements, one after another."""
    counts: Counter[int] = Counter()
    for picks in itertools.combinations(range(m + n), m):
        rest = [place for place in range(m + n) if place not in picks]
        counts[sum(one > other for one in picks for other in rest)] += 1
    return tuple(counts[u] for u in range(m * n + 1))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 5), (2, 3), (4, 4), (5, 3)])
def test_rank_sums_are_those_of_all_arrangements(m: int, n: int) -> None:
    assert count_rank_sums(m, n) == counted_rank_sums(m, n)


@pytest.mark.parametrize(("m", "n", "k"), [(3, 3, 0), (4, 4, 1), (5, 5, 3), (6, 6, 6), (7, 7, 9), (4, 5, 2)])
def test_interval_reaches_to_the_difference_of_the_table(m: int, n: int, k: int) -> None:
    assert interval_rank(m, n) == k


def test_shift_of_5_and_5_is_the_median_difference_between_the_third_of_each_end() -> None:
    shift = estimate_shift([1, 2, 3, 4, 5], [11, 12, 13, 14, 15])
    # 25 differences: 6, 7, 7, 8, 8, 8, 9 … 12, 12, 12, 13, 13, 14
    assert (shift.estimate, shift.low, shift.high) == (10, 7, 13)


def test_shift_of_3_and_3_has_no_interval() -> None:
    shift = estimate_shift([1, 2, 3], [2, 3, 4])
    assert (shift.estimate, shift.low, shift.high) == (1, None, None)


@examples(50)
@given(values, values)
def test_shift_is_the_median_of_all_differences_and_lies_in_its_interval(base, candidate):
    shift = estimate_shift(base, candidate)
    assert shift.estimate == median(b - a for a in base for b in candidate)
    if shift.low is not None:
        assert shift.low <= shift.estimate <= shift.high


def plain_p_value(row: list[float], m: int) -> float:
    """Return the share of arrangements whose difference in standard errors is not below the observed one."""

    def standardized(picks: tuple[int, ...]) -> float:
        sides = [[row[at] for at in picks], [row[at] for at in range(len(row)) if at not in picks]]
        means = [sum(side) / len(side) for side in sides]
        within = sum((value - mean) ** 2 for side, mean in zip(sides, means, strict=True) for value in side)
        scale = within / (len(row) - 2) * sum(1 / len(side) for side in sides)
        return abs(means[0] - means[1]) / math.sqrt(scale) if scale else math.inf

    observed = standardized(tuple(range(m)))
    every = [standardized(picks) for picks in itertools.combinations(range(len(row)), m)]
    return sum(each >= observed * (1 - 1e-9) for each in every) / len(every)


def test_p_value_of_one_metric_is_that_of_its_arrangements() -> None:
    row = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.6, 5.3]
    assert adjust_p_values(np.array([row]), 4)[0] == pytest.approx(plain_p_value(row, 4))


def test_separate_sides_have_the_least_p_value_among_any_number_of_metrics() -> None:
    noise = np.random.default_rng(0).normal(size=(100, 10))
    shifted = np.array([[1.0, 1.01, 1.02, 0.99, 1.0, 2.0, 2.01, 2.02, 1.99, 2.0]])
    p_values = adjust_p_values(np.concatenate([noise, shifted]), 5)
    assert p_values[-1] == pytest.approx(2 / 252)
    assert p_values[:-1].min() > 0.05


def test_metric_that_never_varies_has_the_p_value_1() -> None:
    assert adjust_p_values(np.full((1, 8), 7.0), 4)[0] == 1


def test_metric_that_varies_between_the_sides_alone_has_the_least_p_value() -> None:
    assert adjust_p_values(np.array([[7.0] * 4 + [8.0] * 4]), 4)[0] == pytest.approx(2 / 70)


def test_floor_of_few_recordings_is_their_largest_difference() -> None:
    assert measure_floor([0.01, 0.04, 0.02]) == pytest.approx(0.03)


def test_floor_of_many_recordings_is_that_of_halves_of_them() -> None:
    ordered = [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    # of 70 splits, 36 have two of each value in a half and no effect, the others have an effect of 1
    assert measure_floor(ordered) == 1
