"""Read the top-level keys of a trace, and cut its events into chunks of some megabytes.

Cuts are made where an event probably ends. Whether it does is certain only once a chunk has been parsed: `recovery`
joins an event that a wrong cut divides.
"""

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tracelab.allocator import map_memory
from tracelab.readers.decompress import read_chunk, read_into
from tracelab.readers.diagnostics import DiagnosticCounts

HEAD_BYTES = 1 << 20
_MAX_HEAD_BYTES = 64 << 20
_FIRST_KEYS_BYTES = 1 << 16
"""Keys beyond are read from a longer text, which takes longer to decode."""
_MAX_HEAD_KEYS = 10_000
"""Beyond so many keys or bytes in front of the events, the events are searched by the text of their key."""

PHASE_KEY = re.compile(r'"ph"\s*:')
"""Every event has one such key: their number is that of the events in a text that cannot be parsed."""
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE_KEY = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)\s*[,}]')
_NUMBER_TAIL = re.compile(r"[.eE]?[-+]?\Z")
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


def read_trace_head(stream: io.RawIOBase) -> tuple[Trace, bytearray]:
    """Read the keys before the events, and no more than needed; return them with the first bytes of the file."""
    trace = Trace()
    head, _ = read_head(stream, trace)
    del head[HEAD_BYTES:]
    return trace, head


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
        for size in (_FIRST_KEYS_BYTES, len(head.buffer)):
            events_at = _read_keys_until_events(head, trace, size)
            if events_at is not None:
                return head.buffer, events_at
        longer = read_chunk(stream, len(head.buffer), before=head.buffer)
        is_whole = len(longer) == len(head.buffer)
        head.buffer = longer
        if is_whole or head.keys > _MAX_HEAD_KEYS or len(longer) > _MAX_HEAD_BYTES:
            return _search_events(stream, head, trace, is_whole=is_whole)


def _read_keys_until_events(head: _Head, trace: Trace, size: int) -> int | None:
    """Read top-level keys of the first bytes, from where the last call ended, until the events or the object's end.

    Returns None where a key or value is damaged or incomplete, and where there are too many.
    """
    text = head.buffer[:size].decode("latin-1")  # one character a byte: positions in the text are positions in the file
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
            if _NUMBER_TAIL.match(text, end):  # a number could go on in the bytes that follow
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
            has_limit = head.keys > _MAX_HEAD_KEYS or len(head.buffer) > _MAX_HEAD_BYTES
            trace.diagnostics.note(
                "keys_unread" if has_limit else "header_damaged", f"byte {head.position:,} of the file"
            )
            lost = 0 if has_limit else count_phases(head.buffer[head.position : match.start()])
            trace.events_skipped += lost
            trace.diagnostics.note("events_in_header", count=lost)
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


def may_hold_more_events(trailer: str) -> bool:
    """Whether the text behind the events' closing bracket holds events: no second document, which is counted whole."""
    return (
        PHASE_KEY.search(trailer) is not None
        and not are_trailing_keys(trailer)
        and not _EVENTS_KEY.search(trailer.encode("latin-1"))
    )


def count_phases(data: bytes | bytearray) -> int:
    """Count the events in bytes that are not parsed."""
    return len(PHASE_KEY.findall(data.decode("latin-1")))


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
        if events := count_phases(rest):
            trace.events_skipped += events
            trace.diagnostics.note("events_behind_end", count=events)
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


CHUNK_BYTES = 16 << 20
MAX_EVENT_BYTES = 64 << 20
"""Longer events are skipped, so that memory is bounded; those of real traces have some kilobytes."""
_SAMPLE_BYTES = 4 << 20
"""Where the first events are searched for their separator."""
_BUFFER_BYTES = CHUNK_BYTES + (1 << 20)
_MAX_CUTS_TRIED = 20
_MAX_BRACKETS_TRIED = 20
_MAX_GUESSED_BYTES = 1 << 16
"""How far before the end of a file the end of its events is searched."""
_MAX_SPACE_BYTES = 1 << 6
_CUT_WINDOW_BYTES = 1 << 16
"""How much is searched first for the last events."""
_EVENT_WINDOW_BYTES = 1 << 16
"""How much is decoded to check that an event begins at a cut."""

_ANY_BOUNDARY = re.compile(rb'\}[ \t\r\n]*,(?=[ \t\r\n]*\{[ \t\r\n]*")')
_FIRST_SEPARATOR = re.compile(rb'(\s*,\s*\{\s*")(\w+"\s*:)?')
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
    is_end_guessed: bool = False
    """Whether only the brackets at the end of the file show it; it is right if the parser accepts all events."""

    @property
    def has_stray_commas(self) -> bool:
        """Whether more than one comma precedes the first event."""
        return bytes(self.data[: skip_space(self.data, 0, extra=b",")]).count(b",") > 1

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
    """Whether the chunk begins in an event that is skipped."""
    opened: str = ""
    """The brackets that are open in the skipped event, for `EventScan`."""
    hidden: int = 0
    """How many events the skipped one hides if it never ends."""
    is_ended: bool = False
    """Whether the array of events is over; the rest is then the beginning of the keys behind it."""


CLEAN = Border()


class ChunkBuffer:
    """Memory for one chunk after another: the parser's, or else its own."""

    def __init__(self, reserve_text: Callable[[int], memoryview | None] = lambda _: None) -> None:
        self._reserve_text = reserve_text
        self._memory: memoryview | None = None

    def reserve(self, size: int, kept: int = 0) -> memoryview:
        """Return memory of at least this size, with the first `kept` bytes of what it held."""
        if self._memory is None or len(self._memory) < size or len(self._memory) > max(size, 2 * _BUFFER_BYTES):
            memory = self._reserve_text(size) or memoryview(map_memory(size))
            if self._memory is not None and kept:
                memory[:kept] = self._memory[:kept]
            self._memory = memory
        return self._memory


class Chunker:
    """Cuts the events of a trace into chunks of some megabytes."""

    def __init__(self, stream: io.RawIOBase, trace: Trace) -> None:
        self._stream, self._trace = stream, trace
        head, position = read_head(stream, trace)
        self._rest = bytes(memoryview(head)[position:]) if trace.has_events else None
        self._separator = _learn_separator(head, skip_space(head, position))
        self._number, self._offset = 0, position

    def next_chunk(self, buffer: ChunkBuffer) -> Chunk | None:
        """Return the next chunk, which may lie in this buffer until the next call with it; None behind the last one."""
        if self._rest is None:
            return None
        known = self._rest + (more := read_chunk(self._stream, 1))
        if not more:
            return self._last_chunk(known)
        filled = searched = len(known)
        data = buffer.reserve(max(filled + CHUNK_BYTES, _BUFFER_BYTES))
        data[:filled] = known
        while True:
            data = buffer.reserve(max(filled + max(filled, CHUNK_BYTES), _BUFFER_BYTES), filled)
            before, filled = filled, read_into(self._stream, data, filled, max(filled, CHUNK_BYTES))
            if filled == before:
                return self._last_chunk(bytes(data[:filled]))  # parsing overwrites what follows the events
            cut = self._find_cut(data, max(0, searched - _EVENT_WINDOW_BYTES), filled)
            if cut or filled > MAX_EVENT_BYTES:
                return self._make_chunk(data, cut or filled, filled, is_end_known=bool(cut))
            searched = filled

    def _make_chunk(self, data: memoryview, cut: int, filled: int, *, is_end_known: bool) -> Chunk:
        self._rest = bytes(data[cut:filled])
        chunk = Chunk(self._number, self._offset, data[:cut], cut, is_last=False, is_end_known=is_end_known)
        self._number, self._offset = self._number + 1, self._offset + cut
        return chunk

    def _last_chunk(self, content: bytes) -> Chunk:
        self._rest = None
        chunk = Chunk(self._number, self._offset, memoryview(content), len(content), is_last=True, is_end_known=False)
        end = _guess_end_of_events(content, array_form=self._trace.array_form)
        if end is None:
            return decode_end(chunk, array_form=self._trace.array_form)
        return replace(chunk, events_end=end, is_end_known=True, is_end_guessed=True)

    def _find_cut(self, data: memoryview, start: int, filled: int) -> int:
        """Return the end of the last event that another one follows; 0 where there is none.

        The separator of this file's first events keeps an array of objects inside an event's arguments from being
        taken for the end of the event.
        """
        cuts = _find_last_separators(data, self._separator, start, filled) if self._separator else []
        cuts = cuts or _find_last_boundaries(data, start, filled)
        return next((cut for cut in cuts if _is_event_start(data, cut, filled)), cuts[0] if cuts else 0)


def decode_end(chunk: Chunk, *, array_form: bool) -> Chunk:
    """Return the last chunk with the end of its events as decoding them all shows it, which takes long."""
    end = _find_end_of_events(bytes(chunk.data).decode("latin-1"), array_form=array_form)
    if end is None:
        return replace(chunk, events_end=len(chunk.data), is_end_known=False, is_end_guessed=False)
    return replace(chunk, events_end=end, is_end_known=True, is_end_guessed=False)


def _guess_end_of_events(data: bytes, *, array_form: bool) -> int | None:
    """Return where the last event ends if the brackets at the end of the file are those of an undamaged one.

    Of several brackets behind which only whole keys follow, all but the first are inside these keys.
    """
    guess, bracket = None, len(data)
    for _ in range(_MAX_BRACKETS_TRIED):
        bracket = data.rfind(b"]", max(0, len(data) - _MAX_GUESSED_BYTES), bracket)
        if bracket < 0:
            break
        before = data[max(0, bracket - _MAX_SPACE_BYTES) : bracket]
        end = bracket - len(before) + len(before.rstrip(_SPACE))
        if data[end - 1 : end] == b"}":
            behind = data[end:].decode("latin-1")
            keys = behind.lstrip(" \t\r\n")[1:]
            is_whole = array_form or are_trailing_keys(keys)
            if is_whole and _is_end_of_events(behind, 0, array_form=array_form):
                guess = end
    return guess


def _find_end_of_events(text: str, *, array_form: bool) -> int | None:
    """Return where the events of an undamaged rest of a file end; None where something is damaged or unusual."""
    decode, end = json.JSONDecoder(strict=False).raw_decode, 0
    try:
        while (match := BETWEEN_EVENTS.match(text, end)) and (text[match.end() : match.end() + 1] or "]") != "]":
            if match.end() == end > 0:  # nothing separates two elements
                return None
            _, end = decode(text, match.end())
    except (ValueError, RecursionError):
        return None
    at = BETWEEN_EVENTS.match(text, end)
    if not _ARRAY_ENDS.match(text, at.end() if at else end):
        return end
    return end if _is_end_of_events(text, end, array_form=array_form) else None


def _is_end_of_events(text: str, end: int, *, array_form: bool) -> bool:
    """Whether the bracket behind the event that ends here closes the events of an undamaged file."""
    at = BETWEEN_EVENTS.match(text, end)
    bracket = _ARRAY_ENDS.match(text, at.end() if at else end)
    if bracket is None or text.count(",", end, bracket.end()) > 1 or may_hold_more_events(text[bracket.end() :]):
        return False
    return bracket.end() == len(text) if array_form else text[bracket.end() : bracket.end() + 1] in ("", ",", "}")


def _find_last_separators(data: memoryview, separator: bytes, start: int, filled: int) -> list[int]:
    """Return the ends of the events before the last separators, the last one first."""
    ends = _find_last(data, separator, max(start, filled - _CUT_WINDOW_BYTES), filled)
    return ends if len(ends) == _MAX_CUTS_TRIED else _find_last(data, separator, start, filled)


def _find_last(data: memoryview, separator: bytes, start: int, filled: int) -> list[int]:
    text = bytes(data[start:filled])
    ends: list[int] = []
    at = text.rfind(separator)
    while at >= 0 and len(ends) < _MAX_CUTS_TRIED:
        ends.append(start + at + 1)
        at = text.rfind(separator, 0, at)
    return ends


def _find_last_boundaries(data: memoryview, start: int, filled: int) -> list[int]:
    """Return the last positions at which an object that may be an event ends before another, the last one first."""
    return [match.start() + 1 for match in _ANY_BOUNDARY.finditer(data, start, filled)][: -_MAX_CUTS_TRIED - 1 : -1]


def _is_event_start(data: memoryview, position: int, filled: int) -> bool:
    """Whether a whole event follows, and not an object inside an event's arguments."""
    start = skip_space(data[:filled], position, extra=b",")
    text = str(data[start : min(filled, start + _EVENT_WINDOW_BYTES)], "latin-1")
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("ph" in value or "ts" in value)


def _learn_separator(buffer: bytearray, start: int) -> bytes | None:
    """Return the bytes from the end of the first event to the first key of the second; None where that fails."""
    end = None
    for size in (_EVENT_WINDOW_BYTES, _SAMPLE_BYTES):
        try:
            _, end = json.JSONDecoder(strict=False).raw_decode(buffer[start : start + size].decode("latin-1"))
        except RecursionError:
            return None
        except ValueError:
            continue
        break
    match = None if end is None else _FIRST_SEPARATOR.match(buffer, start + end)
    if not match:
        return None
    one_line = b"\n" not in match[1]
    return b"}" + (match[0] if one_line else match[1])
