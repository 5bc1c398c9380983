"""Register the files of a store as Delta Lake tables; no file is copied.

Delta's logs name files relative to their table, and its readers in Rust accept no others. A table in another folder
than the store has a link to the store's files, `store`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema
from tracelab.errors import UsageError
from tracelab.export.committed_files import CommittedFile, Registered, find_changes, list_committed_files

LINK = "store"


def register_delta(store: Path, folder: Path) -> Registered:
    """Bring the Delta tables in a folder up to date with a store; with the store's own, the logs are beside the files.

    A table is partitioned by run. Raises UsageError without deltalake.
    """
    try:
        import deltalake  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError("--delta needs deltalake; run `pip install 'tracelab[tables]'`") from error
    files = list_committed_files(store)
    total = Registered()
    for each in schema.TABLES:
        place, source = folder.resolve() / each.name, store.resolve() / each.name
        if each.name in files or (place / "_delta_log").is_dir():
            place.mkdir(parents=True, exist_ok=True)
            base = source if place == source else _link(place, source)
            total += _register(place, base, each, files.get(each.name, []))
    return total


def _link(place: Path, source: Path) -> Path:
    """Link the store's files of a table into a folder. Raises UsageError where it has those of another store."""
    link = place / LINK
    if not link.is_symlink():
        link.symlink_to(source, target_is_directory=True)
    if link.resolve() != source:
        raise UsageError(f"{place} has the files of another store, {link.resolve().parent}; choose another folder")
    return link


def _register(place: Path, base: Path, declared: schema.Table, files: Sequence[CommittedFile]) -> Registered:
    from deltalake import DeltaTable, Field, Schema
    from deltalake.transaction import AddAction

    columns = Schema.from_arrow(declared.arrow)
    table = DeltaTable.create(place, columns, mode="ignore", partition_by=["run"])
    present = {field.name for field in table.schema().fields}
    if missing := [field for field in columns.fields if field.name not in present]:
        table.alter.add_columns([Field(field.name, field.type, nullable=True) for field in missing])
    source = base.resolve()
    known = {
        (source / row["path"].removeprefix(f"{LINK}/")).as_posix(): row["partition.run"]
        for row in pa.table(table.get_add_actions(flatten=True)).select(["path", "partition.run"]).to_pylist()
    }
    changes = find_changes(files, known)
    for run in changes.runs:
        table.delete(f"run = '{run}'")
    if changes.files:
        actions: list[Any] = [
            AddAction(
                path=(base / file.path.relative_to(source)).relative_to(place).as_posix(),
                size=file.size_bytes,
                partition_values={"run": file.run},
                modification_time=file.path.stat().st_mtime_ns // 10**6,
                data_change=True,
                stats=json.dumps({"numRecords": pq.read_metadata(file.path).num_rows}),
            )
            for file in changes.files
        ]
        table.create_write_transaction(actions, "append", table.schema(), partition_by=["run"])
    return Registered(1, len(files), changes.added, changes.removed)
