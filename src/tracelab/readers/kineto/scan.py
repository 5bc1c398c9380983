"""A trace file as a stream of pieces: bytes (unpacked), what stands before and behind the events, and where to cut."""

import io
import json
import queue
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tracelab.readers.findings import Findings
from tracelab.readers.kineto import clean
from tracelab.readers.unpack import read_chunk, read_into

CHUNK_BYTES = 16 << 20
HEAD_BYTES = 1 << 20
LONGEST_HEAD = 256 << 20
_LONGEST_EVENT = 512 << 20
_LEARN_BYTES = 4 << 20
_ROOM_FOR_REST = 1 << 20
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
    findings: Findings = field(default_factory=Findings)


class Buffers:
    """Memory that pieces stand in, used again: to give it back and fetch it anew costs more than to read into it."""

    def __init__(self) -> None:
        self._free: queue.SimpleQueue[bytearray] = queue.SimpleQueue()

    def take(self, size: int) -> bytearray:
        """A buffer of at least this size."""
        try:
            buffer = self._free.get_nowait()
        except queue.Empty:
            return bytearray(max(size, CHUNK_BYTES + _ROOM_FOR_REST))
        return buffer if len(buffer) >= size else bytearray(size)

    def give_back(self, piece: memoryview) -> None:
        """Take back the buffer that a piece stood in; the piece must not be used any more."""
        buffer = piece.obj
        piece.release()
        if isinstance(buffer, bytearray) and len(buffer) == CHUNK_BYTES + _ROOM_FOR_REST:
            self._free.put(buffer)


def pieces(stream: io.RawIOBase, trace: Trace, buffers: Buffers) -> Iterator[memoryview]:
    """The events of a trace, some megabytes at a time, cut between events; `trace` is filled on the way.

    Every piece stands in one of the buffers, which its reader gives back.
    """
    head, position = _read_head(stream, trace, HEAD_BYTES)
    if not trace.has_events:
        return
    cut = _cutter(head[position : position + _LEARN_BYTES])
    rest = memoryview(head)[position:]
    while True:
        buffer = buffers.take(len(rest) + CHUNK_BYTES)
        buffer[: len(rest)] = rest
        filled = read_into(stream, buffer, len(rest), CHUNK_BYTES)
        ended = filled == len(rest)
        end = cut(buffer, filled)
        if not end and not ended and filled <= _LONGEST_EVENT:
            rest = memoryview(bytes(memoryview(buffer)[:filled]))
            continue
        if not end and not ended:
            trace.findings.note("event_lost", f"no event ends within {_LONGEST_EVENT} bytes")
            trace.cut_off = True
            return
        rest = memoryview(bytes(memoryview(buffer)[end:filled]))
        if end:
            yield memoryview(buffer)[:end]
            rest = rest[_skip(rest, 0, extra=b",") :]
        if ended:
            break
    yield from _read_tail(bytes(rest), trace)


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
        trace.findings.note("header_damaged", buffer[:80])
        return buffer, found.end()
    trace.cut_off = True
    return buffer, len(buffer)


def _read_tail(buffer: bytes, trace: Trace) -> Iterator[memoryview]:
    """Yield the last events, and read what stands behind them."""
    text = buffer.decode("latin-1")  # one character a byte, as in the head
    end, damaged = 0, False
    for element in clean.elements(text, Findings()):
        end, damaged = element.end, element.damage is not None
    if buffer[:end].strip(_SPACE + b","):
        yield memoryview(bytearray(buffer[:end]))
    position = _skip(buffer, end, extra=b",")
    if position >= len(buffer):
        trace.cut_off = damaged or not trace.array_form
    elif not trace.array_form:
        _read_keys_behind(buffer[position + 1 :], trace)
    if trace.meta.pop("traceEvents", None):
        trace.findings.note("events_twice")


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
        trace.findings.note("header_damaged", behind[:80])
        if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', data):
            trace.meta["baseTimeNanoseconds"] = int(base[1])


def _cutter(start: bytearray) -> Callable[[bytearray, int], int]:
    """A function that finds the end of the last event that another one follows, 0 where there is none.

    The separator of this file is learnt from its first two events, so that an array of objects inside an event's
    arguments is not taken for the end of the event.
    """
    separator = _separator(start)

    def cut(data: bytearray, filled: int) -> int:
        places = _last_places(data, separator, filled) if separator else []
        for at in places or _any_places(data, filled):
            if _begins_an_event(data, at + 1, filled):
                return at + 1
        return 0

    return cut


def _last_places(data: bytearray, separator: bytes, filled: int) -> list[int]:
    """The last places where the separator stands, from behind."""
    places: list[int] = []
    at = data.rfind(separator, 0, filled)
    while at >= 0 and len(places) < _PLACES_TRIED:
        places.append(at)
        at = data.rfind(separator, 0, at)
    return places


def _any_places(data: bytearray, filled: int) -> list[int]:
    """The last places where an object that may be an event follows another one, from behind."""
    return [match.start() for match in _ANY_BOUNDARY.finditer(data, 0, filled)][: -_PLACES_TRIED - 1 : -1]


def _begins_an_event(data: bytearray, position: int, filled: int) -> bool:
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


def _skip(data: bytes | bytearray | memoryview, position: int, extra: bytes = b"") -> int:
    skipped = _SPACE + extra
    while position < len(data) and data[position] in skipped:
        position += 1
    return position
