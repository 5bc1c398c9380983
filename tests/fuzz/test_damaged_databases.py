"""Damaged databases and folders of Parquet files: none crashes, leaks, loses rows uncounted, or takes far longer.

Longer runs: `make fuzz`.
"""

import pytest

from tests.fuzz import damage
from tests.fuzz.healthy_databases import DATABASES
from tests.properties import at_most

INPUTS = at_most(100)
"""A database takes some hundredths of a second to open and read."""


@pytest.mark.parametrize("name", DATABASES)
def test_damaged_databases_are_read_or_refused(name: str) -> None:
    assert damage.find_failures(name, INPUTS) == []
