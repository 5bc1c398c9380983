"""Recover the events of chunks that the parser refuses, in a time that is linear in their size.

Damage costs the event that it is in, and reading goes on at the next border between events. Runs of undamaged events go
to the compiled parser, so that only the neighborhood of the damage is read in Python.
"""

import itertools
import re
from collections.abc import Callable
from typing import Protocol

from tracelab.readers.kineto.chunk_search import FIRST_WINDOW_BYTES, MAX_ELEMENT_BYTES, ChunkSearch, end_before
from tracelab.readers.kineto.chunker import (
    BETWEEN_EVENTS,
    MAX_EVENT_BYTES,
    PHASE_KEY,
    Border,
    Chunk,
    Trace,
    count_phases,
    may_hold_more_events,
    read_trailer,
)
from tracelab.readers.kineto.damage_text import describe_damage
from tracelab.readers.kineto.event_scan import OBJECT_START, EventScan
from tracelab.readers.kineto.forward_search import ForwardSearch
from tracelab.readers.kineto.mapper import Rows
from tracelab.readers.kineto.repair import EventRepair, is_affordable

_SMALLEST_RUN_BYTES = 1 << 15
_MAX_PENDING_BYTES = 1 << 18
_MAX_CARRIED_BYTES = 1 << 20
"""An uncertain bracket waits for the next chunk where at most so much follows it."""
_START_BYTES = 1 << 9
_DAMAGE_COST = 200
"""A damaged element, however short, takes as long as scanning so many bytes."""
_MAX_BRACKETS = 8
"""More closing brackets in a row are skipped at once, but for the last list's, which may be that of the events."""
_CHECK_EVERY = 500
"""After so many elements recovery checks whether the ingest is stopping."""

_OBJECT_BORDER = re.compile(rf"[,}}][ \t\r\n]*+(?={OBJECT_START}|\{{[ \t\r\n]*+\}})", re.DOTALL)
"""In front of an event or of an empty object."""
_WHITE = re.compile(r"[ \t\r\n]*+")
_LIST_ENDS = re.compile(r"[ \t\r\n]*+(?:[],]|\Z)")
_NEXT_KEY = re.compile(r',[ \t\r\n]*+"')
_SCALAR = r'(?:"(?:[^"\\]++|\\.)*+"|-?\d[-+.eE\d]*+|null|true|false|NaN|-?Infinity)[ \t\r\n]*+(?:,[ \t\r\n,]*+|(?=\]))'
_ONE_SCALAR = re.compile(_SCALAR, re.DOTALL)
_SCALARS = re.compile(f"(?:{_SCALAR})++", re.DOTALL)
_OPEN_LISTS = re.compile(r"(?:\[[ \t\r\n]*+)++")
_CLOSING_BRACKETS = re.compile(r"(?:[]}][ \t\r\n,]*+)++")
_PLAUSIBLE = re.compile(
    r"""
    \{(?![ \t\r\n]*+[]:,])
    (?:
        [^][{}",:]++
      | "(?:[^"\\]++|\\.)*+"
      | \{(?![ \t\r\n]*+[]:,])
      | \[(?![ \t\r\n]*+[}:,])
      | [:,](?![ \t\r\n]*+[]}:,])
      | []}]
    )*+[ \t\r\n]*+
    """,
    re.VERBOSE | re.DOTALL,
)
"""Each object, and some other texts; far cheaper than a decoder that refuses a text."""


class EventReader(Protocol):
    """Parses events and queues them."""

    def add_events(self, events: memoryview, rows: Rows) -> bool:
        """Parse undamaged events; returns whether they are."""

    def add_lines(self, lines: list[bytes], rows: Rows) -> None:
        """Parse events that `repair` has written as JSON lines."""


def recover(
    border: Border, chunk: Chunk, trace: Trace, reader: EventReader, base_ns: int, check_stop: Callable[[], None]
) -> tuple[Rows, Border]:
    """Return the rows of a damaged chunk, and what its end means for the next chunk.

    The last chunk also completes `trace`. `check_stop` raises an exception to stop.
    """
    rows = Rows()
    data = border.rest + bytes(chunk.data)
    if border.is_ended and not _may_hold_events(data, chunk):
        if chunk.is_last:
            read_trailer(data, trace)
            return rows, Border()
        return rows, _keep_trailer(data, rows)
    repair = EventRepair(base_ns, rows.diagnostics)
    recovery = _Recovery(data, chunk, reader, repair, rows, check_stop, array_form=trace.array_form)
    after = recovery.read(border)
    if chunk.is_last:
        trace.cut_off |= recovery.is_cut_off
        read_trailer(after.rest if after.is_ended else b"", trace, damaged=recovery.is_cut_off)
    elif after.is_ended:
        after = _keep_trailer(after.rest, rows)
    return rows, after


def _may_hold_events(data: bytes, chunk: Chunk) -> bool:
    """Whether events may follow the bracket that seemed to close their array, as far as the file has been read."""
    if not chunk.is_last and len(data) <= MAX_EVENT_BYTES:
        return False
    return may_hold_more_events(data[1:].decode("latin-1"))


def _keep_trailer(data: bytes, rows: Rows) -> Border:
    """Return the keys behind the events for the next chunk; count the events in what is too long to be kept."""
    kept = data[:MAX_EVENT_BYTES]
    if len(kept) < len(data):
        lost = count_phases(data) - count_phases(kept)
        rows.events_skipped += lost
        rows.diagnostics.note("events_behind_end", count=lost)
    return Border(kept, is_ended=True)


class _Recovery:
    """Reads one damaged chunk."""

    def __init__(
        self,
        data: bytes,
        chunk: Chunk,
        reader: EventReader,
        repair: EventRepair,
        rows: Rows,
        check_stop: Callable[[], None],
        *,
        array_form: bool,
    ) -> None:
        self._data, self._reader, self._repair, self._rows = data, reader, repair, rows
        self._search = ChunkSearch(data, chunk, array_form=array_form)
        self._text = self._search.text
        self._end = len(data)
        self._offset = chunk.offset + len(chunk.data) - len(data)
        self._is_last, self._array_form = chunk.is_last, array_form
        self._check_stop = check_stop
        self._pending: list[tuple[int, int]] = []
        self._pending_bytes = 0
        self._is_uncertain = False
        """Whether the brackets of a damaged event shortly before do not match: those that follow may be inside it."""
        self._has_no_phase = False
        """Whether no phase of the damaged event shortly before has been found: it may be in the rest of the event."""
        self._lines: list[bytes] = []
        self._run = len(data)
        self._python_end = 0
        self._run_ends = ForwardSearch(_OBJECT_BORDER, self._text)
        self.is_cut_off = False

    def read(self, border: Border) -> Border:
        """Read all events; return what the end means for the next chunk."""
        self._is_uncertain = border.rest[:1] == b"]"
        if not border.rest:
            self._run //= 8  # the parser has refused all of it already
        after = self._resume_lost(border) if border.is_lost else 0
        elements = 0
        while isinstance(after, int):
            elements += 1
            if elements % _CHECK_EVERY == 0:
                self._check_stop()
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
        """Return where the next element begins; count the commas but for one."""
        match = BETWEEN_EVENTS.match(self._text, at)
        end = match.end() if match else at
        if end - at > 1 and (commas := self._text.count(",", at, end)) > 1:
            self._note("stray_comma", at, end, commas - 1)
        return end

    def _read_run(self, at: int) -> int | None:
        """Parse the events from `at` on at once; return where they end, None where one of them is damaged.

        The run is shorter where a longer one was damaged, and doubles where it was not.
        """
        while at >= self._python_end:
            end = end_before(self._run_ends.find(at + self._run)) or self._search.find_events_end(at)
            if end - at <= 2 * max(self._run, MAX_ELEMENT_BYTES):
                self._flush()
                if self._reader.add_events(memoryview(self._data)[at:end], self._rows):
                    self._run *= 2
                    self._is_uncertain = False
                    return end
            if self._run <= _SMALLEST_RUN_BYTES:
                self._python_end = end
            self._run = max(self._run // 8, _SMALLEST_RUN_BYTES)
        return None

    def _read_element(self, at: int) -> int | Border:
        """Read one element of the array."""
        if self._text[at] == "[":
            return self._read_list(at)
        if self._text[at] != "{" and (scalars := _SCALARS.match(self._text, at)):
            count = sum(1 for _ in _ONE_SCALAR.finditer(self._text, at, scalars.end() + 1))
            return self._skip_events(at, scalars.end(), "not_an_object", count)
        if self._search.is_exhausted:
            return self._read_hastily(at)
        scan = self._search.scan(at)
        end = scan.find_end() if self._text[at] == "{" else None
        if end is not None and scan.is_closed:
            if end - at > MAX_EVENT_BYTES:
                return self._skip_events(at, end, "event_too_large")
            end = self._search.find_valid_end(at, end)
            if end is not None:
                return self._keep(at, end)
        return self._read_damaged(at, scan)

    def _read_hastily(self, at: int) -> int:
        """Skip damaged objects, as too much has been scanned in vain: each up to where the next one may begin.

        Returns where the first object ends that is whole, or where the events end.
        """
        first, count, pieces, limit = at, 0, 0, self._search.find_events_end(at)
        while at < limit:
            start = self._search.starts.find(at + 1)
            end = min(end_before(start) or limit, limit)
            if end - at > FIRST_WINDOW_BYTES or _PLAUSIBLE.fullmatch(self._text, at, end):
                valid_end = self._search.find_object_end(at, end)
                if valid_end is not None:
                    if count:
                        self._skip_events(first, at, "event_lost", count)
                    return self._keep(at, valid_end)
            count += _count_joined(self._text[at:end])
            pieces += 1
            if pieces % _CHECK_EVERY == 0:
                self._check_stop()
            at = start.end() if start else limit
        return self._skip_events(first, limit, "event_lost", count)

    def _read_list(self, at: int) -> int | Border:
        """Skip a list among the events, or only the brackets that open it where it does not end soon."""
        end = self._search.find_list_end(at)
        if isinstance(end, Border):
            return end
        if end is not None and _LIST_ENDS.match(self._text, end):
            events = len(PHASE_KEY.findall(self._text[at:end]))
            if not events or not _NEXT_KEY.match(self._text, end):  # else its end is that of the events
                return self._skip_events(at, end, "not_an_object", max(1, events))
        run = _OPEN_LISTS.match(self._text, at)
        behind = run.end() if run else at + 1
        self._note("stray_bracket", at, behind, self._text.count("[", at, behind))
        if behind >= self._end or self._text[behind] in "{]},":
            return behind
        if self._search.is_exhausted:
            end = self._search.find_boundary(behind) or self._search.find_events_end(behind)
            return self._skip_events(behind, end, "event_lost", _count_all_phases(self._text[behind:end]))
        return self._read_damaged(behind, self._search.scan(behind))

    def _read_damaged(self, at: int, scan: EventScan) -> int | Border:
        """Repair a damaged element, or skip it."""
        end = scan.find_border()
        if end is None:
            return self._read_open(at, scan)
        self._is_uncertain |= not scan.is_sound
        self._has_no_phase = scan.own_phases == 0
        self._search.spend(max(0, _DAMAGE_COST - (end - at)))
        if self._text[at] == "{":
            missing = scan.missing_brackets
            # a bracket that is added may not make one event of two
            is_complete = missing in ("}", "}}") and scan.events == 1
            event = self._data[at:end].rstrip(b" \t\r\n,")
            line = self._repair.rewrite_damaged(event, missing if is_complete else "")
            if line is not None:
                self._lines.append(line)
                if scan.own_phases > 1:  # of two events that became one object, the keys of the second are kept
                    self._skip_events(at, end, "event_lost", scan.own_phases - 1)
                return end
        return self._skip_events(at, end, "event_lost", scan.events)

    def _read_open(self, at: int, scan: EventScan) -> int | Border:
        """Handle an element of which no end is found."""
        if not self._is_last and not scan.is_too_deep and self._end - at <= MAX_EVENT_BYTES:
            return Border(self._data[at:])
        error_at = self._search.find_error(at)
        is_event = self._text[at] == "{" or scan.own_phases
        if is_event and not scan.is_too_deep and self._search.is_part_of_event(scan, error_at):
            if not self._is_last:
                self._skip_events(at, self._end, "event_too_large")
                return self._make_lost_border(scan, self._search.count_phases(at, self._end) - 1)
            if self._search.find_trailer(at, is_certain=True) is None:
                events = _count_all_phases(self._text[at:]) if scan.may_hold_events else max(1, scan.own_phases)
                self._rows.events_skipped += events
                self.is_cut_off = True
                return self._end
        self._search.spend(scan.position - at)
        self._search.endless.update(scan.open_positions)
        self._is_uncertain = True
        damage_at = at + len(self._text[at:error_at].rstrip(" \t\r\n,")) if error_at else at
        end = self._search.find_border(max(damage_at, at + 1))
        if end is None or end > self._search.find_events_end(at):
            end = self._search.find_trailer(damage_at) if self._is_last else None
        self._skip_events(at, end or self._end, "event_lost", _count_all_phases(self._text[at:end]))
        if end is None:
            return self._end if self._is_last else self._make_lost_border(scan)
        return end

    def _make_lost_border(self, scan: EventScan, hidden: int = 0) -> Border:
        """Return what the next chunk begins with where events do not begin again in this one.

        `hidden` phases of what is skipped are not counted yet.
        """
        opened = scan.open_brackets()
        start = max(scan.position, self._end - _START_BYTES)
        if opened.endswith('"'):
            backslashes = self._end - len(self._text.rstrip("\\"))
            start = self._end - backslashes % 2
        return Border(self._data[start:], is_lost=True, opened=opened, hidden=hidden)

    def _resume_lost(self, border: Border) -> int | Border:
        """Return where events begin again after an event that the chunk before has skipped.

        A list in that event that is open where all events end has hidden events, and no parts of its own.
        """
        scan = EventScan(self._text, 0, border.opened)
        end = scan.find_border()
        self._is_uncertain |= not scan.is_sound
        if end is not None:
            return end
        before = len(border.rest)
        if not self._is_last:
            return self._make_lost_border(scan, border.hidden + self._search.count_phases(before, self._end))
        end = self._search.find_trailer(0, is_certain=True)
        if end is not None and (hidden := border.hidden + self._search.count_phases(before, end)) > 0:
            self._skip_events(before, end, "event_lost", hidden)
        return end or self._search.find_trailer(0) or self._end

    def _read_bracket(self, at: int) -> int | Border:
        """Handle a closing bracket: the end of the events, of an event that was lost, or a stray one."""
        run = _CLOSING_BRACKETS.match(self._text, at)
        run_end = run.end() if run else at + 1
        last = self._text.rfind("]", at, run_end)
        if last < 0 or last - at > _MAX_BRACKETS:
            behind = run_end if last < 0 else last
            self._note("stray_bracket", at, behind, sum(self._text.count(bracket, at, behind) for bracket in "]}"))
            return behind
        following = _WHITE.match(self._text, at + 1)
        then = following.end() if following else at + 1
        if self._text[at] == "]":
            if then >= self._end:
                return Border(self._data[at:], is_ended=self._is_last)
            if self._is_uncertain and not self._is_last and at > 0 and self._end - at <= _MAX_CARRIED_BYTES:
                return Border(self._data[at:])  # the next chunk shows whether more events follow
            if self._search.is_whole_end(at, then):
                self._flush()
                return Border(self._data[at:], is_ended=True)
            has_keys = _NEXT_KEY.match(self._text, then) is not None
            if has_keys or (self._is_uncertain and self._text[then] == "}"):
                border = self._search.find_next_event(then)
                if border is not None:
                    self._note_skipped_end(at, border)
                    return border
            if has_keys and not self._array_form:
                self._flush()
                return Border(self._data[at:], is_ended=True)
        self._note("stray_bracket", at, at + 40)
        return then + 1 if self._text[at] == "]" and self._text[then] == "[" else at + 1

    def _note_skipped_end(self, at: int, border: int) -> None:
        """Count a bracket before more events, or the events in the rest of a damaged one, which is counted already."""
        if not self._is_uncertain:
            self._note("stray_bracket", at, at + 1)
            return
        events = _scan_all(self._text[at:border]).own_phases - self._has_no_phase
        if events > 0:
            self._skip_events(at, border, "event_lost", events)

    def _keep(self, start: int, end: int) -> int:
        """Add an undamaged event to those that wait for the parser; return its end."""
        self._pending.append((start, end))
        self._pending_bytes += end - start
        if self._pending_bytes > _MAX_PENDING_BYTES:
            self._flush()
        return end

    def _flush(self) -> None:
        """Parse the pending events, which are events."""
        spans, data = self._pending, self._data
        self._pending, self._pending_bytes = [], 0
        if not spans or self._reader.add_events(memoryview(b",".join(data[s:e] for s, e in spans)), self._rows):
            return
        for start, end in spans:
            line = self._repair.rewrite(data[start:end])
            if line is None:
                self._rows.events_skipped += 1
                self._note("event_lost" if is_affordable(self._text[start:end]) else "event_too_large", start, end)
            else:
                self._lines.append(line)

    def _skip_events(self, start: int, end: int, code: str, count: int = 1) -> int:
        """Count events that are skipped; return where they end."""
        self._rows.events_skipped += count
        self._note(code, start, end, count)
        return end

    def _note(self, code: str, start: int, end: int, count: int = 1) -> None:
        sample = ""
        if not self._rows.diagnostics.counts[code]:  # only the first is described
            text = "" if code == "stray_bracket" else f", {describe_damage(self._data, start, end)}"
            sample = f"byte {self._offset + start:,}{text}"
        self._rows.diagnostics.note(code, sample, count)


def _scan_all(text: str) -> EventScan:
    """Return the scan of a whole text."""
    scan = EventScan(text, 0)
    while scan.find_end() is not None:
        pass
    return scan


def _count_all_phases(text: str) -> int:
    """Count the events in a text that damage joins, and the objects in them; those in lists that end are none."""
    scan = _scan_all(text)
    scan.is_sound = False
    return scan.events + (len(PHASE_KEY.findall(text, scan.position)) if scan.is_too_deep else 0)


def _count_joined(text: str) -> int:
    """Count the events in a text up to where the next one may begin: more than one where damage joins them."""
    phases = itertools.islice(PHASE_KEY.finditer(text), 2)
    return 1 if len(list(phases)) <= 1 else _scan_all(text).events
