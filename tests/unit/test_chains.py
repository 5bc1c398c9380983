"""Chains of rows that a replay times as a whole, compared with a loop over their rows."""

import numpy as np
import pytest

from tracelab.paths.chains import find_chains
from tracelab.paths.columns import NONE


def test_chain_ends_when_its_last_row_does() -> None:
    """Three rows of 10 ns behind one that ends at 100; the launch of the second gives an end of 200 + 15 ns."""
    follows = np.array([False, True, True, True])
    chains = find_chains(follows, np.array([0, 10, 10, 10]), np.array([0, 5, 15, 0]))
    assert chains.head.tolist() == [0]
    assert (chains.stream_ns[0], chains.launch_ns[0]) == (30, 25)
    resumed = np.full(4, 200)
    assert chains.end_rows(np.array([100, 0, 0, 0]), resumed).tolist() == [100, 205, 215, 225]
    assert chains.end_rows(np.array([100, 0, 0, 0]), np.full(4, NONE)).tolist() == [100, 110, 120, 130]


@pytest.mark.parametrize("seed", range(20))
def test_chains_agree_with_a_loop_over_rows(seed: int) -> None:
    """The ends of all rows, and of each chain's last one by its sums alone, are those of one row after the other."""
    random = np.random.default_rng(seed)
    count, often = (
        (int(random.integers(1, 60)), 0.8) if seed % 2 else (400, 0.99)
    )  # many short chains, or few long ones
    follows = random.random(count) < often
    follows[0] = False
    own_ns, launched_ns = random.integers(0, 50, count), random.integers(0, 200, count)
    chains = find_chains(follows, own_ns, launched_ns)
    resumed = np.repeat(np.where(random.random(len(chains.head)) < 0.3, NONE, 1000), chains.length)
    end = random.integers(1000, 1200, count)
    expected = end.copy()
    for row in np.flatnonzero(follows):
        expected[row] = expected[row - 1] + own_ns[row]
        if resumed[row] != NONE:
            expected[row] = max(expected[row], resumed[row] + launched_ns[row])
    assert chains.end_rows(end, resumed).tolist() == expected.tolist()
    for chain in np.flatnonzero(chains.length > 1):
        head = chains.head[chain]
        on_stream = end[head] + chains.stream_ns[chain]
        launched = resumed[head] + chains.launch_ns[chain] if resumed[head] != NONE else NONE
        assert max(on_stream, launched) == expected[head + chains.length[chain] - 1]
