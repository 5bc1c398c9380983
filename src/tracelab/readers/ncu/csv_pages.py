"""Parse the CSV pages `raw` and `details`: join lines into rows, split rows into launches and metrics."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tracelab.readers.ncu.csv_columns import ColumnLayout, parse_header, parse_units
from tracelab.readers.ncu.devices import DeviceAttributes
from tracelab.readers.ncu.metric_rows import Launch, Metric, Shape
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.ncu.rule_results import Advice

_LONGEST_ROW = 8 << 20
_FIRST_INTEGER = re.compile(r"-?\d+")
_ABSENT = (-1, 4294967295)
_LIMITS = {"device": 1 << 31, "context": 1 << 63, "stream": 1 << 63, "pid": 1 << 63, "number": 1 << 63}
_NO_DEVICE = (255, "0.0")  # written by ncu for an unknown device
_AXES = "xyz"
_SIZE = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.0*)?")
_POINTS = re.compile(r"(?<=\d)\.(?=\d{3}\b)")  # of thousands, as continental locales write them: (1.024, 1, 1)


@dataclass
class PageParser:
    """Parser of the lines of CSV pages; an unclosed row waits for its next line."""

    report: ReportBuilder
    _layout: ColumnLayout | None = None
    _units: tuple[str, ...] | None = None
    _open: list[str] = field(default_factory=list)
    _open_length: int = 0
    _launches: dict[tuple[str, ...], Launch] = field(default_factory=dict)
    _metrics: dict[tuple[str, ...], Metric] = field(default_factory=dict)
    _columns: list[tuple[int, Metric]] = field(default_factory=list)

    def parse_line(self, line: str) -> bool:
        """Parse a line; return whether it belongs to a page."""
        layout = self._layout
        if self._open:
            if self._continue_row(line):
                return True
            self._abandon_row()
        if layout is not None and layout.row_start.match(line):
            self._begin_row(line)
            return True
        if (match := parse_header(line)) is not None:
            self._layout, self._units = match, None
            self._launches, self._metrics, self._columns = {}, {}, []
            self.report.has_header = True
            return True
        return layout is not None and self._parse_irregular(layout, line)

    def finish(self) -> None:
        """Finish at the end of the file; a row that is still open was cut."""
        if self._open:
            self.report.note_here("cut_off")
            self._abandon_row()

    def _parse_irregular(self, layout: ColumnLayout, line: str) -> bool:
        """Parse a row of units, or a row after a program's unfinished line."""
        if not layout.details and self._units is None and (units := parse_units(layout, line)):
            self._units = units
            return True
        if layout.embedded_row_start and (match := layout.embedded_row_start.search(line)):
            row = line[match.start() :]
            if row.count('"') % 2 or layout.fields(row) is not None:
                self.report.note_here("stray_line")
                self._begin_row(row)
                return True
        # as many cells as a row, after a broken number
        if line.count(f'"{layout.separator}"') >= layout.min_fields - 1:
            self.report.skip_row()
            return True
        return False

    def _begin_row(self, line: str) -> None:
        if line.count('"') % 2:
            self._open, self._open_length = [line], len(line)
        else:
            self._parse_row(line)

    def _continue_row(self, line: str) -> bool:
        """Append a line to the open row, unless it begins something else: then a quote is missing."""
        layout = self._layout
        self._open_length += len(line)
        begins = layout is not None and layout.row_start.match(line)
        if begins or line.startswith("==") or self._open_length > _LONGEST_ROW or parse_header(line):
            return False
        self._open.append(line)
        if line.count('"') % 2:
            row_text, self._open = "\n".join(self._open), []
            self._parse_row(row_text)
        return True

    def _abandon_row(self) -> None:
        """Parse the first line of the open row alone; the other lines were no part of it."""
        (first, *other_cells), self._open = self._open, []
        self._parse_row(first)
        for other in other_cells:
            self.report.handle_stray(other)

    def _parse_row(self, record: str) -> None:
        layout = self._layout
        fields = layout.fields(record, self._launches) if layout else None
        if layout is None or fields is None:
            self.report.skip_row()
            return
        if layout.trim_if_cut(record, fields):
            self.report.note_here("row_short")
        fields += [""] * (len(layout.header) - len(fields))
        launch = self._get_launch(layout, fields)
        if layout.details:
            self._add_detail(layout, fields, launch)
        else:
            self._add_raw_metrics(layout, fields, launch)
        self.report.count_kept()

    def _add_detail(self, layout: ColumnLayout, fields: list[str], launch: Launch) -> None:
        """Add a metric, or the advice of a rule."""
        columns = layout.positions

        def cell(column: str) -> str:
            return fields[columns[column]].strip() if column in columns else ""

        if fields[columns["metric name"]].strip():
            key = layout.metric_key(fields)
            metric = self._metrics.get(key)
            if metric is None:
                item = (("item", cell("body item label")),) if cell("body item label") else ()
                other_cells = tuple((text, fields[place]) for text, place in layout.other_columns if fields[place])
                metric = Metric(
                    cell("metric name"), cell("metric unit"), cell("section name") or None, item + other_cells
                )
                if len(self._metrics) > _MAX_CACHED:
                    self._metrics = {}
                self._metrics[key] = metric
            self.report.rows.add(launch, metric, fields[columns["metric value"]].strip())
            return
        if cell("rule description") or cell("rule name"):
            texts = [cell(column) for column in ("rule description", "rule type", "rule name", "section name")]
            speedup = [cell(column) for column in ("estimated speedup", "estimated speedup type")]
            self.report.advised.add(Advice(launch, *texts, *speedup))

    def _add_raw_metrics(self, layout: ColumnLayout, fields: list[str], launch: Launch) -> None:
        """Add all metrics of a launch; an empty cell is a metric that the launch does not have."""
        if not self._columns:
            if self._units is None:
                self.report.note_here("units_missing")
            units = self._units or ("",) * len(layout.header)
            self._columns = [(place, Metric(name, units[place])) for name, place in layout.other_columns]
        launch = _complete_launch(launch, {name: fields[place] for name, place in layout.other_columns})
        for place, metric in self._columns:
            if text := fields[place].strip():
                self.report.rows.add(launch, metric, text)

    def _get_launch(self, layout: ColumnLayout, fields: list[str]) -> Launch:
        key = layout.launch_key(fields)
        launch = self._launches.get(key)
        if launch is None:
            if len(self._launches) > _MAX_CACHED:
                self._launches = {}
            launch = self._launches[key] = self._build_launch(layout, fields)
        return launch

    def _build_launch(self, layout: ColumnLayout, fields: list[str]) -> Launch:
        def cell(column: str) -> str:
            return fields[layout.positions[column]].strip() if column in layout.positions else ""

        ranges = [(key, fields[place].strip()) for key, place in layout.nvtx]
        args = [("kernel_time", cell("kernel time")), *ranges]
        launch = Launch(
            pid=parse_id("pid", cell("process id")),
            number=parse_id("number", cell("id")),
            device=parse_id("device", cell("device")),
            context=parse_id("context", cell("context")),
            stream=parse_id("stream", cell("stream")),
            kernel=cell("kernel name") or None,
            grid=parse_shape(_POINTS.sub("", cell("grid size")).split(", ")),
            block=parse_shape(_POINTS.sub("", cell("block size")).split(", ")),
            clock_control=self.report.clock_control,
            args=tuple((name, value) for name, value in args if value),
        )
        return note_device(launch, cell("cc"), self.report.devices)


_MAX_CACHED = 4096  # cached launches and metrics; they recur in sequence


def note_device(launch: Launch, cc: str, devices: DeviceAttributes) -> Launch:
    """Record the compute capability of the launch's device; set a device that ncu does not know to None."""
    if (launch.device, cc) == _NO_DEVICE:
        return replace(launch, device=None)
    if cc and cc != _NO_DEVICE[1]:
        devices.note((launch.pid, launch.device), "compute_capability", cc)
    return launch


def parse_id(name: str, text: str) -> int | None:
    """Parse the number at the beginning of a cell; None if there is none, or if it means absence."""
    if not (match := _FIRST_INTEGER.match(text)):
        return None
    value = int(match[0][:20])
    return value if abs(value) < _LIMITS[name] and value not in _ABSENT else None


def parse_shape(sizes: Sequence[str]) -> Shape:
    """Parse three sizes; all None if one is not a number: "(640, 1280, 1)" in parts, or metrics as 256.000000."""
    match = [_SIZE.fullmatch(size.strip(" ()")) for size in sizes]
    row_text = [int(match[1].replace(",", "")) for match in match if match]
    if len(row_text) != len(_AXES) or max(row_text) >= 1 << 31:
        return (None, None, None)
    return row_text[0], row_text[1], row_text[2]


def _complete_launch(launch: Launch, metrics: dict[str, str]) -> Launch:
    """Complete a launch from its metrics, which have in all versions what its columns lack in old ones."""

    def sizes(dimension: str) -> Shape:
        return parse_shape([metrics.get(f"launch__{dimension}_dim_{axis}", "") for axis in _AXES])

    if launch.grid[0] is not None and launch.device is not None:
        return launch
    return replace(
        launch,
        grid=launch.grid if launch.grid[0] is not None else sizes("grid"),
        block=launch.block if launch.block[0] is not None else sizes("block"),
        device=launch.device if launch.device is not None else parse_id("device", metrics.get("launch__device_id", "")),
    )
