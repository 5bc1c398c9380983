"""One temporary folder for each process; the folders of killed processes are deleted by the next one."""

import atexit
import fcntl
import itertools
import os
import re
import shutil
import tempfile
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_HOST = re.sub(r"[^A-Za-z0-9-]", "-", os.uname().nodename)
_PREFIX = f"tracelab-{_HOST}-"
"""Names of locked folders; they name the machine, because a lock on a shared file system may hold on one only."""

_numbers = itertools.count()
_created: list[Path] = []


@cache
def process_folder() -> Path:
    """Return this process's folder for temporary files, which is deleted when the process exits."""
    _delete_abandoned()
    return _create_locked()


@atexit.register
def delete_process_folder() -> None:
    """Delete this process's folder; a process that exits without the functions of `atexit` calls this."""
    for folder in _created:
        shutil.rmtree(folder, ignore_errors=True)


def _forget() -> None:
    """Leave the folder to the parent, in a fork."""
    process_folder.cache_clear()
    _created.clear()


os.register_at_fork(after_in_child=_forget)


def new_path(purpose: str) -> Path:
    """Return the path of a file or folder that does not exist, in this process's folder."""
    return process_folder() / f"{purpose}-{next(_numbers)}"


def has_path(path: Path) -> bool:
    """Return whether a path is in this process's folder."""
    return any(path.is_relative_to(folder) for folder in _created)


def describe_error(error: OSError) -> str:
    """Describe why a temporary file cannot be written, with the folder and what to do."""
    folder = tempfile.tempdir or "TMPDIR"  # none where no folder can be written to
    problem = os.strerror(error.errno) if error.errno else str(error)
    return f"{folder}: no temporary file can be written ({problem}); free space, or set TMPDIR to another folder"


def _create_locked() -> Path:
    """Create a folder with a lock that holds until the process ends, however that happens.

    The folder gets its name after it is locked: one that others find under such a name is locked, or abandoned. Both
    names are noted before they exist, so that a signal at any moment leaves nothing.
    """
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{uuid.uuid4().hex}"
    unlocked = folder.with_name(f".{folder.name}")
    _created.extend((folder, unlocked))
    unlocked.mkdir(mode=0o700)
    handle = os.open(unlocked, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a file system without locks: the folder keeps a name that no process looks for
        return unlocked
    return unlocked.rename(folder)


def _delete_abandoned() -> None:
    """Delete the folders of this user whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # locked, or another process deletes it
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(handle).st_uid == os.getuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
