"""Arguments looked at all together, as one long text: how many keys can there be, and is anything unusual in it."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

_Bytes: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]"

_END_OF_KEY = b'":'
_BOOLEANS = (b":t", b":f")
_NULL = b'":null'
_UNUSUAL = (b"aN", b"nf")
"""In NaN and Infinity; what else has them costs a closer look, and no more."""


@dataclass(frozen=True)
class AtMost:
    """How many there can be in some arguments: nested ones count too, and texts that hold what looks like one."""

    keys: int
    booleans: int


def at_most(args: "pa.ChunkedArray[Any]") -> AtMost | None:
    """What can be in the arguments; None where they may be no objects, or have values that are NaN or infinite."""
    texts = _texts(args)
    if texts is None or any(_count(text, pair) for text in texts for pair in _UNUSUAL):
        return None
    return AtMost(
        keys=sum(_count(text, _END_OF_KEY) for text in texts),
        booleans=sum(_count(text, pair) for text in texts for pair in _BOOLEANS),
    )


def nulls(args: "pa.ChunkedArray[Any]") -> int:
    """How many of the keys that there can be have no value."""
    return sum(text.tobytes().count(_NULL) for text in _texts(args) or [])


def _texts(args: "pa.ChunkedArray[Any]") -> "list[_Bytes] | None":
    """The bytes of all texts, chunk by chunk; None where one of them does not begin as an object does."""
    texts = []
    for chunk in args.chunks:
        if len(chunk) > chunk.null_count:
            text = _text(chunk)
            if text is None:
                return None
            texts.append(text)
    return texts


def _text(chunk: "pa.Array[Any]") -> "_Bytes | None":
    """The bytes of all texts; None where one of them does not begin as an object does."""
    if not pa.types.is_string(chunk.type):
        return None
    _, offsets, data = chunk.buffers()
    if offsets is None or data is None:
        return None
    ends = pa.Array.from_buffers(pa.int32(), len(chunk) + 1, [None, offsets], offset=chunk.offset).to_numpy()
    content: _Bytes = pa.Array.from_buffers(pa.uint8(), data.size, [None, data]).to_numpy()
    begins = ends[:-1][ends[1:] > ends[:-1]]
    if np.count_nonzero(content[begins] == ord("{")) < len(chunk) - chunk.null_count:
        return None
    return content[ends[0] : ends[-1]]


def _count(text: _Bytes, pair: bytes) -> int:
    """How often two bytes stand beside each other, the first at an even place or at an odd one."""
    number = np.frombuffer(pair, dtype="<u2")[0]
    return sum(
        int(np.count_nonzero(text[start : start + (len(text) - start) // 2 * 2].view("<u2") == number))
        for start in (0, 1)
    )
