"""Recover the events of chunks that the parser refuses, in a time that is linear in their size.

Damage costs the event that it is in, and reading goes on at the next place that looks like the beginning of an event:
an object that follows a comma or another object, and begins with a key. Runs of undamaged events go to the compiled
parser, so that only the neighborhood of the damage is read in Python.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Protocol

from tracelab.readers.kineto.chunker import (
    BETWEEN_EVENTS,
    MAX_EVENT_BYTES,
    PHASE_KEY,
    Border,
    Chunk,
    Trace,
    are_trailing_keys,
    read_trailer,
)
from tracelab.readers.kineto.damage_text import describe_damage
from tracelab.readers.kineto.mapper import Rows
from tracelab.readers.kineto.repair import EventRepair, is_affordable

_SMALLEST_RUN_BYTES = 1 << 15
_MAX_PENDING_BYTES = 1 << 18
_MAX_ELEMENT_BYTES = 1 << 16
"""An element that is no object may not be longer: the bracket of a list that never ends would hide all events."""
_MAX_CARRIED_BYTES = 1 << 20
"""A damaged event at the end of a chunk waits for the next chunk up to this size."""
_BOUNDARY_BYTES = 1 << 9
_FIRST_BYTES = 1 << 11
_WASTE_FACTOR = 4
"""How often, on average, a byte may be parsed in vain before only `_FIRST_BYTES` are tried of each event."""
_MAX_TRAILERS_TRIED = 20
_MAX_BOUNDARIES_TRIED = 8
_INNER_BYTES = 1 << 12
"""Where the phase of an event is searched from its beginning."""

_EVENT_START = re.compile(r'[,}][ \t\r\n]*(?=\{[ \t\r\n]*"(?:[^"\\]|\\.){0,200}"[ \t\r\n]*:)')
_WHITE = re.compile(r"[ \t\r\n]*")
_LIST_ENDS = re.compile(r"[ \t\r\n]*(?:[],]|$)")
_NEXT_KEY = re.compile(r',[ \t\r\n]*"')
_TRAILER = re.compile(r'\}[ \t\r\n]*(?=\][ \t\r\n]*(?:$|,[ \t\r\n]*"|\}))')

_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|[][{}]', re.DOTALL)
_OPEN_BRACKETS = re.compile(r"(?:\[[ \t\r\n]*+){100,}+")

_decode = json.JSONDecoder(strict=False).raw_decode


class EventReader(Protocol):
    """Parses events and queues them."""

    def add_events(self, events: memoryview, rows: Rows) -> bool:
        """Parse undamaged events; returns whether they are."""

    def add_lines(self, lines: list[bytes], rows: Rows) -> None:
        """Parse events that `repair` has written as JSON lines."""


class _OpenElementError(Exception):
    """The text ends before the element does."""


class _DamagedElementError(Exception):
    """The element is not valid JSON."""


class _LargeElementError(Exception):
    """The element is too long, or has too many values for Python; `end` is where it ends, if it does."""

    def __init__(self, end: int | None) -> None:
        super().__init__(end)
        self.end = end


def recover(border: Border, chunk: Chunk, trace: Trace, reader: EventReader, base_ns: int) -> tuple[Rows, Border]:
    """Return the rows of a damaged chunk, and what its end means for the next chunk.

    The last chunk also completes `trace`.
    """
    rows = Rows()
    data = border.rest + bytes(chunk.data)
    if border.is_ended:
        if chunk.is_last:
            read_trailer(data, trace)
        return rows, Border(data[:MAX_EVENT_BYTES], is_ended=True)
    repair = EventRepair(base_ns, rows.diagnostics)
    recovery = _Recovery(data, chunk, reader, repair, rows, array_form=trace.array_form)
    after = recovery.read(border)
    if chunk.is_last:
        trace.cut_off |= recovery.is_cut_off
        read_trailer(after.rest if after.is_ended else b"", trace, damaged=recovery.is_cut_off)
    return rows, after


@dataclass
class _Pending:
    """Undamaged events that are not parsed yet: where each starts and ends."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0
    uncertain: int | None = None
    """How many come before the last damage, if any: those behind it may be objects inside the damaged event."""

    def add(self, start: int, end: int) -> None:
        """Add an event."""
        self.spans.append((start, end))
        self.size += end - start

    def doubt(self) -> None:
        """Mark what follows as uncertain."""
        self.uncertain = len(self.spans)

    def uncertain_start(self) -> int | None:
        """Return where the first uncertain event starts."""
        return next((start for start, _ in self.spans[self.uncertain :]), None)

    def drop_uncertain(self) -> None:
        """Forget the uncertain events."""
        del self.spans[self.uncertain :]

    def take(self) -> list[tuple[int, int]]:
        """Return all events, and forget them."""
        spans, self.spans = self.spans, []
        self.size, self.uncertain = 0, None
        return spans


class _Recovery:
    """Reads one damaged chunk."""

    def __init__(
        self, data: bytes, chunk: Chunk, reader: EventReader, repair: EventRepair, rows: Rows, *, array_form: bool
    ) -> None:
        self._data, self._reader, self._repair, self._rows = data, reader, repair, rows
        self._text = data.decode("latin-1")  # one character a byte: positions in the text are positions in the data
        self._end = len(data)
        self._offset = chunk.offset + len(chunk.data) - len(data)
        self._is_last, self._array_form = chunk.is_last, array_form
        self._pending = _Pending()
        self._lines: list[bytes] = []
        self._waste = _WASTE_FACTOR * len(data)
        self._run = len(data)
        self._python_end = 0
        self._trailer: int | None = None
        self._ends_tried = 0
        self._found: tuple[int, re.Match[str] | None] = (self._end + 1, None)
        self.is_cut_off = False

    def read(self, border: Border) -> Border:
        """Read all events; return what the end means for the next chunk."""
        if not border.rest:
            self._run //= 8  # the parser has refused all of it already
        after = self._resume(0) if border.is_lost else 0
        while isinstance(after, int):
            at = self._skip(after)
            if at >= self._end:
                after = Border()
            elif self._text[at] in "]}":
                after = self._read_bracket(at)
            elif (run_end := self._read_run(at)) is not None:
                after = run_end
            else:
                after = self._read_element(at)
        self._flush()
        if self._lines:
            self._reader.add_lines(self._lines, self._rows)
        return after

    def _skip(self, at: int) -> int:
        match = BETWEEN_EVENTS.match(self._text, at)
        return match.end() if match else at

    def _read_run(self, at: int) -> int | None:
        """Parse the events from `at` on at once; return where they end, None where one of them is damaged.

        The run is shorter where a longer one was damaged, and doubles where it was not.
        """
        while self._pending.uncertain is None and at >= self._python_end:
            end = self._find_boundary(at + self._run) or self._events_end(at)
            if end - at <= 2 * max(self._run, _MAX_ELEMENT_BYTES):
                self._flush()
                if self._reader.add_events(memoryview(self._data)[at:end], self._rows):
                    self._run *= 2
                    return end
            if self._run <= _SMALLEST_RUN_BYTES:
                self._python_end = end
            self._run = max(self._run // 8, _SMALLEST_RUN_BYTES)
        return None

    def _read_element(self, at: int) -> int | Border:
        """Read one element of the array."""
        try:
            end = self._find_end(at)
        except _OpenElementError:
            return self._read_open(at)
        except _LargeElementError as error:
            if error.end is None:
                return self._lose(at, "event_too_large")
            self._rows.events_skipped += 1
            self._note("event_too_large", at, error.end)
            return error.end
        except _DamagedElementError:
            return self._read_damaged(at)
        if self._text[at] == "[" and _LIST_ENDS.match(self._text, end) is None:
            return self._read_damaged(at)  # the bracket that closes it is that of the events
        if self._text[at] != "{":
            self._count_skipped(at, end, "not_an_object")
        else:
            self._pending.add(at, end)
            if self._pending.size > _MAX_PENDING_BYTES:
                self._flush()
        return end

    def _find_end(self, at: int) -> int:
        """Return where the element ends; raises one of the errors above where it does not.

        The text up to the next place that looks like the beginning of an event is parsed first, then, if the element
        is longer, at least twice as much each time.
        """
        limit = at
        while limit < self._end:
            most = max(_FIRST_BYTES, 4 * (limit - at))
            limit = min(self._find_boundary(max(at + 1, 2 * limit - at)) or self._end, at + most)
            piece = self._text[at:limit]
            if len(piece) > _FIRST_BYTES and self._waste < 0:
                raise _DamagedElementError
            if len(piece) > _MAX_ELEMENT_BYTES and piece[0] != "{":
                raise _DamagedElementError
            if len(piece) > MAX_EVENT_BYTES or not is_affordable(piece):
                return self._find_large_end(at)
            try:
                _, length = _decode(piece)
            except RecursionError:
                self._waste -= len(piece)
                raise _DamagedElementError from None
            except json.JSONDecodeError as error:
                self._waste -= len(piece)
                if not _is_cut(error, piece):
                    raise _DamagedElementError from None
            else:
                if at + length == self._end and piece[0] not in '{["' and not self._is_last:
                    break  # a number may go on
                return at + length
        raise _OpenElementError

    def _find_large_end(self, at: int) -> int:
        """Return where an element ends that the compiled parser may take, though it is too large for Python."""
        try:
            end = _find_closing_bracket(self._text, at)
        except _DamagedElementError:
            raise _LargeElementError(None) from None
        except _OpenElementError:
            if self._is_last or self._end - at > MAX_EVENT_BYTES:
                raise _LargeElementError(None) from None
            raise
        if end - at > MAX_EVENT_BYTES:
            raise _LargeElementError(end)
        return end

    def _read_open(self, at: int) -> int | Border:
        """Handle an element that is not over at the end of the chunk."""
        if not self._is_last:
            if self._end - at <= MAX_EVENT_BYTES:
                return Border(self._data[at:])
            return self._lose(at, "event_too_large", self._end)
        if self._find_trailer(at, is_certain=True) is not None:
            return self._read_damaged(at)
        self._rows.events_skipped += 1
        self.is_cut_off = True
        return self._end

    def _read_damaged(self, at: int) -> int | Border:
        """Repair a damaged element, or skip it."""
        if self._text[at] == "[":
            run = _OPEN_BRACKETS.match(self._text, at)  # to decode a text from each of them would take long
            behind = self._text.rindex("[", at, run.end()) if run else at + 1
            self._note("stray_bracket", at, behind, self._text.count("[", at, behind))
            return behind
        end = self._find_damage_end(at)
        if end is None and self._is_last:
            end = self._find_trailer(at) or self._end
        if end is None:
            is_short = self._end - at <= _MAX_CARRIED_BYTES
            return Border(self._data[at:]) if is_short else self._lose(at, "event_lost", self._end)
        # a bracket that is added may not make one event of two
        is_complete = end < self._end and len(PHASE_KEY.findall(self._text, at, end)) <= 1
        line = self._repair.rewrite_damaged(self._data[at:end].rstrip(b" \t\r\n,"), is_complete=is_complete)
        if line is None:
            return self._lose(at, "event_lost", end)
        self._lines.append(line)
        return end

    def _find_damage_end(self, at: int) -> int | None:
        """Return where the damaged event at `at` ends: before another event, but not inside a list of objects."""
        first = end = self._find_boundary(at + 1)
        for _ in range(_MAX_BOUNDARIES_TRIED):
            if end is None:
                break
            if self._text.count("[", at, end) <= self._text.count("]", at, end):
                return end
            end = self._find_boundary(end + 1)
        return first

    def _find_boundary(self, start: int) -> int | None:
        """Return the first place from `start` on that looks like the end of an event before another one."""
        match = self._find_start(start)
        return match.start() + (self._text[match.start()] == "}") if match else None

    def _find_start(self, start: int) -> re.Match[str] | None:
        """Return the first place from `start` on that looks like the beginning of an event.

        The last answer also holds for all places between, so that no byte is searched again and again.
        """
        searched, match = self._found
        if searched <= start <= (match.start() if match else self._end):
            return match
        match = _EVENT_START.search(self._text, start)
        self._found = start, match
        return match

    def _events_end(self, at: int) -> int:
        """Return where the events end, as far as the brackets at the end of the file show it."""
        if not self._is_last or self._array_form:
            return self._end
        if self._trailer is None:
            self._trailer = end = self._end
            for _ in range(_MAX_TRAILERS_TRIED):
                end = self._text.rfind("]", 0, end)
                if end < 0:
                    break
                if are_trailing_keys(self._text[end + 1 :]):
                    self._trailer = end
        return max(self._trailer, at)

    def _lose(self, at: int, code: str, end: int | None = None) -> int | Border:
        """Count what is skipped from `at` on, up to `end` if that is known, and resume behind it."""
        if end is None:
            end = self._find_boundary(at + 1) or self._end
        self._count_skipped(at, end, code)
        return self._resume(end)

    def _resume(self, at: int) -> int | Border:
        """Return where events begin again; if not in this chunk, what the next one begins with."""
        self._pending.doubt()
        match = self._find_start(max(0, at - 1))
        if match:
            return match.end()
        if not self._is_last:
            near = max(at, self._end - _BOUNDARY_BYTES)
            start = max(self._text.rfind(",", near), self._text.rfind("}", near))
            return Border(self._data[start:] if start >= 0 else b"", is_lost=True)
        return self._find_trailer(max(0, at - 1)) or self._end

    def _read_bracket(self, at: int) -> int | Border:
        """Handle a closing bracket: the end of the events, of an event that was lost, or a stray one."""
        following = _WHITE.match(self._text, at + 1)
        then = following.end() if following else at + 1
        if self._text[at] == "]":
            if then >= self._end:
                return Border(self._data[at:], is_ended=self._is_last)
            is_uncertain = self._pending.uncertain is not None
            if is_uncertain and not self._is_last and self._end - at <= _MAX_CARRIED_BYTES:
                return self._postpone(at)
            if self._ends_events(at, then):
                self._flush()
                return Border(self._data[at:], is_ended=True)
            if is_uncertain and self._is_inner(then):
                self._pending.drop_uncertain()  # objects inside the damaged event, which is counted already
                return self._resume(then)
        self._note("stray_bracket", at, at + 40)
        return then + 1 if self._text[at] == "]" and self._text[then] == "[" else at + 1

    def _ends_events(self, at: int, then: int) -> bool:
        """Whether the bracket at `at` closes the array of events; `then` is what follows it."""
        if self._array_form:
            return False
        if self._is_last and self._text[then] in ",}" and self._ends_tried < _MAX_TRAILERS_TRIED:
            self._ends_tried += 1
            if are_trailing_keys(self._text[at + 1 :]):
                return True
        return _NEXT_KEY.match(self._text, then) is not None and (
            self._pending.uncertain is None or not self._is_inner(then)
        )

    def _is_inner(self, then: int) -> bool:
        """Whether the bracket before `then` closes a list inside an event, for more events follow."""
        if self._text[then] != "}" and not _NEXT_KEY.match(self._text, then):
            return False
        match = self._find_start(then)
        return match is not None and PHASE_KEY.search(self._text, match.end(), match.end() + _INNER_BYTES) is not None

    def _postpone(self, at: int) -> Border:
        """Leave what is pending to the next chunk, which shows whether more events follow the bracket at `at`."""
        start = self._pending.uncertain_start()
        self._pending.drop_uncertain()
        return Border(self._data[at:]) if start is None else Border(b"," + self._data[start:], is_lost=True)

    def _find_trailer(self, at: int, *, is_certain: bool = False) -> int | None:
        """Return where the events end if the last of them is damaged: before a bracket with only whole keys behind it.

        Unless it must be certain, the first bracket that is followed by any key will do.
        """
        first = None
        for tried, match in enumerate(_TRAILER.finditer(self._text, at)):
            behind = self._text[match.end() + 1 :]
            if not behind.strip() if self._array_form else are_trailing_keys(behind):
                return match.start() + 1
            first = match.start() + 1 if first is None else first
            if tried == _MAX_TRAILERS_TRIED:
                break
        return None if is_certain else first

    def _flush(self) -> None:
        """Parse the pending events, which are events."""
        spans, data = self._pending.take(), self._data
        if not spans or self._reader.add_events(memoryview(b",".join(data[s:e] for s, e in spans)), self._rows):
            return
        for start, end in spans:
            line = self._repair.rewrite(data[start:end])
            if line is None:
                self._rows.events_skipped += 1
                self._note("event_lost" if is_affordable(self._text[start:end]) else "event_too_large", start, end)
            else:
                self._lines.append(line)

    def _count_skipped(self, start: int, end: int, code: str) -> None:
        """Count a skipped text: every phase in it is one of an event."""
        count = max(1, sum(1 for _ in PHASE_KEY.finditer(self._text, start, end)))
        self._rows.events_skipped += count
        self._note(code, start, end, count)

    def _note(self, code: str, start: int, end: int, count: int = 1) -> None:
        text = "" if code == "stray_bracket" else f", {describe_damage(self._data, start, end)}"
        self._rows.diagnostics.note(code, f"byte {self._offset + start:,}{text}", count)


def _is_cut(error: json.JSONDecodeError, piece: str) -> bool:
    """Whether the error may come from the end of the text: a number, word or escape there may go on."""
    return error.msg.startswith("Unterminated") or error.pos >= len(piece) - len('"\\u12345678"')


def _find_closing_bracket(text: str, at: int) -> int:
    """Return where the object or list at `at` ends, by its brackets outside strings.

    Raises _DamagedElementError where they do not match, _OpenElementError where the text ends before.
    """
    opened = []
    for match in _TOKEN.finditer(text, at):
        bracket = match[0]
        if bracket in "{[":
            opened.append("}" if bracket == "{" else "]")
        elif bracket in "]}":
            if not opened or opened.pop() != bracket:
                raise _DamagedElementError
            if not opened:
                return match.end()
    raise _OpenElementError
