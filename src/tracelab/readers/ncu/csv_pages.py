"""The CSV pages `raw` and `details`: lines put together to rows, rows taken apart into launches and metrics."""

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
_NO_DEVICE = (255, "0.0")  # what ncu writes of a device it knows nothing of
_AXES = "xyz"
_SIZE = re.compile(r"(\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.0*)?")
_POINTS = re.compile(r"(?<=\d)\.(?=\d{3}\b)")  # of thousands, as continental locales write them: (1.024, 1, 1)


@dataclass
class PageParser:
    """Takes the lines of CSV pages; a row that is not closed waits for its next line."""

    report: ReportBuilder
    _layout: ColumnLayout | None = None
    _units: tuple[str, ...] | None = None
    _open: list[str] = field(default_factory=list)
    _open_length: int = 0
    _launches: dict[tuple[str, ...], Launch] = field(default_factory=dict)
    _metrics: dict[tuple[str, ...], Metric] = field(default_factory=dict)
    _columns: list[tuple[int, Metric]] = field(default_factory=list)

    def take(self, line: str) -> bool:
        """Whether the line belongs to a page."""
        layout = self._layout
        if self._open:
            if self._goes_on(line):
                return True
            self._give_up()
        if layout is not None and layout.starts.match(line):
            self._begin(line)
            return True
        if (found := parse_header(line)) is not None:
            self._layout, self._units = found, None
            self._launches, self._metrics, self._columns = {}, {}, []
            self.report.has_header = True
            return True
        return layout is not None and self._takes_odd(layout, line)

    def end(self) -> None:
        """The file is over; a row that is still open was cut."""
        if self._open:
            self.report.note_here("cut_off")
            self._give_up()

    def _takes_odd(self, layout: ColumnLayout, line: str) -> bool:
        """A row of units, or a row behind the unfinished line of a program."""
        if not layout.details and self._units is None and (units := parse_units(layout, line)):
            self._units = units
            return True
        if layout.inside and (found := layout.inside.search(line)):
            row = line[found.start() :]
            if row.count('"') % 2 or layout.fields(row) is not None:
                self.report.note_here("stray_line")
                self._begin(row)
                return True
        if (
            line.count(f'"{layout.separator}"') >= layout.least - 1
        ):  # as many cells as a row has, behind a broken number
            self.report.skip()
            return True
        return False

    def _begin(self, line: str) -> None:
        if line.count('"') % 2:
            self._open, self._open_length = [line], len(line)
        else:
            self._row(line)

    def _goes_on(self, line: str) -> bool:
        """Put a line to the open row, unless it begins something else: then a quote was lost."""
        layout = self._layout
        self._open_length += len(line)
        begins = layout is not None and layout.starts.match(line)
        if begins or line.startswith("==") or self._open_length > _LONGEST_ROW or parse_header(line):
            return False
        self._open.append(line)
        if line.count('"') % 2:
            whole, self._open = "\n".join(self._open), []
            self._row(whole)
        return True

    def _give_up(self) -> None:
        """Take what the first line of the open row says, if that is enough; the others were no part of it."""
        (first, *others), self._open = self._open, []
        self._row(first)
        for other in others:
            self.report.stray(other)

    def _row(self, record: str) -> None:
        layout = self._layout
        fields = layout.fields(record, self._launches) if layout else None
        if layout is None or fields is None:
            self.report.skip()
            return
        if layout.cut(record, fields):
            self.report.note_here("row_short")
        fields += [""] * (len(layout.header) - len(fields))
        launch = self._launch(layout, fields)
        if layout.details:
            self._details(layout, fields, launch)
        else:
            self._raw(layout, fields, launch)
        self.report.keep()

    def _details(self, layout: ColumnLayout, fields: list[str], launch: Launch) -> None:
        """A metric, or the advice of a rule."""
        at = layout.at

        def cell(column: str) -> str:
            return fields[at[column]].strip() if column in at else ""

        if fields[at["metric name"]].strip():
            key = layout.of_metric(fields)
            metric = self._metrics.get(key)
            if metric is None:
                item = (("item", cell("body item label")),) if cell("body item label") else ()
                others = tuple((text, fields[place]) for text, place in layout.others if fields[place])
                metric = Metric(cell("metric name"), cell("metric unit"), cell("section name") or None, item + others)
                if len(self._metrics) > _MAX_CACHED:
                    self._metrics = {}
                self._metrics[key] = metric
            self.report.rows.add(launch, metric, fields[at["metric value"]].strip())
            return
        if cell("rule description") or cell("rule name"):
            words = [cell(column) for column in ("rule description", "rule type", "rule name", "section name")]
            gain = [cell(column) for column in ("estimated speedup", "estimated speedup type")]
            self.report.advised.add(Advice(launch, *words, *gain))

    def _raw(self, layout: ColumnLayout, fields: list[str], launch: Launch) -> None:
        """All metrics of a launch; an empty cell is a metric that this launch does not have."""
        if not self._columns:
            if self._units is None:
                self.report.note_here("units_missing")
            units = self._units or ("",) * len(layout.header)
            self._columns = [(place, Metric(name, units[place])) for name, place in layout.others]
        launch = _complete_launch(launch, {name: fields[place] for name, place in layout.others})
        for place, metric in self._columns:
            if text := fields[place].strip():
                self.report.rows.add(launch, metric, text)

    def _launch(self, layout: ColumnLayout, fields: list[str]) -> Launch:
        key = layout.of_launch(fields)
        launch = self._launches.get(key)
        if launch is None:
            if len(self._launches) > _MAX_CACHED:
                self._launches = {}
            launch = self._launches[key] = self._new_launch(layout, fields)
        return launch

    def _new_launch(self, layout: ColumnLayout, fields: list[str]) -> Launch:
        def cell(column: str) -> str:
            return fields[layout.at[column]].strip() if column in layout.at else ""

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


_MAX_CACHED = 4096  # launches and metrics that are remembered; they come one after the other, over and over


def note_device(launch: Launch, cc: str, devices: DeviceAttributes) -> Launch:
    """The launch, with what it says of its device taken note of; a device that ncu does not know is absent."""
    if (launch.device, cc) == _NO_DEVICE:
        return replace(launch, device=None)
    if cc and cc != _NO_DEVICE[1]:
        devices.note((launch.pid, launch.device), "compute_capability", cc)
    return launch


def parse_id(name: str, text: str) -> int | None:
    """The number that a cell begins with; NULL where it is none, or one that means none."""
    if not (match := _FIRST_INTEGER.match(text)):
        return None
    value = int(match[0][:20])
    return value if abs(value) < _LIMITS[name] and value not in _ABSENT else None


def parse_shape(sizes: Sequence[str]) -> Shape:
    """Three sizes as numbers; all NULL where one is none: "(640, 1280, 1)" in parts, or metrics as 256.000000."""
    found = [_SIZE.fullmatch(size.strip(" ()")) for size in sizes]
    whole = [int(match[1].replace(",", "")) for match in found if match]
    if len(whole) != len(_AXES) or max(whole) >= 1 << 31:
        return (None, None, None)
    return whole[0], whole[1], whole[2]


def _complete_launch(launch: Launch, metrics: dict[str, str]) -> Launch:
    """What the launch's own columns do not say in old versions, from its metrics, which always do."""

    def sizes(what: str) -> Shape:
        return parse_shape([metrics.get(f"launch__{what}_dim_{axis}", "") for axis in _AXES])

    if launch.grid[0] is not None and launch.device is not None:
        return launch
    return replace(
        launch,
        grid=launch.grid if launch.grid[0] is not None else sizes("grid"),
        block=launch.block if launch.block[0] is not None else sizes("block"),
        device=launch.device if launch.device is not None else parse_id("device", metrics.get("launch__device_id", "")),
    )
