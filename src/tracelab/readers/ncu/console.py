"""What ncu prints without --csv: a line for each launch, then sections with a table between dashed rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tracelab.readers.ncu.csv_pages import note_device, parse_id, parse_shape
from tracelab.readers.ncu.metric_rows import Launch, Metric
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.ncu.rule_results import Advice

_PROCESS = re.compile(r"\s*\[(\d+)\] (?:\S.*)?@\S*")
_LAUNCH = re.compile(
    r"\s*(?P<kernel>\S.*?)"
    r"(?: \((?P<grid>\d+, \d+, \d+)\)x\((?P<block>\d+, \d+, \d+)\))?"
    r"(?:, (?P<date>\d{4}-\w{3}-\d{2} \d{2}:\d{2}:\d{2}|))?"
    r", Context (?P<context>\d+)(?: [^,]*)?(?:, Stream (?P<stream>\d+)(?: [^,]*)?)?"
    r"(?:, Device (?P<device>-?\d+))?(?:, CC (?P<cc>\d+\.\d+))?\s*"
)
_SECTION = re.compile(r"\s*Section: (.*\S)\s*")
_RULE = re.compile(r"(\s*)(-{3,})(?: (-{3,}))?(?: (-{3,}))?\s*")
_ADVICE_RULE = re.compile(r"\s*-{5} -{20,}\s*")
_HEADINGS = re.compile(r"\s*Metric Name\s+Metric Unit\s+Metric Value\s*")
_ADVICE = re.compile(r"\s+(INF|OPT|WRN|ERR)\s{2,}(\S.*?)\s*")
_MORE_ADVICE = re.compile(r"\s{8,}(\S.*?)\s*")
_SPEEDUP = re.compile(r"Est\. (?P<kind>Local )?Speedup: (?P<gain>[\d.,]+)%\s*")
_UNFIXED = "Data collection happened without fixed GPU frequencies"
_WIDE_GAP = re.compile(r"\s{2,}")
_UNIT = re.compile(r"%|[A-Za-z]+(?:/[A-Za-z]+)?")
_LAST_CELL = re.compile(r"\(!\) n/a|no data|-?\S+ \([^()]*\)|\S+")
_COLUMNS = 3


@dataclass
class _Table:
    """A table under way: where its columns begin and end."""

    indent: int
    columns: list[tuple[int, int]]
    rows: int = 0


@dataclass
class ConsoleParser:
    """Takes the lines of console text."""

    report: ReportBuilder
    _pid: int | None = None
    _launch: Launch | None = None
    _numbers: dict[int | None, int] = field(default_factory=dict)
    _section: str | None = None
    _table: _Table | None = None
    _advice: Advice | None = None
    _nvtx: list[str] | None = None
    _metrics: dict[tuple[str, str, str | None], Metric] = field(default_factory=dict)

    def take(self, line: str) -> bool:
        """Whether the line belongs to a launch that the console tells of."""
        if line.startswith("==") or not line.strip():
            return self._blank(line)
        return self._opens(line) or (self._launch is not None and self._inside(line))

    def end(self) -> None:
        """The file is over."""
        self._end_advice()

    def _blank(self, line: str) -> bool:
        """An empty line ends a table without a rule, and advice; ncu's messages may stand anywhere."""
        if line.strip():
            return False
        self._end_advice()
        if self._table is not None and self._table.rows:
            self._table = None
        return True

    def _opens(self, line: str) -> bool:
        """A process, or a launch."""
        if found := _PROCESS.fullmatch(line):
            self._end_advice()
            self._pid, self._launch = parse_id("pid", found[1]), None
            return True
        if ", Context " not in line or not (found := _LAUNCH.fullmatch(line)):
            return False
        self._end_advice()
        number = self._numbers.get(self._pid, 0)
        self._numbers[self._pid] = number + 1
        date = found["date"]
        launch = Launch(
            pid=self._pid,
            number=number,
            device=parse_id("device", found["device"] or ""),
            context=parse_id("context", found["context"]),
            stream=parse_id("stream", found["stream"] or ""),
            kernel=found["kernel"],
            grid=parse_shape((found["grid"] or "").split(", ")),
            block=parse_shape((found["block"] or "").split(", ")),
            clock_control=self.report.clock_control,
            args=(("kernel_time", date),) if date else (),
        )
        self._launch = note_device(launch, found["cc"] or "", self.report.devices)
        self._section = self._table = self._nvtx = None
        self.report.has_header = True
        return True

    def _inside(self, line: str) -> bool:
        """What stands below a launch."""
        if found := _SECTION.fullmatch(line):
            self._end_advice()
            self._end_nvtx()
            self._section, self._table = found[1], None
        elif _ADVICE_RULE.fullmatch(line) and self._advice is not None:
            self._end_advice()
        elif (found := _RULE.fullmatch(line)) and found[4]:
            self._rule(found)
        elif _HEADINGS.fullmatch(line):
            self._end_nvtx()
        elif found := _ADVICE.fullmatch(line):
            self._begin_advice(found[1], found[2])
        elif self._advice is not None and (found := _MORE_ADVICE.fullmatch(line)):
            self._advice = replace(self._advice, text=f"{self._advice.text} {found[1]}")
        elif self._table is not None:
            return self._row(self._table, line)
        else:
            return self._beside(line)
        return True

    def _rule(self, found: re.Match[str]) -> None:
        """A dashed line: it opens a table, parts its headings from its rows, or closes it."""
        self._end_advice()
        if self._table is not None and self._table.rows:
            self._table = None
        else:
            self._table = _Table(len(found[1]), [found.span(group) for group in range(2, 2 + _COLUMNS)])

    def _beside(self, line: str) -> bool:
        """Words between a launch and its first table: a warning about clocks, the ranges it ran in."""
        if _UNFIXED in line and self._launch is not None:
            self._launch = replace(self._launch, clock_control="none")
        elif line.lstrip().startswith("NVTX "):
            self._nvtx = [*(self._nvtx or []), line.strip()]
        elif self._nvtx is not None and line.startswith(" "):
            self._nvtx.append(line.strip())
        else:
            return False
        return True

    def _end_nvtx(self) -> None:
        if self._nvtx is not None and self._launch is not None:
            args = (*self._launch.args, ("nvtx", "\n".join(self._nvtx)))
            self._launch, self._nvtx = replace(self._launch, args=args), None

    def _row(self, table: _Table, line: str) -> bool:
        """A metric, or the rest of a cell that was too long for its line."""
        cells = _split_row(table, line)
        if cells is None or self._launch is None:
            return False
        name, unit, value = cells
        if name:
            key = (name, unit, self._section)
            metric = self._metrics.setdefault(key, Metric(name, unit, self._section))
            self.report.rows.add(self._launch, metric, value)
            self.report.keep()
            table.rows += 1
        elif table.rows and value:
            self.report.rows.amend(value)
        return True

    def _begin_advice(self, kind: str, text: str) -> None:
        self._end_advice()
        if self._launch is not None:
            self._advice = Advice(self._launch, text, kind, section=self._section or "")

    def _end_advice(self) -> None:
        advice, self._advice = self._advice, None
        if advice is None:
            return
        if found := _SPEEDUP.match(advice.text):
            kind = "local" if found["kind"] else "global"
            advice = replace(advice, text=advice.text[found.end() :], speedup=found["gain"], speedup_kind=kind)
        self.report.advised.add(advice)
        self.report.keep()


def _split_row(table: _Table, line: str) -> Sequence[str] | None:
    """Name, unit and value of a row; None where the line is no row of this table."""
    (name_start, name_end), (unit_start, unit_end), (value_start, value_end) = table.columns
    between = line[name_end:unit_start] + line[unit_end:value_start] + line[value_end:]
    if line[:name_start].strip():
        return None
    if not between.strip():
        name, unit, value = line[name_start:name_end], line[unit_start:unit_end], line[value_start:]
        if not name.startswith(" ") and " " not in unit.strip():
            return name.strip(), unit.strip(), value.strip()
        return ("", "", value.strip()) if not (name + unit).strip() else None
    return _split_overflowing_row(line[name_start:])


def _split_overflowing_row(text: str) -> Sequence[str] | None:
    """A row whose name or value is wider than its column: the cells by the gaps between them."""
    if text.startswith(" "):
        return None
    cells = _WIDE_GAP.split(text.strip())
    if len(cells) == _COLUMNS:
        return cells
    if len(cells) == _COLUMNS - 1:
        rest, last = cells[0], cells[1]
        if unit_and_value := re.fullmatch(rf"({_UNIT.pattern}) ({_LAST_CELL.pattern})", last):
            return rest, unit_and_value[1], unit_and_value[2]
        name, _, unit = rest.rpartition(" ")
        return (name, unit, last) if name and "__" in name and _UNIT.fullmatch(unit) else (rest, "", last)
    found = re.fullmatch(rf"(\S*__\S+)(?: ({_UNIT.pattern}))? ({_LAST_CELL.pattern})", text.strip())
    return (found[1], found[2] or "", found[3]) if found else None


def is_launch_line(line: str) -> bool:
    """Whether a line can only be one of ncu's console: a launch."""
    return ", Context " in line and bool(_LAUNCH.fullmatch(line))
