"""Parse what ncu prints without --csv: a line per launch, then sections with a table between dashed lines."""

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
_DASHES = re.compile(r"(\s*)(-{3,})(?: (-{3,}))?(?: (-{3,}))?\s*")
_ADVICE_DASHES = re.compile(r"\s*-{5} -{20,}\s*")
_HEADINGS = re.compile(r"\s*Metric Name\s+Metric Unit\s+Metric Value\s*")
_ADVICE = re.compile(r"\s+(INF|OPT|WRN|ERR)\s{2,}(\S(?:.*\S)?)\s*")
_MORE_ADVICE = re.compile(r"\s{8,}(\S(?:.*\S)?)\s*")
_SPEEDUP = re.compile(r"Est\. (?P<kind>Local )?Speedup: (?P<gain>[\d.,]+)%\s*")
_UNLOCKED_CLOCKS = "Data collection happened without fixed GPU frequencies"
_WIDE_GAP = re.compile(r"\s{2,}")
_UNIT = re.compile(r"%|[A-Za-z]+(?:/[A-Za-z]+)?")
_LAST_CELL = re.compile(r"\(!\) n/a|no data|-?\S+ \([^()]*\)|\S+")
_COLUMNS = 3


@dataclass
class _Table:
    """The open table: where its columns begin and end."""

    indent: int
    columns: list[tuple[int, int]]
    rows: int = 0


@dataclass
class ConsoleParser:
    """Parser of the lines of console text."""

    report: ReportBuilder
    _pid: int | None = None
    _launch: Launch | None = None
    _numbers: dict[int | None, int] = field(default_factory=dict)
    _section: str | None = None
    _table: _Table | None = None
    _advice: Advice | None = None
    _nvtx: list[str] | None = None
    _metrics: dict[tuple[str, str, str | None], Metric] = field(default_factory=dict)

    def parse_line(self, line: str) -> bool:
        """Parse a line; return whether it belongs to console output."""
        if line.startswith("==") or not line.strip():
            return self._parse_blank(line)
        return self._parse_opening(line) or (self._launch is not None and self._parse_inside(line))

    def finish(self) -> None:
        """Finish at the end of the file."""
        self._end_advice()

    def _parse_blank(self, line: str) -> bool:
        """End a table without a closing line, and advice, at an empty line; messages of ncu may come anywhere."""
        if line.strip():
            return False
        self._end_advice()
        if self._table is not None and self._table.rows:
            self._table = None
        return True

    def _parse_opening(self, line: str) -> bool:
        """Parse the line of a process or of a launch."""
        if match := _PROCESS.fullmatch(line):
            self._end_advice()
            self._pid, self._launch = parse_id("pid", match[1]), None
            return True
        if ", Context " not in line or not (match := _LAUNCH.fullmatch(line)):
            return False
        self._end_advice()
        number = self._numbers.get(self._pid, 0)
        self._numbers[self._pid] = number + 1
        date = match["date"]
        launch = Launch(
            pid=self._pid,
            number=number,
            device=parse_id("device", match["device"] or ""),
            context=parse_id("context", match["context"]),
            stream=parse_id("stream", match["stream"] or ""),
            kernel=match["kernel"],
            grid=parse_shape((match["grid"] or "").split(", ")),
            block=parse_shape((match["block"] or "").split(", ")),
            clock_control=self.report.clock_control,
            args=(("kernel_time", date),) if date else (),
        )
        self._launch = note_device(launch, match["cc"] or "", self.report.devices)
        self._section = self._table = self._nvtx = None
        self.report.has_header = True
        return True

    def _parse_inside(self, line: str) -> bool:
        """Parse a line below a launch."""
        if match := _SECTION.fullmatch(line):
            self._end_advice()
            self._end_nvtx()
            self._section, self._table = match[1], None
        elif _ADVICE_DASHES.fullmatch(line) and self._advice is not None:
            self._end_advice()
        elif (match := _DASHES.fullmatch(line)) and match[4]:
            self._parse_dashes(match)
        elif _HEADINGS.fullmatch(line):
            self._end_nvtx()
        elif match := _ADVICE.fullmatch(line):
            self._begin_advice(match[1], match[2])
        elif self._advice is not None and (match := _MORE_ADVICE.fullmatch(line)):
            self._advice = replace(self._advice, text=f"{self._advice.text} {match[1]}")
        elif self._table is not None:
            return self._parse_row(self._table, line)
        else:
            return self._parse_note(line)
        return True

    def _parse_dashes(self, match: re.Match[str]) -> None:
        """Open a table, separate its headings from its rows, or close it."""
        self._end_advice()
        if self._table is not None and self._table.rows:
            self._table = None
        else:
            self._table = _Table(len(match[1]), [match.span(group) for group in range(2, 2 + _COLUMNS)])

    def _parse_note(self, line: str) -> bool:
        """Parse text between a launch and its first table: a warning about clocks, NVTX ranges."""
        if _UNLOCKED_CLOCKS in line and self._launch is not None:
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

    def _parse_row(self, table: _Table, line: str) -> bool:
        """Parse a metric, or the rest of a cell too long for its line."""
        cells = _split_row(table, line)
        if cells is None or self._launch is None:
            return False
        name, unit, value = cells
        if name:
            key = (name, unit, self._section)
            metric = self._metrics.setdefault(key, Metric(name, unit, self._section))
            self.report.rows.add(self._launch, metric, value)
            self.report.count_kept()
            table.rows += 1
        elif table.rows and value:
            self.report.rows.extend_last(value)
        return True

    def _begin_advice(self, kind: str, text: str) -> None:
        self._end_advice()
        if self._launch is not None:
            self._advice = Advice(self._launch, text, kind, section=self._section or "")

    def _end_advice(self) -> None:
        advice, self._advice = self._advice, None
        if advice is None:
            return
        if match := _SPEEDUP.match(advice.text):
            kind = "local" if match["kind"] else "global"
            advice = replace(advice, text=advice.text[match.end() :], speedup=match["gain"], speedup_kind=kind)
        self.report.advised.add(advice)
        self.report.count_kept()


def _split_row(table: _Table, line: str) -> Sequence[str] | None:
    """Return name, unit and value of a row; None if the line is not a row of this table."""
    (name_start, name_end), (unit_start, unit_end), (value_start, value_end) = table.columns
    gaps = line[name_end:unit_start] + line[unit_end:value_start] + line[value_end:]
    if line[:name_start].strip():
        return None
    if not gaps.strip():
        name, unit, value = line[name_start:name_end], line[unit_start:unit_end], line[value_start:]
        if _WIDE_GAP.search(name.strip()):  # damage made the first column so wide that it holds the others
            return _split_overflowing_row(line[name_start:])
        if not name.startswith(" ") and " " not in unit.strip():
            return name.strip(), unit.strip(), value.strip()
        return ("", "", value.strip()) if not (name + unit).strip() else None
    return _split_overflowing_row(line[name_start:])


def _split_overflowing_row(text: str) -> Sequence[str] | None:
    """Split a row whose name or value is wider than its column at its gaps."""
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
    match = re.fullmatch(rf"(\S*__\S+)(?: ({_UNIT.pattern}))? ({_LAST_CELL.pattern})", text.strip())
    return (match[1], match[2] or "", match[3]) if match else None


def is_launch_line(line: str) -> bool:
    """Return whether a line can only be a launch in ncu's console output."""
    return ", Context " in line and bool(_LAUNCH.fullmatch(line))
