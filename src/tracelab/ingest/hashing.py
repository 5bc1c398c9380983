"""SHA-256 of sources, begun early where a file is large: it costs a tenth of an ingest, and can go on beside it."""

import hashlib
import os
import threading
from concurrent.futures import Future
from pathlib import Path

_BLOCK_BYTES = 4 << 20
"""Large, for after each block the thread waits until those that import let go of the interpreter."""

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
    """SHA-256 of the source, in hex."""
    future = _under_way.pop(path, None)
    return future.result() if future else _hash(path)


def files_of(path: Path) -> list[Path]:
    """The files a source consists of: itself, or those of the folder, by name."""
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def _hash(path: Path) -> str:
    if path.is_dir():
        return _hash_of_folder(path)
    digest, block = hashlib.sha256(), memoryview(bytearray(_BLOCK_BYTES))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            digest.update(block[:size])
    return digest.hexdigest()


def _hash_of_folder(folder: Path) -> str:
    """SHA-256 over the lines `<SHA-256>  <name>` of its files by name, as sha256sum prints them."""
    lines = (f"{_hash(file)}  ".encode() + os.fsencode(file.name) + b"\n" for file in files_of(folder))
    return hashlib.sha256(b"".join(lines)).hexdigest()
