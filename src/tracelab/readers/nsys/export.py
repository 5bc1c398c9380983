"""Interface of an open export, however it is stored: tables, columns, and rows as Arrow batches."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts

Array: TypeAlias = Any
"""A column; pyarrow's stubs do not describe its functions well enough."""

Kind = Literal["int", "real", "text"]
Columns = Mapping[str, Kind]

ARROW: Mapping[Kind, Any] = {"int": pa.int64(), "real": pa.float64(), "text": pa.string()}

KNOWN_TABLES = frozenset(
    {"StringIds", "TARGET_INFO_GPU", "TARGET_INFO_SYSTEM_ENV", "TARGET_INFO_SESSION_START_TIME", "ThreadNames"}
)
"""Tables of which every export has some; SQLite files of nvprof have none."""


@dataclass(frozen=True)
class Part:
    """Some rows of a table that can be read in parallel to other parts."""

    table: str
    first: int
    last: int
    rows: int
    """Most rows of the part; 0 if unknown."""
    counted: bool = False
    """Whether `rows` is exact."""


class Export(Protocol):
    """An export open for reading from several threads."""

    @property
    def tables(self) -> Mapping[str, Columns]:
        """Columns of every table, with their declared kinds."""

    @property
    def path(self) -> Path:
        """Path of the export."""

    def parts(self, table: str) -> list[Part]:
        """Return the whole table in parts."""

    def batches(
        self, part: Part, columns: Columns, diagnostics: DiagnosticCounts, lost: str, steady: Collection[str] = ()
    ) -> Iterator[pa.Table]:
        """Yield the rows of a part in order; a cell of another kind becomes NULL and is counted.

        Unreadable rows are counted under the code `lost`. Columns in `steady` likely have one value in most rows,
        which can make reading them cheaper.
        """


def iter_rows(
    export: Export, table: str, columns: Columns, diagnostics: DiagnosticCounts, lost: str
) -> Iterator[pa.Table]:
    """Yield all rows of a table with the requested columns that it has; nothing if the export lacks the table."""
    present = {name: kind for name, kind in columns.items() if name in export.tables.get(table, {})}
    if present:
        for part in export.parts(table):
            yield from export.batches(part, present, diagnostics, lost)


def read_records(
    export: Export, table: str, columns: Columns, diagnostics: DiagnosticCounts
) -> list[dict[str, object]]:
    """Return the rows of a small metadata table; missing columns are None."""
    empty = dict.fromkeys(columns)
    batches = iter_rows(export, table, columns, diagnostics, "description_lost")
    return [empty | row for rows in batches for row in rows.to_pylist()]


def has_nsys_tables(tables: Mapping[str, Columns]) -> bool:
    """Return whether these are the tables of an Nsight Systems export."""
    return bool(KNOWN_TABLES & set(tables)) or "demangledName" in tables.get("CUPTI_ACTIVITY_KIND_KERNEL", {})
