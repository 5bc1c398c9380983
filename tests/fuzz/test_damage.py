"""Damaged files of each reader but Kineto's: none crashes, leaks, loses rows uncounted, or takes far longer.

Longer runs: `python -m tests.fuzz.damage TARGET --seconds 600`.
"""

import pytest

from tests.fuzz import damage, healthy

RUNS = {"ncu_csv": 500, "ncu_console": 500, "nvprof_csv": 500, "run_lines": 1000, "nsys": 120, "nvprof": 50}
"""A database takes a tenth of a second to open and read."""


@pytest.mark.parametrize("name", healthy.TARGETS)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    assert damage.run(name, iter(range(RUNS[name])))["inputs"] == RUNS[name]
