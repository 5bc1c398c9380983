"""Where a store is, and its files on a disk or in object storage: list, read, create where there is none, delete."""

import errno
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from tracelab.errors import StoreError
from tracelab.file_urls import is_file_url, parse_file_url

DEFAULT_STORE = Path("lab")
STAGING = ".staging"
ORIGIN = ".origin"
"""The name of a file with the URL of the store that a folder is a copy of."""
_PLAN = "plan.json"
_ABANDONED = "abandoned-"
_MOST_SILENT_S = 24 * 3600
"""The files of a writer on another machine are abandoned after so long without a change."""


class StoredFile(NamedTuple):
    """A file of a store: its key is the path below the store."""

    key: str
    size_bytes: int
    modified_s: float


def store_address(given: Path | str | None) -> Path | str:
    """Return the store to use: the given one, else $TRACELAB_STORE, else ./lab; of one in object storage, its URL."""
    place = given or os.environ.get("TRACELAB_STORE") or DEFAULT_STORE
    if not isinstance(place, str) or "://" not in place:
        return Path(place)
    return parse_file_url(place) if is_file_url(place) else place


def is_copy(root: Path) -> bool:
    """Return whether a folder is a copy of a store at a URL: it has the files of those tables that were read."""
    return (root / ORIGIN).exists()


def find_address(root: Path) -> Path | str:
    """Return the URL of the store that a folder is a copy of; of any other store the folder."""
    return (root / ORIGIN).read_text() if is_copy(root) else root


class StoreFiles(Protocol):
    """What a store needs of the place that it is in. `create` is atomic, and decides between writers."""

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none where there is no folder."""

    def walk(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below a folder."""

    def read(self, key: str) -> bytes:
        """Return the content of a file. Raises FileNotFoundError."""

    def create(self, key: str, content: bytes, staging: Path) -> bool:
        """Create a complete file; return False, and change nothing, where there is one.

        No other writer may create a file of the same content.
        """

    def write(self, key: str, content: bytes, staging: Path) -> None:
        """Create or replace a file, at once."""

    def place(self, targets: Mapping[Path, str]) -> None:
        """Bring staged files to their keys, which no other writer uses."""

    def delete(self, keys: Sequence[str]) -> int:
        """Delete the files that exist; return how many."""


class LocalFiles:
    """The files of a store on a disk. `create` links a complete file, and nothing is locked."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder. Raises StoreError for one that may not be read."""
        try:
            return os.listdir(self.root / folder)  # noqa: PTH208 - names, not paths
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError as error:
            raise StoreError(
                f"{self.root / folder} cannot be read: permission denied; make the store's folders and files readable"
            ) from error

    def walk(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files below a folder; one that another process deletes meanwhile is left out."""
        for path in (self.root / folder).rglob("*"):
            with suppress(FileNotFoundError):
                status = path.stat()
                if path.is_file():
                    yield StoredFile(path.relative_to(self.root).as_posix(), status.st_size, status.st_mtime)

    def read(self, key: str) -> bytes:
        """Return the content of a file."""
        return (self.root / key).read_bytes()

    def create(self, key: str, content: bytes, staging: Path) -> bool:
        """Link a complete file to its name: a link, unlike a renaming, replaces nothing.

        The link fails where another process has taken away the staging folder, as from a writer that died.
        """
        staged = self._stage(content, staging)
        target = self.root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(staged, target)
        except FileExistsError:  # over NFS also where the response to the link was lost
            with suppress(FileNotFoundError):
                return staged.samefile(target)
            return False
        except FileNotFoundError as error:
            raise StoreError(f"{staging.parent} was emptied by another process; ingest again") from error
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise StoreError(f"{self.root}: its file system has no hard links; choose another --store") from error
            raise
        finally:
            staged.unlink(missing_ok=True)
        return True

    def write(self, key: str, content: bytes, staging: Path) -> None:
        """Rename a complete file to its name."""
        target = self.root / key
        target.parent.mkdir(parents=True, exist_ok=True)
        self._stage(content, staging).replace(target)

    def place(self, targets: Mapping[Path, str]) -> None:
        """Rename staged files to their names."""
        for key in targets.values():
            folder = (self.root / key).parent
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
        for staged, key in targets.items():
            staged.replace(self.root / key)

    def delete(self, keys: Sequence[str]) -> int:
        """Delete files, and folders that someone put in their place."""
        deleted = 0
        for key in keys:
            path = self.root / key
            with suppress(FileNotFoundError, NotADirectoryError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
                deleted += 1
        return deleted

    @staticmethod
    def _stage(content: bytes, staging: Path) -> Path:
        """Write a file aside."""
        staged = staging / uuid.uuid4().hex
        staged.write_bytes(content)
        sync_to_disk(staged)
        return staged


def sync_to_disk(path: Path) -> None:
    """Flush a file to disk: after a power cut, its name must not exist without its content."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def staging_folder(store: Path) -> Iterator[Path]:
    """Create a folder for what one writer writes, outside the folders of the tables; remove it at the end.

    Its name is that of its process, so that others can see whether that is alive.
    """
    folder = store / STAGING / f"{_process_name(os.getpid())}~{uuid.uuid4().hex[:12]}"
    try:  # around its creation, too: a signal may end the process right after it
        folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def note_placed(staging: Path, parts: Sequence[tuple[str, str, Sequence[str]]]) -> None:
    """Note run, name and keys of the parts that a writer is about to place or delete: it may die meanwhile."""
    staged = staging / f"{_PLAN}.new"
    staged.write_text(json.dumps(parts), encoding="utf-8")
    staged.replace(staging / _PLAN)


def take_abandoned(store: Path) -> list[Path]:
    """Return the staging folders of writers that died; they can commit nothing any more.

    A renamed folder fails the link of a writer that was suspended for long enough to seem dead.
    """
    taken = []
    root = store / STAGING
    for name in LocalFiles(store).names(STAGING):
        folder = root / name
        if name.startswith(_ABANDONED):
            taken.append(folder)
        elif not is_held(folder):
            with suppress(FileNotFoundError):  # its writer ended, or another process takes it
                taken.append(folder.rename(root / f"{_ABANDONED}{name}"))
    return taken


def read_placed(staging: Path) -> list[tuple[str, str, list[str]]]:
    """Return what `note_placed` noted; nothing where the writer died before."""
    try:
        parts: list[tuple[str, str, list[str]]] = json.loads((staging / _PLAN).read_bytes())
    except (OSError, ValueError):
        return []
    return parts


def is_held(staging: Path) -> bool:
    """Return whether a staging folder exists and its writer may be alive."""
    process, _, _ = staging.name.rpartition("~")
    place, pid, _ = (*process.rsplit("~", 2), "", "", "")[:3]
    ours = _process_name(os.getpid()).rsplit("~", 2)[0]
    if place == ours and pid.isdigit():
        return staging.exists() and _process_name(int(pid)) == process
    try:
        latest = max(path.stat().st_mtime for path in (staging, *staging.iterdir()))
    except (FileNotFoundError, NotADirectoryError):
        return False
    return time.time() - latest < _MOST_SILENT_S


def _process_name(pid: int) -> str:
    """Return host, namespace of process ids, id and start of a process: no other process has the same."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", os.uname().nodename)
    try:
        namespace = re.sub(r"\D", "", os.readlink("/proc/self/ns/pid"))  # noqa: PTH115 - no file
        state, *others = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode("ascii").split()
        started = "dead" if state in "ZX" else others[18]
    except OSError:
        namespace, started = "", _start_without_proc(pid)
    return f"{host}~{namespace}~{pid}~{started}"


def _start_without_proc(pid: int) -> str:
    """Return "alive" or "dead" where the system has no /proc, as macOS."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "dead"
    except PermissionError:
        pass
    return "alive"
