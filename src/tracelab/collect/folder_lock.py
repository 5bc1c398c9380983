"""The lock of a run folder: held by the processes that record, and free once all of them are gone."""

import contextlib
import glob
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from tracelab.errors import UsageError

LOCK = ".running"
_ATTEMPTS, _RETRY_S = 5, 0.1


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[Callable[[], None]]:
    """Lock a folder for this process, and for those that it starts. Raises UsageError where another one has.

    Yields a function that writes into the lock which machine has it, in place of what the last owner wrote.
    """
    path = folder / LOCK
    with path.open("a+") as file:  # keeps what it holds of the owner
        if not _lock(file):
            raise UsageError(f"{folder}: another process is writing a run there; wait for it or choose another --run")
        os.set_inheritable(file.fileno(), True)  # noqa: FBT003  ranks that outlive this process keep the lock
        with undo_at_end(lambda: path.unlink(missing_ok=True)):
            yield lambda: _write_owner(file)


def _lock(file: IO[str]) -> bool:
    """Return whether this process locked the file. A sweep that reads the state may hold it for a moment."""
    import fcntl

    for _ in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RETRY_S)
        except OSError:  # a file system without locks
            return True
        else:
            return True
    return False


@contextlib.contextmanager
def hold_if_gone(folder: Path) -> Iterator[bool]:
    """Yield whether all processes that lock a folder are known to be gone; if so, hold its lock for the block.

    They hold the lock while they live. On another machine than theirs it may hold nothing, so that they are not known
    to be gone, unless that machine has started anew.
    """
    with contextlib.ExitStack() as held:
        yield _take_if_gone(folder, held)


def _take_if_gone(folder: Path, held: contextlib.ExitStack) -> bool:
    import fcntl

    try:
        file = held.enter_context((folder / LOCK).open("r+"))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or no lock
        return False
    owner, here = _read_owner(folder), _describe_machine()
    is_copy = owner.get("inode") != os.fstat(file.fileno()).st_ino  # its original may still record
    return not is_copy and any(here[name] and owner.get(name) == here[name] for name in ("boot", "host"))


def find_locks(paths: Iterable[str | Path]) -> list[Path]:
    """Return the locks of run folders that these paths and patterns are, or that are up to two folders below."""
    locks: set[Path] = set()
    for path in map(str, paths):
        if "://" not in path:
            for folder in map(Path, glob.glob(path) if glob.has_magic(path) else [path]):  # noqa: PTH207  also absolute ones
                for pattern in (LOCK, f"*/{LOCK}", f"*/*/{LOCK}"):
                    with contextlib.suppress(OSError):
                        locks.update(folder.glob(pattern))
    return sorted(lock for lock in locks if not lock.parent.name.startswith("."))


def is_same_boot(folder: Path) -> bool:
    """Return whether this machine is that of a run's owner, and has not started anew since."""
    return bool(_read_owner(folder).get("boot") == _describe_machine()["boot"])


def _read_owner(folder: Path) -> dict[str, Any]:
    """Return host and boot of the machine that locked the folder, with the lock's inode; empty where it is unknown."""
    try:
        content = json.loads((folder / LOCK).read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _write_owner(file: IO[str]) -> None:
    with contextlib.suppress(OSError):
        file.truncate(0)
        json.dump(_describe_machine() | {"inode": os.fstat(file.fileno()).st_ino}, file)
        file.flush()


def _describe_machine() -> dict[str, Any]:
    boot = None
    with contextlib.suppress(OSError):  # no Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return {"host": os.uname().nodename, "boot": boot}


@contextlib.contextmanager
def undo_at_end(undo: Callable[[], object]) -> Iterator[None]:
    """Call a function at the end of the block; a forked process that leaves the block, too, does not."""
    own = os.getpid()
    try:
        yield
    finally:
        if os.getpid() == own:
            undo()
