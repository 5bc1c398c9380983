"""Exported traces looked through: whether they are JSON, and what is in them, in little memory whatever their size."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_PIECE = 1 << 20
_LARGEST_EVENT = 64 << 20
_NUMBER_END = 64
"""Characters that must follow before a number is surely whole."""


@dataclass(frozen=True)
class TraceCheck:
    """What a trace holds: events by category; `problem` says why it is no JSON, None where it is."""

    categories: Counter[str]
    problem: str | None = None

    @property
    def kernels(self) -> int:
        """Kernels that ran on a GPU."""
        return self.categories["kernel"]

    @property
    def copies(self) -> int:
        """Copies and fills that a GPU did."""
        return self.categories["gpu_memcpy"] + self.categories["gpu_memset"]


def check_trace(path: Path) -> TraceCheck:
    """Read a trace of the form {…, "traceEvents": […], …} event by event."""
    categories: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8") as file:
            for event in _events(_Text(file)):
                categories[str(event.get("cat", "")) if isinstance(event, dict) else ""] += 1
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return TraceCheck(categories, " ".join(str(error).split()))
    return TraceCheck(categories)


class _Text:
    """A file of JSON, decoded value by value."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False
        self._decode = json.JSONDecoder(parse_constant=_refused).raw_decode

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, wanted: str) -> str:
        """The next character, one of those wanted."""
        found = self.peek()
        if not found or found not in wanted:
            raise ValueError(f"{found or 'the end'!r} stands where one of {wanted!r} is due")
        self._at += 1
        return found

    def value(self) -> Any:  # noqa: ANN401  whatever JSON holds
        """The next value. More is read while it seems cut: a number only shows its end by what follows."""
        self.peek()
        while True:
            try:
                found, end = self._decode(self._text, self._at)
            except json.JSONDecodeError:
                if len(self._text) - self._at > _LARGEST_EVENT or not self._more():
                    raise
                continue
            if end + _NUMBER_END > len(self._text) and not isinstance(found, dict | list) and self._more():
                continue
            self._at = end
            return found

    def _more(self) -> bool:
        if self._ended:
            return False
        piece = self._file.read(max(_PIECE, len(self._text) - self._at))
        if not piece:
            self._ended = True
            return False
        self._text, self._at = self._text[self._at :] + piece, 0
        return True


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _events(text: _Text) -> Iterator[Any]:
    """Every event; raises ValueError where the text is no JSON, also behind the last."""
    text.take("{")
    if text.peek() == "}":
        text.take("}")
    else:
        while True:
            name = text.value()
            text.take(":")
            if name == "traceEvents" and text.peek() == "[":
                yield from _elements(text)
            else:
                text.value()
            if text.take(",}") == "}":
                break
    if text.peek():
        raise ValueError("something stands behind the end")


def _elements(text: _Text) -> Iterator[Any]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.take(",]") == "]":
            return
