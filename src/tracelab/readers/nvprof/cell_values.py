"""Parse cells of nvprof's tables exactly: a number, with the unit in the cell or above the column."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.units import parse_unit, to_base_unit

KILO = 1024
"""Factor of the K in nvprof's KB, MB and GB, in rates too."""

_NUMBER = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(%|[a-zA-Zµμ][a-zA-Zµμ/]*)?")
_LEVEL = re.compile(r"[A-Za-z]+ \((\d+)\)")  # of a utilization: Low (2)
_DEVICE = re.compile(r"(.*\S)\s*\((\d{1,6})\)")
_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_MOST = 1 << 62
_MOST_DIGITS = 300  # beyond, the number is not a double
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
    """Parse the number of a cell; None if it has none. The cell's own unit wins over the column's."""
    parsed = _NUMBER.fullmatch(text)
    if not parsed and (level := _LEVEL.fullmatch(text)):
        return Amount(Decimal(level[1]), None)
    if not parsed and _COMMA.fullmatch(text):  # a spreadsheet in a locale with decimal commas
        parsed = _NUMBER.fullmatch(text.replace(",", "."))
    if not parsed:
        return None
    number, base = to_base_unit(Decimal(parsed[1]), parsed[2] or unit, kilo=KILO)
    return Amount(number, base) if number.is_finite() and number.adjusted() < _MOST_DIGITS else None


@lru_cache(maxsize=1024)
def parse_device(text: str) -> tuple[str | None, int | None]:
    """Parse name and ordinal of a device, as in `Tesla K80 (0)`."""
    parsed = _DEVICE.fullmatch(text)
    if parsed:
        return parsed[1], int(parsed[2])
    return (None, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else (text or None, None)  # noqa: PLR2004


def printed_resolution_ns(text: str, unit: str) -> Decimal:
    """Return the value of the last digit of a printed time."""
    parsed = _NUMBER.fullmatch(text)
    exponent = Decimal(parsed[1]).as_tuple().exponent if parsed else None
    if not parsed or not isinstance(exponent, int) or abs(exponent) > _DIGITS_OF_INT:
        return Decimal(0)
    return parse_unit(parsed[2] or unit, kilo=KILO).factor.scaleb(exponent)


@lru_cache(maxsize=1 << 16)
def parse_integer(text: str, column_unit: str, unit: str) -> int | None:
    """Parse a time or size as an integer of its base unit; digits below 1 are rounded, halves to even."""
    digits = _DIGITS_OF.get(column_unit)
    integer_part, _, fraction = text.partition(".")
    plain = (
        text.isascii()
        and integer_part.isdigit()
        and (fraction.isdigit() or not fraction)
        and len(integer_part) <= _DIGITS_OF_INT
    )
    if plain and digits is not None and len(fraction) <= digits:
        # the same without a Decimal: there are many rows
        value = int(integer_part + fraction) * 10 ** (digits - len(fraction))
        return value if value < _MOST and unit == "ns" else None
    parsed = parse_amount(text, column_unit)
    if parsed is None or parsed.unit != unit or abs(parsed.number) >= _MOST:
        return None
    return int(parsed.number.to_integral_value())


@lru_cache(maxsize=1 << 16)
def parse_count(text: str, most: int = _MOST) -> int | None:
    """Parse a number without a unit, or an id."""
    if text.isascii() and text.isdigit() and len(text) < 10:  # noqa: PLR2004  shorter than any limit
        return int(text)
    parsed = parse_amount(text)
    if (
        parsed is None
        or parsed.unit
        or parsed.number != parsed.number.to_integral_value()
        or abs(parsed.number) >= most
    ):
        return None
    return int(parsed.number)


_NAMES = ("Name", "Kernel")
_TIME_CELL = re.compile(r"\d[mnu]?s {2}")


def _has_times(name: str) -> bool:
    """Return whether a name has cells of a console's table in it."""
    return "  " in name and _TIME_CELL.search(name) is not None


@dataclass
class RowCells:
    """One row: the non-empty cells by column name."""

    units: dict[str, str]
    diagnostics: DiagnosticCounts
    cells: dict[str, str] = field(default_factory=dict)
    private_words: set[str] = field(default_factory=set)
    """Arguments of the recorded program's command line, which damaged compression can copy into any cell."""

    def replace_row(self, columns: tuple[str, ...], fields: list[str]) -> None:
        """Replace the current row, without a name that has parts of a command line or times: damage can join lines."""
        self.cells = {name: text for name, text in zip(columns, fields, strict=True) if text not in ABSENT}
        for name in _NAMES:
            if (text := self.cells.get(name)) and (self._is_private(text) or _has_times(text)):
                self._note_unfit(name, self.cells.pop(name))

    def _is_private(self, name: str) -> bool:
        is_command = " --" in name or "command: " in name
        return is_command or (bool(self.private_words) and not self.private_words.isdisjoint(name.split()))

    def text(self, name: str, fallback: str = "") -> str | None:
        """Return a cell, or another if it is empty."""
        parsed = self.cells.get(name)
        return self.cells.get(fallback) if parsed is None and fallback else parsed

    def amount(self, name: str) -> Amount | None:
        """Return a cell in base units."""
        text = self.cells.get(name)
        if text is None:
            return None
        parsed = parse_amount(text, self.units.get(name, ""))
        if parsed is None:
            self._note_unfit(name, text)
        return parsed

    def integer(self, name: str, unit: str) -> int | None:
        """Return a time or size as an integer of its base unit."""
        text = self.cells.get(name)
        if text is None:
            return None
        parsed = parse_integer(text, self.units.get(name, ""), unit)
        if parsed is None:
            unitless = parse_amount(text, self.units.get(name, ""))
            self._note_unfit(name, text, code="unit_missing" if unitless and not unitless.unit else "value_unfit")
        return parsed

    def count(self, name: str, *, most: int = _MOST) -> int | None:
        """Return a number or an id."""
        text = self.cells.get(name)
        if text is None:
            return None
        parsed = parse_count(text, most)
        if parsed is None:
            self._note_unfit(name, text)
        return parsed

    def number(self, name: str) -> float | None:
        """Return a cell in base units, as a double."""
        parsed = self.amount(name)
        return None if parsed is None else float(parsed.number)

    def unit(self, *names: str) -> str | None:
        """Return the base unit of the first of these cells that has one."""
        parsed = (parse_amount(self.cells[name], self.units.get(name, "")) for name in names if name in self.cells)
        return next((each.unit for each in parsed if each and each.unit), None)

    def _note_unfit(self, name: str, text: str, code: str = "value_unfit") -> None:
        if text in _INVALID:
            self.diagnostics.note("value_invalid", f"{name} {text}")
        else:
            self.diagnostics.note(code, f"{name} {describe_value(text)}")
