"""Changes of level: where they are, what they cost in false alarms, and an oracle that tries every order."""

import itertools
import math
from statistics import mean

import numpy as np
import pytest

from tracelab.change_points import LEAST_RUNS, PERMUTATIONS, best_change, find_changes, mid_ranks


def plain_statistic(values: list[float]) -> tuple[float, int]:
    """Return the largest standardized rank sum over the splits, and where it is, in plain Python."""
    n = len(values)
    ranks = [mean(at + 1 for at, other in enumerate(sorted(values)) if other == value) for value in values]
    spread = sum((rank - (n + 1) / 2) ** 2 for rank in ranks) / n
    return max(
        (
            abs(sum(ranks[:at]) - at * (n + 1) / 2) / math.sqrt(spread * at * (n - at) / (n - 1)),
            -at,
        )
        for at in range(LEAST_RUNS, n - LEAST_RUNS + 1)
    )


@pytest.mark.parametrize("values", [[1, 2, 3, 7, 8, 9, 4], [1, 1, 1, 2, 2, 2, 2], [5, 1, 4, 2, 3, 9, 9]])
def test_the_chance_is_that_of_all_orders(values: list[float]) -> None:
    largest, place = plain_statistic(values)
    statistics = [plain_statistic(list(order))[0] for order in itertools.permutations(values)]
    exact = sum(each >= largest - 1e-9 for each in statistics) / len(statistics)
    at, chance = best_change(np.array(values, float), alpha=1)
    assert at == -place
    assert chance == pytest.approx(exact, abs=3.5 * math.sqrt(exact * (1 - exact) / PERMUTATIONS) + 1 / PERMUTATIONS)


def test_equal_values_share_their_ranks() -> None:
    assert mid_ranks(np.array([7.0, 3, 7, 9])).tolist() == [2.5, 1, 2.5, 4]


def test_each_part_is_split_again() -> None:
    values = np.array(
        [10 + at % 3 for at in range(12)] + [30 + at % 3 for at in range(9)] + [20 + at % 3 for at in range(9)]
    )
    assert [at for at, _ in find_changes(values.astype(float), 0.01)] == [12, 21]


def test_one_outlier_and_equal_values_are_no_change() -> None:
    assert find_changes(np.array([1.0] * 20 + [9]), 0.01) == []
    assert find_changes(np.ones(30), 1) == []
    assert find_changes(np.array([1.0, 2, 3, 4, 5]), 1) == []


def test_false_alarms_keep_their_bound() -> None:
    """Of 300 series without change 15 have one by chance at alpha = 0.05, and 25 in one of a hundred tests."""
    rng = np.random.default_rng(24)
    alarms = sum(bool(find_changes(rng.lognormal(0, 0.3, 25), 0.05)) for _ in range(300))
    assert 0 < alarms <= 24
