"""Find where values, events and their array end in a damaged chunk, in a time that is linear in its size."""

import json
import re

from tracelab.readers.kineto.chunker import PHASE_KEY, Border, Chunk, are_trailing_keys
from tracelab.readers.kineto.event_scan import OBJECT_START, EventScan
from tracelab.readers.kineto.forward_search import ForwardSearch
from tracelab.readers.kineto.repair import is_affordable

FIRST_WINDOW_BYTES = 1 << 6
MAX_ELEMENT_BYTES = 1 << 16
"""An element that is no object may not be longer: the bracket of a list that never ends would hide all events."""
_FIRST_BYTES = 1 << 11
_WASTE_FACTOR = 2
"""How often, on average, a byte may be scanned in vain; then every piece between two borders is read by itself."""
_WINDOW_FACTOR = 8
"""A decoder gets a window of the text that grows until the value in it is whole."""
_MAX_TRAILERS_TRIED = 20
_INNER_BYTES = 1 << 12
"""Where the phase of an event is searched from its beginning."""

_EVENT_START = re.compile(rf"[,}}][ \t\r\n]*+(?={OBJECT_START})", re.DOTALL)
_TRAILER = re.compile(r'\}[ \t\r\n]*+(?=\][ \t\r\n]*+(?:\Z|,[ \t\r\n]*+"|\}))')
_SECOND_DOCUMENT = re.compile(r'\}[ \t\r\n,]*+\{[ \t\r\n]*+"(?:schemaVersion|traceEvents)"')

_decode = json.JSONDecoder(strict=False).raw_decode


class ChunkSearch:
    """Searches the text of a chunk; after too many characters that were read in vain, by patterns alone."""

    def __init__(self, data: bytes, chunk: Chunk, *, array_form: bool) -> None:
        self._data = data
        self.text = data.decode("latin-1")
        """One character a byte: positions in the text are positions in the data."""
        self._end = len(data)
        self._is_last, self._array_form = chunk.is_last, array_form
        self._budget = _WASTE_FACTOR * len(data)
        self._trailer: int | None = None
        self._ends_tried = 0
        self._phases = ForwardSearch(PHASE_KEY, self.text)
        self.starts = ForwardSearch(_EVENT_START, self.text)
        self.endless: set[int] = set()
        """Where lists begin that are known not to end."""

    @property
    def is_exhausted(self) -> bool:
        """Whether too many characters have been read in vain."""
        return self._budget <= 0

    def spend(self, characters: int) -> None:
        """Count characters that were read in vain."""
        self._budget -= characters

    def scan(self, at: int) -> EventScan:
        """Follow the brackets from a place on."""
        return EventScan(self.text, at, endless=self.endless)

    def find_object_end(self, at: int, end: int) -> int | None:
        """Return where an object ends that begins at `at` and ends at `end` or before; None where it is damaged."""
        size = FIRST_WINDOW_BYTES
        while True:
            piece = self.text[at : min(at + size, end)]
            if not is_affordable(piece):
                return None
            try:
                return at + _decode(piece)[1]
            except RecursionError:
                return None
            except json.JSONDecodeError as error:
                if at + size >= end or not _is_cut(error, piece):
                    return None
            size *= _WINDOW_FACTOR

    def find_valid_end(self, at: int, end: int) -> int | None:
        """Return where an object ends that is closed at `end`, None where it is damaged.

        The parser judges objects that are too large or too deep for Python.
        """
        piece = self.text[at:end]
        if not is_affordable(piece):
            return end
        try:
            return at + _decode(piece)[1]
        except RecursionError:
            return end
        except json.JSONDecodeError:
            return None

    def find_list_end(self, at: int) -> int | Border | None:
        """Return where a list ends; None where it is damaged or too long, a border where the chunk may cut it off."""
        size = FIRST_WINDOW_BYTES
        while not self.is_exhausted:
            piece = self.text[at : at + size]
            try:
                return at + _decode(piece)[1]
            except RecursionError:
                self.spend(len(piece))
                return None
            except json.JSONDecodeError as error:
                self.spend(len(piece))
                if not _is_cut(error, piece):
                    return None
            if at + size >= self._end:
                return None if self._is_last else Border(self._data[at:])
            if size >= MAX_ELEMENT_BYTES:
                return None
            size *= _WINDOW_FACTOR
        return None

    def find_error(self, at: int) -> int | None:
        """Return where the element that is open at the end is damaged; None where it may only be cut off."""
        if self.text[at] != "{":
            return at
        size = _FIRST_BYTES
        while not self.is_exhausted:
            piece = self.text[at : at + size]
            self.spend(len(piece))
            if not is_affordable(piece):
                return None
            try:
                return at + _decode(piece)[1]
            except RecursionError:
                return at
            except json.JSONDecodeError as error:
                if not _is_cut(error, piece):
                    return at + error.pos
            if at + size >= self._end:
                return None
            size *= _WINDOW_FACTOR
        return at

    def is_part_of_event(self, scan: EventScan, error_at: int | None) -> bool:
        """Whether the objects in an open list belong to the event: its key is behind the damage, if there is any.

        A list that is open where the damage is may have lost its end.
        """
        return error_at is None or (scan.list_at is not None and self.text.find(",", error_at, scan.list_at) >= 0)

    def find_border(self, at: int) -> int | None:
        """Return the next border between events from a damaged place on."""
        if self.is_exhausted:
            return self.find_boundary(at)
        scan = self.scan(at)
        end = scan.find_border()
        if end is None:
            self.spend(scan.position - at)
            end = self.find_boundary(at)
        return end

    def find_boundary(self, start: int) -> int | None:
        """Return the first place from `start` on that looks like the end of an event before another one."""
        return end_before(self.starts.find(start))

    def find_events_end(self, at: int) -> int:
        """Return where the events end, as far as the brackets at the end of the file show it."""
        if not self._is_last or self._array_form:
            return self._end
        if self._trailer is None:
            self._trailer = end = self._end
            for _ in range(_MAX_TRAILERS_TRIED):
                end = self.text.rfind("]", 0, end)
                if end < 0:
                    break
                if are_trailing_keys(self.text[end + 1 :]):
                    self._trailer = end
        return self._trailer if self._trailer >= at else self._end

    def find_trailer(self, at: int, *, is_certain: bool = False) -> int | None:
        """Return where the events end if the last of them is damaged: before a bracket with only whole keys behind it.

        Unless it must be certain, the first bracket that is followed by any key will do.
        """
        first = None
        for tried, match in enumerate(_TRAILER.finditer(self.text, at)):
            behind = self.text[match.end() + 1 :]
            self.spend(len(behind))
            if not behind.strip() if self._array_form else are_trailing_keys(behind):
                return match.start() + 1
            first = match.start() + 1 if first is None else first
            if tried == _MAX_TRAILERS_TRIED:
                break
        self.spend(self._end - at)
        return None if is_certain else first

    def find_next_event(self, then: int) -> int | None:
        """Return the border before the next event behind a bracket that seems to close their array; None for keys."""
        if self._phases.find(then) is None:
            return None
        border = self.find_boundary(then) if self.is_exhausted else self.scan(then).find_border()
        if border is not None and (phase := self._phases.find(border)) and phase.start() - border <= _INNER_BYTES:
            return border
        self.spend((border or self._end) - then)
        return None

    def is_whole_end(self, at: int, then: int) -> bool:
        """Whether the rest of the file is whole if the bracket at `at`, which `then` follows, closes the events."""
        if self._array_form:
            return False
        if self._is_last and self.text[then] in ",}" and self._ends_tried < _MAX_TRAILERS_TRIED:
            self._ends_tried += 1
            if are_trailing_keys(self.text[at + 1 :]):
                return True
        return _SECOND_DOCUMENT.match(self.text, then) is not None

    def count_phases(self, start: int, end: int) -> int:
        """Count the keys of phases, one for each event, in a part of the text."""
        return sum(1 for _ in PHASE_KEY.finditer(self.text, start, end))


def end_before(start: re.Match[str] | None) -> int | None:
    """Return where an event seems to end before the start of another one that has been found."""
    return start.start() + (start[0][0] == "}") if start else None


def _is_cut(error: json.JSONDecodeError, piece: str) -> bool:
    """Whether the error may come from the end of the text: a number, word or escape there may go on."""
    return error.msg.startswith("Unterminated") or error.pos >= len(piece) - len('"\\u12345678"')
