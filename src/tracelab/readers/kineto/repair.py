"""Repair chunks and single events that the parser refuses: decode one by one in Python, exact to the digit.

An event is lost only where its own text cannot be delimited, or is nested too deeply for Python; a value that does not
fit loses that value only.
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
    """The value of NaN and infinity, which is no number."""

    def __repr__(self) -> str:
        return "NaN"


_NOT_FINITE = _NotFinite()


@dataclass(frozen=True)
class Element:
    """One element of the event array: its value, or None with the `damage` that made it unreadable."""

    value: Any
    damage: str | None
    end: int


def iterate_elements(text: str, diagnostics: DiagnosticCounts, start: int = 0) -> Iterator[Element]:
    """Yield the elements of an event array from `start` to its closing bracket or the end of the text."""
    decode = _make_decoder(diagnostics).raw_decode
    position = _skip_space(text, start)
    while position < len(text) and text[position] != "]":
        try:
            value, end = decode(text, position)
        except (ValueError, RecursionError) as error:
            element = _repair_element(text, position, diagnostics, str(error))
        else:
            element = Element(value, None, end)
        yield element
        position = _skip_space(text, element.end)


def repair_chunk(chunk: bytes, base_ns: int, diagnostics: DiagnosticCounts) -> tuple[list[bytes], int]:
    """Return the events of a chunk as JSON lines with times in ns, and the number of unreadable elements."""
    lines: list[bytes] = []
    skipped = 0
    text = _decode_utf8(chunk, diagnostics)
    position = 0
    while position < len(text):
        for element in iterate_elements(text, diagnostics, position):
            position = element.end
            if isinstance(element.value, dict):
                lines.append(_to_line(element.value, base_ns, diagnostics))
            else:
                skipped += 1
                diagnostics.note("event_lost" if element.damage else "not_an_object", element.damage or element.value)
        position = _skip_space(text, position)
        if position < len(text):  # a closing bracket where the array goes on
            diagnostics.note("stray_bracket", text[position : position + 40])
            position += 1
    return lines, skipped


def repair_events(texts: Iterable[bytes], base_ns: int, diagnostics: DiagnosticCounts) -> tuple[list[bytes], int]:
    """Return the same for events that are known to be complete objects in UTF-8."""
    decode = _make_decoder(diagnostics).decode
    lines: list[bytes] = []
    skipped = 0
    for text in texts:
        try:
            lines.append(_to_line(decode(text.decode()), base_ns, diagnostics))
        except (ValueError, RecursionError) as error:  # nested too deeply for Python
            skipped += 1
            diagnostics.note("event_lost", f"{error}: {text[:120].decode(errors='replace')}")
    return lines, skipped


def _decode_utf8(data: bytes, diagnostics: DiagnosticCounts) -> str:
    """Decode bytes; replace and count what is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        diagnostics.note("invalid_text", error)
        return data.decode(errors="replace")


def _make_decoder(diagnostics: DiagnosticCounts) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = {_replace_surrogates(key): item for key, item in items}
        if len(value) < len(items):
            diagnostics.note("duplicate_key", [key for key, _ in items if key][:12])
        return value

    return json_text.decoder(pairs=pairs, constant=lambda _: _NOT_FINITE)


def _replace_surrogates(key: str) -> str:
    """Return the key without halves of surrogate pairs, which UTF-8 cannot encode."""
    return key if key.isascii() else key.encode(errors="replace").decode()


def _repair_element(text: str, start: int, diagnostics: DiagnosticCounts, problem: str) -> Element:
    """Repair the damaged element at `start` where a simple repair completes it; else skip to the next event."""
    boundary = _NEXT_EVENT.search(text, start)
    last = None if boundary else _LAST_EVENT.search(text, start)
    end = boundary.start() if boundary else last.start() + 1 if last else len(text)
    damaged = text[start:end]
    candidate = _BARE_RANKS.sub(r'\1"\2"\3', _BARE_WORD.sub(r"\1NaN", _BAD_ESCAPE.sub(r"\\\\", damaged)))
    complete = boundary or last  # at a cut, a bracket behind a number could complete a number that is cut off
    for repaired in (candidate, candidate + "}", candidate + "}}") if complete else (candidate,):
        try:
            value = _make_decoder(diagnostics).decode(repaired)
        except (ValueError, RecursionError):
            continue
        diagnostics.note("event_repaired", damaged)
        return Element(value, None, end)
    return Element(None, f"{problem}: {damaged[:120]}", max(end, start + 1))


def _to_line(event: dict[str, Any], base_ns: int, diagnostics: DiagnosticCounts) -> bytes:
    start_ns = _to_ns(event.get("ts"), "ts", diagnostics, base_ns)
    args = event.get("args")
    line = {
        **{key: _to_text(event.get(key), diagnostics) for key in _TEXT_KEYS},
        "ts": start_ns,
        "dur": _to_ns(event.get("dur"), "dur", diagnostics),
        "args": None if args is None else _to_object(args, diagnostics),
        **{key: value for key, value in event.items() if key not in _OWN_KEYS},
    }
    return _encode(line, diagnostics).encode(errors="replace")


def _to_ns(us: object, key: str, diagnostics: DiagnosticCounts, base_ns: int = 0) -> int | None:
    """Convert microseconds, a number or its text, to whole nanoseconds from `base_ns`, rounding half to even."""
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


def _to_text(value: object, diagnostics: DiagnosticCounts) -> str | None:
    if value is None or isinstance(value, str):
        return value
    text = _encode(value, diagnostics)
    return None if value is _NOT_FINITE else text


def _to_object(value: object, diagnostics: DiagnosticCounts) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    diagnostics.note("arguments_no_object", value)
    return {"args": value}


def _encode(value: object, diagnostics: DiagnosticCounts) -> str:
    return json_text.encode(value, lambda _: diagnostics.note("value_not_finite"))


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
