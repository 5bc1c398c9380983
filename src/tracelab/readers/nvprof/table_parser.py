"""Parse the lines of a printed result into rows: track the open table and classify each line."""

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

_TYPED = re.compile(r"\s*((?:GPU activities|API calls|Range|Open[A-Z]++[^:]*+)):\s")
_UNTYPED = re.compile(r"\s*\d[\d.]*%\s")
_FAULTS = re.compile(r"\s*Total CPU Page faults:\s*(\d{1,18})[\s,;]*")
_LEGEND = re.compile(r"\s*(?:Regs|SSMem|DSMem|SrcMemType|DstMemType|SSMem|Unified Memory)\*?:")


@dataclass
class TableParser:
    """Parser of consecutive lines; parsed rows wait in `rows`, by table."""

    diagnostics: DiagnosticCounts
    launches: LaunchCounter = field(default_factory=LaunchCounter)
    rows: defaultdict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    kept: int = 0
    lost: int = 0
    started: bool = False
    tables: int = 0
    pids: set[int] = field(default_factory=set)  # processes of results
    is_cut_off: bool = False
    coarsest_ns: Decimal = Decimal(0)
    _line: int = 0
    _context: TableContext = field(default_factory=TableContext)
    _type: str = ""
    _layout: TableLayout | None = None
    _cells: RowCells | None = None
    _private_words: set[str] = field(default_factory=set)
    _has_content: bool = False  # whether the open table has had its units or a row

    def parse_block(self, block: Block) -> None:
        """Parse a block of lines."""
        last = len(block.lines) - 1
        for index, line in enumerate(block.lines):
            self._line += 1
            for part in _split_at_marks(line):
                self._parse_line(part, is_cut=block.open_end and index == last)

    def _parse_line(self, line: str, *, is_cut: bool) -> None:
        if not line or line.isspace():
            return
        if self._parse_row(line) or self._parse_own_line(line):
            return
        if layout := parse_header(line):
            self._open_table(layout)
        elif not self._count_lost_row(line, is_cut=is_cut) and not _LEGEND.match(line):
            self.diagnostics.note("program_output")

    def _parse_own_line(self, line: str) -> bool:
        """Parse one of nvprof's own lines; return whether it is one."""
        mark = MARK.match(line)
        text = line[mark.end() :] if mark else line
        if mark:
            self.started = True
        pid = int(mark[1]) if mark and mark[1] else None
        if context := banners.parse_heading(text, pid, self._context):
            if context.heading != self._context.heading or mark:
                self._layout = self._layout if _continues(self._layout, context, self._context) else None
            self._context = context
            if context.pid is not None:
                self.pids.add(context.pid)
            return True
        if faults := _FAULTS.fullmatch(line):
            name = "Total CPU Page faults"
            self._keep_row(
                "summaries", {"pid": self._context.pid, "kind": "unified_memory", "name": name, "calls": int(faults[1])}
            )
            self.kept += 1
            return True
        if mark:
            self._private_words |= banners.find_private_words(text)
        if mark or text.startswith("No "):
            previous = sum(self.diagnostics.counts.values())
            banners.note_problem(text, self.diagnostics)
            return bool(mark) or sum(self.diagnostics.counts.values()) > previous
        return False

    def _open_table(self, layout: TableLayout) -> None:
        self._layout, self._has_content, self._type = layout, False, ""
        self.tables += 1
        self.started = True
        self._cells = RowCells({}, self.diagnostics, private_words=self._private_words)

    def _parse_row(self, line: str) -> bool:
        """Parse a row of the open table; return whether the line is one."""
        layout, cells = self._layout, self._cells
        if layout is None or cells is None:
            return False
        if not self._has_content and (units := parse_units(line, layout)) is not None:
            cells.units, self._has_content = dict(zip(layout.columns, units, strict=True)), True
            return True
        if layout.delimiter is None and layout.columns[0] == "Type":
            line = self._with_type(line)
        fields, repaired = parse_row(line, layout)
        if fields is None:
            return False
        self._has_content = True
        if repaired:
            self.diagnostics.note("row_repaired")
        cells.replace_row(layout.columns, fields)
        self.kept += 1
        for table, row in map_row(layout, self._context, cells, self.launches):
            self._keep_row(table, row)
        self._note_digits(layout, cells)
        return True

    def _with_type(self, line: str) -> str:
        """Add the type, which only the first row of each type has, with a colon."""
        if match := _TYPED.match(line):
            self._type = match[1]
            return f"{match[1]}  {line[match.end() :].strip()}"
        return f"{self._type or '-'}  {line.strip()}" if _UNTYPED.match(line) else line

    def _keep_row(self, table: str, row: Row) -> None:
        self.rows[table].append(row)
        name = row.get("name") or row.get("kernel")
        if isinstance(name, str) and name.endswith("..."):
            self.diagnostics.note("name_cut", name)

    def _note_digits(self, layout: TableLayout, cells: RowCells) -> None:
        sampled = self.kept % 64 == 1  # a printed table has about the same digits in all its rows
        if sampled and layout.kind == "trace" and (start := cells.text("Start")):
            self.coarsest_ns = max(self.coarsest_ns, printed_resolution_ns(start, cells.units.get("Start", "")))

    def _count_lost_row(self, line: str, *, is_cut: bool) -> bool:
        """Return whether an unparsable line began as a row, and count it."""
        if self._layout is None or not looks_like_row(line, self._layout, is_cut=is_cut):
            return False
        self.lost += 1
        self.is_cut_off = self.is_cut_off or is_cut
        self.diagnostics.note(*(("cut_off",) if is_cut else ("row_lost", self._line)))
        return True


def _split_at_marks(line: str) -> Iterator[str]:
    """Split a line at lines of nvprof within it: programs do not always end theirs."""
    if "==" in line and (marks := [mark.start() for mark in MARK.finditer(line) if _is_own_mark(mark)]):
        if marks[0]:
            yield line[: marks[0]]
        for begin, end in zip(marks, [*marks[1:], len(line)], strict=True):
            yield line[begin:end]
        return
    yield line


def _is_own_mark(mark: re.Match[str]) -> bool:
    """Return whether a mark is nvprof's: a longer row of equals signs belongs to the program."""
    return mark.start() == 0 or mark.string[mark.start() - 1] != "="


def _continues(layout: TableLayout | None, context: TableContext, previous: TableContext) -> bool:
    """Return whether a table continues after a heading, as it does after the name of a device or kernel."""
    is_same = replace(context, device=None, kernel=None) == replace(previous, device=None, kernel=None)
    return layout is not None and is_same and layout.kind in ("metrics", "migrations")
