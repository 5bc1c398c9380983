"""Long times made short enough for a double: the leading digits they share are blanked out of the raw bytes, in place.

`"ts": 1712195495519689.047` becomes `"t~":       1495519689.047`: another key, and a 1 before the digits that are left,
so that leading zeros survive. What was cut is known by its key, so no time is ever taken for another.
"""

import re
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

KEY = "t~"
KEPT_DIGITS = 9
MARK = 10**KEPT_DIGITS
"""The 1 before the kept digits, as a number."""
EXACT_BELOW_US = 1 << 43
"""A double below this holds microseconds with three decimals closely enough to give back the nanosecond."""

Places: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"

_TS = re.compile(rb'"ts": ?(\d{13,})')
_LETTERS = np.frombuffer(b"ts", dtype="<u2")[0]
_BLOCK = 1 << 19
_LONGEST_US = 9 * 10**15
"""Times beyond this do not fit int64 nanoseconds."""


@dataclass(frozen=True)
class Cut:
    """The places where digits were blanked, and how to put them back."""

    places: "Places"
    original: bytes

    def undo(self, piece: memoryview) -> None:
        """Put the piece back as it was."""
        _windows(piece, len(self.original))[self.places] = np.void(self.original)


def prefix_of(piece: memoryview) -> bytes:
    """The digits to cut, by the first long time of a piece; none where its times are short."""
    found = _TS.search(piece)
    return found[1][:-KEPT_DIGITS] if found and EXACT_BELOW_US <= int(found[1]) < _LONGEST_US else b""


def prefix_for(longest_us: float | None) -> bytes | None:
    """The digits to cut of times as long as this; None where no cut helps."""
    if longest_us is None or not EXACT_BELOW_US <= longest_us < _LONGEST_US:
        return None
    return str(int(longest_us)).encode()[:-KEPT_DIGITS]


def cut(piece: memoryview, prefix: bytes) -> Cut:
    """Blank the prefix of every time of a piece, written with or without a space after the colon."""
    keys = _places_of_key(piece)
    for colon in (b": ", b":"):
        long_form = b'"ts"' + colon + prefix
        windows = _windows(piece, len(long_form))
        inside = keys[keys < len(windows)]
        places = inside[windows[inside] == np.void(long_form)]
        if len(places):
            windows[places] = np.void(f'"{KEY}":'.encode() + b" " * (len(long_form) - 6) + b"1")
            return Cut(places, long_form)
    return Cut(keys[:0], b"")


def _windows(piece: memoryview, size: int) -> "np.ndarray[tuple[int, ...], np.dtype[np.void]]":
    """The piece as overlapping items of this many bytes, one starting at every byte."""
    return np.ndarray((max(0, len(piece) - size + 1),), dtype=f"V{size}", buffer=piece, strides=(1,))


def _places_of_key(piece: memoryview) -> "Places":
    """Where '"ts' may stand: its letters are sought as pairs at odd places and at even ones, a block at a time."""
    text = np.frombuffer(piece, dtype=np.uint8)
    found = []
    for start in range(1, len(text), _BLOCK):
        for letters in (start, start + 1):
            pairs = text[letters : letters + min(_BLOCK, len(text) - letters) // 2 * 2].view("<u2")
            found.append(np.flatnonzero(pairs == _LETTERS) * 2 + (letters - 1))
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
