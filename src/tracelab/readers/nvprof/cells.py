"""Cells of nvprof's tables as exact values: a number, with the unit that stands in the cell or above the column."""

import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache

from tracelab.readers.findings import Findings
from tracelab.readers.quantity import in_base_unit, scale_of

KILO = 1024
"""What the K of nvprof's KB, MB and GB stands for, in rates too."""

_NUMBER = re.compile(r"([-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)\s*(%|[a-zA-Zµμ][a-zA-Zµμ/]*)?")
_LEVEL = re.compile(r"[A-Za-z]+ \((\d+)\)")  # of a utilisation: Low (2)
_DEVICE = re.compile(r"(.*\S)\s*\((\d{1,6})\)")
_COMMA = re.compile(r"[-+]?\d+,\d+(?:[eE][-+]?\d+)?")
_MOST = 1 << 62
_ABSENT = ("", "-", "n/a")
_INVALID = ("<OVERFLOW>", "<INVALID>", "nan", "-nan", "inf", "-inf")


@dataclass(frozen=True)
class Amount:
    """A number in base units: ns, byte, byte/s, % …"""

    number: Decimal
    unit: str | None


@lru_cache(maxsize=1 << 16)
def amount(text: str, unit: str = "") -> Amount | None:
    """The number that a cell holds; None where it holds none. The cell's own unit wins over the column's."""
    found = _NUMBER.fullmatch(text)
    if not found and (level := _LEVEL.fullmatch(text)):
        return Amount(Decimal(level[1]), None)
    if not found and _COMMA.fullmatch(text):  # a spreadsheet of a country with decimal commas
        found = _NUMBER.fullmatch(text.replace(",", "."))
    if not found:
        return None
    return Amount(*in_base_unit(Decimal(found[1]), found[2] or unit, kilo=KILO))


def device_of(text: str) -> tuple[str | None, int | None]:
    """Name and ordinal of a device as `Tesla K80 (0)` gives them."""
    found = _DEVICE.fullmatch(text)
    if found:
        return found[1], int(found[2])
    return (None, int(text)) if text.isascii() and text.isdigit() and len(text) < 7 else (text or None, None)  # noqa: PLR2004


def resolution_ns(text: str, unit: str) -> Decimal:
    """What the last digit of a printed time stands for."""
    found = _NUMBER.fullmatch(text)
    if not found:
        return Decimal(0)
    exponent = Decimal(found[1]).as_tuple().exponent
    return scale_of(found[2] or unit, kilo=KILO).factor.scaleb(exponent if isinstance(exponent, int) else 0)


@dataclass
class Cells:
    """One row: its cells by the names of their columns."""

    place: dict[str, int]
    units: tuple[str, ...]
    findings: Findings
    fields: list[str] = field(default_factory=list)

    def text(self, *names: str) -> str | None:
        """The first of these cells that is there."""
        for name in names:
            at = self.place.get(name)
            if at is not None and self.fields[at] not in _ABSENT:
                return self.fields[at]
        return None

    def amount(self, name: str) -> Amount | None:
        """A cell in base units."""
        text = self.text(name)
        if text is None:
            return None
        found = amount(text, self.units[self.place[name]])
        if found is None:
            self.findings.note("value_invalid" if text in _INVALID else "value_unfit", f"{name} {text}")
        return found

    def exact(self, name: str, unit: str) -> Decimal | None:
        """A cell in a base unit that it must have."""
        found = self.amount(name)
        if found is None or found.unit != unit or abs(found.number) >= _MOST:
            return None
        return found.number

    def whole(self, name: str, unit: str) -> int | None:
        """A time or a size as a whole number; printed digits below 1 are rounded, halves to even."""
        number = self.exact(name, unit)
        return None if number is None else int(number.to_integral_value())

    def count(self, *names: str, most: int = _MOST) -> int | None:
        """A number or an id."""
        name = next((name for name in names if self.text(name) is not None), None)
        if name is None:
            return None
        text = self.text(name) or ""
        found = amount(text)
        if found is None or found.unit or found.number != int(found.number) or abs(found.number) >= most:
            self.findings.note("value_unfit", f"{name} {text}")
            return None
        return int(found.number)

    def number(self, name: str) -> float | None:
        """A cell in base units, as a double."""
        found = self.amount(name)
        return None if found is None else float(found.number)

    def unit(self, *names: str) -> str | None:
        """The base unit of the first of these cells that has one."""
        return next((found.unit for name in names if (found := self._quiet(name)) and found.unit), None)

    def _quiet(self, name: str) -> Amount | None:
        text = self.text(name)
        return None if text is None else amount(text, self.units[self.place[name]])
