"""Small hand-written Kineto files, and what became of them: the tools of the reader tests."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tracelab import schema

STORED = ("stored", "salvaged")
STATUSES = (*STORED, "unchanged", "not_profiler_data", "failed")

Row = dict[str, object]


@dataclass(frozen=True)
class Lab:
    """A store after one ingest, and the report of that ingest."""

    store: Path
    report: object
    run: str = "*"
    """The run whose rows are read, of a store that has several."""

    @property
    def file(self):
        (result,) = self.report.files
        return result

    @property
    def source(self) -> Row:
        """The only row of `sources`."""
        (row,) = self.rows("sources")
        return row

    @property
    def kernels(self) -> list[str | None]:
        return [row["name"] for row in self.rows("kernels")]

    @property
    def counts(self) -> tuple[int, int, int]:
        """Events read, kept and skipped, as `sources` and the report both say."""
        result, row = self.file, self.source
        counts = (result.events_read, result.events_kept, result.events_skipped)
        assert counts == (row["events_read"], row["events_kept"], row["events_skipped"])
        return counts

    def rows(self, table: str) -> list[Row]:
        """All rows of a table, by start where it has one; none where no file was written."""
        assert table in schema.BY_NAME
        rows = [
            row
            for path in sorted(self.store.glob(f"{table}/run={self.run}/*.parquet"))
            for row in pq.ParquetFile(path).read(use_threads=False).to_pylist()
        ]
        return sorted(rows, key=lambda row: (row.get("start_ns") is None, row.get("start_ns") or 0))

    def one(self, table: str) -> Row:
        (row,) = self.rows(table)
        return row

    def diagnostics(self) -> set[str]:
        """Codes of what the reader noticed, but for the rank that small files never name."""
        return {str(row["code"]) for row in self.rows("diagnostics")} - {"rank_assumed"}

    def texts(self) -> str:
        """Every text that was stored, each once, on one heap."""
        texts: set[str] = set()
        for path in self.store.glob(f"*/run={self.run}/*.parquet"):
            for column in pq.ParquetFile(path).read(use_threads=False).columns:
                if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
                    texts.update(map(str, _distinct(column)))
        return "\n".join(texts)


def _distinct(column: pa.ChunkedArray) -> list[object]:
    """The values of a column, each once where it holds texts."""
    return (column.unique() if pa.types.is_string(column.type) else column).to_pylist()


def ingest_bytes(folder: Path, content: bytes | str, name: str = "trace.json") -> Lab:
    """Write one file into the folder and ingest it into a store beside it."""
    path = folder / "in" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ingest_paths(folder, [path])


def ingest_paths(folder: Path, paths: Iterable[Path], run: str | None = "r") -> Lab:
    """Ingest paths into a store in the folder."""
    from tracelab.ingest.pipeline import ingest

    store = folder / "lab"
    return Lab(store, ingest(list(paths), store=store, run=run))


def kernel(name: str = "k", ts: object = 1000, dur: object = 10, **extra: object) -> Row:
    """A kernel as torch writes it since 1.12; keyword arguments go into its `args`."""
    args = {"device": 0, "context": 1, "stream": 7, "correlation": 11, "grid": [1, 1, 1], "block": [32, 1, 1]} | extra
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def op(name: str = "aten::add", ts: object = 900, dur: object = 5, **extra: object) -> Row:
    """A CPU op of process 100."""
    args = {"External id": 3} | extra
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 100, "tid": 101, "ts": ts, "dur": dur, "args": args}


def event(cat: str | None, name: str, **fields: object) -> Row:
    """Any complete event; keyword arguments replace its fields."""
    row: Row = {"ph": "X", "cat": cat, "name": name, "pid": 100, "tid": 101, "ts": 1000, "dur": 10} | fields
    return {key: value for key, value in row.items() if value is not None}


def trace(*events: object, **top: object) -> str:
    """The file Kineto would write of these events; strings stand in it as they are."""
    texts = [text if isinstance(text, str) else json.dumps(text) for text in events]
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in ({"schemaVersion": 1} | top).items())
    return "{\n" + head + '"traceEvents": [\n' + ",\n".join(texts) + "\n]\n}\n"


TIMES = {"start_ns": 1_000_000, "dur_ns": 10_000}
"""Those of an event whose times were not given."""


def given(row: Row, expected: Row) -> Row:
    """Of a row, the columns that are expected."""
    return {key: row[key] for key in expected}


def args_of(row: Row) -> object:
    """What is left of an event's arguments."""
    return json.loads(str(row["args"])) if row["args"] is not None else None
