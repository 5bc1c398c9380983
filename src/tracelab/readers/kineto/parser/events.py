"""A piece of a trace through the parser, and what it laid out as tables of Arrow, one for each kind of event."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.readers.kineto import mapping, select
from tracelab.readers.kineto.parser import module
from tracelab.readers.kineto.parser.columns import LaidOut
from tracelab.readers.kineto.parser.module import Module

_BASE_KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
_UNWATCHED = 255
_FEW_ENOUGH = 4096
"""So many events cannot have more shapes than the parser has room for."""

_KEPT_BYTES = 32 << 20

_US_TO_NS = 3
"""The power of ten from the unit of a trace's times to nanoseconds."""


class NotHealthyError(Exception):
    """The piece is no clean JSON of events, or has what cannot be held exactly."""


@dataclass(frozen=True)
class Shape:
    """What events have in common that tells their kind."""

    ph: str | None
    source_cat: str | None
    name: str | None
    """The name, if it is one of `mapping.WATCHED_NAMES`."""
    keyed: bool
    """Whether their arguments have one of `mapping.WATCHED_KEYS`."""


KindsOf = Callable[[Sequence[Shape]], Sequence[int]]


class Parser:
    """Parses one piece after another; not for two threads at once."""

    def __init__(self) -> None:
        self._module = Module()
        for function, watched in (("watch_name", mapping.WATCHED_NAMES), ("watch_key", mapping.WATCHED_KEYS)):
            for text in watched:
                self._module.put(self._module.call("letters_at"), text.encode())
                self._module.call(function, len(text.encode()))

    def events(self, piece: memoryview, kinds_of: KindsOf, *, base_ns: int) -> dict[int, pa.Table]:
        """The events of each kind: ph, source_cat, name, pid, tid, start_ns, dur_ns, args, and `extra …` columns.

        Columns that hold nothing are left out. Raises NotHealthyError where the piece is to be read more tolerantly.
        """
        return self._parsed(piece, kinds_of, _columns_of_extra_keys, exponent=_US_TO_NS, base_ns=base_ns)

    def mended_events(self, lines: Sequence[bytes], kinds_of: KindsOf) -> Iterator[dict[int, pa.Table]]:
        """The same of events that `clean` has made whole, some at a time: times in ns, `extras` as one column."""
        for at in range(0, len(lines), _FEW_ENOUGH):
            piece = memoryview(b",".join(lines[at : at + _FEW_ENOUGH]))
            yield self._parsed(piece, kinds_of, list, exponent=0, base_ns=0)

    def memory_bytes(self) -> int:
        """How much memory it has come to have."""
        return len(self._module.memory())

    def _parsed(
        self,
        piece: memoryview,
        kinds_of: KindsOf,
        extra_columns: Callable[[Sequence[str]], list[str]],
        *,
        exponent: int,
        base_ns: int,
    ) -> dict[int, pa.Table]:
        call = self._module.call
        place = call("room_for", len(piece))
        if not place:
            raise NotHealthyError("no memory for a piece of this size")
        self._module.put(place, piece)
        if call("parse", exponent, base_ns) < 0:
            raise NotHealthyError("no clean JSON of events")
        if call("is_beyond_ascii"):
            try:
                str(piece, "utf-8")
            except UnicodeDecodeError as error:
                raise NotHealthyError(str(error)) from error
        kinds = bytes(kinds_of(self._shapes()))
        self._module.put(call("kinds_at"), kinds)
        if not call("lay_out"):
            raise NotHealthyError("no memory for the columns of a piece")
        laid_out = LaidOut(self._module, extra_columns(self._extra_keys()))
        return {kind: laid_out.table(kind) for kind in set(kinds)}

    def _shapes(self) -> list[Shape]:
        memory, count = self._module.memory(), self._module.call("shape_count")
        fields = module.words(memory, self._module.call("shapes_at"), (count, 5)).tolist()
        return [
            Shape(
                module.text(memory, ph, ph_bytes) if ph else None,
                module.text(memory, cat, cat_bytes) if cat else None,
                None if name_and_keyed & 0xFF == _UNWATCHED else mapping.WATCHED_NAMES[name_and_keyed & 0xFF],
                bool(name_and_keyed >> 8 & 1),
            )
            for ph, ph_bytes, cat, cat_bytes, name_and_keyed in fields
        ]

    def _extra_keys(self) -> list[str]:
        memory, count = self._module.memory(), self._module.call("extra_key_count")
        keys = module.words(memory, self._module.call("extra_keys_at"), (count, 2)).tolist()
        return [module.text(memory, address, size) for address, size in keys]


def _columns_of_extra_keys(keys: Sequence[str]) -> list[str]:
    if not select.plain_keys((*_BASE_KEYS, *keys)):
        raise NotHealthyError("keys that differ by case only, or need quoting")
    return [select.extra_column(key) for key in keys]


_kept: deque[Parser] = deque()


@contextlib.contextmanager
def parser() -> Iterator[Parser]:
    """A parser while a file is read, which goes on to the next file unless its memory has grown large."""
    try:
        taken = _kept.pop()
    except IndexError:
        taken = Parser()
    yield taken
    if taken.memory_bytes() <= _KEPT_BYTES:
        _kept.append(taken)
