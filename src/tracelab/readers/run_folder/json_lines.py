"""Read files of JSON lines; a damaged line costs only itself."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.run_folder.coerce import loads

_BLOCK_BYTES = 1 << 20
_LONGEST_BYTES = 1 << 20
_BLANK = b" \t\r\0"


@dataclass(frozen=True)
class Line:
    """One line without its line end; `complete` unless the file ends within it."""

    content: bytes
    complete: bool = True


def iter_lines(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Line]:
    """Yield the lines of a stream; lines over 1 MiB are counted and skipped."""
    unfinished, skipping = bytearray(), False
    while block := decompress.read_chunk(stream, _BLOCK_BYTES):
        *complete_lines, remainder = block.split(b"\n")
        for number, part in enumerate(complete_lines):
            content = bytes(unfinished + part) if number == 0 else bytes(part)
            if (skipping and number == 0) or len(content) > _LONGEST_BYTES:
                diagnostics.note("line_too_long")
            else:
                yield Line(content)
            unfinished, skipping = bytearray(), False
        unfinished += remainder
        if skipping or len(unfinished) > _LONGEST_BYTES:
            unfinished, skipping = bytearray(), True
    if skipping:
        diagnostics.note("line_too_long")
    elif unfinished:
        yield Line(bytes(unfinished), complete=False)


def iter_objects(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Mapping[str, object] | None]:
    """Yield one object per line; None for a line that is lost."""
    for number, line in enumerate(iter_lines(stream, diagnostics), 1):
        content = line.content.strip(_BLANK)
        if b"\0" in (line.content[:1], line.content[-1:]):
            diagnostics.note("nul_bytes")
        if not content:
            continue
        try:
            value = loads(content.decode("utf-8")) if content[:1] == b"{" and content[-1:] == b"}" else None
        except ValueError:
            value = None
        if isinstance(value, dict):
            yield value
            continue
        if line.complete:
            diagnostics.note("line_lost", f"line {number:,}")
        else:
            diagnostics.note("cut_off")
        yield None
