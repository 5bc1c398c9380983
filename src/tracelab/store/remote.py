"""Stores in object storage: the files of one, and a copy of what it holds in a local folder."""

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from tracelab import temp_folders
from tracelab.errors import StoreError, UsageError
from tracelab.foreign_text import escape_controls
from tracelab.store import buckets, commit_log
from tracelab.store.files import ORIGIN, LocalFiles, StoredFile, find_address

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)
_CHANGED = re.compile(r"[?#%\\\x00-\x1f\x7f]")
"""Characters that obstore decodes or drops as it parses an address, so that two addresses are one store."""
_TRANSFERS = 16
"""Objects that are transferred at a time: each takes some ten milliseconds, however small it is."""
_PIECE_BYTES = 1 << 20
_FOOTER_BYTES = 1 << 16
"""Enough for the footer of most Parquet files; a larger one takes a second request."""
_TRIES = 3
"""How often an object is put whose connection breaks off; obstore itself tries again where none is established."""
_ATTEMPTS = 3
"""How often a store is listed anew where an object is gone that a writer has replaced meanwhile."""


class BucketFiles:
    """The files of a store in object storage. `create` puts an object on the condition that there is none."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._bucket = _connect(url)

    def names(self, folder: str) -> list[str]:
        """Return the names of the objects in a folder."""
        return [file.key.removeprefix(f"{folder}/") for file in self.walk(folder)]

    def walk(self, folder: str) -> Iterator[StoredFile]:
        """Yield the objects below a folder."""
        with buckets.explain_errors(self.url):
            for batch in buckets.obstore().list(self._bucket, folder):
                for item in batch:
                    yield StoredFile(item["path"], item["size"], item["last_modified"].timestamp())

    def read(self, key: str) -> bytes:
        """Return the content of an object."""
        with buckets.explain_errors(self.url):
            return bytes(buckets.obstore().get(self._bucket, key).bytes())

    def download(self, key: str, path: Path) -> None:
        """Write the content of an object to a file, in pieces: sixteen large ones at once may exceed memory."""
        with buckets.explain_errors(self.url), path.open("wb") as file:
            file.writelines(buckets.iterate_object(self._bucket, key, _PIECE_BYTES))

    def read_footer(self, key: str, size_bytes: int) -> Any:  # noqa: ANN401 - pyarrow has no types
        """Return the metadata of a Parquet file of this size, which its last bytes hold."""
        import pyarrow.parquet as pq

        tail = self._read_end(key, size_bytes, _FOOTER_BYTES)
        needed = int.from_bytes(tail[-8:-4], "little") + 8
        return pq.read_metadata(BytesIO(tail if needed <= len(tail) else self._read_end(key, size_bytes, needed)))

    def _read_end(self, key: str, size_bytes: int, count: int) -> bytes:
        start = max(0, size_bytes - count)
        with buckets.explain_errors(self.url):
            return bytes(buckets.obstore().get_range(self._bucket, key, start=start, end=size_bytes))

    def create(self, key: str, content: bytes, staging: Path) -> bool:  # noqa: ARG002 - nothing is written aside
        """Put an object unless there is one. One with this content is this writer's: the response to it was lost."""
        with buckets.explain_errors(self.url):
            return self._create(key, content, _TRIES)

    def _create(self, key: str, content: bytes, tries: int) -> bool:
        """Put an object; an error of the connection leaves open whether it is there, so that it is read back."""
        try:
            buckets.obstore().put(self._bucket, key, content, mode="create")
        except buckets.errors().AlreadyExistsError:
            return self._find(key) == content
        except buckets.errors().GenericError:
            if (found := self._find(key)) is not None:
                return found == content
            if tries == 1:
                raise
            return self._create(key, content, tries - 1)
        return True

    def _find(self, key: str) -> bytes | None:
        """Return the content of an object; None where there is none."""
        try:
            return self.read(key)
        except FileNotFoundError:
            return None

    def write(self, key: str, content: bytes, staging: Path) -> None:  # noqa: ARG002
        """Put an object."""
        with buckets.explain_errors(self.url):
            buckets.obstore().put(self._bucket, key, content)

    def place(self, targets: Mapping[Path, str]) -> None:
        """Put files, several at a time."""

        def put(target: tuple[Path, str]) -> None:
            buckets.obstore().put(self._bucket, target[1], target[0])

        with buckets.explain_errors(self.url), ThreadPoolExecutor(_TRANSFERS) as pool:
            list(pool.map(put, targets.items()))

    def delete(self, keys: Sequence[str]) -> int:
        """Delete objects. Those that are gone already are an error of Azure and Google, but not of S3."""

        def delete(key: str) -> None:
            with suppress(FileNotFoundError):
                buckets.obstore().delete(self._bucket, key)

        with buckets.explain_errors(self.url):
            try:
                if keys:
                    buckets.obstore().delete(self._bucket, list(keys))
            except FileNotFoundError:
                with ThreadPoolExecutor(_TRANSFERS) as pool:
                    list(pool.map(delete, keys))
        return len(keys)


def check_url(url: str) -> None:
    """Raise UsageError for a text that is not the address of a store in object storage."""
    match = _URL.fullmatch(url)
    if match is None or match["scheme"] not in buckets.SCHEMES or not match["rest"].strip("/"):
        listed = ", ".join(f"{scheme}://BUCKET/PATH" for scheme in buckets.SCHEMES)
        raise UsageError(f"{url}: not the address of a store; write a folder, or {listed}")
    _, *parts = match["rest"].removesuffix("/").split("/")
    if _CHANGED.search(url) or url != url.strip() or not {"", ".", ".."}.isdisjoint(parts):
        raise UsageError(
            f"{escape_controls(url)}: the path of a store has no part that is empty, . or .., and no ? # % \\ or "
            "control character, for another path would be read; write it without these"
        )


def fetch(url: str) -> Path:
    """Copy the log of a store into a folder of this process, and return the folder, which `complete` fills on demand.

    Raises NoDataError for a store without sources, StoreError where it cannot be read.
    """
    with _explain_disk_errors():
        folder = temp_folders.new_path("store")
        folder.mkdir()
        (folder / ORIGIN).write_text(url)
    _copy_log(url, folder)
    commit_log.check_not_empty(url, commit_log.read_snapshot(LocalFiles(folder)))
    return folder


def complete(folder: Path, keys: Iterable[str]) -> bool:
    """Copy those files that a folder made by `fetch` lacks.

    Where a writer has removed one since, copy the log anew and return False.
    """
    missing = [key for key in keys if not (folder / key).exists()]
    if not missing:
        return True
    try:
        _copy_objects(BucketFiles(str(find_address(folder))), folder, missing)
    except FileNotFoundError:
        refresh(folder)
        return False
    return True


def refresh(folder: Path) -> None:
    """Copy what the log has had since into a folder made by `fetch`."""
    _copy_log(str(find_address(folder)), folder)


def fetch_below(root: Path, folder: str, last: str) -> None:
    """Copy the files of a store below a folder that its copy lacks; those named `last` come after the others.

    So that a folder with such a file has all its files, also where another process removes folders meanwhile.
    """
    files = BucketFiles(str(find_address(root)))
    for _ in range(_ATTEMPTS):
        missing = [file.key for file in files.walk(folder) if not (root / file.key).exists()]
        with suppress(FileNotFoundError):
            for keys in _split(missing, last):
                _copy_objects(files, root, keys)
            return


def put_below(root: Path, folder: str, last: str) -> None:
    """Put the files that a copy has in a folder to the store, those named `last` after the others."""
    files = BucketFiles(str(find_address(root)))
    for keys in _split([f"{folder}/{path.name}" for path in (root / folder).iterdir()], last):
        files.place({root / key: key for key in keys})


def delete_below(root: Path, folder: str) -> None:
    """Delete what a store has below a folder."""
    files = BucketFiles(str(find_address(root)))
    files.delete([file.key for file in files.walk(folder)])


def _split(keys: Iterable[str], last: str) -> tuple[list[str], list[str]]:
    """Divide keys into those that come first, and those with the name that comes last."""
    listed = list(keys)
    return (
        [key for key in listed if not key.endswith(f"/{last}")],
        [key for key in listed if key.endswith(f"/{last}")],
    )


def _copy_log(url: str, folder: Path) -> None:
    """Copy the files of the log that are not there: one that was created once stays as it is."""
    files = BucketFiles(url)
    for _ in range(_ATTEMPTS):
        keys = [f"{commit_log.FOLDER}/{name}" for name in files.names(commit_log.FOLDER)]
        try:
            _copy_objects(files, folder, [key for key in keys if not (folder / key).exists()])
        except FileNotFoundError:  # a checkpoint has replaced it since
            continue
        return
    raise StoreError(f"{url}: its log was replaced while it was read; run the command again")


def _copy_objects(files: BucketFiles, folder: Path, keys: Sequence[str]) -> None:
    def copy(key: str) -> None:
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            files.download(key, whole)
            whole.replace(path)  # another thread may copy it, too
        finally:
            whole.unlink(missing_ok=True)

    with _explain_disk_errors(), ThreadPoolExecutor(_TRANSFERS) as pool:
        list(pool.map(copy, keys))


@contextmanager
def _explain_disk_errors() -> Iterator[None]:
    """Replace an error of the disk for temporary files by a StoreError; one of an object has no number."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise StoreError(temp_folders.describe_error(error)) from error


def _connect(url: str) -> Any:  # noqa: ANN401 - obstore's stores have no common type at run time
    """Open the bucket and path of a store. Raises UsageError for a text that is not the address of one."""
    check_url(url)
    return buckets.connect(url)
