"""Small healthy files of each reader but Kineto's, each with a plain oracle of the rows that must not be lost."""

import json
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.ncu import Cell, Kernel, console_text, details_csv
from tests.readers import nsys_small, run_folder
from tests.readers import test_nvprof_database as nvprof_database
from tests.readers import test_nvprof_text as nvprof_text

SECRET = "hunter2" * 2
NO_LOSS = ("rank_assumed", "session_start_unknown", "no_events", "row_repaired", "decimal_comma", "ranks_by_pid")
"""Diagnostics that report no loss."""

Tables = Mapping[str, Sequence[pa.Table]]
ROWS = 40
_COMMAND = f"./train.py --token {SECRET}{SECRET}"


@dataclass(frozen=True)
class Target:
    """A healthy file, and the oracle: what is lost of a damaged file, judged without the reader."""

    name: str
    content: bytes
    lost: Callable[[Path, Tables], list[object]]
    intact_bytes: int = 0
    """Bytes at the beginning that are never damaged: without them the file is another one."""


def _values(tables: Tables, table: str, column: str) -> set[object]:
    return {
        value
        for part in tables.get(table, ())
        if column in part.column_names
        for value in part.column(column).to_pylist()
    }


def _lines_lost(
    numbers: Callable[[list[str]], set[object]], table: str, column: str
) -> Callable[[Path, Tables], list[object]]:
    """Build the oracle of a text: the values of the lines that are in the healthy file, too, and not in the table."""

    def lost(path: Path, tables: Tables) -> list[object]:
        text = path.read_bytes().decode("latin-1")
        return sorted(numbers(text.split("\n")) - _values(tables, table, column), key=str)

    return lost


def ncu_csv() -> Target:
    axpy = Kernel("axpy(float*)")
    rows = tuple((axpy.numbered(at), Cell("Duration", "ns", str(7000 + at), "Speed Of Light")) for at in range(ROWS))
    text = f"==PROF== Connected to process 7 ({_COMMAND})\n==ERROR== Failed to launch {_COMMAND}\n{details_csv(rows)}"
    known = {line: float(7000 + at) for at, line in enumerate(details_csv(rows).splitlines()[1:])}
    head = len(text) - len(details_csv(rows)) + len(details_csv(rows).splitlines()[0])
    return Target(
        "details.csv",
        text.encode(),
        _lines_lost(lambda lines: {known[line] for line in lines if line in known}, "kernel_metrics", "value"),
        head + 1,
    )


def nvprof_csv() -> Target:
    *start, row = nvprof_text.GPU_TRACE.replace("./secret --token abc", _COMMAND).splitlines()
    rows = [row.replace(",13,", f",{at + 100},").replace("30.250000", f"{at + 1}.000000") for at in range(ROWS)]
    known = {row: (at + 1) * 1000 for at, row in enumerate(rows)}
    text = "\n".join([*start, *rows]) + "\n"
    return Target(
        "trace.csv",
        text.encode(),
        _lines_lost(lambda lines: {known[line] for line in lines if line in known}, "kernels", "dur_ns"),
        len("\n".join(start)) + 1,
    )


def run_lines() -> Target:
    content = run_folder.lines("steps", *(run_folder.step(at) for at in range(ROWS)), rank=0)
    first, *lines = content.decode().splitlines()
    known = {line: json.loads(line)["step"] for line in lines}
    return Target(
        "steps.rank0.jsonl",
        content,
        _lines_lost(lambda found: {known[line] for line in found if line in known}, "steps", "step"),
        len(first) + 1,
    )


def ncu_console() -> Target:
    axpy = Kernel("axpy(float*)")
    rows = tuple((axpy.numbered(at), Cell("Duration", "ns", str(7000 + at), "Speed Of Light")) for at in range(ROWS))
    text = f"==PROF== Connected to process 7 ({_COMMAND})\n{console_text(rows)}"
    return Target("console.txt", text.encode(), lambda _path, _tables: [], len(text) // ROWS)


def _sqlite(write: Callable[[Path], Path], tables: Mapping[str, str], kept: Mapping[str, str]) -> Target:
    """A database, whose oracle reads rows by their ids with plain SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder))
        content = path.read_bytes()

    def lost(path: Path, found: Tables) -> list[object]:
        missing: list[object] = []
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
            con.text_factory = bytes
            for table, column in tables.items():
                starts = set()
                for row_id in range(1, ROWS + 1):
                    try:
                        row = con.execute(f'select "{column}" from "{table}" where rowid = ?', (row_id,)).fetchone()
                    except sqlite3.DatabaseError:
                        continue
                    if row and isinstance(row[0], int) and 0 < abs(row[0]) < 1 << 60:
                        starts.add(row[0])
                kept_starts = _values(found, kept[table], "start_ns") | _values(found, "other_events", "start_ns")
                missing += sorted(starts - kept_starts)
        return missing

    return Target(path.name, content, lost, int.from_bytes(content[16:18], "big"))


def nsys() -> Target:
    strings = nsys_small.STRINGS | {6: f"HOME=/root\0TOKEN={SECRET}{SECRET}\0A=b", 7: f"{SECRET}\nloss 0.1\n"}
    tables = {
        "StringIds": [{"id": key, "value": text} for key, text in strings.items()],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_small.kernel(start=1000 + at, end=1010 + at) for at in range(ROWS)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_small.call(start=900 + at, end=950 + at) for at in range(ROWS)],
        "NVTX_EVENTS": [nsys_small.nvtx(start=500 + at, end=600 + at) for at in range(ROWS)],
        "TARGET_INFO_SYSTEM_ENV": [{"name": f"Token{at}", "value": SECRET * 3} for at in range(ROWS)],
        "ProcessStreams": [{"globalPid": nsys_small.GLOBAL_PID, "filenameId": 4, "contentId": 7}],
    }
    kept = {
        "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
        "CUPTI_ACTIVITY_KIND_RUNTIME": "api_calls",
        "NVTX_EVENTS": "annotations",
    }
    return _sqlite(lambda folder: nsys_small.export(folder, tables), dict.fromkeys(kept, "start"), kept)


def nvprof() -> Target:
    begin = nvprof_database.BEGIN
    tables = {
        "NAME": [{"objectKind": 1, "objectId": nvprof_database.process(), "name": 1}],
        "KERNEL": [nvprof_database.KERNEL | {"start": begin + at, "end": begin + at + 5} for at in range(ROWS)],
        "RUNTIME": [nvprof_database.CALL | {"start": begin + at, "end": begin + at + 5} for at in range(ROWS)],
    }
    texts = (_COMMAND, *nvprof_database.TEXTS[1:])
    kept = {"CUPTI_ACTIVITY_KIND_KERNEL": "kernels", "CUPTI_ACTIVITY_KIND_RUNTIME": "api_calls"}
    return _sqlite(
        lambda folder: nvprof_database.write(folder / "run.nvprof", tables, texts), dict.fromkeys(kept, "start"), kept
    )


TARGETS: dict[str, Callable[[], Target]] = {
    "ncu_csv": ncu_csv,
    "ncu_console": ncu_console,
    "nvprof_csv": nvprof_csv,
    "run_lines": run_lines,
    "nsys": nsys,
    "nvprof": nvprof,
}
