"""Files of a run folder: atomic replacement, growing JSON lines, and the lock that claims the folder."""

import contextlib
import glob
import gzip
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from tracelab.collect.disk_errors import name_file_in_errors
from tracelab.collect.folder_lock import LOCK, lock_folder, undo_at_end
from tracelab.errors import TracelabError, UsageError
from tracelab.run_names import legal_run_name

RUN_JSON = "run.json"
RUN_FORMAT = "run/1"
KILLED = {"killed": True}
"""Entry of run.json for a run that a signal from outside ended: the next run of its name sets it aside."""
_RESERVE = ".reserve"
_RECORDED = re.compile(r"(?:[^.].*\.)?rank\d+\.(?!log$)|ceilings|program\.")
_LONGEST_NAME = 85
"""What remains of the name of a run that is set aside; with the rest, it stays within 100 characters."""
_START_LENGTH = 70
"""What a name has before the time; with that, a number and a profiler it stays within 100 characters."""
_RESERVE_BYTES = 256 << 10
"""Disk space reserved during a run, so that its final run.json fits on a disk that the run filled."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all: to a temporary file, synced, then renamed."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, completely or not at all."""
    write_atomically(path, (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode())


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when the block succeeds and is deleted otherwise. A kill leaves a hidden file."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with name_file_in_errors(part), part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_gzip(source: Path, target: Path) -> None:
    """Compress a file to the target, completely or not at all."""
    with (
        source.open("rb") as plain,
        atomic_file(target) as file,
        gzip.GzipFile("", "wb", compresslevel=4, fileobj=file, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, 1 << 20)


class JsonLines:
    """A growing file of JSON lines; complete lines survive the death of the process."""

    def __init__(self, path: Path, kind: str, run: str, rank: int) -> None:
        self._path = path
        self._file = path.open("w", encoding="utf-8")
        self.append({"tracelab": kind, "run": run, "rank": rank})

    def append(self, row: dict[str, Any]) -> None:
        """Append a line and flush it."""
        self.extend([row])

    def extend(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append rows and flush them once."""
        self.extend_lines(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)

    def extend_lines(self, lines: Iterable[str]) -> None:
        """Append rows that are JSON already, and flush them once."""
        with name_file_in_errors(self._path):
            self._file.writelines(f"{line}\n" for line in lines)
            self._file.flush()

    def close(self) -> None:
        """Sync the file to disk and close it."""
        with name_file_in_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def read_run_json(folder: Path) -> dict[str, Any] | None:
    """Return run.json of a folder, or None if it is missing or unreadable."""
    try:
        content = json.loads((folder / RUN_JSON).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("tracelab") == RUN_FORMAT else None


def timed_name(out: Path, start: str, now: datetime | None = None) -> str:
    """Return a run name that ends in the time, and in a number where runs of this second have the name."""
    name = f"{legal_run_name(start)[:_START_LENGTH]}-{(now or datetime.now(UTC)).strftime('%Y%m%dT%H%M%S')}"
    numbered = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    return next(each for each in numbered if not any(out.glob(f"{glob.escape(each)}*")))


@contextlib.contextmanager
def claim_run_folder(folder: Path, *, force: bool, report: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Create, lock and empty the folder of a run, and hold it for the block.

    Sets aside what a killed run recorded, and reports that: the same job may start again. Replaces a run that recorded
    nothing, a cell of a sweep that never ended, and with `force` any run. Refuses any other folder with files.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if folder.exists():
            raise UsageError(f"{folder} is a file, not a run folder; choose another --run") from error
        raise TracelabError(f"{folder}: cannot be created: {error.strerror}; choose another --out") from error
    with lock_folder(folder) as write_owner:
        _empty(folder, force=force, report=report)
        write_owner()
        _reserve(folder)
        with undo_at_end(lambda: release_reserve(folder)):
            yield


def release_reserve(folder: Path) -> None:
    """Free the disk space reserved for the final run.json."""
    (folder / _RESERVE).unlink(missing_ok=True)


def _empty(folder: Path, *, force: bool, report: Callable[[str], None]) -> None:
    old = [path for path in folder.iterdir() if path.name != LOCK]
    if not old:
        return
    run = read_run_json(folder)
    if run is None and any(path.name != RUN_JSON and not path.name.startswith(".") for path in old):
        raise UsageError(f"{folder}: contains files other than a tracelab run; choose another --run")
    is_kept = run is not None and not run.get("sweep") and not force
    if run is not None and is_kept and run.get("status") == "not_run":
        from tracelab.collect.killed_run import finish_killed_run

        finish_killed_run(folder, run)
        run, old = read_run_json(folder), [path for path in folder.iterdir() if path.name != LOCK]
    if run is not None and is_kept and run.get("killed") and any(map(_is_recorded, old)):
        report(f"{folder}: had what a killed run recorded, which is now {_set_aside(folder, run)}")
        return
    if run is not None and run.get("status") != "not_run" and not run.get("killed") and not force:
        raise UsageError(f"{folder}: contains a finished run ({run.get('status')}); add --force to replace it")
    for path in old:
        _delete(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_recorded(path: Path) -> bool:
    """Whether a run recorded this: a trace, steps, or other measurements of a rank or of the machine."""
    return _RECORDED.match(path.name) is not None


def _set_aside(folder: Path, run: dict[str, Any]) -> Path:
    """Move the run in a folder, which stays and is locked, into a new folder beside it, and return that."""
    start = folder.name[:_LONGEST_NAME]
    numbered = (folder.with_name(f"{start}-killed-{number}") for number in itertools.count(1))
    target = next(path for path in numbered if not path.exists())
    target.mkdir()
    write_json(target / RUN_JSON, run | {"run": target.name})
    for path in folder.iterdir():
        if not path.name.startswith(".") and path.name != RUN_JSON:
            path.rename(target / path.name)
        elif path.name != LOCK:
            _delete(path)
    return target


def _reserve(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / _RESERVE).open("wb") as file:
        file.write(os.urandom(_RESERVE_BYTES))  # a file of zeros may take no space
        file.flush()
        os.fsync(file.fileno())
