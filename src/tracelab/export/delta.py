"""Register the files of a store as Delta Lake tables; no file is copied.

Delta's logs name files relative to their table, and its readers in Rust accept no others. A table in another folder
than the store has a link to the store's files, `store`; at a URL there are no links, so that the logs of a store there
are beside its files.
"""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.errors import StoreError, UsageError
from tracelab.export.committed_files import (
    CommittedFiles,
    Registered,
    find_changes,
    list_committed_files,
    reader_options,
)
from tracelab.store.integrity import is_store
from tracelab.table_types import Table

LINK = "store"


def register_delta(store: Path | str, folder: Path | str) -> Registered:
    """Bring the Delta tables in a folder up to date with a store; with the store's own, the logs are beside the files.

    A table is partitioned by run. Raises UsageError without deltalake, and for a URL that is not that of the store.
    """
    try:
        from deltalake import DeltaTable
    except ModuleNotFoundError as error:
        raise UsageError("--delta needs deltalake; run `pip install 'tracelab[tables]'`") from error
    _check_places(store, folder)
    files = list_committed_files(store)
    total = Registered()
    for each in schema.TABLES:
        place = str(folder.resolve() / each.name) if isinstance(folder, Path) else f"{files.address}/{each.name}"
        if each.name in files.by_table or DeltaTable.is_deltatable(place, _options(place)):
            try:
                total += _register(place, _find_prefix(files, place, each.name), each, files)
            except OSError as error:
                raise StoreError(f"{place}: the Delta log cannot be written: {_last_cause(error)}") from error
    return total


def _last_cause(error: OSError) -> str:
    """Return the last line of a message of delta-rs, which lists the causes in color."""
    return re.sub(r"\x1b\[\d*m|↳", "", str(error).strip().splitlines()[-1]).strip()


def _check_places(store: Path | str, folder: Path | str) -> None:
    """Refuse a log in another store, and one of another bucket, or of a disk and a bucket: no reader follows it."""
    if isinstance(store, Path) and isinstance(folder, Path):
        if folder.resolve() != store.resolve() and is_store(folder):
            raise UsageError(
                f"--delta {folder}: this is a store other than {store}; name it with --store, or choose a new folder"
            )
        return
    if isinstance(store, Path) or isinstance(folder, Path) or store.rstrip("/") != folder.rstrip("/"):
        raise UsageError(
            f"--delta {folder}: a Delta log names files of its own folder alone, and the store is {store}; write the "
            f"log beside the files: --delta {store}"
        )


def _options(place: str) -> dict[str, str] | None:
    """Return the options of delta-rs for a URL, which it does not take from the environment itself."""
    options = {f"aws_{name}": value for name, value in reader_options(place).items()}
    if options.get("aws_endpoint", "").startswith("http://"):
        options["aws_allow_http"] = "true"
    return options or None


def _find_prefix(files: CommittedFiles, place: str, table: str) -> str:
    """Return what the paths of a log begin with: nothing beside the files, else a link to them, which this creates.

    Raises UsageError where the link leads to another store.
    """
    if place == f"{files.address}/{table}":
        return ""
    folder, source = Path(place), Path(files.root) / table
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / LINK
    if not link.is_symlink():
        link.symlink_to(source, target_is_directory=True)
    if link.resolve() != source:
        raise UsageError(f"{place} has the files of another store, {link.resolve().parent}; choose another folder")
    return f"{LINK}/"


def _register(place: str, prefix: str, declared: Table, files: CommittedFiles) -> Registered:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.transaction import AddAction

    current = files.by_table.get(declared.name, [])
    columns = Schema.from_arrow(declared.arrow)
    table = DeltaTable.create(place, columns, mode="ignore", partition_by=["run"], storage_options=_options(place))
    present = {field.name for field in table.schema().fields}
    if missing := [field for field in columns.fields if field.name not in present]:
        table.alter.add_columns([Field(field.name, field.type, nullable=True) for field in missing])
    known = {
        f"{declared.name}/{row['path'].removeprefix(prefix)}": row["partition.run"]
        for row in pa.table(table.get_add_actions(flatten=True)).select(["path", "partition.run"]).to_pylist()
    }
    changes = find_changes(current, known)
    for run in changes.runs:
        table.delete(f"run = '{run}'")
    if changes.files:
        actions: list[Any] = [
            AddAction(
                path=f"{prefix}{file.key.removeprefix(f'{declared.name}/')}",
                size=file.size_bytes,
                partition_values={"run": file.run},
                modification_time=int(file.ingested_at_s * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": files.read_footer(file).num_rows}),
            )
            for file in changes.files
        ]
        table.create_write_transaction(actions, "append", table.schema(), partition_by=["run"])
    return Registered(1, len(current), changes.added, changes.removed)
