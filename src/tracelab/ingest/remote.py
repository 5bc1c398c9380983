"""Ingest into object storage: plan on a copy of the rows of `sources`, and commit each file from a local folder."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tracelab import temp_folders
from tracelab.store import remote

PLANNED_TABLES = ("sources", "runs")
"""What a plan reads of a store."""

_Result = TypeVar("_Result")


def fetch_for_plan(url: str) -> Path:
    """Return a local folder with the rows that a plan needs of a store, which may be empty."""
    return remote.fetch(url, PLANNED_TABLES, may_be_empty=True)


def commit_from_scratch(
    url: str, write: Callable[[Path], _Result], *, replace: bool, superseded: tuple[str, ...]
) -> tuple[_Result, bool]:
    """Write one source to a local store, and commit it to one in object storage.

    Returns what `write` returns, and whether another writer had committed the source before.
    """
    scratch = temp_folders.new_path("scratch")
    try:
        result = write(scratch)
        was_there = not remote.push(scratch, url, replace=replace, superseded=superseded)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return result, was_there
