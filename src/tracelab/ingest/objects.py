"""Copy objects at URLs: single ones, all below a prefix, or those that match a pattern."""

import fnmatch
import glob
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tracelab.errors import UsageError
from tracelab.ingest.copies import Copies, DiskFullError, NoPathError
from tracelab.store import buckets

_WEB = ("http", "https")
_SCHEMES = (*buckets.SCHEMES, *_WEB)
_TRANSFERS = 8
_COPIED_BYTES = 1 << 20
_STORED_ROW = re.compile(r"(?P<store>(?:.*/)?)sources/run=[^/]+/[^/]+\.parquet")
"""The key of a row in the `sources` of a store: its files are no inputs."""


class Downloaded(NamedTuple):
    """Copies of objects, those files and folders of them that the URL names, and what was not copied."""

    copies: Copies
    paths: list[Path]
    unnamed: list[str]
    ended: str | None


def check_url(url: str) -> None:
    """Raise UsageError for a URL of a scheme without support."""
    if url.partition("://")[0] not in _SCHEMES:
        listed = ", ".join(f"{scheme}://" for scheme in ("file", *_SCHEMES))
        raise UsageError(f"{url}: inputs are paths, or URLs that begin with {listed}")


def download(url: str, folder: Path) -> Downloaded:
    """Copy what a reader may read of the objects that a URL names below `folder`.

    Raises StoreError where the place cannot be read, FileNotFoundError where it has no such object.
    """
    parts = urlsplit(url)
    if parts.scheme in _WEB:
        # The query stays out of names: it may hold a signature.
        name = PurePosixPath(parts.path).name or "index"
        copies = Copies(folder, Path(f"{parts.scheme}:/{parts.netloc.rpartition('@')[2]}{parts.path}").parent)
        return _copy_all(buckets.connect(url), {PurePosixPath(name): ""}, {name}, copies, url)
    bucket = buckets.connect(f"{parts.scheme}://{parts.netloc}")
    with buckets.explain_errors(url):
        keys, named = _list_keys(bucket, url.split("://", 1)[1].partition("/")[2])
    if not keys:
        raise FileNotFoundError(url)
    copies = Copies(folder, Path(f"{parts.scheme}:/{parts.netloc}"))
    return _copy_all(bucket, {PurePosixPath(key): key for key in keys}, named, copies, url)


def _list_keys(bucket: Any, path: str) -> tuple[list[str], set[str]]:  # noqa: ANN401 - obstore's stores have no common type
    """Return the keys of all objects that a path means, and the objects and prefixes that it names.

    It means an object, all objects below a prefix, or the objects and prefixes that match a pattern.
    """
    if not glob.has_magic(path):
        if path and not path.endswith("/") and buckets.has_object(bucket, path):
            return [path], {path}
        return _list_below(bucket, path.strip("/")), {path.strip("/")}
    fixed = re.split(r"[*?[]", path, maxsplit=1)[0].rpartition("/")[0]
    pattern = path.rstrip("/").split("/")
    keys, named = [], set()
    for key in _list_below(bucket, fixed):
        parts = key.split("/")
        starts = {"/".join(parts[:end]) for end in range(1, len(parts) + 1) if matches(pattern, parts[:end])}
        if starts:
            keys.append(key)
            named.add(min(starts, key=len))
    return keys, named


def _list_below(bucket: Any, prefix: str) -> list[str]:  # noqa: ANN401
    """Return the keys below a prefix that are not hidden and do not belong to a store."""
    keys = buckets.list_keys(bucket, prefix)
    stores = tuple({match["store"] for key in keys if (match := _STORED_ROW.fullmatch(key))})
    start = len(prefix)
    return [key for key in keys if not key.startswith(stores) and "/." not in f"/{key[start:].lstrip('/')}"]


def matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match those of a pattern, in which `**` matches any number of parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(matches(pattern[1:], parts[start:]) for start in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], pattern[0]) and matches(pattern[1:], parts[1:])


def _copy_all(
    bucket: Any,  # noqa: ANN401
    keys: dict[PurePosixPath, str],
    named: set[str],
    copies: Copies,
    url: str,
) -> Downloaded:
    unnamed: list[str] = []
    ended = None

    def copy(name: PurePosixPath) -> None:
        try:
            copies.add(name, buckets.iterate_object(bucket, keys[name], _COPIED_BYTES), may_be_archive=True)
        except NoPathError:
            unnamed.append(str(name))

    with buckets.explain_errors(url), ThreadPoolExecutor(_TRANSFERS) as pool:
        try:
            list(pool.map(copy, keys))
        except DiskFullError:
            pool.shutdown(cancel_futures=True)
            ended = "its objects do not fit into half of the free disk for temporary files; set TMPDIR to a larger disk"
    paths = [path for path in (copies.root / name for name in sorted(named)) if path.exists()]
    return Downloaded(copies, paths, unnamed, ended)
