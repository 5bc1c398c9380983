"""The tolerant path: events read one by one in Python, exact to the digit, damaged ones repaired or counted.

It is for pieces and single events that the parser refuses. An event is lost only where its own text cannot be
delimited, or is nested too deeply for Python; a value that does not fit costs that value only.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto import json_text
from tracelab.readers.kineto.mapping import US_PER_TICK

_LIMIT_NS = 1 << 63

_FIRST_KEYS = "ph|name|cat|pid|tid|ts|args|id|s|bp|dur"
_NEXT_EVENT = re.compile(rf',\s*(?=\{{\s*"(?:{_FIRST_KEYS})"\s*:)')
_LAST_EVENT = re.compile(r"\}\s*(?=\]\s*(?:$|,\s*\"|\}))")
_SPACE = re.compile(r"[\s,\ufeff]*")

_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE_WORD = re.compile(r"([:\[,]\s*)[-+]?(?:nan|inf(?:inity)?|none|undefined)\b", re.IGNORECASE)
_BARE_RANKS = re.compile(r'("Process Group Ranks"\s*:\s*)([^"{}]*?)(\s*,\s*"|\s*\})')

_TEXT_KEYS = ("ph", "cat", "name", "pid", "tid")
_OWN_KEYS = {*_TEXT_KEYS, "ts", "dur", "args"}


class _NotFinite:
    """What NaN and infinity are read as, so that they cannot pass for numbers."""

    def __repr__(self) -> str:
        return "NaN"


_NOT_FINITE = _NotFinite()


@dataclass(frozen=True)
class Element:
    """One element of the event array: its value, or None with `damage` where it could not be read."""

    value: Any
    damage: str | None
    end: int


def elements(text: str, diagnostics: DiagnosticCounts, start: int = 0) -> Iterator[Element]:
    """The elements of an event array from `start` until its closing bracket or the end of the text."""
    decode = _decoder(diagnostics).raw_decode
    position = _after_space(text, start)
    while position < len(text) and text[position] != "]":
        try:
            value, end = decode(text, position)
        except (ValueError, RecursionError) as error:
            element = _damaged(text, position, diagnostics, str(error))
        else:
            element = Element(value, None, end)
        yield element
        position = _after_space(text, element.end)


def events(piece: bytes, base_ns: int, diagnostics: DiagnosticCounts) -> tuple[list[bytes], int]:
    """The events of a piece as JSON lines with times in ns, and how many elements could not be read."""
    lines: list[bytes] = []
    skipped = 0
    text = decoded(piece, diagnostics)
    position = 0
    while position < len(text):
        for element in elements(text, diagnostics, position):
            position = element.end
            if isinstance(element.value, dict):
                lines.append(_line(element.value, base_ns, diagnostics))
            else:
                skipped += 1
                diagnostics.note("event_lost" if element.damage else "not_an_object", element.damage or element.value)
        position = _after_space(text, position)
        if position < len(text):  # a closing bracket where the array goes on
            diagnostics.note("stray_bracket", text[position : position + 40])
            position += 1
    return lines, skipped


def whole_events(texts: Iterable[bytes], base_ns: int, diagnostics: DiagnosticCounts) -> tuple[list[bytes], int]:
    """The same of events each of which is known to be a whole object, in UTF-8."""
    decode = _decoder(diagnostics).decode
    lines: list[bytes] = []
    skipped = 0
    for text in texts:
        try:
            lines.append(_line(decode(text.decode()), base_ns, diagnostics))
        except (ValueError, RecursionError) as error:  # nested too deeply for Python
            skipped += 1
            diagnostics.note("event_lost", f"{error}: {text[:120].decode(errors='replace')}")
    return lines, skipped


def decoded(data: bytes, diagnostics: DiagnosticCounts) -> str:
    """The bytes as text; what is not UTF-8 is replaced, and counted."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        diagnostics.note("invalid_text", error)
        return data.decode(errors="replace")


def _decoder(diagnostics: DiagnosticCounts) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = {_encodable(key): item for key, item in items}
        if len(value) < len(items):
            diagnostics.note("duplicate_key", [key for key, _ in items if key][:12])
        return value

    return json_text.decoder(pairs=pairs, constant=lambda _: _NOT_FINITE)


def _encodable(key: str) -> str:
    """The key, as `_line` can write it: without halves of characters."""
    return key if key.isascii() else key.encode(errors="replace").decode()


def _damaged(text: str, start: int, diagnostics: DiagnosticCounts, problem: str) -> Element:
    """The damaged element at `start`: repaired where a simple repair makes it whole, else lost up to the next event."""
    boundary = _NEXT_EVENT.search(text, start)
    last = None if boundary else _LAST_EVENT.search(text, start)
    end = boundary.start() if boundary else last.start() + 1 if last else len(text)
    damaged = text[start:end]
    mended = _BARE_RANKS.sub(r'\1"\2"\3', _BARE_WORD.sub(r"\1NaN", _BAD_ESCAPE.sub(r"\\\\", damaged)))
    whole = boundary or last  # at a cut, a bracket put behind a number would make another number of it
    for repaired in (mended, mended + "}", mended + "}}") if whole else (mended,):
        try:
            value = _decoder(diagnostics).decode(repaired)
        except (ValueError, RecursionError):
            continue
        diagnostics.note("event_repaired", damaged)
        return Element(value, None, end)
    return Element(None, f"{problem}: {damaged[:120]}", max(end, start + 1))


def _line(event: dict[str, Any], base_ns: int, diagnostics: DiagnosticCounts) -> bytes:
    start_ns = _ns(event.get("ts"), "ts", diagnostics, base_ns)
    args = event.get("args")
    line = {
        **{key: _as_text(event.get(key), diagnostics) for key in _TEXT_KEYS},
        "ts": start_ns,
        "dur": _ns(event.get("dur"), "dur", diagnostics),
        "args": None if args is None else _as_object(args, diagnostics),
        **{key: value for key, value in event.items() if key not in _OWN_KEYS},
    }
    return _dumped(line, diagnostics).encode(errors="replace")


def _ns(us: object, key: str, diagnostics: DiagnosticCounts, base_ns: int = 0) -> int | None:
    """Microseconds, as a number or its text, in whole nanoseconds, half to even; counted from `base_ns`."""
    if us is None:
        return None
    try:
        if isinstance(us, bool) or not isinstance(us, int | str | Decimal):
            raise InvalidOperation
        ns = Decimal(us) * US_PER_TICK + base_ns
        rounded = round(ns) if abs(ns) < _LIMIT_NS else _LIMIT_NS
        if abs(rounded) >= _LIMIT_NS:
            raise InvalidOperation
    except ArithmeticError:
        diagnostics.note("time_unreadable", f"{key}: {'NaN or infinity' if us is _NOT_FINITE else us}")
        return None
    return rounded


def _as_text(value: object, diagnostics: DiagnosticCounts) -> str | None:
    if value is None or isinstance(value, str):
        return value
    text = _dumped(value, diagnostics)
    return None if value is _NOT_FINITE else text


def _as_object(value: object, diagnostics: DiagnosticCounts) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    diagnostics.note("arguments_no_object", value)
    return {"args": value}


def _dumped(value: object, diagnostics: DiagnosticCounts) -> str:
    return json_text.encode(value, lambda _: diagnostics.note("value_not_finite"))


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
