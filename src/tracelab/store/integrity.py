"""Find the damaged file of a store after a read failed, and explain the repair."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.errors import StoreError, TracelabError, UsageError

_PERMISSION_DENIED = "cannot be read: permission denied; make the store's folders and files readable"


@contextmanager
def explain_read_errors(store: Path) -> Iterator[None]:
    """Replace a DuckDB error by a StoreError that names the damaged file of the store, if there is one."""
    try:
        yield
    except (duckdb.Error, TracelabError) as error:
        cause = error if isinstance(error, duckdb.Error) else error.__cause__
        if (
            isinstance(cause, duckdb.Error)
            and not isinstance(error, UsageError)
            and (problem := _find_damaged_file(store, cause))
        ):
            raise StoreError(problem) from cause
        raise


def has_files(store: Path, table: str) -> bool:
    """Return whether a table has a file. Raises StoreError for an unreadable folder, which a glob would skip."""
    runs = [_list_folder(run) for run in _list_folder(store / table) if run.name.startswith("run=")]
    return any(path.suffix == ".parquet" for files in runs for path in files)


def _list_folder(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise StoreError(f"{folder} {_PERMISSION_DENIED}") from error


def _find_damaged_file(store: Path, cause: duckdb.Error) -> str | None:
    """Describe the first unreadable file. Pages are read only if the error may come from one."""
    may_be_pages = type(cause) is duckdb.Error or "Failed to read file" in str(cause)
    for table in schema.TABLES:
        for path in sorted(store.glob(f"{table.name}/run=*/*.parquet")):
            try:
                with pq.ParquetFile(path) as file:
                    for _ in file.iter_batches() if may_be_pages else ():
                        pass
            except PermissionError:
                return f"{path} {_PERMISSION_DENIED}"
            except (OSError, pa.ArrowException) as error:
                return (
                    f"{path} is damaged ({_first_line(error)}); remove it and ingest its trace again: "
                    f"`tracelab ingest TRACE --replace --store {store}`"
                )
    return None


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0].rstrip(".")
