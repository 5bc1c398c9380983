"""Count the steps of a process in shared memory, where the count outlives a process that ends without Python's exit."""

import contextlib
import mmap
import socket
import struct
from collections.abc import Iterable, MutableSequence
from pathlib import Path
from typing import Any

_COUNT = struct.Struct("=Q")


def open_step_count(folder: Path, pid: int) -> MutableSequence[int] | memoryview:
    """Return a sequence whose only element is the count of this process; `folder` is one of this node, for all of them.

    Where that cannot be written, as on another node than the collector's, the count ends with the process. A mapped
    file of a network's disk could end the process with SIGBUS.
    """
    with contextlib.suppress(OSError, ValueError), _count_file(folder, pid).open("w+b") as file:
        file.write(_COUNT.pack(0))
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), _COUNT.size)).cast("Q")
    return [0]


def complete_records(records: Iterable[dict[str, Any]], folder: Path, processes: Path) -> list[dict[str, Any]]:
    """Complete records of processes that ended abruptly with their steps and the recordings that they saved."""
    return [record if "ended" in record else _complete(record, folder, processes) for record in records]


def _complete(record: dict[str, Any], folder: Path, processes: Path) -> dict[str, Any]:
    steps = record.get("steps", 0)
    if record.get("host") == socket.gethostname():
        with contextlib.suppress(OSError, struct.error):
            steps = max(steps, *_COUNT.unpack(_count_file(folder, record["pid"]).read_bytes()))
    completed = record | {"steps": steps, "windows": record.get("windows", 0) - bool(record.get("recording"))}
    missing = steps - _count_rows(processes / record["folder"])
    if missing > 1:  # the first step has no row: when it begins is not known
        lost = "time of the last step is" if missing == 2 else f"times of the last {missing - 1} steps are"  # noqa: PLR2004
        note = f"the {lost} lost, because the process ended abruptly"
        completed["note"] = "; ".join(filter(None, (record.get("note"), note)))
    return completed


def _count_rows(folder: Path) -> int:
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in folder.glob("steps.rank*.jsonl"))


def _count_file(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.steps"
