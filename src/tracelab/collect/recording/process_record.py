"""The record of one recorded process: what it is, what it wrote, how it ended; its file survives a full disk."""

import contextlib
import itertools
import json
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RECORD = "record.json"
PROCESSES = ".processes"
"""Folder in a run folder with one folder per recorded process."""
TASK = "task.json"
"""File there with the task of all processes."""
REQUEST = "record"
"""File in a run folder whose creation, and each later touch, requests a recording on demand."""
_PADDED_BYTES = 4096
"""Least size of the file, so that it can be written again in place where the disk is full."""


@dataclass
class ProcessRecord:
    """Entries of the record, each written as soon as it is known."""

    folder: Path
    entries: dict[str, Any] = field(default_factory=dict)

    def update(self, **entries: Any) -> None:  # noqa: ANN401  JSON values
        """Set entries and write the file."""
        self.entries |= entries
        content = json.dumps(self.entries, ensure_ascii=False, default=str).encode("utf-8", "replace")
        content = content.ljust(_PADDED_BYTES)
        path = self.folder / RECORD
        part = path.with_suffix(".part")
        try:
            part.write_bytes(content)
            part.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
                with path.open("r+b") as file:
                    file.write(content)


def create_process_folder(processes: Path) -> Path:
    """Create the folder of this process's record; a program that replaces itself by exec has one each time."""
    name = f"{socket.gethostname()}.{os.getpid()}"
    for number in itertools.count(2):
        folder = processes / name
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            name = f"{socket.gethostname()}.{os.getpid()}.{number}"
        else:
            break
    return folder


def read_records(processes: Path) -> list[dict[str, Any]]:
    """Read the records of all processes; each has the name of its folder as `folder`."""
    records = []
    for path in sorted(processes.glob(f"*/{RECORD}")):
        with contextlib.suppress(OSError, ValueError):
            content = json.loads(path.read_bytes())
            if isinstance(content, dict):
                records.append(content | {"folder": path.parent.name})
    return records


def open_window(folder: Path, rank: int | str) -> Path:
    """Return the path of a file that exists in a run folder while a rank of `tracelab.record` records a window."""
    return folder / f".recording.rank{rank}"


def is_running(pid: int) -> bool:
    """Return whether a process of this node runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # another user's, or no Linux
        return True
    return state != "Z"
