"""Recovery reads so many characters as are in proportion to the damage, whatever is repeated in it."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.recovery_work import count_work
from tracelab.readers.kineto import chunk_search, event_scan, recovery

GOOD = '{"ph":"X","cat":"cpu_op","name":"ab","pid":1,"tid":1,"ts":1}'
TOKENS = ["{", "}", "[", "]", ",", ":", '"', "\\", "1", '"a"', " ", '{"ph":"X"']
LONGER = [
    '{"a":',
    "[{",
    "},",
    "],",
    '],"a":1',
    '"ph":',
    "[:[",
    "}]",
    '\\"',
    '{"a":[1',
    "[[",
    ":[",
    f",{GOOD}",
    GOOD[:-1],
]
SIZE = 500
MOST_READINGS = 60
"""How often a character may be read, on average."""
USUAL_READINGS = 40
MOST_GROWTH = 1.6
"""How much more often a character of a text may be read that is four times as long, beyond the usual."""


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    """Make all sizes at which recovery changes its ways smaller than the texts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "_SMALLEST_RUN_BYTES": 256,
            "MAX_ELEMENT_BYTES": 512,
            "_FIRST_BYTES": 64,
            "_MAX_PENDING_BYTES": 512,
            "_START_BYTES": 32,
            "_INNER_BYTES": 128,
        }.items():
            readers = [module for module in (chunk_search, recovery) if hasattr(module, name)]
            assert readers, name
            for module in readers:
                patch.setattr(module, name, value)
        patch.setattr(event_scan, "_MAX_DEPTH", 60)
        yield


def find_excess(damage: Callable[[int], str], *, has_parser: bool = True) -> str | None:
    """Return how often characters are read, where that is too often or grows with the size of the damage."""
    small, large = (
        count_work(f"{GOOD},{damage(size)},{GOOD}]}}", has_parser=has_parser)[0] / size for size in (SIZE, 4 * SIZE)
    )
    if large > MOST_READINGS or large > max(USUAL_READINGS, MOST_GROWTH * small):
        return f"{small:.0f}, then {large:.0f} times"
    return None


def repeat(unit: str, size: int) -> str:
    return unit * (size // len(unit))


def rotations(count: int) -> Iterator[str]:
    """Yield every row of so many tokens but for those that begin elsewhere in the same circle."""
    for numbers in itertools.product(range(len(TOKENS)), repeat=count):
        if numbers == min(numbers[at:] + numbers[:at] for at in range(count)):
            yield "".join(TOKENS[number] for number in numbers)


@pytest.mark.parametrize("has_parser", [True, False], ids=["compiled parser", "Python parser"])
@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_any_repeated_tokens_are_read_a_bounded_number_of_times(tokens: int, *, has_parser: bool) -> None:
    excess = {
        unit: problem
        for unit in rotations(tokens)
        if (problem := find_excess(lambda size, unit=unit: repeat(unit, size), has_parser=has_parser))
    }
    assert excess == {}


UNITS = st.lists(st.sampled_from(TOKENS + LONGER), min_size=1, max_size=4, unique=True).flatmap(
    lambda alphabet: st.lists(st.sampled_from(alphabet), min_size=1, max_size=9).map("".join)
)


@examples(300)
@given(first=UNITS, second=UNITS)
def test_any_two_repeated_texts_are_read_a_bounded_number_of_times(first: str, second: str) -> None:
    assert find_excess(lambda size: repeat(first, size // 2) + repeat(second, size // 2)) is None


@examples(100)
@given(data=st.data(), alphabet=st.lists(st.sampled_from(TOKENS + LONGER), min_size=1, max_size=5))
def test_any_text_of_a_small_alphabet_is_read_a_bounded_number_of_times(
    data: st.DataObject, alphabet: list[str]
) -> None:
    source = data.draw(st.randoms(use_true_random=False))
    text = "".join(source.choice(alphabet) for _ in range(4 * SIZE))
    assert find_excess(lambda size: text[:size]) is None
