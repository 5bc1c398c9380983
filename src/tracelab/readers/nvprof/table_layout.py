"""Detect nvprof's tables by their column names, and split lines into cells."""

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Kind = Literal["trace", "summary", "metrics", "launches", "migrations", "path"]

_ALIASES = {
    "Regs": "Registers Per Thread",
    "SSMem": "Static SMem",
    "DSMem": "Dynamic SMem",
    "Event Name": "Metric Name",
    "Correlation ID": "Correlation_ID",
}
_KINDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("metrics", frozenset({"Invocations", "Metric Name", "Min", "Max", "Avg"})),
    ("summary", frozenset({"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"})),
    ("trace", frozenset({"Start", "Duration", "Name"})),
    ("trace", frozenset({"Start", "Duration", "Kernel"})),
    ("migrations", frozenset({"Count", "Total Size", "Total Time", "Name"})),
    ("path", frozenset({"Critical path(%)", "Critical path", "Name"})),
    ("launches", frozenset({"Device", "Kernel", "Stream"})),
    ("launches", frozenset({"Device", "Name", "Stream"})),
)
TRACE_COLUMNS = {
    *("Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z", "Grid Size", "Block Size"),
    *("Registers Per Thread", "Static SMem", "Dynamic SMem", "Size", "Throughput", "SrcMemType", "DstMemType"),
    *("Device", "Context", "Stream", "Src Dev", "Src Ctx", "Dst Dev", "Dst Ctx", "Unified Memory", "Virtual Address"),
    *("Name", "Kernel", "Correlation_ID"),
}
"""Columns of a trace; every other column is a metric of each launch."""

_NUMERIC_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "trace": ("Start", "Duration"),
    "summary": ("Time", "Calls", "Avg"),
    "metrics": ("Invocations", "Min", "Max"),
    "launches": ("Context", "Stream", "Correlation_ID"),
    "migrations": ("Count", "Total Time"),
    "path": ("Critical path(%)", "Critical path"),
}
"""Columns of which a row has a number in at least one."""

_NEXT = r'"?(?:[,;\t]"?|\s{2,})'
_HEADER = re.compile(
    rf'"?(?:Type{_NEXT}Time\(%\)|Time\(%\){_NEXT}Time|Start{_NEXT}Duration|Device{_NEXT}(?:Kernel|Context|Count)'
    rf"|Invocations{_NEXT}(?:Metric|Event) Name|Count{_NEXT}Avg Size|Critical path\(%\){_NEXT})"
)
_UNITS = {*("s", "ms", "us", "ns", "%", "B", "KB", "MB", "GB", "TB", "B/s", "KB/s", "MB/s", "GB/s", "TB/s"), "MHz"}
_GAP = re.compile(r"\s{2,}|\t")
_STARTS_WITH_NUMBER = re.compile(r'\s*"?-?\d')
_STARTS_WITH_CELL = re.compile(r"\s*-?\d[\d.e+-]*(?:ns|us|ms|s|%)\s{2,}")
_STARTS_WITH_COUNT = re.compile(r"\s*\d+\s{2,}")
_STARTS_WITH_DELIMITED = re.compile(r'\s*"?-?\d[\d.,e+-]*"?[,;\t]')
_STARTS_WITH_DEVICE = re.compile(r'\s*+"?(?:[^",;\t(]|\((?!\d+\)"?[,;\t]))*+(?:[",;] )?(?<=\S )\(\d+\)"?[,;\t]')
_STARTS_WITH_TYPE = re.compile(r'\s*"?(?:GPU activities|API calls|OpenACC[^",]*|OpenMP[^",]*|Range)\b')
_NUMERIC = re.compile(r"[-+]?\d.*")


@dataclass(frozen=True)
class TableLayout:
    """Columns of one table; without a delimiter, two spaces or more separate them."""

    kind: Kind
    columns: tuple[str, ...]
    delimiter: str | None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Position of each column."""
        return {name: position for position, name in enumerate(self.columns)}

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Columns of a trace that are metrics of each launch."""
        return tuple(name for name in self.columns if name not in TRACE_COLUMNS)

    @cached_property
    def name_position(self) -> int:
        """Position of the column whose text may contain delimiters: the name."""
        return self.positions.get("Name", self.positions.get("Kernel", len(self.columns) - 1))


def parse_header(line: str) -> TableLayout | None:
    """Return the table that begins with this line, if it is a header; other output may precede it."""
    match = _HEADER.search(line)
    if not match:
        return None
    text = line[match.start() :]
    delimiter = next((delimiter for delimiter in ",;\t" if delimiter in match[0]), None)
    columns = split_cells(text, delimiter) if delimiter else _GAP.split(text.strip())
    while columns and not columns[-1]:
        columns.pop()
    stripped = [name.strip().rstrip("*") for name in columns]
    names = tuple(_ALIASES.get(name, name) for name in stripped)
    if len(set(names)) < len(names):  # an edited file may repeat a column; the first counts
        names = tuple(
            name if name not in names[:position] else f"{name} {position}" for position, name in enumerate(names)
        )
    kind = next((kind for kind, needed in _KINDS if needed <= set(names)), None)
    return TableLayout(kind, names, delimiter) if kind else None


def split_cells(line: str, delimiter: str) -> list[str]:
    """Split a delimited line."""
    try:
        return next(csv.reader((line,), delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a cell beyond 128 kB
        return []


def parse_units(line: str, layout: TableLayout) -> tuple[str, ...] | None:
    """Return the units above the columns, if this line is the row of units."""
    if layout.delimiter is None:
        cells = line.split()
        return ("",) * len(layout.columns) if cells and set(cells) <= _UNITS else None
    cells = [cell.strip() for cell in split_cells(line, layout.delimiter)]
    units = {cell for cell in cells if cell}
    if not units <= _UNITS or (not units and len(cells) != len(layout.columns)):
        return None
    return tuple((cells + [""] * len(layout.columns))[: len(layout.columns)])


def parse_row(line: str, layout: TableLayout) -> tuple[list[str] | None, bool]:
    """Return the cells of a row, and whether it was repaired; None if the line is not a row."""
    count, delimiter = len(layout.columns), layout.delimiter
    if delimiter is None:
        cells = _GAP.split(line.strip(), count - 1 if layout.name_position == count - 1 else 0)
    else:
        cells = split_cells(line, delimiter)
        while len(cells) > count and not cells[-1].strip():
            cells.pop()
    surplus, position = len(cells) - count, layout.name_position
    if surplus > 0:  # an unquoted name that contains delimiters
        if delimiter:
            cells = next(csv.reader((line,), delimiter=delimiter))[: len(cells)]  # with the spaces after them
        surplus = len(cells) - count
        cells[position : position + surplus + 1] = [(delimiter or "  ").join(cells[position : position + surplus + 1])]
    if delimiter and f" {delimiter}" in line:
        cells = [cell.strip() for cell in cells]
    is_row = len(cells) == count and any(
        _NUMERIC.match(cells[layout.positions[name]])
        for name in _NUMERIC_COLUMNS[layout.kind]
        if name in layout.positions
    )
    return (cells, surplus > 0) if is_row else (None, False)


def looks_like_row(line: str, layout: TableLayout, *, is_cut: bool) -> bool:
    """Return whether an unparsable line began as a row; of a line cut at the file's end, little may be left."""
    if layout.positions.get("Device") == 0:
        return bool(_STARTS_WITH_DEVICE.match(line))
    if layout.columns[0] == "Type" and _STARTS_WITH_TYPE.match(line):
        return True
    if is_cut:
        return bool(_STARTS_WITH_NUMBER.match(line))
    if layout.delimiter:
        return layout.columns[0] != "Type" and bool(_STARTS_WITH_DELIMITED.match(line)) and layout.delimiter in line
    starts_with_count = layout.kind in ("metrics", "migrations")
    return bool((_STARTS_WITH_COUNT if starts_with_count else _STARTS_WITH_CELL).match(line))
