"""Pack the results of a node into one archive of at most 15 MiB."""

import tarfile
from pathlib import Path

LIMIT_BYTES = 15 << 20


def pack(folder: Path, limit_bytes: int = LIMIT_BYTES) -> tuple[Path, list[str]]:
    """Return the archive of a folder, and the files left out: the largest, until the rest fits."""
    archive = folder.with_name(f"{folder.name}.tar.gz")
    paths = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    left_out: list[str] = []
    while True:
        with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
            for path in sorted(paths):
                tar.add(path, f"{folder.name}/{path.relative_to(folder)}")
        if archive.stat().st_size <= limit_bytes or not paths:
            return archive, left_out
        left_out.append(str(paths.pop().relative_to(folder)))
