"""Files of JSON lines, the first of which says what the others are: a damaged line costs itself alone."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.run_folder.coerce import loads

_PIECE_BYTES = 1 << 20
_LONGEST_BYTES = 1 << 20
_BLANK = b" \t\r\0"


@dataclass(frozen=True)
class Line:
    """One line of a file, without its end; `whole` unless the file ends within it."""

    content: bytes
    whole: bool = True


def lines_of(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Line]:
    """The lines of a stream, one at a time in memory; those beyond all reason are counted and left out."""
    held, skipping = bytearray(), False
    while piece := decompress.read_chunk(stream, _PIECE_BYTES):
        *ended, rest = piece.split(b"\n")
        for number, part in enumerate(ended):
            content = bytes(held + part) if number == 0 else bytes(part)
            if (skipping and number == 0) or len(content) > _LONGEST_BYTES:
                diagnostics.note("line_too_long")
            else:
                yield Line(content)
            held, skipping = bytearray(), False
        held += rest
        if skipping or len(held) > _LONGEST_BYTES:
            held, skipping = bytearray(), True
    if skipping:
        diagnostics.note("line_too_long")
    elif held:
        yield Line(bytes(held), whole=False)


def objects_of(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Mapping[str, object] | None]:
    """The objects of a file, one a line; None for a line that is lost."""
    for line in lines_of(stream, diagnostics):
        content = line.content.strip(_BLANK)
        if b"\0" in (line.content[:1], line.content[-1:]):
            diagnostics.note("nul_bytes")
        if not content:
            continue
        try:
            value = loads(content.decode("utf-8"))
        except ValueError:
            value = None
        if isinstance(value, dict):
            yield value
            continue
        if line.whole:
            diagnostics.note("line_lost", content[:80].decode(errors="replace"))
        else:
            diagnostics.note("cut_off")
        yield None
