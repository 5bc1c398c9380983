"""Pieces of a trace through the parser: the events of each kind as a table, and those that it leaves to others."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tracelab.readers.kineto import arguments, mapping
from tracelab.readers.kineto.arguments import NUMBERS, TYPES
from tracelab.readers.kineto.mapping import COUNTERS
from tracelab.readers.kineto.parser import module
from tracelab.readers.kineto.parser.columns import LaidOut, Unfit
from tracelab.readers.kineto.parser.module import Module

_TYPES = (arguments.HELD, "BIGINT", "INTEGER", "DOUBLE", "VARCHAR", "JSON", "INTEGER[3]")
"""As the parser numbers them; see `arguments.h`."""
_UNWATCHED = 255
_FEW_ENOUGH = 1 << 15
"""So many events cannot have more shapes than the parser has room for."""
_KEPT_BYTES = 32 << 20

_US_TO_NS = 3
"""The power of ten from the unit of a trace's times to nanoseconds."""


class NotHealthyError(Exception):
    """The piece is no clean JSON of events."""


@dataclass(frozen=True)
class Shape:
    """What events have in common that tells their kind."""

    ph: str | None
    source_cat: str | None
    name: str | None
    """The name, if it is one of `mapping.WATCHED_NAMES`."""
    keyed: bool
    """Whether `mapping.WATCHED_KEY` is among their arguments."""


KindsOf = Callable[[Sequence[Shape]], Sequence[int]]


@dataclass(frozen=True)
class Parsed:
    """What a piece holds."""

    tables: dict[int, pa.Table]
    """The events of each kind: ph, source_cat, name, pid, tid, start_ns, dur_ns, a column for each argument that their
    tables have one for (`arguments.column`), and what is left over of all of them: `args` and, for the second table
    that events can be rows of, `args beside`. Columns that hold nothing are left out."""
    unfit: list[Unfit]
    """The arguments some of whose values do not fit their column; those are left over."""
    odd: list[bytes]
    """Events that are whole, but have to be mended: a key twice, NaN, arguments that are no object, odd times."""


class Parser:
    """Parses one piece after another; not for two threads at once."""

    def __init__(self) -> None:
        self._module = Module()
        call = self._module.call
        for name in mapping.WATCHED_NAMES:
            call("add_name", self._put_letters(name))
        for key, as_type in TYPES.items():
            call("add_argument", self._put_letters(key), _TYPES.index(as_type))
        call("set_watched", NUMBERS[mapping.WATCHED_KEY])
        call("set_beside", _bits(mapping.COLLECTIVE_KEYS))
        for kind in range(COUNTERS + 1):
            plan = arguments.plan(kind)
            call("set_plan", kind, _bits(plan.columns), _bits(plan.held), int(plan.whole))
            call("set_plan_beside", kind, _bits(plan.columns_beside), _bits(plan.held_beside))

    def events(self, piece: memoryview, kinds_of: KindsOf, *, base_ns: int) -> Parsed:
        """The events of a piece; their times are microseconds, and counted from `base_ns`.

        Raises NotHealthyError where all of the piece is to be read more tolerantly.
        """
        return self._parsed(piece, kinds_of, mended=False, exponent=_US_TO_NS, base_ns=base_ns)

    def mended_events(self, lines: Sequence[bytes], kinds_of: KindsOf) -> Iterator[Parsed]:
        """The same of events that `clean` has made whole, some at a time; their times are nanoseconds."""
        for at in range(0, len(lines), _FEW_ENOUGH):
            piece = memoryview(b",".join(lines[at : at + _FEW_ENOUGH]))
            yield self._parsed(piece, kinds_of, mended=True, exponent=0, base_ns=0)

    def memory_bytes(self) -> int:
        """How much memory it has come to have."""
        return len(self._module.memory())

    def _put_letters(self, text: str) -> int:
        self._module.put(self._module.call("letters_at"), text.encode())
        return len(text.encode())

    def _parsed(self, piece: memoryview, kinds_of: KindsOf, *, mended: bool, exponent: int, base_ns: int) -> Parsed:
        call = self._module.call
        place = call("room_for", len(piece))
        if not place:
            raise NotHealthyError("no memory for a piece of this size")
        self._module.put(place, piece)
        if not call("parse", int(mended), exponent, base_ns):
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
        laid_out = LaidOut(self._module)
        return Parsed({kind: laid_out.table(kind) for kind in laid_out.kinds}, laid_out.unfit(), laid_out.odd())

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


def _bits(keys: Sequence[str] | frozenset[str]) -> int:
    return sum(1 << NUMBERS[key] for key in keys)


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
