"""SHA-256 of sources, started early for a large file: it takes a tenth of an ingest, and runs beside the imports."""

import hashlib
import os
import threading
from concurrent.futures import Future
from pathlib import Path

from tracelab.readers.base import list_source_files

_BLOCK_BYTES = 4 << 20
"""Large, because after each block the thread waits until importing threads release the interpreter."""

_started: dict[Path, "Future[str]"] = {}


def start_hashing(path: Path) -> None:
    """Start to hash a file on a thread of its own; `hash_source` waits for it."""
    future: Future[str] = Future()
    _started[path] = future

    def work() -> None:
        try:
            future.set_result(_hash(path))
        except OSError as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()


def hash_source(path: Path) -> str:
    """Return the SHA-256 of a source, in hex."""
    future = _started.pop(path, None)
    return future.result() if future else _hash(path)


def _hash(path: Path) -> str:
    if path.is_dir():
        return _hash_folder(path)
    digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK_BYTES))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            digest.update(block[:size])
    return digest.hexdigest()


def _hash_folder(folder: Path) -> str:
    """Return the SHA-256 over the lines `<SHA-256>  <name>` of its files by name, as sha256sum prints them."""
    lines = (f"{_hash(file)}  ".encode() + os.fsencode(file.name) + b"\n" for file in list_source_files(folder))
    return hashlib.sha256(b"".join(lines)).hexdigest()
