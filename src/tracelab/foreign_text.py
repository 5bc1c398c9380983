"""Make text of files and file names safe to print: one function escapes it, and all printing goes through it."""

import codecs
import os
import re
import sys
from pathlib import Path
from typing import BinaryIO

_URL_PATH = re.compile(r"([a-z][a-z0-9+.-]+:)/(?!/)")
"""How a path begins that was made from a URL: of its two slashes, pathlib keeps one."""
_CONTROL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
"""CSI and OSC sequences of ECMA-48, and escapes of one letter."""


def escape_controls(text: str) -> str:
    """Return the text in one line, with control characters, newlines, bidi overrides and lone surrogates escaped."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape_character(character) for character in text)


def escape_lines(text: str) -> str:
    """Escape a text of several lines: its newlines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in "\n\t" else _escape_character(character)
        for character in text
    )


def escape_path(path: Path | str) -> str:
    """Return the path, or the URL, as text that can be stored and printed; its name may be any bytes."""
    text = escape_controls(os.fsencode(path).decode(errors="backslashreplace"))
    match = _URL_PATH.match(text)
    return f"{match[1]}//{text[match.end() :]}" if match else text


def print_lines(text: str, *, err: bool = False) -> None:
    """Print a text and end its line; what a terminal would execute is escaped."""
    import click

    click.echo(escape_lines(text), err=err)


def print_exact(text: str) -> None:
    """Print a text that other programs read: a pipe or file gets it as it is, a terminal gets it escaped."""
    import click

    click.echo(escape_lines(text) if sys.stdout.isatty() else text)


def strip_control_sequences(text: str) -> str:
    """Remove what programs write to terminals besides text: colors, moves of the cursor, titles of the window."""
    return _CONTROL_SEQUENCE.sub("", text)


class TerminalStream:
    """A binary stream of UTF-8 text that escapes what a terminal would execute.

    With `quotes_cells`, as in CSV, newlines between double quotes are escaped too.
    """

    def __init__(self, stream: BinaryIO, *, quotes_cells: bool) -> None:
        self._stream, self._quotes_cells = stream, quotes_cells
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._is_quoted = False

    def write(self, data: bytes) -> int:
        """Write encoded text; a character may continue in the next call."""
        texts = []
        for number, part in enumerate(self._decoder.decode(bytes(data)).split('"')):
            self._is_quoted ^= self._quotes_cells and number > 0
            texts.append(escape_controls(part) if self._is_quoted else escape_lines(part))
        self._stream.write('"'.join(texts).encode())
        return len(data)

    def flush(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    @property
    def closed(self) -> bool:
        """Whether the stream is closed, as Arrow's writers request it."""
        return self._stream.closed


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode()
