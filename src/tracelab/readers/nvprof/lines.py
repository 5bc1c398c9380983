"""A text file as lines, whatever its encoding and its line ends, in blocks of bounded size."""

import codecs
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts

_BLOCK_BYTES = 1 << 20
LONGEST = 1 << 20
"""Characters of the longest line that is read; what is longer is no row of nvprof's."""

_BREAK = re.compile(r"\r\n|\n|\r(?!\Z)")  # progress bars return without a line feed; a return at the end may get one
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_MOSTLY = 0.3


@dataclass(frozen=True)
class Block:
    """Some lines; `open_end` where the last of them has no line end, for the file ends there."""

    lines: list[str]
    open_end: bool = False


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding that a file's first bytes show, and how many of them say nothing else."""
    for bom, encoding in _BOMS.items():
        if head.startswith(bom):
            return encoding, len(bom)
    pairs = max(1, len(head) // 2)
    if head[1::2].count(0) > _MOSTLY * pairs and head[0::2].count(0) < _MOSTLY * pairs / 2:
        return "utf-16-le", 0
    if head[0::2].count(0) > _MOSTLY * pairs and head[1::2].count(0) < _MOSTLY * pairs / 2:
        return "utf-16-be", 0
    return "utf-8", 0


def decoded(head: bytes) -> str:
    """The first bytes of a file as text."""
    encoding, skipped = encoding_of(head)
    return head[skipped:].decode(encoding, "replace")


def lines_of(text: str) -> list[str]:
    """The lines of a text."""
    return _BREAK.split(text)


def blocks(stream: io.RawIOBase, diagnostics: DiagnosticCounts) -> Iterator[Block]:
    """The lines of a stream; characters that are not in its encoding are replaced, and counted."""
    data = bytes(decompress.read_chunk(stream, _BLOCK_BYTES))
    encoding, skipped = encoding_of(data[:4096])
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    data, begun, dropping = data[skipped:], "", False
    while data:
        text = decoder.decode(data)
        _note_replaced(text, diagnostics)
        *lines, begun = _BREAK.split(begun + text)
        if dropping and lines:
            lines, dropping = lines[1:], False
        if dropping or len(begun) > LONGEST:
            diagnostics.note("line_too_long", count=0 if dropping else 1)
            begun, dropping = "", True
        yield Block(lines)
        data = bytes(decompress.read_chunk(stream, _BLOCK_BYTES))
    text = decoder.decode(b"", final=True)
    _note_replaced(text, diagnostics)
    if begun + text:
        yield Block([(begun + text).rstrip("\r")], open_end=not begun.endswith("\r"))


def _note_replaced(text: str, diagnostics: DiagnosticCounts) -> None:
    if replaced := text.count("\ufffd"):
        diagnostics.note("invalid_text", count=replaced)
