"""Read an export stored as a folder of Parquet files, one per table (`nsys export -t parquetdir`)."""

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tracelab.errors import NotProfilerDataError
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.coerce import build_column, decode_text
from tracelab.readers.nsys.export import ARROW, KNOWN_TABLES, Array, Columns, Kind, Part, has_nsys_tables
from tracelab.readers.nsys.sqlite_export import DESCRIPTION

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 128 << 20
_SUFFIX = ".parquet"
_TYPICAL_TABLES = {"NVTX_EVENTS", "OSRT_API", "META_DATA_EXPORT"} | KNOWN_TABLES


@dataclass(frozen=True)
class FolderExport:
    """The tables of one folder."""

    path: Path
    tables: dict[str, Columns]
    broken: tuple[str, ...]
    """Tables whose file is not readable as Parquet."""

    def parts(self, table: str) -> list[Part]:
        """Return one part per row group."""
        with pq.ParquetFile(self._file(table)) as file:
            rows = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        return [Part(table, at, at, count) for at, count in enumerate(rows)]

    def batches(
        self,
        part: Part,
        columns: Columns,
        diagnostics: DiagnosticCounts,
        lost: str,
        steady: Collection[str] = (),  # noqa: ARG002 - Parquet stores such a column as one value anyway
    ) -> Iterator[pa.Table]:
        """Yield the rows of a row group; after damage, its remaining rows are lost."""
        read = 0
        texts = [name for name, kind in columns.items() if kind == "text"]
        with pq.ParquetFile(self._file(part.table), read_dictionary=texts) as file:
            row_count = file.metadata.row_group(part.first).num_rows
            try:
                batches = file.iter_batches(_BATCH_ROWS, row_groups=[part.first], columns=list(columns))
                for batch in itertools.chain.from_iterable(map(_split_batch, batches)):
                    yield pa.table(
                        {
                            name: _coerce_column(batch.column(name), kind, name, diagnostics)
                            for name, kind in columns.items()
                        }
                    )
                    read += batch.num_rows
            except (OSError, pa.ArrowException):
                pass
            if read < row_count:  # also without an exception, where a damaged page makes a column shorter
                diagnostics.note(lost, part.table, count=row_count - read)

    def _file(self, table: str) -> Path:
        return self.path / f"{table}{_SUFFIX}"


def is_source(folder: Path) -> bool:
    """Return whether the folder is an export, by the names of its files."""
    try:
        names = {file.stem for file in folder.iterdir() if file.suffix == _SUFFIX}
    except OSError:
        return False
    return "StringIds" in names or len(names & _TYPICAL_TABLES) > 1 or any(name.startswith("CUPTI_") for name in names)


def open_folder(folder: Path) -> FolderExport:
    """Open the export in a folder. Raises NotProfilerDataError if none of its files is readable."""
    tables: dict[str, Columns] = {}
    broken = []
    for file in sorted(folder.glob(f"*{_SUFFIX}")):
        try:
            # a column of Arrow's type null is empty; reading a missing column returns its kind
            tables[file.stem] = {
                field.name: _kind_of_type(field.type)
                for field in pq.read_schema(file)
                if not pa.types.is_null(field.type)
            }
        except (OSError, pa.ArrowException, UnicodeDecodeError):  # the last: of a column's name
            broken.append(file.stem)
    if not has_nsys_tables(tables):
        raise NotProfilerDataError(folder, f"no readable Parquet file of Nsight Systems; expected {DESCRIPTION}")
    return FolderExport(folder, tables, tuple(broken))


def _split_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch whose dictionaries of long texts would need too much memory as plain text."""
    columns: list[Array] = [column for column in batch.columns if pa.types.is_dictionary(column.type)]
    texts = [column.dictionary for column in columns if _is_text(column.type.value_type) and len(column.dictionary)]
    row_bytes = sum(pc.max(pc.binary_length(text)).as_py() or 0 for text in texts)
    rows = max(1, _BATCH_BYTES // max(row_bytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _kind_of_type(declared: pa.DataType) -> Kind:
    if pa.types.is_floating(declared) or pa.types.is_decimal(declared):
        return "real"
    return "int" if pa.types.is_integer(declared) or pa.types.is_boolean(declared) else "text"


def _coerce_column(values: Array, kind: Kind, name: str, diagnostics: DiagnosticCounts) -> Array:
    """Convert a column to its kind, cell by cell if it does not convert as a whole."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        if kind == "text":
            return decode_text(values.cast(pa.binary()), name, diagnostics)
        return values.cast(ARROW[kind])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        cells = (cell.encode() if isinstance(cell, str) else cell for cell in values.to_pylist())
        return build_column(list(cells), kind, name, diagnostics)
