"""nvprof's tables: which kind one is by its column names, and how a line becomes cells."""

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
"""Columns of a trace; any other holds a metric of each launch."""

_NUMERIC_COLUMNS: dict[Kind, tuple[str, ...]] = {
    "trace": ("Start", "Duration"),
    "summary": ("Time", "Calls", "Avg"),
    "metrics": ("Invocations", "Min", "Max"),
    "launches": ("Context", "Stream", "Correlation_ID"),
    "migrations": ("Count", "Total Time"),
    "path": ("Critical path(%)", "Critical path"),
}
"""Of which a row has a number in one column at least."""

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
_STARTS_WITH_DEVICE = re.compile(r'\s*"?[^",;\t]*\S \(\d+\)"?[,;\t]')
_STARTS_WITH_TYPE = re.compile(r'\s*"?(?:GPU activities|API calls|OpenACC[^",]*|OpenMP[^",]*|Range)\b')
_NUMERIC = re.compile(r"[-+]?\d.*")


@dataclass(frozen=True)
class TableLayout:
    """The columns of one table; without a delimiter they are apart by two blanks or more."""

    kind: Kind
    columns: tuple[str, ...]
    delimiter: str | None

    @cached_property
    def place(self) -> dict[str, int]:
        """Where each column stands."""
        return {name: at for at, name in enumerate(self.columns)}

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Columns of a trace that hold a metric of each launch."""
        return tuple(name for name in self.columns if name not in TRACE_COLUMNS)

    @cached_property
    def free(self) -> int:
        """The column whose text may hold delimiters: the name."""
        return self.place.get("Name", self.place.get("Kernel", len(self.columns) - 1))


def parse_header(line: str) -> TableLayout | None:
    """The table that begins with this line, where it is one of column names; other output may stand before them."""
    found = _HEADER.search(line)
    if not found:
        return None
    text = line[found.start() :]
    delimiter = next((mark for mark in ",;\t" if mark in found[0]), None)
    columns = split_cells(text, delimiter) if delimiter else _GAP.split(text.strip())
    while columns and not columns[-1]:
        columns.pop()
    plain = [name.strip().rstrip("*") for name in columns]
    names = tuple(_ALIASES.get(name, name) for name in plain)
    if len(set(names)) < len(names):  # an edited file may name a column twice; the first counts
        names = tuple(name if name not in names[:at] else f"{name} {at}" for at, name in enumerate(names))
    kind = next((kind for kind, needed in _KINDS if needed <= set(names)), None)
    return TableLayout(kind, names, delimiter) if kind else None


def split_cells(line: str, delimiter: str) -> list[str]:
    """The cells of a delimited line."""
    try:
        return next(csv.reader((line,), delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:  # a cell beyond 128 kB
        return []


def parse_units(line: str, layout: TableLayout) -> tuple[str, ...] | None:
    """The units above the columns, where this line is the row of units."""
    if layout.delimiter is None:
        cells = line.split()
        return ("",) * len(layout.columns) if cells and set(cells) <= _UNITS else None
    cells = [cell.strip() for cell in split_cells(line, layout.delimiter)]
    named = {cell for cell in cells if cell}
    if not named <= _UNITS or (not named and len(cells) != len(layout.columns)):
        return None
    return tuple((cells + [""] * len(layout.columns))[: len(layout.columns)])


def parse_row(line: str, layout: TableLayout) -> tuple[list[str] | None, bool]:
    """The cells of a line that is a row, and whether it had to be put right; None where it is no row."""
    wanted, mark = len(layout.columns), layout.delimiter
    if mark is None:
        cells = _GAP.split(line.strip(), wanted - 1 if layout.free == wanted - 1 else 0)
    else:
        cells = split_cells(line, mark)
        while len(cells) > wanted and not cells[-1].strip():
            cells.pop()
    surplus, at = len(cells) - wanted, layout.free
    if surplus > 0:  # a name with delimiters in it that nobody quoted
        if mark:
            cells = next(csv.reader((line,), delimiter=mark))[: len(cells)]  # with the blanks behind them
        surplus = len(cells) - wanted
        cells[at : at + surplus + 1] = [(mark or "  ").join(cells[at : at + surplus + 1])]
    if mark and f" {mark}" in line:
        cells = [cell.strip() for cell in cells]
    good = len(cells) == wanted and any(
        _NUMERIC.match(cells[layout.place[name]]) for name in _NUMERIC_COLUMNS[layout.kind] if name in layout.place
    )
    return (cells, surplus > 0) if good else (None, False)


def looks_like_row(line: str, layout: TableLayout, *, is_cut: bool) -> bool:
    """Whether a line that is no row began as one; of a line that the file's end cuts, little may be left."""
    if layout.place.get("Device") == 0:
        return bool(_STARTS_WITH_DEVICE.match(line))
    if layout.columns[0] == "Type" and _STARTS_WITH_TYPE.match(line):
        return True
    if is_cut:
        return bool(_STARTS_WITH_NUMBER.match(line))
    if layout.delimiter:
        return layout.columns[0] != "Type" and bool(_STARTS_WITH_DELIMITED.match(line)) and layout.delimiter in line
    counted = layout.kind in ("metrics", "migrations")
    return bool((_STARTS_WITH_COUNT if counted else _STARTS_WITH_CELL).match(line))
