"""Parse the page `session`: clock setting of the command line, version of ncu, attributes of devices."""

import re
from dataclasses import dataclass, field

from tracelab.readers.ncu.csv_columns import split_fields
from tracelab.readers.ncu.report_builder import ReportBuilder

_TITLES = ("Launch Settings", "Session Info", "Processes", "Device Attributes")
_DASHES = re.compile(r"-+(?: -+)*\s*")
_DEVICE = re.compile(r"Device (\d+)")
_COMMAND_LINE = "Profiler Command Line"


@dataclass
class SessionPageParser:
    """Parser of the lines of a session page."""

    report: ReportBuilder
    _title: str = ""
    _header: list[str] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)
    _pids: set[int] = field(default_factory=set)

    def parse_line(self, line: str) -> bool:
        """Parse a line; return whether it belongs to a session page."""
        text = line.strip()
        if text in _TITLES:
            self._title, self._header, self._columns = text, [], []
            return True
        if not self._title or not text:
            self._title = "" if self._header and not text else self._title
            return False
        if _DASHES.fullmatch(line):
            self._columns = [match.start() for match in re.finditer(r"-+", line)]
            return True
        cells = self._split_row(line)
        if len(cells) < 2:  # noqa: PLR2004 - a name and a value
            return False
        if not self._header:
            self._header = cells
            return True
        self._parse_row(cells)
        return True

    def _split_row(self, line: str) -> list[str]:
        if line.startswith('"'):
            return split_fields(line, ",") or []
        if self._columns:
            ends = [*self._columns[1:], len(line)]
            return [line[start:end].strip() for start, end in zip(self._columns, ends, strict=True)]
        return []

    def _parse_row(self, cells: list[str]) -> None:
        if self._title == "Device Attributes":
            pid = next(iter(self._pids)) if len(self._pids) == 1 else None
            for heading, value in zip(self._header[1:], cells[1:], strict=False):
                if match := _DEVICE.fullmatch(heading):
                    self.report.devices.note((pid, int(match[1][:9])), cells[0], value)
            self.report.count_kept()
        elif self._title == "Processes" and cells[0].isdecimal():
            self._pids.add(int(cells[0][:18]))
        elif cells[0] == "Nsight Compute":
            self.report.version = cells[1]
        elif cells[0] == _COMMAND_LINE:
            self.report.note_command(cells[1])
