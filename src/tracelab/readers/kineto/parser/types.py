"""What parsers of Chrome traces take, return and raise."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa


class ParserError(Exception):
    """The compiled parser cannot run, or failed."""


class RefusedChunkError(ParserError):
    """The compiled parser cannot read this chunk: it is not valid JSON of events, or memory is not enough."""


@dataclass(frozen=True)
class Shape:
    """What decides the kind of an event."""

    ph: str | None
    source_cat: str | None
    name: str | None
    """The name, if it is one of `mapping.WATCHED_NAMES`."""
    has_watched_key: bool
    """Whether `mapping.WATCHED_KEY` is among its arguments."""


KindsOf = Callable[[Sequence[Shape]], Sequence[int]]
"""Returns the kind of each shape."""


@dataclass(frozen=True)
class UnfitValues:
    """The values of an argument that do not fit its column."""

    table: str
    key: str
    first: str
    count: int


@dataclass(frozen=True)
class ParsedChunk:
    """The events of a chunk."""

    tables: dict[int, pa.Table]
    """The events of each kind: ph, source_cat, name, pid, tid, start_ns, dur_ns, a column for each argument that their
    tables have a column for (`mapping.argument_column`), and the leftover arguments: `args` and, for the second table
    that events can have a row in, `secondary args`. Columns without values are left out; ph, source_cat
    and name are dictionaries."""
    unfit: list[UnfitValues]
    """Values that do not fit their column; they are among the leftover arguments."""
    irregular: list[bytes]
    """Events that are whole but need a repair: a repeated key, NaN, arguments that are no object, unusual times."""


class Parser(Protocol):
    """Parses one chunk after another; not for two threads at once."""

    def reserve_text(self, size: int) -> memoryview | None:
        """Return memory for text; chunks in it are parsed without a copy. None where there is no such memory.

        It keeps its content in the next call, and otherwise until the next chunk is parsed that does not lie in it.
        Parsing a chunk overwrites what follows it.
        """

    def parse_chunk(self, chunk: memoryview, kinds_of: KindsOf, *, base_ns: int) -> ParsedChunk:
        """Parse events whose times are microseconds; start times are counted from `base_ns`.

        Raises RefusedChunkError where all of the chunk must be read tolerantly.
        """

    def parse_repaired(self, lines: Sequence[bytes], kinds_of: KindsOf) -> Iterator[ParsedChunk]:
        """Parse events that were repaired, some at a time; their times are nanoseconds."""
