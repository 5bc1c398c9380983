"""Damaged files of each reader: none crashes, leaks, loses rows uncounted, or takes far longer.

Longer runs: `make fuzz`.
"""

import pytest

from tests.fuzz import damage, healthy
from tests.properties import at_most

INPUTS = at_most(240)
KINETO_INPUTS = at_most(100)
"""Fewer, since `test_fuzz` damages traces, too."""


@pytest.mark.parametrize("name", healthy.TEXTS)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    assert damage.find_failures(name, KINETO_INPUTS if name == "kineto" else INPUTS) == []
