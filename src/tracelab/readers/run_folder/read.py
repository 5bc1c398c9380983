"""Read any file of a run folder into a sink."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tracelab.errors import SourceError
from tracelab.readers import decompress
from tracelab.readers.base import ReadResult
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics
from tracelab.readers.run_folder import metadata, nccl_tests, nvbandwidth
from tracelab.readers.run_folder.coerce import Row, build_row, build_table, format_json, loads
from tracelab.readers.run_folder.diagnostics import MESSAGES
from tracelab.readers.run_folder.json_lines import iter_lines, iter_objects
from tracelab.readers.run_folder.probe import LINES, Kind, detect_kind
from tracelab.store.writer import Sink

VERSION = "run-4"

_ROWS_AT_ONCE = 32_768
_LARGEST_BYTES = 16 << 20
"""Largest file that is one JSON object: parsed, three of its bytes can need 72."""
_TIMESTAMPED = ("steps", "host_samples")
"""Kinds whose rows have Unix times."""
_RENAMED_KEYS = {"ceilings": {"what": "metric"}}
"""Keys that recordings made before a column's renaming have, by kind of file."""
_LOSSES = ("line_lost", "line_too_long", "cut_off", "compressed_cut_off", "compressed_broken")


class _CountingSink:
    """Put rows into a sink and count them."""

    def __init__(self, sink: Sink, diagnostics: DiagnosticCounts) -> None:
        self.sink, self.diagnostics, self.kept, self.lost = sink, diagnostics, 0, 0

    def put(self, table: str, rows: Iterable[Row]) -> None:
        """Put all rows, in batches."""
        remaining = iter(rows)
        while batch := list(itertools.islice(remaining, _ROWS_AT_ONCE)):
            self.kept += len(batch)
            self.sink.put(table, build_table(table, batch))


def read(path: Path, open_sink: Callable[[int], Sink], *, workers: int, progress: Callable[[int], None]) -> ReadResult:  # noqa: ARG001
    """Put the rows of a file into a sink. Raises SourceError."""
    kind, diagnostics = detect_kind(path), DiagnosticCounts()
    if kind.rank is None and kind.name in ("steps", "memory_peaks", "ops"):
        diagnostics.note("rank_assumed")
    counting = _CountingSink(open_sink(kind.rank or 0), diagnostics)
    version = _READERS.get(kind.name, _read_lines)(path, kind, counting, progress)
    counting.sink.close()
    return ReadResult(
        source={
            "producer": kind.name if kind.name in _EXTERNAL_TOOLS else "tracelab collect",
            "producer_version": version,
            "events_read": counting.kept + counting.lost,
            "events_kept": counting.kept,
            "events_skipped": counting.lost,
            "complete": not counting.lost and not any(diagnostics.counts[code] for code in _LOSSES),
            "clock": "unix" if kind.name in _TIMESTAMPED else None,
        },
        diagnostics=build_diagnostics(diagnostics, MESSAGES),
    )


def _read_lines(path: Path, kind: Kind, counting: _CountingSink, progress: Callable[[int], None]) -> str | None:
    table, renamed = LINES[kind.name], _RENAMED_KEYS.get(kind.name, {})

    def rows() -> Iterator[Row]:
        with decompress.open_decompressed(path, counting.diagnostics, progress) as stream:
            for number, fields in enumerate(iter_objects(stream, counting.diagnostics)):
                if fields is None:
                    counting.lost += 1
                elif number and "tracelab" not in fields:  # a resumed run writes another header
                    yield build_row(
                        table, {renamed.get(key, key): value for key, value in fields.items()}, counting.diagnostics
                    )

    counting.put(table, rows())
    return None


def _read_run(path: Path, kind: Kind, counting: _CountingSink, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _read_object(path, counting.diagnostics, progress)
    counting.put("runs", [metadata.build_run_row(content, path.parent, counting.diagnostics)])
    for name in metadata.missing_files(content, path.parent):
        counting.diagnostics.note("expected_missing", name)
    if content.get("status") == "not_run":
        counting.diagnostics.note("not_finished")
    versions = content.get("versions")
    version = versions.get("tracelab") if isinstance(versions, Mapping) else None
    return version if isinstance(version, str) else None


def _read_ops(path: Path, kind: Kind, counting: _CountingSink, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _read_object(path, counting.diagnostics, progress)
    ops = content.get("ops")

    def rows() -> Iterator[Row]:
        for number, fields in enumerate(ops if isinstance(ops, list) else [], 1):
            if not isinstance(fields, Mapping) or not fields:
                counting.lost += 1
                counting.diagnostics.note("line_lost", f"entry {number:,} of ops")
                continue
            shapes = fields.get("input_shapes")
            text = shapes if isinstance(shapes, str) or shapes is None else format_json(shapes)
            summary_kind = content.get("kind", "key_averages")
            yield build_row("summaries", {"kind": summary_kind, **fields, "input_shapes": text}, counting.diagnostics)

    counting.put("summaries", rows())
    return None


def _read_nvbandwidth(path: Path, kind: Kind, counting: _CountingSink, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    content = _read_object(path, counting.diagnostics, progress)
    counting.put("ceilings", nvbandwidth.build_rows(content, counting.diagnostics))
    counting.lost += counting.diagnostics.counts["value_unfit"]
    return nvbandwidth.tool_version(content)


def _read_nccl_tests(path: Path, kind: Kind, counting: _CountingSink, progress: Callable[[int], None]) -> str | None:  # noqa: ARG001
    report = nccl_tests.Report(counting.diagnostics)
    report.set_collective_from_name(path)
    with decompress.open_decompressed(path, counting.diagnostics, progress) as stream:
        text = (line.content.decode("utf-8", errors="replace") for line in iter_lines(stream, counting.diagnostics))
        counting.put("ceilings", report.rows(text))
    counting.lost += report.lost
    return report.version


def _read_object(path: Path, diagnostics: DiagnosticCounts, progress: Callable[[int], None]) -> Mapping[str, Any]:
    """Return the JSON object of a file. Such files are written atomically, so a damaged one is refused."""
    with decompress.open_decompressed(path, diagnostics, progress) as stream:
        data = decompress.read_chunk(stream, _LARGEST_BYTES + 1)
    if len(data) > _LARGEST_BYTES:
        raise SourceError(path, f"is larger than {_LARGEST_BYTES >> 20} MiB; split it")
    try:
        content = loads(data.decode("utf-8-sig"))
    except ValueError as error:
        raise SourceError(path, f"is damaged ({' '.join(str(error).split())}); copy it again") from error
    if not isinstance(content, Mapping):
        raise SourceError(path, "is not a JSON object; copy it again")
    return content


_READERS: dict[str, Callable[[Path, Kind, _CountingSink, Callable[[int], None]], str | None]] = {
    "run": _read_run,
    "ops": _read_ops,
    "nvbandwidth": _read_nvbandwidth,
    "nccl-tests": _read_nccl_tests,
}
"""Readers of the kinds that are not JSON lines."""
_EXTERNAL_TOOLS = ("nvbandwidth", "nccl-tests")
