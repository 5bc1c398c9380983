"""Builds stores from literal rows: what a test says is all there is."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tracelab import schema
from tracelab.store import commit as store

Rows = Sequence[Mapping[str, object]]


def source_id(label: str) -> str:
    """The 16 hex digits that stand for a source called `label` in a test."""
    return hashlib.sha256(label.encode()).hexdigest()[:16]


def build_store(root: Path, tables: Mapping[str, Rows]) -> Path:
    """A store with these rows. `run` is 'r' and `rank` 0 where a row does not say; `source` is a short label.

    Every (run, source) that occurs becomes a committed source; rows of `sources` add columns to it.
    """
    filled = {name: [_filled(name, row) for row in rows] for name, rows in tables.items()}
    described = {(row["run"], row["source"]): row for row in filled.pop("sources", [])}
    pairs = {(row["run"], row["source"]) for rows in filled.values() for row in rows} | set(described)
    for run, source in sorted(pairs, key=str):
        commit(root, str(run), str(source), filled, described.get((run, source), {}))
    return root


def commit(root: Path, run: str, source: str, tables: Mapping[str, Rows], row: Mapping[str, object]) -> None:
    """Store the rows of one source, as ingest does."""
    with store.staging_folder(root) as folder:
        for name, rows in tables.items():
            ours = [dict(each) for each in rows if (each["run"], each["source"]) == (run, source)]
            if ours:
                pq.write_table(schema.BY_NAME[name].rows(ours), folder / f"{name}.parquet")
        known = {"run": run, "source": source, "sha256": source, "reader_version": "1", "path": "x", "format": "kineto"}
        store.commit(root, folder, known | dict(row), replace=True)


def _filled(table: str, row: Mapping[str, object]) -> dict[str, object]:
    defaults: dict[str, object] = {"run": "r"}
    if any(column.name == "rank" for column in schema.BY_NAME[table].columns) and table != "devices":
        defaults["rank"] = 0
    filled = defaults | {name: value for name, value in row.items() if value is not None or name not in defaults}
    return filled | {"source": source_id(str(row.get("source") or "a"))}
