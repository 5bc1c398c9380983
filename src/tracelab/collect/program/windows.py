"""Show the windows of a program that are over while it runs, and link their traces into its run folder."""

import contextlib
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tracelab.collect.recording.process_record import RECORD, read_records

_POLL_S = 1.0


@contextlib.contextmanager
def show_windows(folder: Path, processes: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Report and link what the processes save within the block."""
    windows = Windows(folder, processes)
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_POLL_S):
            for line in windows.publish():
                report(line)

    watcher = threading.Thread(target=watch, name="tracelab-windows", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


class Windows:
    """The traces that the processes of a program have saved."""

    def __init__(self, folder: Path, processes: Path) -> None:
        self._folder = folder
        self._processes = processes
        self._read_ns: dict[Path, int] = {}
        """Time of change of each record that was read."""
        self._known: set[tuple[str, str]] = set()

    def publish(self) -> Iterator[str]:
        """Link the traces that are new into the run folder; yields a line about them.

        Where several processes have one rank, the first one's are linked: at the end, those of one process are kept.
        """
        new = [(record, file) for record in self._read_changed() for file in record.get("files") or ()]
        new = [(record, file) for record, file in new if (record["folder"], file["file"]) not in self._known]
        self._known |= {(record["folder"], file["file"]) for record, file in new}
        linked = [file for record, file in new if self._link(record["folder"], file["file"])]
        if linked:
            yield describe_window(self._folder, linked)

    def _read_changed(self) -> list[dict[str, Any]]:
        before = dict(self._read_ns)
        with contextlib.suppress(OSError):
            self._read_ns |= {path: path.stat().st_mtime_ns for path in self._processes.glob(f"*/{RECORD}")}
        return read_records(self._processes) if self._read_ns != before else []

    def _link(self, process: str, name: str) -> bool:
        try:
            os.link(self._processes / process / name, self._folder / name)
        except OSError:  # one of another process, or a disk without hard links: it is moved when the program ends
            return False
        return True


def describe_window(folder: Path, files: list[dict[str, Any]]) -> str:
    """Return in one line which traces were saved, and how to read them while the program runs."""
    first, *others = files
    more = f" and {len(others)} more" if others else ""
    events = sum(file.get("events", 0) for file in files)
    return f"{folder}: saved {first['file']}{more}, {events} events; next: tracelab ingest {shlex.quote(str(folder))}"
