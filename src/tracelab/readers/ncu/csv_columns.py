"""Find the columns of a CSV page by name, and split rows into fields."""

import csv
import re
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from tracelab.readers.diagnostics import resembles_any

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
_PRIVATE = ("process name", "host name")
_KNOWN = {*IDENTITY, *DETAILS, *RULE}


@dataclass(frozen=True)
class ColumnLayout:
    """Columns of one table."""

    separator: str
    header: tuple[str, ...]

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Position of each column by lower-case name; for a repeated name, the first."""
        positions: dict[str, int] = {}
        for position, name in enumerate(self.header):
            positions.setdefault(" ".join(name.split()).lower(), position)
        return positions

    @cached_property
    def details(self) -> bool:
        """Whether a row is one metric rather than a launch with all its metrics."""
        return "metric name" in self.positions and "metric value" in self.positions

    @cached_property
    def min_fields(self) -> int:
        """Fewest fields of a complete row: rows are ragged if rules have columns, or if they are cut."""
        names = [*IDENTITY, *DETAILS[2:]] if self.details else IDENTITY
        return 1 + max(self.positions[name] for name in names if name in self.positions) + (not self.details)

    @cached_property
    def nvtx(self) -> tuple[tuple[str, int], ...]:
        """NVTX columns, with the keys of their texts in args."""
        ranges = [
            (name, position) for position, name in enumerate(self.header) if "Domain:" in name and "Range" in name
        ]
        return tuple(("nvtx_push_pop" if "Push" in name else "nvtx_start_stop", position) for name, position in ranges)

    @cached_property
    def launch_key(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Cells that identify a launch."""
        people = ("process name", "host name")
        key_columns = [self.positions[name] for name in IDENTITY if name in self.positions and name not in people]
        positions = [*key_columns, *(position for _, position in self.nvtx)]
        return itemgetter(*positions)

    @cached_property
    def metric_key(self) -> Callable[[Sequence[str]], tuple[str, ...]]:
        """Cells of a details page that identify a metric."""
        key_columns = [self.positions[name] for name in DETAILS if name in self.positions and name != "metric value"]
        # itemgetter of a single position returns no tuple
        positions = [
            *key_columns,
            key_columns[0],
            *(position for _, position in self.other_columns),
        ]
        return itemgetter(*positions)

    @cached_property
    def nvtx_in_every_row(self) -> bool:
        """Whether the NVTX columns are among those that every row has."""
        return all(position < self.min_fields for _, position in self.nvtx)

    @cached_property
    def other_columns(self) -> tuple[tuple[str, int], ...]:
        """All other columns: metrics of a raw page, unknown columns of a details page."""
        ranges = {position for _, position in self.nvtx}
        return tuple(
            (name, position)
            for position, name in enumerate(self.header)
            if position not in ranges and name.strip() and not _is_known(" ".join(name.split()).lower())
        )

    @cached_property
    def row_start(self) -> re.Pattern[str]:
        """Pattern of the beginning of a row: numbers in place of the ids of launch and process."""
        last = max(self.positions["id"], self.positions.get("process id", 0))
        numbers = {self.positions["id"], self.positions.get("process id")}
        text = rf'(?:"[^"]*(?:""[^"]*)*"|[^"{self.separator}]*)'
        parts = [r'\s*"?\d+"?' if position in numbers else text for position in range(last + 1)]
        return re.compile(f"{self.separator.join(parts)}(?:{self.separator}|$)")

    @cached_property
    def embedded_row_start(self) -> re.Pattern[str] | None:
        """Pattern of the beginning of a row after the program's unfinished line."""
        if self.positions["id"] == 0 and self.positions.get("process id") == 1:
            return re.compile(rf'"\d+"{self.separator}"\d+"{self.separator}"(?!\()')
        return None

    def fields(self, record: str, known_launches: Container[tuple[str, ...]] = ()) -> list[str] | None:
        """Return the fields of a row; None if they do not match the header. Known launches need no further check."""
        parsed = (
            None
            if record.count('"') % 2
            else self._checked_fields(split_fields(record, self.separator), known_launches)
        )
        if parsed is None:
            parsed = self._checked_fields(self._between_marks(record), known_launches)
        cut = self.details and parsed is not None and len(parsed) == self.min_fields and self._ends_open(record)
        return None if cut else parsed

    def _ends_open(self, record: str) -> bool:
        """Return whether a row of quoted fields ends before a field."""
        return record.startswith('"') and record.endswith(self.separator)

    def _between_marks(self, record: str) -> list[str] | None:
        """Split a row with an undoubled quote at `","`."""
        bare = record.rstrip(self.separator)
        if not bare.startswith('"') or not bare.endswith('"') or bare.endswith(f'{self.separator}"'):
            return None
        return [part.replace('""', '"') for part in bare[1:-1].split(f'"{self.separator}"')]

    def trim_if_cut(self, record: str, fields: list[str]) -> bool:
        """Return whether a raw page's row lacks metrics; its last field may then lack digits, unless it is closed."""
        if self.details or len(fields) - self._ends_open(record) >= len(self.header):
            return False
        if not record.endswith(('"', self.separator)):
            fields.pop()
        return True

    def _checked_fields(self, fields: list[str] | None, known_launches: Container[tuple[str, ...]]) -> list[str] | None:
        if fields is None or not self.min_fields <= len(fields) <= len(self.header) + 1:
            return None
        if len(fields) > len(self.header) and fields[-1].strip():  # one column more than in the header is empty
            return None
        if self.nvtx_in_every_row and self.launch_key(fields) in known_launches:
            return fields
        if not fields[self.positions["id"]].strip().isdecimal():
            return None
        for name, pattern in _CHECKED.items():
            position = self.positions.get(name)
            if position is not None and position < len(fields) and not pattern.fullmatch(fields[position]):
                return None
        return fields


def _is_known(name: str) -> bool:
    """Return whether a column is no metric; a damaged name still protects those of programs and hosts."""
    return name in _KNOWN or resembles_any(name, _PRIVATE)


def parse_header(line: str) -> ColumnLayout | None:
    """Return the layout if the line is the header of a page."""
    if "ID" not in line or "Kernel Name" not in line:
        return None
    start = line.find('"ID"')
    header_line = line if start < 0 or line[:start].endswith((",", ";", "\t")) else line[start:]
    for separator in _SEPARATORS:
        names = split_fields(header_line, separator) or []
        if {"ID", "Kernel Name"} <= {name.strip() for name in names}:
            return ColumnLayout(separator, tuple(name.strip() for name in names))
    return None


def parse_units(layout: ColumnLayout, line: str) -> tuple[str, ...] | None:
    """Return the units of a raw page's columns if the line is that row: no launch, and a cell for every column."""
    fields = split_fields(line, layout.separator)
    if fields is None or not len(layout.header) - 1 <= len(fields) <= len(layout.header) + 1:
        return None
    if any(fields[layout.positions[name]].strip() for name in ("id", _KERNEL)):
        return None
    return tuple(field.strip() for field in [*fields, ""][: len(layout.header)])


def split_fields(record: str, separator: str) -> list[str] | None:
    """Split a line; None if its quotes are not closed."""
    try:
        return next(csv.reader([record], delimiter=separator), None)
    except csv.Error:  # a field beyond csv's limit: hundreds of thousands of instances
        return _split_long_fields(record, separator)


def _split_long_fields(record: str, separator: str) -> list[str] | None:
    field = re.compile(rf'(?:"([^"]*(?:""[^"]*)*)"|([^"{separator}]*))({separator}|$)')
    fields, position = [], 0
    while match := field.match(record, position):
        quoted, bare, end = match.groups()
        fields.append(quoted.replace('""', '"') if quoted is not None else bare)
        position = match.end()
        if not end:
            return fields if position == len(record) else None
    return None
