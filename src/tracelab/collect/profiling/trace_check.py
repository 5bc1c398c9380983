"""Check that an exported trace is valid JSON and count its events, in constant memory."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

_CHUNK = 1 << 20
_LARGEST_EVENT = 64 << 20
_NUMBER_END = 64
"""Characters that must follow a number before it is certainly complete."""
_CATEGORY = re.compile(rb'"cat"\s*:\s*"([^"]*)"')


@dataclass(frozen=True)
class TraceCheck:
    """Events of a trace by category; `problem` is why it is invalid JSON, or None."""

    categories: Counter[str]
    problem: str | None = None

    @property
    def kernels(self) -> int:
        """Kernels that ran on a GPU."""
        return self.categories["kernel"]

    @property
    def copies(self) -> int:
        """Memory copies and memsets on a GPU."""
        return self.categories["gpu_memcpy"] + self.categories["gpu_memset"]

    @property
    def ops(self) -> int:
        """Operators of torch that ran on the CPU side."""
        return self.categories["cpu_op"]


def check_trace(path: Path) -> TraceCheck:
    """Parse a trace of the form {…, "traceEvents": […], …} event by event."""
    categories: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8") as file:
            for event in _events(_JsonStream(file)):
                categories[str(event.get("cat", "")) if isinstance(event, dict) else ""] += 1
    except ValueError as error:  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return TraceCheck(categories, " ".join(str(error).split()))
    return TraceCheck(categories)


def count_categories(path: Path) -> Counter[str]:
    """Count the events of a damaged trace by the text of their categories, line by line as PyTorch writes it."""
    categories: Counter[str] = Counter()
    with path.open("rb") as file:
        for line in file:
            categories.update(name.decode("utf-8", "replace") for name in _CATEGORY.findall(line))
    return categories


class _JsonStream:
    """A JSON file, decoded value by value."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._text = ""
        self._at = 0
        self._ended = False
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def peek(self) -> str:
        """Return the next character that is not white space, or "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, expected: str) -> str:
        """Consume and return the next character; raises ValueError unless it is one of `expected`."""
        character = self.peek()
        if not character or character not in expected:
            raise ValueError(f"expected one of {expected!r}, found {character or 'the end'!r}")
        self._at += 1
        return character

    def value(self) -> Any:  # noqa: ANN401  any JSON value
        """Decode the next value, reading more while it seems truncated: only what follows ends a number."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError:
                if len(self._text) - self._at > _LARGEST_EVENT or not self._more():
                    raise
                continue
            if end + _NUMBER_END > len(self._text) and not isinstance(value, dict | list) and self._more():
                continue
            self._at = end
            return value

    def _more(self) -> bool:
        if self._ended:
            return False
        chunk = self._file.read(max(_CHUNK, len(self._text) - self._at))
        if not chunk:
            self._ended = True
            return False
        self._text, self._at = self._text[self._at :] + chunk, 0
        return True


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _events(text: _JsonStream) -> Iterator[Any]:
    """Yield every event; raises ValueError for invalid JSON anywhere in the file."""
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
        raise ValueError("extra data after the end")


def _elements(text: _JsonStream) -> Iterator[Any]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    while True:
        yield text.value()
        if text.take(",]") == "]":
            return
