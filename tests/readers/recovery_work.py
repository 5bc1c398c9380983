"""Count the characters that recovery reads: a measure of its time that no other process disturbs."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from tracelab.readers.kineto import chunk_search, chunker, damage_text, event_scan, recovery, repair
from tracelab.readers.kineto.chunker import Border, Chunk, Trace
from tracelab.readers.kineto.mapper import Rows

MODULES: tuple[ModuleType, ...] = (chunk_search, chunker, damage_text, event_scan, recovery, repair)
SPACES = re.compile(r"[ \t\r\n]*")


class Work:
    """The sum of all characters that were read."""

    characters = 0


class CountedText(str):
    """A text that counts the characters which are copied from it or searched in it."""

    work: Work

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        self.work.characters += len(part)
        return part

    def find(self, text: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().find(text, start, end)
        self.work.characters += (len(self) if at < 0 else at) - start
        return at

    def rfind(self, text: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        at = super().rfind(text, start, end)
        self.work.characters += (len(self) if end is None else end) - max(start, at)
        return at

    def count(self, text: str, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        self.work.characters += (len(self) if end is None else end) - start
        return super().count(text, start, end)


class CountedBytes(bytes):
    """The content of a chunk, whose text counts."""

    work: Work

    def decode(self, *_: str) -> CountedText:  # type: ignore[override]
        text = CountedText(super().decode("latin-1"))
        text.work = self.work
        return text

    def __getitem__(self, key: Any) -> Any:
        part = super().__getitem__(key)
        self.work.characters += len(part) if isinstance(part, bytes) else 1
        return part


class CountedRest(bytes):
    """What a border carries to a chunk: it makes the content of that chunk count."""

    work: Work

    def __add__(self, data: bytes) -> CountedBytes:  # type: ignore[override]
        content = CountedBytes(super().__add__(data))
        content.work = self.work
        return content


class CountedPattern:
    """A pattern that counts the characters which it reads; a match that fails has read what it could skip."""

    def __init__(self, pattern: "re.Pattern[Any]", work: Work) -> None:
        self._pattern, self._work = pattern, work

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._pattern, name)

        def call(*arguments: Any) -> Any:
            self._work.characters += max(len(text) for text in arguments if isinstance(text, str | bytes))
            return method(*arguments)

        return call

    def match(self, text: Any, start: int = 0, end: int = 1 << 62) -> Any:
        match = self._pattern.match(text, start, end)
        reached = match.end() if match else start
        self._work.characters += 1 + reached - start
        if isinstance(text, str) and (spaces := SPACES.match(text, reached + (match is None))):
            self._work.characters += spaces.end() - spaces.start()
        return match

    def fullmatch(self, text: Any, start: int = 0, end: int = 1 << 62) -> Any:
        self._work.characters += min(end, len(text)) - start
        return self._pattern.fullmatch(text, start, end)

    def search(self, text: Any, start: int = 0, end: int = 1 << 62) -> Any:
        match = self._pattern.search(text, start, end)
        self._work.characters += (match.end() if match else min(end, len(text))) - start
        return match

    def finditer(self, text: Any, start: int = 0, end: int = 1 << 62) -> Iterator[Any]:
        before = start
        for match in self._pattern.finditer(text, start, end):
            self._work.characters += match.end() - before
            before = match.end()
            yield match
        self._work.characters += min(end, len(text)) - before


class CountingReader:
    """Reads events as the compiled parser does, and counts their characters; without it as the one in Python."""

    def __init__(self, work: Work, *, has_parser: bool) -> None:
        self._work, self._has_parser = work, has_parser

    def add_events(self, events: memoryview, rows: Rows) -> bool:
        if not self._has_parser:
            return False
        self._work.characters += len(events)
        try:
            values = json.loads(f"[{bytes(events).decode('latin-1')}]", strict=False)
        except (ValueError, RecursionError):
            return False
        if not all(isinstance(value, dict) for value in values):
            return False
        rows.events_kept += len(values)
        return True

    def add_lines(self, lines: list[bytes], rows: Rows) -> None:
        rows.events_kept += len(lines)


@contextmanager
def _count_patterns(work: Work) -> Iterator[None]:
    def decode(text: str, at: int = 0) -> tuple[Any, int]:
        try:
            value, end = raw_decode(str(text), at)
        except json.JSONDecodeError as error:
            work.characters += (len(text) if error.msg.startswith("Unterminated") else error.pos) - at
            raise
        except RecursionError:
            work.characters += 1_000
            raise
        work.characters += end - at
        return value, end

    raw_decode = chunk_search._decode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunk_search, "_decode", decode)
        for module in MODULES:
            for name, value in list(vars(module).items()):
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, CountedPattern(value, work))
        yield


def count_work(content: str, *, is_last: bool = True, has_parser: bool = True) -> tuple[int, Rows]:
    """Recover the events of a chunk; return how many characters that reads, and the rows."""
    work, rest = Work(), CountedRest()
    rest.work = work
    data = content.encode("latin-1")
    chunk = Chunk(0, 0, memoryview(data), len(data), is_last=is_last, is_end_known=False)
    with _count_patterns(work):
        rows, _ = recovery.recover(
            Border(rest), chunk, Trace(has_events=True), CountingReader(work, has_parser=has_parser), 0, lambda: None
        )
    return work.characters, rows
