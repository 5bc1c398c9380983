"""Files of a run folder: one that is replaced is whole or absent, one that grows is flushed line by line."""

import contextlib
import gzip
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from tracelab.collect.disk_errors import name_file_in_errors
from tracelab.errors import TracelabError, UsageError

RUN_JSON = "run.json"
RUN_FORMAT = "run/1"
LOCK = ".running"
_CHANCES, _CHANCE_S = 5, 0.1
_RESERVE = ".reserve"
_RESERVE_BYTES = 256 << 10
"""Kept back while a run goes on, so that a disk that it fills still takes its last word."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside, to the disk, and then under its name."""
    with atomic_file(path) as file:
        file.write(content)


def write_json(path: Path, value: object) -> None:
    """Write a value as JSON, whole or not at all."""
    write_atomically(path, (json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode())


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name at the end of the block, and is gone if that fails. A kill leaves a hidden one."""
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
    """Compress a file to its place, whole or not at all."""
    with (
        source.open("rb") as plain,
        atomic_file(target) as file,
        gzip.GzipFile("", "wb", compresslevel=4, fileobj=file, mtime=0) as packed,
    ):
        shutil.copyfileobj(plain, packed, 1 << 20)


class JsonLines:
    """A file of JSON lines that grows; what stands there survives the death of the process."""

    def __init__(self, path: Path, kind: str, run: str, rank: int) -> None:
        self._path = path
        self._file = path.open("w", encoding="utf-8")
        self.append({"tracelab": kind, "run": run, "rank": rank})

    def append(self, row: dict[str, Any]) -> None:
        """Add a line and hand it to the system."""
        with name_file_in_errors(self._path):
            self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
            self._file.flush()

    def close(self) -> None:
        """Put everything on the disk."""
        with name_file_in_errors(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()


def read_run_json(folder: Path) -> dict[str, Any] | None:
    """What run.json of a folder says; None where there is none that can be read."""
    try:
        content = json.loads((folder / RUN_JSON).read_bytes())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("tracelab") == RUN_FORMAT else None


@contextlib.contextmanager
def claim_run_folder(folder: Path, *, force: bool) -> Iterator[None]:
    """A folder for one run, empty and locked.

    One whose run never came to its end is taken over, and with force one whose run did; anything else is left alone.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TracelabError(f"{folder}: cannot be made: {error.strerror}; choose another --out") from error
    with _locked(folder):
        _empty(folder, force=force)
        _reserve(folder)
        try:
            yield
        finally:
            release_reserve(folder)


def release_reserve(folder: Path) -> None:
    """Give back the space that was kept for the last word."""
    (folder / _RESERVE).unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    path = folder / LOCK
    with path.open("w") as file:
        if not _lock(file):
            raise UsageError(f"{folder}: a run is being written there; wait for it, or choose another --run")
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003  ranks that outlive this process hold the folder, too
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _lock(file: IO[str]) -> bool:
    """Whether the file is this process's now. A sweep that looks how far the run is may hold it for a moment."""
    import fcntl

    for _ in range(_CHANCES):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_CHANCE_S)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


def _empty(folder: Path, *, force: bool) -> None:
    old = [path for path in folder.iterdir() if path.name != LOCK]
    if not old:
        return
    run = read_run_json(folder)
    if run is None and any(path.name != RUN_JSON and not path.name.startswith(".") for path in old):
        raise UsageError(f"{folder}: holds files that are no run of tracelab; choose another --run")
    if run is not None and run.get("status") != "not_run" and not force:
        raise UsageError(f"{folder}: holds a run that ended ({run.get('status')}); add --force to replace it")
    for path in old:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _reserve(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / _RESERVE).open("wb") as file:
        file.write(os.urandom(_RESERVE_BYTES))  # a file of zeros may take no space
        file.flush()
        os.fsync(file.fileno())
