"""Open buckets of object storage, list and read their objects; errors become sentences."""

import importlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tracelab.errors import StoreError, UsageError

SCHEMES = ("s3", "gs", "az")
_NO_BUCKET = "NoSuchBucket"
_NO_CONNECTION = re.compile(r" (?P<server>https?://[^/\s?]+)\S* in .*error sending request")


def connect(url: str) -> Any:  # noqa: ANN401 - obstore's stores have no common type at run time
    """Open a bucket, or what is below a prefix, with the credentials of the environment.

    Those are variables such as AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL.
    """
    endpoint = find_endpoint()
    is_plain = url.startswith("http://") or endpoint.startswith("http://")
    options: dict[str, Any] = {"client_options": {"allow_http": True}} if is_plain else {}
    if endpoint and url.startswith("s3://"):
        options["endpoint"] = endpoint
    with explain_errors(url):
        return importlib.import_module("obstore.store").from_url(url, **options)


def find_endpoint() -> str:
    """Return the endpoint of S3 that the environment names, or "" for that of AWS."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def list_keys(bucket: Any, prefix: str) -> list[str]:  # noqa: ANN401
    """Return the keys below a prefix, which ends with a part of the path, in order."""
    return sorted(item["path"] for batch in obstore().list(bucket, prefix or None) for item in batch)


def has_object(bucket: Any, key: str) -> bool:  # noqa: ANN401
    """Return whether there is an object with this key."""
    try:
        obstore().head(bucket, key)
    except FileNotFoundError as error:
        if _NO_BUCKET in str(error):
            raise
        return False
    return True


def iterate_object(bucket: Any, key: str, chunk_bytes: int) -> Iterator[bytes]:  # noqa: ANN401
    """Yield the content of an object, as it arrives."""
    yield from map(bytes, obstore().get(bucket, key).stream(min_chunk_size=chunk_bytes))


def obstore() -> Any:  # noqa: ANN401
    """Return the library, which is an extra."""
    return importlib.import_module("obstore")


def errors() -> Any:  # noqa: ANN401
    """Return the library's classes of errors."""
    return importlib.import_module("obstore.exceptions")


@contextmanager
def explain_errors(url: str) -> Iterator[None]:
    """Replace an error of obstore by a sentence; a missing object stays a FileNotFoundError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise UsageError(f"{url} needs obstore; run `pip install 'tracelab[cloud]'`") from error
    except Exception as error:
        if _NO_BUCKET in str(error):
            raise StoreError(f"{url}: no such bucket; check its name, or create it") from error
        if isinstance(error, FileNotFoundError) or not type(error).__module__.startswith("obstore"):
            raise
        problem = str(error).splitlines()[0]
        if unreachable := _NO_CONNECTION.search(problem):
            problem = f"no connection to {unreachable['server']}"
        raise StoreError(f"{url}: {problem}; check the address and its credentials") from error
