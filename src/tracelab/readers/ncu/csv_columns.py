"""The columns of a CSV page, found by their names, and one row's text as its fields."""

import csv
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

_SEPARATORS = (",", ";", "\t")
_KERNEL = "kernel name"
_INTEGER = re.compile(r"\s*-?\d+(?: .*)?|\s*")
_SIZE = r"\d+(?:[.,]\d{3})*"  # as locales write it: 1024, 1.024 or 1,024
_SHAPE = re.compile(rf"\s*\(?{_SIZE}, ?{_SIZE}, ?{_SIZE}\)?\s*|\s*")
_CHECKED = {"context": _INTEGER, "stream": _INTEGER, "device": _INTEGER, "block size": _SHAPE, "grid size": _SHAPE}

IDENTITY = (
    *("id", "process id", "process name", "host name", _KERNEL, "kernel time", "context", "stream"),
    *("block size", "grid size", "device", "cc"),
)
DETAILS = ("section name", "body item label", "metric name", "metric unit", "metric value")
RULE = ("rule name", "rule type", "rule description", "estimated speedup type", "estimated speedup")
_KNOWN = {*IDENTITY, *DETAILS, *RULE}


@dataclass(frozen=True)
class ColumnLayout:
    """What the columns of one table are."""

    separator: str
    header: tuple[str, ...]

    @cached_property
    def at(self) -> Mapping[str, int]:
        """Where each column stands, by its name in lower case; of a name that stands twice the first."""
        places: dict[str, int] = {}
        for place, name in enumerate(self.header):
            places.setdefault(" ".join(name.split()).lower(), place)
        return places

    @cached_property
    def details(self) -> bool:
        """Whether a row is one metric, not a launch with all its metrics."""
        return "metric name" in self.at and "metric value" in self.at

    @cached_property
    def least(self) -> int:
        """The fewest fields that say something: rows are ragged where rules have columns, and where they are cut."""
        names = [*IDENTITY, *DETAILS[2:]] if self.details else IDENTITY
        return 1 + max(self.at[name] for name in names if name in self.at) + (not self.details)

    @cached_property
    def nvtx(self) -> tuple[tuple[str, int], ...]:
        """The columns of NVTX ranges, with the key their text gets in args."""
        found = [(name, place) for place, name in enumerate(self.header) if "Domain:" in name and "Range" in name]
        return tuple(("nvtx_push_pop" if "Push" in name else "nvtx_start_stop", place) for name, place in found)

    @cached_property
    def of_launch(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """The cells that tell one launch from another."""
        people = ("process name", "host name")
        named = [self.at[name] for name in IDENTITY if name in self.at and name not in people]
        places = [*named, *(place for _, place in self.nvtx)]
        return itemgetter(*places)

    @cached_property
    def of_metric(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """The cells of a details page that tell one metric from another."""
        named = [self.at[name] for name in DETAILS if name in self.at and name != "metric value"]
        places = [*named, named[0], *(place for _, place in self.others)]  # of one alone it makes no tuple
        return itemgetter(*places)

    @cached_property
    def nvtx_within(self) -> bool:
        """Whether the columns of ranges stand where every row has cells."""
        return all(place < self.least for _, place in self.nvtx)

    @cached_property
    def others(self) -> tuple[tuple[str, int], ...]:
        """Every other column: the metrics of a raw page, what nobody foresaw on a details page."""
        ranges = {place for _, place in self.nvtx}
        return tuple(
            (name, place)
            for place, name in enumerate(self.header)
            if place not in ranges and " ".join(name.split()).lower() not in _KNOWN and name.strip()
        )

    @cached_property
    def starts(self) -> re.Pattern[str]:
        """How a row begins: numbers stand where a launch's and a process's stand."""
        last = max(self.at["id"], self.at.get("process id", 0))
        numbers = {self.at["id"], self.at.get("process id")}
        text = rf'(?:"(?:[^"]|"")*"|[^"{self.separator}]*)'
        parts = [r'\s*"?\d+"?' if place in numbers else text for place in range(last + 1)]
        return re.compile(f"{self.separator.join(parts)}(?:{self.separator}|$)")

    @cached_property
    def inside(self) -> re.Pattern[str] | None:
        """How a row begins behind a program's unfinished line."""
        if self.at["id"] == 0 and self.at.get("process id") == 1:
            return re.compile(rf'"\d+"{self.separator}"\d+"{self.separator}"(?!\()')
        return None

    def fields(self, record: str, known: Container[tuple[str, ...]] = ()) -> list[str] | None:
        """The fields of a row; None where they are not those of the header. Launches that are known are sound."""
        found = None if record.count('"') % 2 else self._sound(split_fields(record, self.separator), known)
        if found is None:
            found = self._sound(self._between_marks(record), known)
        cut = self.details and found is not None and len(found) == self.least and self._ends_open(record)
        return None if cut else found

    def _ends_open(self, record: str) -> bool:
        """Whether a row whose fields all stand in quotes ends before one."""
        return record.startswith('"') and record.endswith(self.separator)

    def _between_marks(self, record: str) -> list[str] | None:
        """The fields of a row in which a quote was not doubled: what stands between `","`."""
        bare = record.rstrip(self.separator)
        if not bare.startswith('"') or not bare.endswith('"') or bare.endswith(f'{self.separator}"'):
            return None
        return [part.replace('""', '"') for part in bare[1:-1].split(f'"{self.separator}"')]

    def cut(self, record: str, fields: list[str]) -> bool:
        """Whether a raw page's row lacks metrics; the last that it has may then lack digits, unless it is closed."""
        if self.details or len(fields) - self._ends_open(record) >= len(self.header):
            return False
        if not record.endswith(('"', self.separator)):
            fields.pop()
        return True

    def _sound(self, fields: list[str] | None, known: Container[tuple[str, ...]]) -> list[str] | None:
        if fields is None or not self.least <= len(fields) <= len(self.header) + 1:
            return None
        if self.nvtx_within and self.of_launch(fields) in known:
            return fields
        if not fields[self.at["id"]].strip().isdecimal():
            return None
        for name, pattern in _CHECKED.items():
            place = self.at.get(name)
            if place is not None and place < len(fields) and not pattern.fullmatch(fields[place]):
                return None
        return fields


def parse_header(line: str) -> ColumnLayout | None:
    """The layout that a line declares, if it is the header of a page."""
    if "ID" not in line or "Kernel Name" not in line:
        return None
    start = line.find('"ID"')
    whole = line if start < 0 or line[:start].endswith((",", ";", "\t")) else line[start:]
    for separator in _SEPARATORS:
        names = split_fields(whole, separator) or []
        if {"ID", "Kernel Name"} <= {name.strip() for name in names}:
            return ColumnLayout(separator, tuple(name.strip() for name in names))
    return None


def parse_units(layout: ColumnLayout, line: str) -> tuple[str, ...] | None:
    """The units of a raw page's columns, if the line is that row: no launch, and a cell for every column."""
    fields = split_fields(line, layout.separator)
    if fields is None or not len(layout.header) - 1 <= len(fields) <= len(layout.header) + 1:
        return None
    if any(fields[layout.at[name]].strip() for name in ("id", _KERNEL)):
        return None
    return tuple(field.strip() for field in [*fields, ""][: len(layout.header)])


def split_fields(record: str, separator: str) -> list[str] | None:
    """The fields of a line; None where its quotes are not closed."""
    try:
        return next(csv.reader([record], delimiter=separator), None)
    except csv.Error:  # a field beyond csv's limit: hundreds of thousands of instances
        return _split_long_fields(record, separator)


def _split_long_fields(record: str, separator: str) -> list[str] | None:
    field = re.compile(rf'(?:"((?:[^"]|"")*)"|([^"{separator}]*))({separator}|$)')
    fields, position = [], 0
    while match := field.match(record, position):
        quoted, bare, end = match.groups()
        fields.append(quoted.replace('""', '"') if quoted is not None else bare)
        position = match.end()
        if not end:
            return fields if position == len(record) else None
    return None
