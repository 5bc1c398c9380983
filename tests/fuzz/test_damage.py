"""Damaged files of each reader: none crashes, leaks, loses rows uncounted, or takes far longer.

Longer runs: `make fuzz`.
"""

import pytest

from tests.fuzz import damage, healthy

INPUTS = 200


@pytest.mark.parametrize("name", healthy.TEXTS)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    outcomes = dict(damage.run(name, range(INPUTS)))
    assert {seed: outcome for seed, outcome in outcomes.items() if outcome not in ("read", "refused")} == {}
    assert len(outcomes) == INPUTS
