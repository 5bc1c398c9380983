"""Cut the events of a trace into chunks of some megabytes.

Cuts are made where an event probably ends. Whether it does is certain only once a chunk has been parsed: `recovery`
joins an event that a wrong cut divides.
"""

import io
import json
import mmap
import re
from dataclasses import dataclass

from tracelab.readers.decompress import read_into
from tracelab.readers.kineto.top_level_keys import BETWEEN_EVENTS, Trace, read_head, skip_space

CHUNK_BYTES = 16 << 20
MAX_EVENT_BYTES = 64 << 20
"""Longer events are skipped, so that memory is bounded; those of real traces have some kilobytes."""
_SAMPLE_BYTES = 4 << 20
"""Where the first events are searched for their separator."""
_BUFFER_BYTES = CHUNK_BYTES + (1 << 20)
_MAX_CUTS_TRIED = 20
_EVENT_WINDOW_BYTES = 1 << 16
"""How much is decoded to check that an event begins at a cut."""

_ANY_BOUNDARY = re.compile(rb'\}[ \t\r\n]*,(?=[ \t\r\n]*\{[ \t\r\n]*")')
_ARRAY_ENDS = re.compile(r"\][ \t\r\n]*")


@dataclass(frozen=True)
class Chunk:
    """Some events of a trace, with all bytes between those of the chunk before and those of the next one."""

    number: int
    offset: int
    """The position of its first byte in the decompressed file."""
    data: memoryview
    """Lies in the buffer that was given for it, until that is used again."""
    events_end: int
    """Where its events end, as far as that is known."""
    is_last: bool
    is_end_known: bool = True
    """Whether an event seems to end where the chunk does, or, in the last chunk, all events."""

    @property
    def events(self) -> memoryview:
        """The events, from the first one on."""
        return self.data[skip_space(self.data, 0, extra=b",") : self.events_end]


@dataclass(frozen=True)
class Border:
    """What the end of one chunk means for the beginning of the next one."""

    rest: bytes = b""
    """The bytes of an event that is not over, to be read with the next chunk."""
    is_lost: bool = False
    """Whether events begin again only at the next place that looks like one."""
    is_ended: bool = False
    """Whether the array of events is over; the rest is then the beginning of the keys behind it."""


CLEAN = Border()


class ChunkBuffer:
    """Memory for one chunk after another."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def reserve(self, size: int, kept: int = 0) -> mmap.mmap:
        """Return memory of at least this size, with the first `kept` bytes of what it held."""
        if self._memory is None or len(self._memory) < size or len(self._memory) > max(size, 2 * _BUFFER_BYTES):
            memory = mmap.mmap(-1, size)
            if self._memory is not None and kept:
                memory[:kept] = memoryview(self._memory)[:kept]
            self._memory = memory
        return self._memory


class Chunker:
    """Cuts the events of a trace into chunks of some megabytes."""

    def __init__(self, stream: io.RawIOBase, trace: Trace) -> None:
        self._stream, self._trace = stream, trace
        head, position = read_head(stream, trace)
        self._rest = bytes(head[position:]) if trace.has_events else None
        self._separator = _learn_separator(head[position : position + _SAMPLE_BYTES])
        self._number, self._offset = 0, position

    def next_chunk(self, buffer: ChunkBuffer) -> Chunk | None:
        """Return the next chunk, which lies in this buffer until the next call with it; None behind the last one."""
        if self._rest is None:
            return None
        filled = searched = len(self._rest)
        data = buffer.reserve(max(filled + CHUNK_BYTES, _BUFFER_BYTES))
        data[:filled] = self._rest
        while True:
            data = buffer.reserve(max(filled + max(filled, CHUNK_BYTES), _BUFFER_BYTES), filled)
            before, filled = filled, read_into(self._stream, data, filled, max(filled, CHUNK_BYTES))
            if filled == before:
                return self._last_chunk(data, filled)
            cut = self._find_cut(data, max(0, searched - _EVENT_WINDOW_BYTES), filled)
            if cut or filled > MAX_EVENT_BYTES:
                return self._make_chunk(data, cut or filled, filled, is_end_known=bool(cut))
            searched = filled

    def _make_chunk(self, data: mmap.mmap, cut: int, filled: int, *, is_end_known: bool) -> Chunk:
        self._rest = data[cut:filled]
        content = memoryview(data)[:cut]
        chunk = Chunk(self._number, self._offset, content, cut, is_last=False, is_end_known=is_end_known)
        self._number, self._offset = self._number + 1, self._offset + cut
        return chunk

    def _last_chunk(self, data: mmap.mmap, filled: int) -> Chunk:
        self._rest = None
        end = _find_end_of_events(data[:filled].decode("latin-1"), self._trace)
        content = memoryview(data)[:filled]
        if end is None:
            return Chunk(self._number, self._offset, content, filled, is_last=True, is_end_known=False)
        return Chunk(self._number, self._offset, content, end, is_last=True)

    def _find_cut(self, data: mmap.mmap, start: int, filled: int) -> int:
        """Return the end of the last event that another one follows; 0 where there is none.

        The separator of this file's first events keeps an array of objects inside an event's arguments from being
        taken for the end of the event.
        """
        cuts = _find_last_separators(data, self._separator, start, filled) if self._separator else []
        cuts = cuts or _find_last_boundaries(data, start, filled)
        return next((cut for cut in cuts if _is_event_start(data, cut, filled)), cuts[0] if cuts else 0)


def _find_end_of_events(text: str, trace: Trace) -> int | None:
    """Return where the events of an undamaged rest of a file end; None where something is damaged or unusual."""
    decode, end = json.JSONDecoder(strict=False).raw_decode, 0
    try:
        while (match := BETWEEN_EVENTS.match(text, end)) and (text[match.end() : match.end() + 1] or "]") != "]":
            _, end = decode(text, match.end())
    except (ValueError, RecursionError):
        return None
    at = BETWEEN_EVENTS.match(text, end)
    bracket = _ARRAY_ENDS.match(text, at.end() if at else end)
    if bracket is None:
        return end
    is_whole = (
        bracket.end() == len(text) if trace.array_form else text[bracket.end() : bracket.end() + 1] in ("", ",", "}")
    )
    return end if is_whole else None


def _find_last_separators(data: mmap.mmap, separator: bytes, start: int, filled: int) -> list[int]:
    """Return the ends of the events before the last separators, the last one first."""
    positions: list[int] = []
    at = data.rfind(separator, start, filled)
    while at >= 0 and len(positions) < _MAX_CUTS_TRIED:
        positions.append(at + 1)
        at = data.rfind(separator, start, at)
    return positions


def _find_last_boundaries(data: mmap.mmap, start: int, filled: int) -> list[int]:
    """Return the last positions at which an object that may be an event ends before another, the last one first."""
    return [match.start() + 1 for match in _ANY_BOUNDARY.finditer(data, start, filled)][: -_MAX_CUTS_TRIED - 1 : -1]


def _is_event_start(data: mmap.mmap, position: int, filled: int) -> bool:
    """Whether a whole event follows, and not an object inside an event's arguments."""
    with memoryview(data) as view:
        start = skip_space(view[:filled], position, extra=b",")
    text = data[start : min(filled, start + _EVENT_WINDOW_BYTES)].decode("latin-1")
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("ph" in value or "ts" in value)


def _learn_separator(buffer: bytearray) -> bytes | None:
    """Return the bytes from the end of the first event to the first key of the second; None where that fails."""
    start = skip_space(buffer, 0)
    try:
        text = buffer[start:].decode("latin-1")
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return None
    match = re.compile(rb'(\s*,\s*\{\s*")(\w+"\s*:)?').match(buffer, start + end)
    if not match:
        return None
    one_line = b"\n" not in match[1]
    return b"}" + (match[0] if one_line else match[1])
