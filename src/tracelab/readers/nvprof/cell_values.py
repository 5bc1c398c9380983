"""Cells of nvprof's tables as exact values: a number, with the unit that stands in the cell or above the column."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.units import parse_unit, to_base_unit

KILO = 1024
"""What the K of nvprof's KB, MB and GB stands for, in rates too."""

_NUMBER = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(%|[a-zA-Zµμ][a-zA-Zµμ/]*)?")
_LEVEL = re.compile(r"[A-Za-z]+ \((\d+)\)")  # of a utilisation: Low (2)
_DEVICE = re.compile(r"(.*\S)\s*\((\d{1,6})\)")
_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_MOST = 1 << 62
_MOST_DIGITS = 300  # what has more is no double
_DIGITS_OF_INT = 18
_DIGITS_OF = {"s": 9, "ms": 6, "us": 3, "ns": 0}
ABSENT = frozenset(("", "-", "n/a"))
_INVALID = ("<OVERFLOW>", "<INVALID>", "nan", "-nan", "inf", "-inf")


@dataclass(frozen=True)
class Amount:
    """A number in base units: ns, byte, byte/s, % …"""

    number: Decimal
    unit: str | None


@lru_cache(maxsize=1 << 16)
def parse_amount(text: str, unit: str = "") -> Amount | None:
    """The number that a cell holds; None where it holds none. The cell's own unit wins over the column's."""
    found = _NUMBER.fullmatch(text)
    if not found and (level := _LEVEL.fullmatch(text)):
        return Amount(Decimal(level[1]), None)
    if not found and _COMMA.fullmatch(text):  # a spreadsheet of a country with decimal commas
        found = _NUMBER.fullmatch(text.replace(",", "."))
    if not found:
        return None
    number, base = to_base_unit(Decimal(found[1]), found[2] or unit, kilo=KILO)
    return Amount(number, base) if number.is_finite() and number.adjusted() < _MOST_DIGITS else None


@lru_cache(maxsize=1024)
def parse_device(text: str) -> tuple[str | None, int | None]:
    """Name and ordinal of a device as `Tesla K80 (0)` gives them."""
    found = _DEVICE.fullmatch(text)
    if found:
        return found[1], int(found[2])
    return (None, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else (text or None, None)  # noqa: PLR2004


def printed_resolution_ns(text: str, unit: str) -> Decimal:
    """What the last digit of a printed time stands for."""
    found = _NUMBER.fullmatch(text)
    exponent = Decimal(found[1]).as_tuple().exponent if found else None
    if not found or not isinstance(exponent, int) or abs(exponent) > _DIGITS_OF_INT:
        return Decimal(0)
    return parse_unit(found[2] or unit, kilo=KILO).factor.scaleb(exponent)


@lru_cache(maxsize=1 << 16)
def parse_whole(text: str, column_unit: str, unit: str) -> int | None:
    """A time or size as a whole number of its base unit; printed digits below 1 are rounded, halves to even."""
    digits = _DIGITS_OF.get(column_unit)
    before, _, behind = text.partition(".")
    plain = text.isascii() and before.isdigit() and (behind.isdigit() or not behind) and len(before) <= _DIGITS_OF_INT
    if plain and digits is not None and len(behind) <= digits:
        value = int(before + behind) * 10 ** (digits - len(behind))  # the same, without a Decimal: rows are many
        return value if value < _MOST and unit == "ns" else None
    found = parse_amount(text, column_unit)
    if found is None or found.unit != unit or abs(found.number) >= _MOST:
        return None
    return int(found.number.to_integral_value())


@lru_cache(maxsize=1 << 16)
def parse_count(text: str, most: int = _MOST) -> int | None:
    """A number without a unit, or an id."""
    if text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004  shorter than any limit
        return int(text)
    found = parse_amount(text)
    if found is None or found.unit or found.number != found.number.to_integral_value() or abs(found.number) >= most:
        return None
    return int(found.number)


@dataclass
class RowCells:
    """One row: the cells that hold something, by the names of their columns."""

    units: dict[str, str]
    diagnostics: DiagnosticCounts
    held: dict[str, str] = field(default_factory=dict)

    def take(self, columns: tuple[str, ...], fields: list[str]) -> None:
        """Let the next row be the current one."""
        self.held = {name: text for name, text in zip(columns, fields, strict=True) if text not in ABSENT}

    def text(self, name: str, otherwise: str = "") -> str | None:
        """A cell, or another where it is not there."""
        found = self.held.get(name)
        return self.held.get(otherwise) if found is None and otherwise else found

    def amount(self, name: str) -> Amount | None:
        """A cell in base units."""
        text = self.held.get(name)
        if text is None:
            return None
        found = parse_amount(text, self.units.get(name, ""))
        if found is None:
            self._note_unfit(name, text)
        return found

    def whole(self, name: str, unit: str) -> int | None:
        """A time or a size as a whole number of its base unit."""
        text = self.held.get(name)
        if text is None:
            return None
        found = parse_whole(text, self.units.get(name, ""), unit)
        if found is None:
            bare = parse_amount(text, self.units.get(name, ""))
            self._note_unfit(name, text, code="unit_missing" if bare and not bare.unit else "value_unfit")
        return found

    def count(self, name: str, *, most: int = _MOST) -> int | None:
        """A number or an id."""
        text = self.held.get(name)
        if text is None:
            return None
        found = parse_count(text, most)
        if found is None:
            self._note_unfit(name, text)
        return found

    def number(self, name: str) -> float | None:
        """A cell in base units, as a double."""
        found = self.amount(name)
        return None if found is None else float(found.number)

    def unit(self, *names: str) -> str | None:
        """The base unit of the first of these cells that has one."""
        found = (parse_amount(self.held[name], self.units.get(name, "")) for name in names if name in self.held)
        return next((each.unit for each in found if each and each.unit), None)

    def _note_unfit(self, name: str, text: str, code: str = "value_unfit") -> None:
        self.diagnostics.note("value_invalid" if text in _INVALID else code, f"{name} {text}")
