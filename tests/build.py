"""Builds stores from literal rows: what a test says is all there is."""

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tracelab import schema
from tracelab.store import commit as store
from tracelab.store import commit_log
from tracelab.store.commit_log import Part
from tracelab.store.files import LocalFiles

Rows = Sequence[Mapping[str, object]]


def source_id(label: str) -> str:
    """The 16 hex digits that stand for a source called `label` in a test."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def build_store(root: Path, tables: Mapping[str, Rows], *, trace_bytes: int | None = 1) -> Path:
    """Write a store of these rows, completed by `complete_rows`.

    Each trace has a size, so that sessions plan for few rows; without one, they plan for any number of rows.
    """
    rows, sources = complete_rows(tables)
    for (run, source), row in sources.items():
        commit(root, run, source, rows, {"size_bytes": trace_bytes} | row)
    return root


def complete_rows(
    tables: Mapping[str, Rows],
) -> tuple[dict[str, list[dict[str, object]]], dict[tuple[str, str], dict[str, object]]]:
    """Complete rows: `run` is 'r' and `rank` 0 where a row has none; `source` is a short label.

    Every (run, source) that occurs becomes a row of `sources`, returned apart; rows given of `sources` add columns.
    """
    rows = {name: [_completed(name, row) for row in listed] for name, listed in tables.items()}
    described = {(row["run"], row["source"]): row for row in rows.pop("sources", [])}
    pairs = {(row["run"], row["source"]) for listed in rows.values() for row in listed} | set(described)
    return rows, {
        (str(run), str(source)): source_row(str(run), str(source)) | described.get((run, source), {})
        for run, source in sorted(pairs, key=str)
    }


def source_row(run: str, source: str) -> dict[str, object]:
    """Return the row of `sources` of a source that a test says nothing about."""
    return {
        "run": run,
        "source": source,
        "sha256": source_id(f"{run} {source}"),
        "reader_version": "1",
        "path": "x",
        "format": "kineto",
    }


def commit(root: Path, run: str, source: str, tables: Mapping[str, Rows], row: Mapping[str, object]) -> None:
    """Store the rows of one source, as ingest does."""
    opened = store.Store(root)
    with opened.staging_folder() as folder:
        for name, rows in tables.items():
            ours = [dict(each) for each in rows if (each["run"], each["source"]) == (run, source)]
            if ours:
                pq.write_table(schema.BY_NAME[name].rows(ours), folder / f"{name}.parquet")
        store.commit(opened, store.Staged(folder, [source_row(run, source) | dict(row)]), replace=True)


def file_of(root: Path, table: str, run: str = "r", source: str | None = None) -> Path:
    """Return the one file of a table, run and source: None where the run has one source."""
    (path,) = root.glob(f"{table}/run={run}/{source or ''}*.parquet")
    return path


def rewrite_commits(root: Path, change: Callable[[Part], Part]) -> None:
    """Change what the log has of each part, as if another version had written it."""
    files = LocalFiles(root)
    snapshot = commit_log.read_snapshot(files)
    shutil.rmtree(root / commit_log.FOLDER)
    parts = [change(part) for part in snapshot.parts.values()]
    with store.Store(root).staging_folder() as folder:
        commit_log.append(files, folder, commit_log.Snapshot(), lambda _: commit_log.Change(parts))


def _completed(table: str, row: Mapping[str, object]) -> dict[str, object]:
    defaults: dict[str, object] = {"run": "r"}
    if any(column.name == "rank" for column in schema.BY_NAME[table].columns) and table != "devices":
        defaults["rank"] = 0
    filled = defaults | {name: value for name, value in row.items() if value is not None or name not in defaults}
    return filled | {"source": source_id(str(row.get("source") or "a"))}
