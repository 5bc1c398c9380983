"""Small healthy databases and folders of Parquet files, whose oracles read them with plain SQLite and Parquet."""

import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.fuzz.healthy import COMMAND, ROWS, SECRET, Tables, Target, target, values
from tests.readers import nsys_small
from tests.readers import test_nvprof_database as nvprof_database

_PLAUSIBLE_TIMES = range(1, 1 << 60)


def _lost(found: Tables, table: str, starts: set[int]) -> list[object]:
    kept = values(found, table, "start_ns") | values(found, "other_events", "start_ns")
    return sorted(start for start in starts if start in _PLAUSIBLE_TIMES and start not in kept)


def _sqlite(write: Callable[[Path], Path], kept: Mapping[str, str]) -> Target:
    """A database, whose oracle reads rows by their ids; `kept` has the table of the store by that of the database."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder))
        content = path.read_bytes()

    def lost(path: Path, found: Tables) -> list[object]:
        missing: list[object] = []
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
            con.text_factory = bytes
            for table in kept:
                starts = set()
                for row_id in range(1, ROWS + 1):
                    with suppress(sqlite3.DatabaseError):
                        row = con.execute(f'select start from "{table}" where rowid = ?', (row_id,)).fetchone()
                        starts |= {row[0]} if row and isinstance(row[0], int) else set()
                missing += _lost(found, kept[table], starts)
        return missing

    return target(path.name, content, lost, int.from_bytes(content[16:18], "big"))


_NVTX_TEXTS: list[dict[str, object]] = [{"text": "step"}, {"text": None, "textId": 4}] * (ROWS // 2)


def _nsys_tables() -> dict[str, list[nsys_small.Row]]:
    strings = nsys_small.STRINGS | {6: f"HOME=/root\0TOKEN={SECRET}{SECRET}\0A=b", 7: f"{SECRET}\nloss 0.1\n"}
    strings |= {12: f"API_TOKEN={SECRET}{SECRET}"}  # one bit from the id of the ranges' text
    return {
        "StringIds": [{"id": key, "value": text} for key, text in strings.items()],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_small.kernel(start=1000 + at, end=1010 + at) for at in range(ROWS)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_small.call(start=900 + at, end=950 + at) for at in range(ROWS)],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [nsys_small.copy(start=2000 + at, end=2010 + at) for at in range(ROWS)],
        "NVTX_EVENTS": [nsys_small.nvtx(start=500 + at, end=600 + at, **text) for at, text in enumerate(_NVTX_TEXTS)],
        "TARGET_INFO_SYSTEM_ENV": [{"name": f"Token{at}", "value": SECRET * 3} for at in range(ROWS)],
        "ProcessStreams": [{"globalPid": nsys_small.GLOBAL_PID, "filenameId": 4, "contentId": 7}],
    }


_NSYS_KEPT = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memcpys",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "api_calls",
    "NVTX_EVENTS": "annotations",
}


def nsys() -> Target:
    return _sqlite(lambda folder: nsys_small.export(folder, _nsys_tables()), _NSYS_KEPT)


def nsys_folder() -> Target:
    """The same export as Parquet files, of which one is damaged; the oracle reads the times of each row group."""
    name = "report_pqtdir"
    with tempfile.TemporaryDirectory() as temporary:
        folder = nsys_small.folder_of(nsys_small.export(Path(temporary), _nsys_tables()), Path(temporary) / name)
        files = {f"{name}/{file.name}": file.read_bytes() for file in sorted(folder.iterdir())}

    def lost(path: Path, found: Tables) -> list[object]:
        missing: list[object] = []
        for table, stored in _NSYS_KEPT.items():
            with suppress(OSError, pa.ArrowException):
                starts = pq.read_table(path / f"{table}.parquet", columns=["start"]).column(0).to_pylist()
                missing += _lost(found, stored, {start for start in starts if isinstance(start, int)})
        return missing

    return Target(name, files, lost, dict.fromkeys(files, 0))


def nvprof() -> Target:
    begin = nvprof_database.BEGIN
    tables = {
        "NAME": [{"objectKind": 1, "objectId": nvprof_database.process(), "name": 1}],
        "KERNEL": [nvprof_database.KERNEL | {"start": begin + at, "end": begin + at + 5} for at in range(ROWS)],
        "MEMCPY": [nvprof_database.COPY | {"start": begin + at, "end": begin + at + 5} for at in range(ROWS)],
        "RUNTIME": [nvprof_database.CALL | {"start": begin + at, "end": begin + at + 5} for at in range(ROWS)],
    }
    texts = (COMMAND, *nvprof_database.TEXTS[1:])
    kinds = {"KERNEL": "kernels", "MEMCPY": "memcpys", "RUNTIME": "api_calls"}
    kept = {f"{nvprof_database.PREFIX}{kind}": table for kind, table in kinds.items()}
    return _sqlite(lambda folder: nvprof_database.write(folder / "run.nvprof", tables, texts), kept)


DATABASES: dict[str, Callable[[], Target]] = {"nsys": nsys, "nsys_folder": nsys_folder, "nvprof": nvprof}
