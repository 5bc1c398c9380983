"""A whole file of a run folder into a sink, whichever of its kinds it is."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracelab.errors import SourceError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics
from tracelab.readers.run_folder import metadata, nccl_tests, nvbandwidth
from tracelab.readers.run_folder.coerce import Row, as_table, fitted, loads
from tracelab.readers.run_folder.diagnostics import MESSAGES
from tracelab.readers.run_folder.json_lines import lines_of, objects_of
from tracelab.readers.run_folder.probe import LINES, Kind, kind_of
from tracelab.store.writer import Sink

VERSION = "run-2"

_ROWS_AT_ONCE = 32_768
_LARGEST_BYTES = 256 << 20
_TIMED = ("steps", "host_samples")
"""Kinds whose rows have times, counted from 1970."""
_RENAMED_KEYS = {"ceilings": {"what": "metric"}}
"""Keys that recordings made before a column's renaming have, by kind of file."""
_LOSSES = ("line_lost", "line_too_long", "cut_off", "gzip_cut_off", "gzip_broken")


class _Counted:
    """Puts rows into a sink and counts them."""

    def __init__(self, sink: Sink, diagnostics: DiagnosticCounts) -> None:
        self.sink, self.diagnostics, self.kept, self.lost = sink, diagnostics, 0, 0

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Take all rows, some at a time."""
        coming = iter(rows)
        while some := list(itertools.islice(coming, _ROWS_AT_ONCE)):
            self.kept += len(some)
            self.sink.put(table, as_table(table, some))


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:  # noqa: ARG001
    """Put the rows of a file into a sink. Raises SourceError."""
    kind, diagnostics = kind_of(path), DiagnosticCounts()
    if kind.rank is None and kind.name in ("steps", "memory_peaks", "ops"):
        diagnostics.note("rank_assumed")
    counted = _Counted(open_sink(kind.rank or 0), diagnostics)
    version = _READ_BY.get(kind.name, _read_lines)(path, kind, counted, progress)
    counted.sink.close()
    return ReadResult(
        source={
            "producer": kind.name if kind.name in _OTHERS else "tracelab collect",
            "producer_version": version,
            "events_read": counted.kept + counted.lost,
            "events_kept": counted.kept,
            "events_skipped": counted.lost,
            "complete": not counted.lost and not any(diagnostics.counts[code] for code in _LOSSES),
            "clock": "unix" if kind.name in _TIMED else None,
        },
        diagnostics=build_diagnostics(diagnostics, MESSAGES),
    )


def _read_lines(path: Path, kind: Kind, counted: _Counted, progress: Callable[[int], None]) -> str | None:
    table, renamed = LINES[kind.name], _RENAMED_KEYS.get(kind.name, {})

    def rows() -> Iterator[Row]:
        with decompress.open_decompressed(path, counted.diagnostics, progress) as stream:
            for number, fields in enumerate(objects_of(stream, counted.diagnostics)):
                if fields is None:
                    counted.lost += 1
                elif number and "tracelab" not in fields:  # a header may stand again where a run went on
                    yield fitted(
                        table, {renamed.get(key, key): value for key, value in fields.items()}, counted.diagnostics
                    )

    counted.put(table, rows())
    return None


def _read_run(path: Path, kind: Kind, counted: _Counted, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _content(path, counted.diagnostics, progress)
    counted.put("runs", [metadata.row_of(content, path.parent, counted.diagnostics)])
    for name in metadata.missing(content, path.parent):
        counted.diagnostics.note("expected_missing", name)
    if content.get("status") == "not_run":
        counted.diagnostics.note("not_finished")
    versions = content.get("versions")
    version = versions.get("tracelab") if isinstance(versions, Mapping) else None
    return version if isinstance(version, str) else None


def _read_ops(path: Path, kind: Kind, counted: _Counted, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _content(path, counted.diagnostics, progress)
    listed = content.get("ops")

    def rows() -> Iterator[Row]:
        for fields in listed if isinstance(listed, list) else []:
            if not isinstance(fields, Mapping):
                counted.lost += 1
                counted.diagnostics.note("line_lost", repr(fields)[:80])
                continue
            shapes = fields.get("input_shapes")
            text = shapes if isinstance(shapes, str) or shapes is None else json.dumps(shapes, ensure_ascii=False)
            kind_of_summary = content.get("kind", "key_averages")
            yield fitted("summaries", {"kind": kind_of_summary, **fields, "input_shapes": text}, counted.diagnostics)

    counted.put("summaries", rows())
    return None


def _read_nvbandwidth(path: Path, kind: Kind, counted: _Counted, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _content(path, counted.diagnostics, progress)
    counted.put("ceilings", nvbandwidth.rows(content, counted.diagnostics))
    counted.lost += counted.diagnostics.counts["value_unfit"]
    return nvbandwidth.version(content)


def _read_nccl_tests(path: Path, kind: Kind, counted: _Counted, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    report = nccl_tests.Report(counted.diagnostics)
    report.named(path)
    with decompress.open_decompressed(path, counted.diagnostics, progress) as stream:
        text = (line.content.decode("utf-8", errors="replace") for line in lines_of(stream, counted.diagnostics))
        counted.put("ceilings", report.rows(text))
    counted.lost += report.lost
    return report.version


def _content(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> Mapping[str, Any]:
    """A file that is one object. Such files are written whole or not at all, so a damaged one is refused."""
    with decompress.open_decompressed(path, diagnostics, progress) as stream:
        data = decompress.read_chunk(stream, _LARGEST_BYTES)
    try:
        content = loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise SourceError(path, f"is damaged ({' '.join(str(error).split())}); copy it again") from error
    if not isinstance(content, Mapping):
        raise SourceError(path, "is no JSON object; copy it again")
    return content


_READ_BY: dict[str, Callable[[Path, Kind, _Counted, Callable[[int], None]], str | None]] = {
    "run": _read_run,
    "ops": _read_ops,
    "nvbandwidth": _read_nvbandwidth,
    "nccl-tests": _read_nccl_tests,
}
"""Kinds that are no JSON lines."""
_OTHERS = ("nvbandwidth", "nccl-tests")
