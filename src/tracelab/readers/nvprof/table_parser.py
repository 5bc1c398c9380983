"""The lines of a printed result as rows: which table is open, and what each line is to it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nvprof import banners
from tracelab.readers.nvprof.banners import MARK
from tracelab.readers.nvprof.cell_values import RowCells, printed_resolution_ns
from tracelab.readers.nvprof.row_mapping import LaunchCounter, map_row
from tracelab.readers.nvprof.summary_mapping import Row, TableContext
from tracelab.readers.nvprof.table_layout import TableLayout, looks_like_row, parse_header, parse_row, parse_units
from tracelab.readers.text_lines import Block

_TYPED = re.compile(r"\s*((?:GPU activities|API calls|Range|Open[A-Z]+[^:]*)):\s")
_UNTYPED = re.compile(r"\s*\d[\d.]*%\s")
_FAULTS = re.compile(r"\s*Total CPU Page faults:\s*(\d{1,18})[\s,;]*")
_LEGEND = re.compile(r"\s*(?:Regs|SSMem|DSMem|SrcMemType|DstMemType|SSMem|Unified Memory)\*?:")


@dataclass
class TableParser:
    """Reads lines one after the other; what it made of them waits in `rows`, by table."""

    diagnostics: DiagnosticCounts
    launches: LaunchCounter = field(default_factory=LaunchCounter)
    rows: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    kept: int = 0
    lost: int = 0
    started: bool = False
    tables: int = 0
    pids: set[int] = field(default_factory=set)  # of results
    cut: bool = False
    coarsest_ns: Decimal = Decimal(0)
    _line: int = 0
    _where: TableContext = field(default_factory=TableContext)
    _type: str = ""
    _layout: TableLayout | None = None
    _cells: RowCells | None = None
    _begun: bool = False  # whether the table that is open has had its units or a row

    def take(self, block: Block) -> None:
        """Read some lines."""
        last = len(block.lines) - 1
        for at, line in enumerate(block.lines):
            self._line += 1
            for part in _split_at_marks(line):
                self._take(part, is_cut=block.open_end and at == last)

    def _take(self, line: str, *, is_cut: bool) -> None:
        if not line or line.isspace():
            return
        if self._is_row(line) or self._told(line):
            return
        if layout := parse_header(line):
            self._open(layout)
        elif not self._is_lost(line, is_cut=is_cut) and not _LEGEND.match(line):
            self.diagnostics.note("program_output")

    def _told(self, line: str) -> bool:
        """Whether this line is nvprof's own, and what it says is known now."""
        mark = MARK.match(line)
        text = line[mark.end() :] if mark else line
        if mark:
            self.started = True
        pid = int(mark[1]) if mark and mark[1] else None
        if where := banners.parse_heading(text, pid, self._where):
            if where.heading != self._where.heading or mark:
                self._layout = self._layout if _continues(self._layout, where, self._where) else None
            self._where = where
            if where.pid is not None:
                self.pids.add(where.pid)
            return True
        if faults := _FAULTS.fullmatch(line):
            name = "Total CPU Page faults"
            self._keep(
                "summaries", {"pid": self._where.pid, "kind": "unified_memory", "name": name, "calls": int(faults[1])}
            )
            self.kept += 1
            return True
        if mark or text.startswith("No "):
            before = sum(self.diagnostics.counts.values())
            banners.note_problem(text, self.diagnostics)
            return bool(mark) or sum(self.diagnostics.counts.values()) > before
        return False

    def _open(self, layout: TableLayout) -> None:
        self._layout, self._begun, self._type = layout, False, ""
        self.tables += 1
        self.started = True
        self._cells = RowCells({}, self.diagnostics)

    def _is_row(self, line: str) -> bool:
        """Whether this line is a row of the table that is open; it is kept then."""
        layout, cells = self._layout, self._cells
        if layout is None or cells is None:
            return False
        if not self._begun and (units := parse_units(line, layout)) is not None:
            cells.units, self._begun = dict(zip(layout.columns, units, strict=True)), True
            return True
        if layout.delimiter is None and layout.columns[0] == "Type":
            line = self._with_type(line)
        fields, repaired = parse_row(line, layout)
        if fields is None:
            return False
        self._begun = True
        if repaired:
            self.diagnostics.note("row_repaired")
        cells.take(layout.columns, fields)
        self.kept += 1
        for table, row in map_row(layout, self._where, cells, self.launches):
            self._keep(table, row)
        self._note_digits(layout, cells)
        return True

    def _with_type(self, line: str) -> str:
        """The type stands in the first row of each only, and ends with a colon."""
        if typed := _TYPED.match(line):
            self._type = typed[1]
            return f"{typed[1]}  {line[typed.end() :].strip()}"
        return f"{self._type or '-'}  {line.strip()}" if _UNTYPED.match(line) else line

    def _keep(self, table: str, row: Row) -> None:
        self.rows[table].append(row)
        name = row.get("name") or row.get("kernel")
        if isinstance(name, str) and name.endswith("..."):
            self.diagnostics.note("name_cut", name)

    def _note_digits(self, layout: TableLayout, cells: RowCells) -> None:
        sampled = self.kept % 64 == 1  # a printed table has the same digits in all its rows, or about
        if sampled and layout.kind == "trace" and (start := cells.text("Start")):
            self.coarsest_ns = max(self.coarsest_ns, printed_resolution_ns(start, cells.units.get("Start", "")))

    def _is_lost(self, line: str, *, is_cut: bool) -> bool:
        """Whether a line that is no row began as one; it is counted then."""
        if self._layout is None or not looks_like_row(line, self._layout, is_cut=is_cut):
            return False
        self.lost += 1
        self.cut = self.cut or is_cut
        self.diagnostics.note(*(("cut_off",) if is_cut else ("row_lost", self._line)))
        return True


def _split_at_marks(line: str) -> Iterator[str]:
    """A line, cut where a line of nvprof's begins within it: programs do not end theirs always."""
    if "==" in line and (marks := [mark.start() for mark in MARK.finditer(line) if _is_own_mark(mark)]):
        if marks[0]:
            yield line[: marks[0]]
        for begin, end in zip(marks, [*marks[1:], len(line)], strict=True):
            yield line[begin:end]
        return
    yield line


def _is_own_mark(mark: re.Match[str]) -> bool:
    """Whether a mark is nvprof's: a row of equals signs of someone else goes on before it."""
    return mark.start() == 0 or mark.string[mark.start() - 1] != "="


def _continues(layout: TableLayout | None, where: TableContext, before: TableContext) -> bool:
    """Whether a table goes on behind a heading: one that names a device or kernel stands within it."""
    same = replace(where, device=None, kernel=None) == replace(before, device=None, kernel=None)
    return layout is not None and same and layout.kind in ("metrics", "migrations")
