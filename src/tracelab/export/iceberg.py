"""Register the files of a store as Apache Iceberg tables of a SQLite catalog; no file is copied."""

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tracelab import schema
from tracelab.errors import UsageError
from tracelab.export.committed_files import (
    CommittedFiles,
    Registered,
    find_changes,
    list_committed_files,
    reader_options,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

CATALOG = "catalog.db"
NAMESPACE = "tracelab"
_SCHEME = "file://"
"""Paths follow as they are: readers of Iceberg decode no %3D."""


def register_iceberg(store: Path | str, folder: Path | str) -> Registered:
    """Bring the catalog in a folder up to date with a store; tables without rows that it does not have are left out.

    A table is partitioned by run. Each change of one is a transaction. The store may be at a URL; the catalog is a file
    on a disk. Raises UsageError without pyiceberg.
    """
    if not isinstance(folder, Path):
        raise UsageError(f"--iceberg {folder}: the catalog is a SQLite file; choose a folder on disk, also for a URL")
    if isinstance(store, str) and store.startswith("az://"):
        raise UsageError(f"{store}: Iceberg's reader in Python has no az://; use --delta {store}")
    try:
        from pyiceberg.catalog.sql import SqlCatalog
    except ModuleNotFoundError as error:
        raise UsageError("--iceberg needs pyiceberg; run `pip install 'tracelab[tables]'`") from error
    files = list_committed_files(store)
    root = folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(
        NAMESPACE,
        uri=f"sqlite:///{root / CATALOG}",
        warehouse=f"{_SCHEME}{root.as_posix()}",
        **{f"s3.{name}": value for name, value in reader_options(files.address).items()},
    )
    catalog.create_namespace_if_not_exists(NAMESPACE)
    total = Registered()
    for each in schema.TABLES:
        name = (NAMESPACE, each.name)
        if each.name in files.by_table or catalog.table_exists(name):
            table = catalog.create_table_if_not_exists(name, each.arrow)
            _complete_table(table, each.arrow)
            total += _register(table, each.name, files)
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


def _register(table: "Table", name: str, files: CommittedFiles) -> Registered:
    current = files.by_table.get(name, [])
    base = f"{_SCHEME}{files.address}/" if isinstance(files.root, Path) else f"{files.address}/"
    known = {task.file.file_path.removeprefix(base): str(task.file.partition[0]) for task in table.scan().plan_files()}
    changes = find_changes(current, known)
    if changes.runs or changes.files:
        with table.transaction() as transaction:
            if changes.runs:
                names = ", ".join(f"'{run}'" for run in changes.runs)
                transaction.delete(f"run in ({names})")
            if changes.files:
                uris = [f"{base}{file.key}" for file in changes.files]
                transaction.add_files(uris, check_duplicate_files=False)
    return Registered(1, len(current), changes.added, changes.removed)
