"""What an export offers, however it is stored: tables, their columns, and their rows as Arrow, some at a time."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts

Array: TypeAlias = Any
"""A column; the stubs of pyarrow know too little of what its functions take and give."""

Kind = Literal["int", "real", "text"]
Columns = Mapping[str, Kind]

ARROW: Mapping[Kind, Any] = {"int": pa.int64(), "real": pa.float64(), "text": pa.string()}

KNOWN_TABLES = frozenset(
    {"StringIds", "TARGET_INFO_GPU", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_SESSION_START_TIME", "ThreadNames"}
)
"""Tables that every export has some of; nvprof's SQLite files have none."""


@dataclass(frozen=True)
class Part:
    """Some rows of a table, which can be read beside other parts."""

    table: str
    first: int
    last: int
    rows: int
    """How many rows it has, at most; 0 where that is not known."""
    counted: bool = False
    """Whether it has just so many rows."""


class Export(Protocol):
    """An export that is open for reading, from several threads."""

    @property
    def tables(self) -> Mapping[str, Columns]:
        """The columns of every table, and what kind of value each is declared to hold."""

    @property
    def path(self) -> Path:
        """Where it stands."""

    def parts(self, table: str) -> list[Part]:
        """The whole table in parts."""

    def batches(
        self, part: Part, columns: Columns, diagnostics: DiagnosticCounts, lost: str, steady: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """The rows of a part in order; a cell that is not of its kind is NULL, and noted.

        Rows that cannot be read are noted under the code `lost`. Columns called `steady` likely have one value in
        most rows, which can make reading them cheaper.
        """


def iter_rows(
    export: Export, table: str, columns: Columns, diagnostics: DiagnosticCounts, lost: str
) -> Iterator[pa.Table]:
    """Those of the columns that the table has, of all its rows; nothing where the export has no such table."""
    present = {name: kind for name, kind in columns.items() if name in export.tables.get(table, {})}
    if present:
        for part in export.parts(table):
            yield from export.batches(part, present, diagnostics, lost)


def read_records(
    export: Export, table: str, columns: Columns, diagnostics: DiagnosticCounts
) -> list[dict[str, object]]:
    """The rows of a small table that describes the recording; columns it lacks are None."""
    empty = dict.fromkeys(columns)
    found = iter_rows(export, table, columns, diagnostics, "description_lost")
    return [empty | row for rows in found for row in rows.to_pylist()]


def has_nsys_tables(tables: Mapping[str, Columns]) -> bool:
    """Whether these are the tables of an Nsight Systems export."""
    return bool(KNOWN_TABLES & set(tables)) or "demangledName" in tables.get("CUPTI_ACTIVITY_KIND_KERNEL", {})
