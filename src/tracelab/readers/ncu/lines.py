"""The bytes of a text file as lines, whatever their encoding, none of them longer than memory allows."""

import codecs
import io
from collections.abc import Iterator

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts

_BLOCK_BYTES = 1 << 20
_LONGEST_LINE = 64 << 20
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def lines_of(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[str]:
    """The lines, without their ends: UTF-8, UTF-16 with its mark (PowerShell's `>`), else Windows' Western one."""
    block = bytes(decompress.read_chunk(stream, _BLOCK_BYTES))
    if wide := _UTF16.get(block[:2]):
        decoder = codecs.getincrementaldecoder(wide)(errors="replace")
        yield from _wide_lines(stream, block[2:], decoder, diagnostics)
        return
    block = block.removeprefix(codecs.BOM_UTF8)
    left = b""
    while block:
        *whole, left = (left + block).split(b"\n")
        for line in whole:
            yield _decoded(line, diagnostics)
        left = _shortened(left, diagnostics)
        block = bytes(decompress.read_chunk(stream, _BLOCK_BYTES))
    if left:
        yield _decoded(left, diagnostics)


def head_lines(head: bytes) -> list[str]:
    """The lines of a file's first bytes; the last may be cut."""
    return list(lines_of(io.BytesIO(head), DiagnosticCounts()))  # type: ignore[arg-type]  # a stream of bytes all the same


def _wide_lines(
    stream: io.RawIOBase, block: bytes, decoder: codecs.IncrementalDecoder, diagnostics: DiagnosticCounts
) -> Iterator[str]:
    left = ""
    while block:
        *whole, left = (left + decoder.decode(block)).split("\n")
        yield from (line.rstrip("\r") for line in whole)
        if len(left) > _LONGEST_LINE:
            diagnostics.note("line_too_long", left[:100])
            left = ""
        block = bytes(decompress.read_chunk(stream, _BLOCK_BYTES))
    left += decoder.decode(b"", final=True)
    if left:
        yield left


def _decoded(line: bytes, diagnostics: DiagnosticCounts) -> str:
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        diagnostics.note("not_utf8", error)
        return line.decode("cp1252", errors="replace").rstrip("\r")


def _shortened(line: bytes, diagnostics: DiagnosticCounts) -> bytes:
    if len(line) <= _LONGEST_LINE:
        return line
    diagnostics.note("line_too_long", repr(line[:100]))
    return b""
