"""SHA-256 of input files, begun early where a file is large: it costs a tenth of an ingest, and can go on beside it."""

import hashlib
import threading
from concurrent.futures import Future
from pathlib import Path

_under_way: dict[Path, "Future[str]"] = {}


def begin(path: Path) -> None:
    """Begin to hash a file on a thread of its own; `hashed` will wait for it."""
    future: Future[str] = Future()
    _under_way[path] = future

    def work() -> None:
        try:
            future.set_result(_hash(path))
        except OSError as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()


def hashed(path: Path) -> str:
    """SHA-256 of the file, in hex."""
    future = _under_way.pop(path, None)
    return future.result() if future else _hash(path)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
