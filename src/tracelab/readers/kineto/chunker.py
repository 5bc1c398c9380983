"""Cut a trace file into chunks of whole events, and read the keys before and behind the event array."""

import io
import json
import mmap
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tracelab.readers.decompress import read_chunk, read_into
from tracelab.readers.diagnostics import DiagnosticCounts

CHUNK_BYTES = 16 << 20
HEAD_BYTES = 1 << 20
_MAX_HEAD_BYTES = 256 << 20
_MAX_EVENT_BYTES = 512 << 20
_SAMPLE_BYTES = 4 << 20
"""Where the first events are searched for their separator."""
_BUFFER_BYTES = CHUNK_BYTES + (1 << 20)
_MAX_CUTS_TRIED = 200
_EVENT_WINDOWS_BYTES = (1 << 16, 1 << 24)
"""How much is decoded to check that an event begins at a cut: little at first, for most events are small."""

_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_ANY_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|pid|tid|ts|args|id|s|bp|dur)"\s*:)')
_SPACE = b" \t\r\n"
_BETWEEN_EVENTS = re.compile(r"[\s,\ufeff]*")
_BOM = b"\xef\xbb\xbf"


@dataclass
class Trace:
    """What a trace file holds beside its events; complete when the last chunk has been read."""

    meta: dict[str, Any] = field(default_factory=dict)
    """The top-level keys other than the events."""
    array_form: bool = False
    """Whether the file is an array of events, without top-level keys."""
    has_events: bool = False
    cut_off: bool = False
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


class ChunkBuffer:
    """Memory for one chunk after another."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None

    def reserve(self, size: int) -> mmap.mmap:
        """Return memory of at least this size; what it held is lost."""
        if self._memory is None or len(self._memory) < size:
            self._memory = mmap.mmap(-1, size)
        return self._memory


class Chunker:
    """Cuts the events of a trace into chunks of some megabytes, between events, and completes `trace` on the way."""

    def __init__(self, stream: io.RawIOBase, trace: Trace) -> None:
        self._stream, self._trace = stream, trace
        head, position = _read_head(stream, trace, HEAD_BYTES)
        self._rest = bytes(head[position:]) if trace.has_events else None
        self._find_cut = _make_cut_finder(head[position : position + _SAMPLE_BYTES])
        self._ended = False

    def next_chunk(self, buffer: ChunkBuffer) -> memoryview | None:
        """Return the next chunk, which lies in this buffer until the next call with it; None behind the last one."""
        while self._rest is not None:
            data = buffer.reserve(max(len(self._rest) + CHUNK_BYTES, _BUFFER_BYTES))
            begin = len(self._rest)
            data[:begin] = self._rest
            filled = read_into(self._stream, data, begin, CHUNK_BYTES)
            end = 0 if self._ended else self._find_cut(data, filled)
            self._ended = filled == begin
            if end:
                self._rest = data[_skip_space(data, end, extra=b",") : filled]
                return memoryview(data)[:end]
            if self._ended:
                return self._last_chunk(data, self._rest)
            self._rest = data[:filled]
            if filled > _MAX_EVENT_BYTES:
                self._trace.diagnostics.note("event_lost", f"no event ends within {_MAX_EVENT_BYTES} bytes")
                self._trace.cut_off, self._rest = True, None
        return None

    def _last_chunk(self, data: mmap.mmap, rest: bytes) -> memoryview | None:
        """Return the last chunk, which lies in `data` with the keys behind it."""
        self._rest = None
        end = _read_tail(rest, self._trace)
        return memoryview(data)[:end] if rest[:end].strip(_SPACE + b",") else None


def read_trace_head(stream: io.RawIOBase) -> tuple[Trace, bytes]:
    """Read the keys before the events, and no more than needed; return them with the first bytes of the file."""
    trace = Trace()
    buffer, _ = _read_head(stream, trace, HEAD_BYTES)
    return trace, bytes(buffer[:HEAD_BYTES])


def _read_head(stream: io.RawIOBase, trace: Trace, chunk_bytes: int) -> tuple[bytearray, int]:
    """Read up to the first event; return the bytes read, and the position at which the events begin."""
    buffer = read_chunk(stream, chunk_bytes)
    while True:
        position = _skip_space(buffer, len(_BOM) if buffer.startswith(_BOM) else 0)
        if buffer[position : position + 1] == b"[":
            trace.array_form = trace.has_events = True
            return buffer, position + 1
        if buffer[position : position + 1] != b"{":
            return buffer, len(buffer)
        events_at = _read_head_keys(buffer, position + 1, trace)
        if events_at is not None:
            return buffer, events_at
        longer = read_chunk(stream, len(buffer), before=buffer)
        if len(longer) == len(buffer) or len(buffer) > _MAX_HEAD_BYTES:
            return _search_events(buffer, trace)
        buffer = longer


def _read_head_keys(buffer: bytearray, position: int, trace: Trace) -> int | None:
    """Read top-level keys until the events begin or the object ends; return None where the buffer ends before that."""
    for size in (HEAD_BYTES, len(buffer)):
        start = buffer[:size]
        events_at = _read_keys_until_events(start, position, trace)
        if events_at is not None:
            return events_at if events_at < len(start) else len(buffer)
        trace.meta.clear()
    return None


def _read_keys_until_events(buffer: bytearray, position: int, trace: Trace) -> int | None:
    text = buffer.decode("latin-1")  # one character a byte: positions in the text are positions in the file
    decode = json.JSONDecoder(strict=False).raw_decode
    try:
        while True:
            position = _skip_space(buffer, position, extra=b",")
            if text[position : position + 1] == "}":
                return len(buffer)
            key, position = decode(text, position)
            position = _skip_space(buffer, position)
            if text[position : position + 1] != ":":
                return None
            position = _skip_space(buffer, position + 1)
            if key == "traceEvents" and text[position : position + 1] == "[":
                trace.has_events = True
                return position + 1
            _, end = decode(text, position)
            if end == len(buffer):  # a number could go on in the next chunk
                return None
            trace.meta[str(key)] = _load_json(buffer[position:end])
            position = end
    except (ValueError, RecursionError):
        return None


def _search_events(buffer: bytearray, trace: Trace) -> tuple[bytearray, int]:
    """Search for the events in a file whose head is damaged or cut off."""
    match = _EVENTS_KEY.search(buffer)
    if match:
        trace.has_events = True
        trace.diagnostics.note("header_damaged", "the beginning")
        return buffer, match.end()
    trace.cut_off = True
    return buffer, len(buffer)


def _read_tail(buffer: bytes, trace: Trace) -> int:
    """Read the keys behind the events; return where the events end."""
    end, damaged = _find_end_of_events(buffer.decode("latin-1"))  # one character a byte, as in the head
    position = _skip_space(buffer, end, extra=b",")
    if position >= len(buffer):
        trace.cut_off = damaged or not trace.array_form
    elif not trace.array_form:
        _read_trailing_keys(buffer[position + 1 :], trace)
    if trace.meta.pop("traceEvents", None):
        trace.diagnostics.note("events_twice")
    return end


def _find_end_of_events(text: str) -> tuple[int, bool]:
    """Return where the last event ends, and whether that event is damaged."""
    decode, end = json.JSONDecoder(strict=False).raw_decode, 0
    try:
        while (match := _BETWEEN_EVENTS.match(text, end)) and (text[match.end() : match.end() + 1] or "]") != "]":
            _, end = decode(text, match.end())
    except (ValueError, RecursionError):
        from tracelab.readers.kineto import repair

        damage = None
        for element in repair.iterate_elements(text, DiagnosticCounts()):
            end, damage = element.end, element.damage
        return end, damage is not None
    return end, False


def _read_trailing_keys(data: bytes, trace: Trace) -> None:
    """Read the top-level keys behind the events; in a file cut off among them, those that are certainly complete."""
    rest = data.strip(_SPACE + b",")
    if rest.endswith(b"}"):
        rest = rest[:-1]
    else:
        trace.cut_off = True
        rest = rest.rpartition(b",")[0]
    try:
        trace.meta |= json.loads(b"{" + rest + b"}", strict=False)
    except (ValueError, RecursionError):
        trace.diagnostics.note("header_damaged", "the end")
        if base := re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]', data):
            trace.meta["baseTimeNanoseconds"] = int(base[1])


def _make_cut_finder(start: bytearray) -> Callable[[mmap.mmap, int], int]:
    """Return a function that finds the end of the last event that another one follows; 0 where there is none.

    It learns the separator of this file from the first two events, so that an array of objects inside an event's
    arguments is not taken for the end of the event.
    """
    separator = _learn_separator(start)

    def find_cut(data: mmap.mmap, filled: int) -> int:
        cuts = _find_last_separators(data, separator, filled) if separator else []
        for at in cuts or _find_last_boundaries(data, filled):
            if _is_event_start(data, at + 1, filled):
                return at + 1
        return 0

    return find_cut


def _find_last_separators(data: mmap.mmap, separator: bytes, filled: int) -> list[int]:
    """Return the last positions of the separator, the last one first."""
    positions: list[int] = []
    at = data.rfind(separator, 0, filled)
    while at >= 0 and len(positions) < _MAX_CUTS_TRIED:
        positions.append(at)
        at = data.rfind(separator, 0, at)
    return positions


def _find_last_boundaries(data: mmap.mmap, filled: int) -> list[int]:
    """Return the last positions at which an object that may be an event follows another one, the last one first."""
    return [match.start() for match in _ANY_BOUNDARY.finditer(data, 0, filled)][: -_MAX_CUTS_TRIED - 1 : -1]


def _is_event_start(data: mmap.mmap, position: int, filled: int) -> bool:
    """Whether a whole event follows this comma, and not an object inside an event's arguments."""
    start = _skip_space(data, position, extra=b",")
    for size in _EVENT_WINDOWS_BYTES:
        text = data[start : min(filled, start + size)].decode("latin-1")
        try:
            value, _ = json.JSONDecoder(strict=False).raw_decode(text)
        except (ValueError, RecursionError):
            if start + size >= filled:
                return False
        else:
            return isinstance(value, dict) and ("ph" in value or "ts" in value)
    return False


def _learn_separator(buffer: bytearray) -> bytes | None:
    """Return the bytes from the end of the first event to the first key of the second; None where that fails."""
    start = _skip_space(buffer, 0)
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


def _load_json(data: bytearray) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None


def _skip_space(data: bytes | bytearray | memoryview | mmap.mmap, position: int, extra: bytes = b"") -> int:
    skipped = _SPACE + extra
    while position < len(data) and data[position] in skipped:
        position += 1
    return position
