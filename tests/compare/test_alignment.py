"""Sequences aligned by their longest common subsequence, against plain recursion."""

import itertools
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tracelab.compare import alignment
from tracelab.compare.alignment import align_sequences

texts = st.text(alphabet="abc", max_size=8)


def longest_length(first: str, second: str) -> int:
    """Return the length of a longest common subsequence."""

    @cache
    def length(one: int, other: int) -> int:
        if one == len(first) or other == len(second):
            return 0
        if first[one] == second[other]:
            return 1 + length(one + 1, other + 1)
        return max(length(one + 1, other), length(one, other + 1))

    return length(0, 0)


@examples(100)
@given(texts, texts)
def test_pairs_are_equal_in_order_and_as_many_as_possible(first: str, second: str) -> None:
    pairs = align_sequences(first, second)
    assert all(first[one] == second[other] for one, other in pairs)
    assert all(one < two and other < another for (one, other), (two, another) in itertools.pairwise(pairs))
    assert len(pairs) == longest_length(first, second)


def test_new_element_shifts_the_rest() -> None:
    assert align_sequences("gemm", "gxemm") == [(0, 0), (1, 2), (2, 3), (3, 4)]


def test_of_too_long_sequences_both_ends_are_aligned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alignment, "MOST_CELLS", 3)
    assert align_sequences("axbyc", "ayxc") == [(0, 0), (4, 3)]
