"""Batches of small files: which files become one commit, and how they are read together."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tracelab.errors import ReaderCrashError
from tracelab.ingest.discovery import hash_source
from tracelab.ingest.run_grouping import RunAssignment
from tracelab.readers.base import ReadResult, find_batch_reader, report_crashes
from tracelab.store.writer import BufferedSink, Sink

Unit: TypeAlias = tuple[RunAssignment, ...]
"""Assignments that are executed together: one, or many small files of one run."""

_SMALL_BYTES = 4 << 20
"""Below this size the fixed costs of a file outweigh its content."""
_LEAST_TOGETHER, _MOST_TOGETHER = 4, 64
"""How many small files become one commit; the upper limit bounds memory, and what is lost when a worker dies."""


def make_units(assignments: Sequence[RunAssignment]) -> list[Unit]:
    """Divide assignments into units, the largest first: small files of a run together, each other file alone."""
    together: dict[tuple[str, str | None, str], list[RunAssignment]] = {}
    units: list[Unit] = []
    for item in assignments:
        if _may_share_a_commit(item):
            together.setdefault((item.run, item.stored_part, item.candidate.reader.VERSION), []).append(item)
        else:
            units.append((item,))
    for items in together.values():
        if len(items) < _LEAST_TOGETHER and not items[0].is_stored_together:
            units.extend((item,) for item in items)
        else:
            units.extend(_divide(items))
    return sorted(units, key=lambda unit: -sum(item.candidate.size_bytes for item in unit))


def _may_share_a_commit(item: RunAssignment) -> bool:
    if item.stored_part:
        return item.is_stored_together
    is_plain = not (item.superseded or item.in_run_folder)
    return (
        is_plain and item.candidate.size_bytes <= _SMALL_BYTES and find_batch_reader(item.candidate.reader) is not None
    )


def _divide(items: list[RunAssignment]) -> Iterator[Unit]:
    """Yield units of nearly equal length."""
    units = math.ceil(len(items) / _MOST_TOGETHER)
    size = math.ceil(len(items) / units)
    yield from (tuple(items[start : start + size]) for start in range(0, len(items), size))


@dataclass(frozen=True)
class BufferedSource:
    """A file that was read, with its hash; its rows are in memory."""

    item: RunAssignment
    result: ReadResult
    sink: BufferedSink
    sha256: str


def read_together(unit: Unit, folder: Path, progress: Callable[[int], None]) -> list[BufferedSource]:
    """Read the files of a unit into memory; those with an error are left out."""
    sinks: dict[int, BufferedSink] = {}
    hashes: dict[int, str] = {}

    def open_sink(number: int, rank: int) -> Sink:
        hashes[number] = unit[number].sha256 or hash_source(unit[number].candidate.path)
        source: Future[str] = Future()
        source.set_result(hashes[number][:16])
        return sinks.setdefault(number, BufferedSink(folder, unit[number].run, source, rank))

    reader = find_batch_reader(unit[0].candidate.reader)
    assert reader is not None  # noqa: S101 - make_units asks for it
    files = [(item.candidate.path, partial(open_sink, number)) for number, item in enumerate(unit)]
    results: list[ReadResult | None] = [None] * len(unit)
    with suppress(ReaderCrashError), report_crashes(reader, unit[0].candidate.path):  # each is then read alone
        results = reader.read_many(files, progress=progress)
    return [
        BufferedSource(unit[number], result, sinks[number], hashes[number])
        for number, result in enumerate(results)
        if result is not None
    ]
