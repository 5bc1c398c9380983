"""Register the files of a store as Apache Iceberg tables of a SQLite catalog; no file is copied."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tracelab import schema
from tracelab.errors import UsageError
from tracelab.export.committed_files import CommittedFile, Registered, find_changes, list_committed_files

if TYPE_CHECKING:
    from pyiceberg.table import Table

CATALOG = "catalog.db"
NAMESPACE = "tracelab"
_SCHEME = "file://"
"""Paths follow as they are: readers of Iceberg decode no %3D."""


def register_iceberg(store: Path, folder: Path) -> Registered:
    """Bring the catalog in a folder up to date with a store; tables without rows that it does not have are left out.

    A table is partitioned by run. Each change of one is a transaction. Raises UsageError without pyiceberg.
    """
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ModuleNotFoundError as error:
        raise UsageError("--iceberg needs pyiceberg; run `pip install 'tracelab[tables]'`") from error
    files = list_committed_files(store)
    root = folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{root / CATALOG}", warehouse=f"{_SCHEME}{root.as_posix()}")
    catalog.create_namespace_if_not_exists(NAMESPACE)
    total = Registered()
    for each in schema.TABLES:
        name = (NAMESPACE, each.name)
        if each.name in files or catalog.table_exists(name):
            table = catalog.create_table_if_not_exists(name, each.arrow)
            _complete_table(table, each.arrow)
            total += _register(table, files.get(each.name, []))
    catalog.close()
    return total


def _complete_table(table: "Table", columns: pa.Schema) -> None:
    """Add the partition of a new table, and columns that the schema has gained since the table was created."""
    if not table.spec().fields:
        with table.update_spec() as spec:
            spec.add_identity("run")
    if {field.name for field in table.schema().fields} != set(columns.names):
        with table.update_schema() as changed:
            changed.union_by_name(columns)


def _register(table: "Table", files: Sequence[CommittedFile]) -> Registered:
    known = {
        task.file.file_path.removeprefix(_SCHEME): str(task.file.partition[0]) for task in table.scan().plan_files()
    }
    changes = find_changes(files, known)
    if changes.runs or changes.files:
        with table.transaction() as transaction:
            if changes.runs:
                names = ", ".join(f"'{run}'" for run in changes.runs)
                transaction.delete(f"run in ({names})")
            if changes.files:
                uris = [f"{_SCHEME}{file.path.as_posix()}" for file in changes.files]
                transaction.add_files(uris, check_duplicate_files=False)
    return Registered(1, len(files), changes.added, changes.removed)
