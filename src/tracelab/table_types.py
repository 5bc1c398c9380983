"""What a table and a column of the schema are, with their types in Arrow and DuckDB; the columns that tables share."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

import pyarrow as pa

Kind = Literal["gpu", "cpu", "event", "plain"]

_TYPES: dict[str, tuple[pa.DataType, str]] = {
    "bool": (pa.bool_(), "boolean"),
    "int32": (pa.int32(), "integer"),
    "int64": (pa.int64(), "bigint"),
    "double": (pa.float64(), "double"),
    "text": (pa.string(), "varchar"),
    "timestamp": (pa.timestamp("us", tz="UTC"), "timestamptz"),
    "ints": (pa.list_(pa.int64()), "bigint[]"),
    "texts": (pa.list_(pa.string()), "varchar[]"),
    "tags": (pa.map_(pa.string(), pa.string()), "map(varchar, varchar)"),
}
"""The types of columns by their short names: in Arrow, and in DuckDB."""


@dataclass(frozen=True)
class Column:
    """One column: its name carries the unit, `type` is a short name of `_TYPES`."""

    name: str
    type: str
    doc: str
    nullable: bool = True

    @property
    def arrow(self) -> "pa.Field[pa.DataType]":
        """The column as an Arrow field."""
        return pa.field(self.name, _TYPES[self.type][0], nullable=self.nullable)

    @property
    def duckdb(self) -> str:
        """The column's DuckDB type."""
        return _TYPES[self.type][1]


@dataclass(frozen=True)
class Table:
    """One table: `row` describes a row; `kind` decides which shared columns it begins with.

    `capture_hint` is what to do when a store has no rows of it; `summarized_by` names the table that may hold sums of
    its events instead, as a profiler itself wrote them.
    """

    name: str
    row: str
    kind: Kind
    capture_hint: str
    own: tuple[Column, ...]
    summarized_by: str | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All stored columns, in order."""
        return (*_IDENTITY, *_SHARED[self.kind], *self.own, *(() if self.kind == "plain" else (_ARGS,)))

    @cached_property
    def view_columns(self) -> tuple[Column, ...]:
        """The columns an analyst sees: the stored ones, and `end_ns` behind `dur_ns` where there are both times."""
        return tuple(_with_end(self.columns))

    @cached_property
    def arrow(self) -> pa.Schema:
        """The stored columns as an Arrow schema."""
        return pa.schema([column.arrow for column in self.columns])

    def empty(self) -> pa.Table:
        """The table without rows, as of a source that has none of them."""
        return self.arrow.empty_table()

    def rows(self, rows: Iterable[dict[str, object]]) -> pa.Table:
        """Build a table of this schema from literal rows; missing columns are NULL. Unknown ones raise KeyError."""
        known = {column.name for column in self.columns}
        listed = list(rows)
        for row in listed:
            if unknown := set(row) - known:
                raise KeyError(f"{self.name} has no column {sorted(unknown)}")
        return pa.Table.from_pylist(listed, schema=self.arrow)


def _with_end(columns: Iterable[Column]) -> Iterator[Column]:
    names = set()
    for column in columns:
        names.add(column.name)
        yield column
        if column.name == "dur_ns" and "start_ns" in names:
            yield Column("end_ns", "int64", "End: start_ns + dur_ns; NULL where either is.")


def format_choices(values: tuple[str, ...]) -> str:
    """Return the values as the meaning of a column: a, b or c."""
    return f"{', '.join(values[:-1])} or {values[-1]}."


def columns(*lines: tuple[str, str, str]) -> tuple[Column, ...]:
    """Return nullable columns of lines with name, type and meaning."""
    return tuple(Column(*line) for line in lines)


RUN = Column("run", "text", "The execution this row belongs to; also the Hive partition.", nullable=False)


@dataclass(frozen=True)
class ComputedTable:
    """A table that Python computes from the rows of a run; the first of its columns is the run."""

    name: str
    row: str
    own: tuple[Column, ...]

    @property
    def view_columns(self) -> tuple[Column, ...]:
        """All columns, in order."""
        return (RUN, *self.own)


_AnyTable = TypeVar("_AnyTable", Table, ComputedTable)


def index_by_name(tables: Iterable[_AnyTable]) -> dict[str, _AnyTable]:
    """Return tables by their names."""
    return {table.name: table for table in tables}


_IDENTITY = (
    RUN,
    Column("source", "text", "First 16 hex digits of the SHA-256 of the input file.", nullable=False),
)
RANK = Column("rank", "int32", "Rank of the process in its job; 0 where the source does not have it.", nullable=False)
PID = Column("pid", "int64", "Operating-system process id.")
_ARGS = Column(
    "args",
    "text",
    "JSON object of the source's arguments that no column holds, fractions as doubles; NULL when there are none.",
)
START = Column("start_ns", "int64", "Start, in ns on the source's clock (`sources.clock`).")
DUR = Column("dur_ns", "int64", "Duration in ns; below 0 only where the source has it so.")
TID = Column("tid", "int64", "Operating-system thread id.")
DEVICE = Column("device", "int32", "Ordinal of the GPU as the process sees it.")
STREAM = Column("stream", "int64", "Stream id within its context.")
CORRELATION = Column("correlation", "int64", "Links a launch with its GPU rows, within (source, pid).")
EXTERNAL = Column("external_id", "int64", "Id of the framework op that was running (`ops.external_id`).")

_SHARED: dict[Kind, tuple[Column, ...]] = {
    "gpu": (
        RANK,
        PID,
        DEVICE,
        Column("context", "int64", "CUDA context id."),
        STREAM,
        START,
        DUR,
        CORRELATION,
        Column("graph", "int64", "Id of the CUDA graph that launched it."),
        Column("graph_node", "int64", "Node of that graph."),
    ),
    "cpu": (RANK, PID, TID, START, DUR),
    "event": (RANK, PID),
    "plain": (),
}
