"""Repair single events that the parser refuses: decode them in Python, exact to the digit.

A value that does not fit loses that value only; an event is lost where no simple repair completes it, or where it is
nested too deeply for Python.
"""

import re
from collections.abc import Iterable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.kineto import json_text
from tracelab.readers.kineto.damage_text import describe_damage
from tracelab.readers.kineto.mapping import US_PER_TICK

_LIMIT_NS = 1 << 63
_EXACT = Context(prec=10_000, traps=[InvalidOperation])
"""More digits than the sum of two numbers of `_MAX_TIME_DIGITS` can have."""
_MAX_TIME_DIGITS = 4_000

_MAX_PYTHON_BYTES = 4 << 20
_MAX_PYTHON_VALUES = 500_000
"""A larger event may not have more values: each takes some hundred bytes of memory in Python."""

_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_BARE_WORD = re.compile(r"([:\[,]\s*+)[-+]?(?:nan|inf(?:inity)?|none|undefined)\b", re.IGNORECASE)
_BARE_RANKS = re.compile(r'("Process Group Ranks"\s*+:\s*+)([^"{}]*+)(?=(["}]))')

_TEXT_KEYS = ("ph", "cat", "name", "pid", "tid")
_OWN_KEYS = {*_TEXT_KEYS, "ts", "dur", "args"}


class _NotFinite:
    """The value of NaN and infinity, which is no number."""

    def __repr__(self) -> str:
        return "NaN"


_NOT_FINITE = _NotFinite()


class EventRepair:
    """Rewrites events as JSON lines with times in ns, and notes in `diagnostics` what they lose."""

    def __init__(self, base_ns: int, diagnostics: DiagnosticCounts) -> None:
        self._base_ns = base_ns
        self._diagnostics = diagnostics
        self._duplicates: list[list[str]] = []
        self._decoder = json_text.decoder(pairs=self._make_object, constant=lambda _: _NOT_FINITE)

    def rewrite_all(self, events: Iterable[bytes]) -> tuple[list[bytes], int]:
        """Return the lines of whole objects, and the number of those that cannot be rewritten."""
        lines: list[bytes] = []
        skipped = 0
        for event in events:
            line = self.rewrite(event)
            if line is None:
                skipped += 1
                self._diagnostics.note("event_lost", describe_damage(event))
            else:
                lines.append(line)
        return lines, skipped

    def rewrite(self, event: bytes) -> bytes | None:
        """Return the line of an object; None where it is damaged, or too deep or too large for Python."""
        value = self._decode(self._decode_utf8(event))
        return self._write_line(value) if isinstance(value, dict) else None

    def rewrite_damaged(self, event: bytes, missing: str) -> bytes | None:
        """Return the line of an object that is no valid JSON, where a simple repair completes it.

        `missing` are the brackets that the object lacks at its end; empty where it may be cut off: a bracket behind
        a number could complete half a number.
        """
        damaged = event.decode(errors="replace")
        if not is_affordable(damaged):
            return None
        candidate = _BARE_WORD.sub(r"\1NaN", damaged)
        if "\\" in candidate:
            candidate = _BAD_ESCAPE.sub(r"\\\\", candidate)
        if "Process Group Ranks" in candidate:
            candidate = _BARE_RANKS.sub(_quote_ranks, candidate)
        for repaired in dict.fromkeys((candidate, candidate + missing)):
            value = self._decode(repaired) if repaired != damaged else None
            if isinstance(value, dict) and (repaired == candidate or "ph" in value):  # else it holds another event
                self._decode_utf8(event)
                self._diagnostics.note("event_repaired", describe_damage(event))
                return self._write_line(value)
        return None

    def _decode(self, text: str) -> Any:  # noqa: ANN401 - JSON
        """Decode JSON; returns None where that fails."""
        self._duplicates.clear()
        if not is_affordable(text):
            return None
        try:
            value = self._decoder.decode(text)
        except (ValueError, RecursionError):
            return None
        for keys in self._duplicates:
            self._diagnostics.note("duplicate_key", keys)
        return value

    def _decode_utf8(self, data: bytes) -> str:
        """Decode bytes; replace and count what is not UTF-8."""
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self._diagnostics.note("invalid_text", error)
            return data.decode(errors="replace")

    def _make_object(self, items: list[tuple[str, Any]]) -> dict[str, Any]:
        value = {_replace_surrogates(key): item for key, item in items}
        if len(value) < len(items):
            self._duplicates.append([key for key, _ in items if key][:12])
        return value

    def _write_line(self, event: dict[str, Any]) -> bytes:
        args = event.get("args")
        line = {
            **{key: self._to_text(event.get(key)) for key in _TEXT_KEYS},
            "ts": self._to_ns(event.get("ts"), "ts", self._base_ns),
            "dur": self._to_ns(event.get("dur"), "dur", 0),
            "args": None if args is None else self._to_object(args),
            **{key: value for key, value in event.items() if key not in _OWN_KEYS},
        }
        return self._encode(line).encode(errors="replace")

    def _to_ns(self, us: object, key: str, base_ns: int) -> int | None:
        """Convert microseconds, a number or its text, to whole nanoseconds from `base_ns`, rounding half to even."""
        if us is None:
            return None
        try:
            return _round_ns(us, base_ns)
        except ArithmeticError:
            sample = "NaN or infinity" if us is _NOT_FINITE else describe_value(us)
            self._diagnostics.note("time_unreadable", f"{key}: {sample}")
            return None

    def _to_text(self, value: object) -> str | None:
        if value is None or isinstance(value, str):
            return value
        text = self._encode(value)
        return None if value is _NOT_FINITE else text

    def _to_object(self, value: object) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        self._diagnostics.note("arguments_no_object", describe_value(value))
        return {"args": value}

    def _encode(self, value: object) -> str:
        return json_text.encode(value, lambda _: self._diagnostics.note("value_not_finite"))


def is_affordable(text: str) -> bool:
    """Whether the values of a JSON text fit into a bounded part of memory."""
    return len(text) <= _MAX_PYTHON_BYTES or sum(map(text.count, ",[{")) <= _MAX_PYTHON_VALUES


def _quote_ranks(match: re.Match[str]) -> str:
    """Return the ranks as a string: up to the next key, or to the end of the object."""
    key, ranks, following = match.groups()
    comma = ""
    if following == '"':
        ranks, comma, _ = ranks.rpartition(",")
        if not comma:
            return match[0]
    return f'{key}"{ranks.rstrip()}"{comma}'


def _round_ns(us: object, base_ns: int) -> int:
    """Return microseconds as nanoseconds from `base_ns`. Raises ArithmeticError where they are no time of 64 bits."""
    if isinstance(us, bool) or not isinstance(us, int | str | Decimal):
        raise InvalidOperation
    if len(us.text if isinstance(us, json_text.Number) else str(us)) > _MAX_TIME_DIGITS:
        raise InvalidOperation
    exact = Decimal(us)
    if not exact.is_finite() or exact.adjusted() > len(str(_LIMIT_NS)):
        raise InvalidOperation
    if exact.adjusted() < -_MAX_TIME_DIGITS:  # less than any time that can be rounded up
        exact = Decimal(0)
    rounded = round(_EXACT.add(_EXACT.multiply(exact, Decimal(US_PER_TICK)), Decimal(base_ns)))
    if abs(rounded) >= _LIMIT_NS:
        raise InvalidOperation
    return rounded


def _replace_surrogates(key: str) -> str:
    """Return the key without halves of surrogate pairs, which UTF-8 cannot encode."""
    return key if key.isascii() else key.encode(errors="replace").decode()
