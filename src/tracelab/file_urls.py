"""Paths of file:// URLs."""

from pathlib import Path
from urllib.parse import unquote

from tracelab.errors import UsageError

_SCHEME = "file://"


def is_file_url(text: str) -> bool:
    """Return whether a text is such a URL."""
    return text.startswith(_SCHEME)


def parse_file_url(url: str) -> Path:
    """Return the path of a URL. Raises UsageError for one of another host, or without an absolute path."""
    host, slash, path = url.removeprefix(_SCHEME).partition("/")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{url}: not the URL of a file on this machine; write file:///PATH with three slashes")
    return Path(unquote(f"/{path}"))
