"""Read the top-level keys of a trace, before and behind its event array."""

import io
import json
import re
from dataclasses import dataclass, field
from typing import Any

from tracelab.readers.decompress import read_chunk
from tracelab.readers.diagnostics import DiagnosticCounts

HEAD_BYTES = 1 << 20
_MAX_HEAD_BYTES = 64 << 20
_MAX_HEAD_KEYS = 10_000
"""Beyond so many keys or bytes in front of the events, the events are searched by the text of their key."""

PHASE_KEY = re.compile(r'"ph"\s*:')
"""Every event has one such key: their number is that of the events in a text that cannot be parsed."""
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE_KEY = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]')
_SPACE = b" \t\r\n"
BETWEEN_EVENTS = re.compile(r"(?:[ \t\r\n,]++|\xef\xbb\xbf)*+")
"""What may be between events, in latin-1, with byte order marks of joined files; possessive, because a pattern that
may go back keeps some hundred bytes for each character."""
_SPACES = {extra: re.compile(b"[" + _SPACE + extra + b"]*+") for extra in (b"", b",")}
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
    is_head_too_long: bool = False
    """Whether the events begin beyond what is searched for them, if there are any."""
    events_skipped: int = 0
    """Events outside the event array: of a second one, or of another document behind the first."""
    diagnostics: DiagnosticCounts = field(default_factory=DiagnosticCounts)


@dataclass
class _Head:
    """The first bytes of a file, and how far its keys have been read."""

    buffer: bytearray
    position: int
    keys: int = 0


def read_trace_head(stream: io.RawIOBase) -> tuple[Trace, bytes]:
    """Read the keys before the events, and no more than needed; return them with the first bytes of the file."""
    trace = Trace()
    buffer, _ = read_head(stream, trace)
    return trace, bytes(buffer[:HEAD_BYTES])


def read_head(stream: io.RawIOBase, trace: Trace) -> tuple[bytearray, int]:
    """Read up to the first event; return the bytes read, and the position at which the events begin."""
    buffer = read_chunk(stream, HEAD_BYTES)
    position = skip_space(buffer, len(_BOM) if buffer.startswith(_BOM) else 0)
    if buffer[position : position + 1] == b"[":
        trace.array_form = trace.has_events = True
        return buffer, position + 1
    if buffer[position : position + 1] != b"{":
        return buffer, len(buffer)
    head = _Head(buffer, position + 1)
    while True:
        events_at = _read_keys_until_events(head, trace)
        if events_at is not None:
            return head.buffer, events_at
        longer = read_chunk(stream, len(head.buffer), before=head.buffer)
        is_whole = len(longer) == len(head.buffer)
        head.buffer = longer
        if is_whole or head.keys > _MAX_HEAD_KEYS or len(longer) > _MAX_HEAD_BYTES:
            return _search_events(stream, head, trace, is_whole=is_whole)


def _read_keys_until_events(head: _Head, trace: Trace) -> int | None:
    """Read top-level keys, from where the last call ended, until the events begin or the object ends.

    Returns None where a key or value is damaged or incomplete, and where there are too many.
    """
    text = head.buffer.decode("latin-1")  # one character a byte: positions in the text are positions in the file
    decode = json.JSONDecoder(strict=False).raw_decode
    try:
        while head.keys <= _MAX_HEAD_KEYS:
            position = skip_space(head.buffer, head.position, extra=b",")
            if text[position : position + 1] == "}":
                return len(head.buffer)
            key, position = decode(text, position)
            position = skip_space(head.buffer, position)
            if text[position : position + 1] != ":":
                return None
            position = skip_space(head.buffer, position + 1)
            if key == "traceEvents" and text[position : position + 1] == "[":
                trace.has_events = True
                return position + 1
            _, end = decode(text, position)
            if end == len(text):  # a number could go on in the bytes that follow
                return None
            trace.meta[str(key)] = _load_json(head.buffer[position:end])
            head.position, head.keys = end, head.keys + 1
    except (ValueError, RecursionError):
        pass
    return None


def _search_events(stream: io.RawIOBase, head: _Head, trace: Trace, *, is_whole: bool) -> tuple[bytearray, int]:
    """Search for the events in a file whose head is damaged, too long, or cut off."""
    while True:
        match = _EVENTS_KEY.search(head.buffer, head.position)
        if match:
            trace.has_events = True
            trace.diagnostics.note("header_damaged", f"byte {head.position:,} of the file")
            return head.buffer, match.end()
        if is_whole or len(head.buffer) > _MAX_HEAD_BYTES:
            trace.cut_off, trace.is_head_too_long = True, not is_whole
            return head.buffer, len(head.buffer)
        longer = read_chunk(stream, len(head.buffer), before=head.buffer)
        is_whole = len(longer) == len(head.buffer)
        head.buffer = longer


def read_trailer(data: bytes, trace: Trace, *, damaged: bool = False) -> None:
    """Read what follows the last event: the bracket that closes the events, and the keys behind it."""
    position = skip_space(data, 0, extra=b",")
    if position >= len(data):
        trace.cut_off = damaged or not trace.array_form
    elif not trace.array_form:
        _read_trailing_keys(data[position + 1 :], trace)
    events = trace.meta.pop("traceEvents", None)
    if events:
        trace.diagnostics.note("events_twice")
        trace.events_skipped += len(events) if isinstance(events, list) else 0


def are_trailing_keys(text: str) -> bool:
    """Whether a text behind the events' closing bracket is the rest of a whole file."""
    rest = text.strip(" \t\r\n,")
    try:
        return rest.endswith("}") and isinstance(json.loads("{" + rest, strict=False), dict)
    except (ValueError, RecursionError):
        return False


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
        trace.diagnostics.note("header_damaged", "the end of the file")
        trace.events_skipped += len(PHASE_KEY.findall(rest.decode("latin-1")))
        if base := _BASE_KEY.search(data):
            trace.meta["baseTimeNanoseconds"] = int(base[1])


def skip_space(data: bytes | bytearray | memoryview, position: int, extra: bytes = b"") -> int:
    """Return the position of the first byte from `position` on that is neither white space nor one of `extra`."""
    match = _SPACES[extra].match(data, position)
    return max(position, match.end()) if match else position


def _load_json(data: bytearray) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(data, strict=False)
    except (ValueError, RecursionError):
        return None
