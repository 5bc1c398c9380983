"""A trace file as a stream of pieces: bytes (unpacked), what stands before and behind the events, and where to cut."""

import io
import json
import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracelab.readers.decompress import read_chunk, read_into
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto import repair
from tracelab.readers.kineto.room import Room

CHUNK_BYTES = 16 << 20
HEAD_BYTES = 1 << 20
LONGEST_HEAD = 256 << 20
_LONGEST_EVENT = 512 << 20
_LEARN_BYTES = 4 << 20
_ROOM_BYTES = CHUNK_BYTES + (1 << 20)
_PLACES_TRIED = 200
_EVENT_LOOKED_AT = (1 << 16, 1 << 24)

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ANY_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|args|id|s|bp|dur)"\s*:)')
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


@dataclass
class Trace:
    """What a trace file says beside its events; filled while its pieces are taken."""

    meta: dict[str, Any] = field(default_factory=dict)
    array_form: bool = False
    has_events: bool = False
    cut_off: bool = False
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


class Pieces:
    """The events of a trace, some megabytes at a time, cut between events; `trace` is filled on the way."""

    def __init__(self, stream: io.RawIOBase, trace: Trace) -> None:
        self._stream, self._trace = stream, trace
        head, position = _read_head(stream, trace, HEAD_BYTES)
        self._rest = bytes(head[position:]) if trace.has_events else None
        self._cut = _cutter(head[position : position + _LEARN_BYTES])
        self._ended = False

    def next_in(self, room: Room) -> memoryview | None:
        """The next piece, which stands in this room until another one does; None when there are no more."""
        while self._rest is not None:
            data = room.bytes(max(len(self._rest) + CHUNK_BYTES, _ROOM_BYTES))
            begin = len(self._rest)
            data[:begin] = self._rest
            filled = read_into(self._stream, data, begin, CHUNK_BYTES)
            end = 0 if self._ended else self._cut(data, filled)
            self._ended = filled == begin
            if end:
                self._rest = data[_skip(data, end, extra=b",") : filled]
                return memoryview(data)[:end]
            if self._ended:
                return self._last_in(data, self._rest)
            self._rest = data[:filled]
            if filled > _LONGEST_EVENT:
                self._trace.diagnostics.note("event_lost", f"no event ends within {_LONGEST_EVENT} bytes")
                self._trace.cut_off, self._rest = True, None
        return None

    def _last_in(self, data: mmap.mmap, rest: bytes) -> memoryview | None:
        """The last piece, which stands in the data with what is behind it."""
        self._rest = None
        end = _read_tail(rest, self._trace)
        return memoryview(data)[:end] if rest[:end].strip(_SPACE + b",") else None


def read_head(stream: io.RawIOBase) -> tuple[Trace, bytes]:
    """What a file says before its events, and the first bytes of it; no more is read than is needed."""
    trace = Trace()
    buffer, _ = _read_head(stream, trace, HEAD_BYTES)
    return trace, bytes(buffer[:HEAD_BYTES])


def _read_head(stream: io.RawIOBase, trace: Trace, chunk_bytes: int) -> tuple[bytearray, int]:
    """Read up to the first event: the bytes read, and where in them the events begin."""
    buffer = read_chunk(stream, chunk_bytes)
    while True:
        position = _skip(buffer, len(_BOM) if buffer.startswith(_BOM) else 0)
        if buffer[position : position + 1] == b"[":
            trace.array_form = trace.has_events = True
            return buffer, position + 1
        if buffer[position : position + 1] != b"{":
            return buffer, len(buffer)
        found = _head_keys(buffer, position + 1, trace)
        if found is not None:
            return buffer, found
        longer = read_chunk(stream, len(buffer), before=buffer)
        if len(longer) == len(buffer) or len(buffer) > LONGEST_HEAD:
            return _head_by_search(buffer, trace)
        buffer = longer


def _head_keys(buffer: bytearray, position: int, trace: Trace) -> int | None:
    """Read top-level keys until the events begin or the object ends; None where the buffer ends before that."""
    for size in (HEAD_BYTES, len(buffer)):
        start = buffer[:size]
        found = _keys_until_events(start, position, trace)
        if found is not None:
            return found if found < len(start) else len(buffer)
        trace.meta.clear()
    return None


def _keys_until_events(buffer: bytearray, position: int, trace: Trace) -> int | None:
    text = buffer.decode("latin-1")  # one character a byte: positions in the text are positions in the file
    decode = json.JSONDecoder(strict=False).raw_decode
    try:
        while True:
            position = _skip(buffer, position, extra=b",")
            if text[position : position + 1] == "}":
                return len(buffer)
            key, position = decode(text, position)
            position = _skip(buffer, position)
            if text[position : position + 1] != ":":
                return None
            position = _skip(buffer, position + 1)
            if key == "traceEvents" and text[position : position + 1] == "[":
                trace.has_events = True
                return position + 1
            _, end = decode(text, position)
            if end == len(buffer):  # a number could go on in the next chunk
                return None
            trace.meta[str(key)] = _value(buffer[position:end])
            position = end
    except (ValueError, RecursionError):
        return None


def _head_by_search(buffer: bytearray, trace: Trace) -> tuple[bytearray, int]:
    """The start of the events in a file whose head is damaged or cut off."""
    found = _EVENTS_KEY.search(buffer)
    if found:
        trace.has_events = True
        trace.diagnostics.note("header_damaged", buffer[:80])
        return buffer, found.end()
    trace.cut_off = True
    return buffer, len(buffer)


def _read_tail(buffer: bytes, trace: Trace) -> int:
    """Where the last events end; what stands behind them is read."""
    text = buffer.decode("latin-1")  # one character a byte, as in the head
    end, damaged = 0, False
    for element in repair.elements(text, DiagnosticCounts()):
        end, damaged = element.end, element.damage is not None
    position = _skip(buffer, end, extra=b",")
    if position >= len(buffer):
        trace.cut_off = damaged or not trace.array_form
    elif not trace.array_form:
        _read_keys_behind(buffer[position + 1 :], trace)
    if trace.meta.pop("traceEvents", None):
        trace.diagnostics.note("events_twice")
    return end


def _read_keys_behind(data: bytes, trace: Trace) -> None:
    """Top-level keys that stand behind the events; of a file cut off among them, those that are surely whole."""
    behind = data.strip(_SPACE + b",")
    if behind.endswith(b"}"):
        behind = behind[:-1]
    else:
        trace.cut_off = True
        behind = behind.rpartition(b",")[0]
    try:
        trace.meta |= json.loads(b"{" + behind + b"}", strict=False)
    except (ValueError, RecursionError):
        trace.diagnostics.note("header_damaged", behind[:80])
        if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', data):
            trace.meta["baseTimeNanoseconds"] = int(base[1])


def _cutter(start: bytearray) -> Callable[[mmap.mmap, int], int]:
    """A function that finds the end of the last event that another one follows, 0 where there is none.

    The separator of this file is learnt from its first two events, so that an array of objects inside an event's
    arguments is not taken for the end of the event.
    """
    separator = _separator(start)

    def cut(data: mmap.mmap, filled: int) -> int:
        places = _last_places(data, separator, filled) if separator else []
        for at in places or _any_places(data, filled):
            if _begins_an_event(data, at + 1, filled):
                return at + 1
        return 0

    return cut


def _last_places(data: mmap.mmap, separator: bytes, filled: int) -> list[int]:
    """The last places where the separator stands, from behind."""
    places: list[int] = []
    at = data.rfind(separator, 0, filled)
    while at >= 0 and len(places) < _PLACES_TRIED:
        places.append(at)
        at = data.rfind(separator, 0, at)
    return places


def _any_places(data: mmap.mmap, filled: int) -> list[int]:
    """The last places where an object that may be an event follows another one, from behind."""
    return [match.start() for match in _ANY_BOUNDARY.finditer(data, 0, filled)][: -_PLACES_TRIED - 1 : -1]


def _begins_an_event(data: mmap.mmap, position: int, filled: int) -> bool:
    """Whether what stands behind a comma is a whole event, and not an object inside an event's arguments."""
    start = _skip(data, position, extra=b",")
    for size in _EVENT_LOOKED_AT:
        text = data[start : min(filled, start + size)].decode("latin-1")
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(text)
        except (ValueError, RecursionError):
            if start + size >= filled:
                return False
        else:
            return isinstance(value, dict) and ("ph" in value or "ts" in value)
    return False


def _separator(buffer: bytearray) -> bytes | None:
    """The bytes from the end of the first event to the first key of the second."""
    start = _skip(buffer, 0)
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


def _value(data: bytearray) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None


def _skip(data: bytes | bytearray | memoryview | mmap.mmap, position: int, extra: bytes = b"") -> int:
    skipped = _SPACE + extra
    while position < len(data) and data[position] in skipped:
        position += 1
    return position
