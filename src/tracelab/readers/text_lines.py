"""Decode text files of any encoding and split them into lines, in blocks of bounded size."""

import codecs
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import AnyStr

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts

_BLOCK_BYTES = 1 << 20
_LONGEST_BYTES = 64 << 20
"""Longest line of `iter_lines`: ncu writes hundreds of thousands of instances in one cell."""

_LONGEST_IN_BLOCK = 1 << 20
"""Most characters in a line of `iter_blocks`; no row of nvprof is longer."""

_ENCODING_BYTES = 4096
_BREAK = re.compile(r"\r\n|\n|\r(?!\Z)")  # progress bars return without a line feed; a return at the end may get one
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MOSTLY = 0.3


@dataclass(frozen=True)
class Block:
    """Consecutive lines; `open_end` if the file ends within the last of them, without a line end."""

    lines: list[str]
    open_end: bool = False


def iter_lines(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[str]:
    """Yield the lines without their ends: UTF-8, UTF-16 with a byte order mark (PowerShell's `>`), else Windows-1252.

    Only line feeds end a line. Each line that is not UTF-8 is decoded as Windows-1252 on its own.
    """
    blocks = _byte_blocks(stream)
    first = next(blocks, b"")
    encoding, mark_bytes = _encoding_of_bom(first)
    if encoding not in (None, "utf-8"):
        yield from _iter_wide_lines(first[mark_bytes:], blocks, str(encoding), diagnostics)
        return
    for line in _join_lines(itertools.chain([first[mark_bytes:]], blocks), b"\n", diagnostics):
        yield _decode_line(line, diagnostics)


def lines_of_head(head: bytes) -> list[str]:
    """Return the lines of a file's first bytes as `iter_lines` decodes them; the last may be incomplete."""
    return list(iter_lines(io.BytesIO(head), DiagnosticCounts()))  # type: ignore[arg-type]  # read as any raw stream


def iter_blocks(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Block]:
    """Yield the lines in blocks, in the encoding of the file's beginning; undecodable characters are replaced.

    Line feeds and carriage returns end a line. Replaced characters and skipped lines are counted.
    """
    blocks = _byte_blocks(stream)
    data = next(blocks, b"")
    encoding, mark_bytes = detect_encoding(data[:_ENCODING_BYTES])
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    data, unfinished, skipping = data[mark_bytes:], "", False
    while data:
        text = decoder.decode(data)
        _note_replaced(text, diagnostics)
        *lines, unfinished = split_lines(unfinished + text)
        if skipping and lines:
            lines, skipping = lines[1:], False
        if skipping or len(unfinished) > _LONGEST_IN_BLOCK:
            diagnostics.note("line_too_long", count=0 if skipping else 1)
            unfinished, skipping = "", True
        yield Block(lines)
        data = next(blocks, b"")
    text = decoder.decode(b"", final=True)
    _note_replaced(text, diagnostics)
    if unfinished + text:
        yield Block([(unfinished + text).rstrip("\r")], open_end=not unfinished.endswith("\r"))


def detect_encoding(head: bytes) -> tuple[str, int]:
    """Return the encoding that a file's first bytes show, by mark or by zero bytes, and the length of the mark."""
    encoding, mark_bytes = _encoding_of_bom(head)
    if encoding is not None:
        return encoding, mark_bytes
    pairs = max(1, len(head) // 2)
    if head[1::2].count(0) > _MOSTLY * pairs and head[0::2].count(0) < _MOSTLY * pairs / 2:
        return "utf-16-le", 0
    if head[0::2].count(0) > _MOSTLY * pairs and head[1::2].count(0) < _MOSTLY * pairs / 2:
        return "utf-16-be", 0
    return "utf-8", 0


def decode_head(head: bytes) -> str:
    """Decode the first bytes of a file."""
    encoding, mark_bytes = detect_encoding(head)
    return head[mark_bytes:].decode(encoding, "replace")


def split_lines(text: str) -> list[str]:
    """Split a text at line feeds and carriage returns."""
    return _BREAK.split(text)


def _byte_blocks(stream: io.RawIOBase) -> Iterator[bytes]:
    while block := bytes(decompress.read_chunk(stream, _BLOCK_BYTES)):
        yield block


def _encoding_of_bom(head: bytes) -> tuple[str | None, int]:
    """Return the encoding of the byte order mark and its length; (None, 0) if there is none."""
    return next(((encoding, len(bom)) for bom, encoding in _BOMS.items() if head.startswith(bom)), (None, 0))


def _iter_wide_lines(
    block: bytes, blocks: Iterator[bytes], encoding: str, diagnostics: DiagnosticCounts
) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    decoded = (decoder.decode(data) for data in itertools.chain([block], blocks))
    texts = itertools.chain(decoded, iter(lambda: decoder.decode(b"", final=True), ""))
    for line in _join_lines(texts, "\n", diagnostics):
        yield line.rstrip("\r")


def _join_lines(blocks: Iterable[AnyStr], line_feed: AnyStr, diagnostics: DiagnosticCounts) -> Iterator[AnyStr]:
    """Yield the lines of consecutive blocks; a line that is too long is counted once and skipped."""
    unfinished: list[AnyStr] = []
    size = 0
    for block in blocks:
        parts = block.split(line_feed)
        unfinished.append(parts[0])
        size += len(parts[0])
        if size > _LONGEST_BYTES:
            unfinished = []
        if len(parts) == 1:
            continue
        if size > _LONGEST_BYTES:
            diagnostics.note("line_too_long")
        else:
            yield line_feed[:0].join(unfinished)
        yield from parts[1:-1]
        unfinished, size = parts[-1:], len(parts[-1])
    if size > _LONGEST_BYTES:
        diagnostics.note("line_too_long")
    elif size:
        yield line_feed[:0].join(unfinished)


def _decode_line(line: bytes, diagnostics: DiagnosticCounts) -> str:
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError as error:
        diagnostics.note("not_utf8", error)
        return line.decode("cp1252", errors="replace").rstrip("\r")


def _note_replaced(text: str, diagnostics: DiagnosticCounts) -> None:
    if replaced := text.count("\ufffd"):
        diagnostics.note("invalid_text", count=replaced)
