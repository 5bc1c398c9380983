"""Parse the output of nccl-tests and rccl-tests into rows of `ceilings`: two bandwidths per size and placement."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.run_folder.coerce import Row

SETTINGS = re.compile(r"#\s*nThread\s+\d+\s+nGpus\s+\d+\s+minBytes\s+\d+")
_ITERATIONS = re.compile(r"(?<!warmup )(?<!agg )iters:\s*(\d+)")
_STARTING = re.compile(r"#\s*Collective test starting:\s*(\w+)")
_VERSION = re.compile(r"(?:#\s*nccl-tests version|rccl-tests: Version)\s+(\S+)")
_RANK = re.compile(
    r"#\s*Rank\s+(\d+)\s+(?:Group\s+(\d+)\s+)?Pid\s+\d+\s+on\s+\S+\s+device\s+\d+\s+\[[^]]*\]\s++(\S(?:.*\S)?)\s*$"
)
_SRUN_LABEL = re.compile(r"^\s*\d+:\s?(?=[#\s\d])")  # `srun --label`
_ROW = re.compile(r"^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\S+)\s+(-?\d+)\s+(\S.*)$")
_FIGURES = 4
"""Time, two bandwidths and the count of wrong values, for each placement."""
_PLACEMENTS = ("out of place", "in place")
_COLLECTIVES = (
    ("all_reduce", "all_reduce"),
    ("all_gather", "all_gather"),
    ("reduce_scatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"),
    ("broadcast", "broadcast"),
    ("sendrecv", "send_recv"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("hypercube", "hypercube"),
    ("reduce", "reduce"),
)
_UNKNOWN = "collective"


@dataclass
class Report:
    """State of parsing one file."""

    diagnostics: DiagnosticCounts
    version: str | None = None
    lost: int = 0
    _line: int = 0
    _collective: str | None = None
    _iterations: int | None = None
    _devices: dict[tuple[str, int], str] = field(default_factory=dict)

    def set_collective_from_name(self, path: Path) -> None:
        """Set the collective from the file's name, for texts that do not name it."""
        self._collective = _find_collective(path.name)

    def rows(self, lines: Iterable[str]) -> Iterator[Row]:
        """Yield a row for each bandwidth."""
        for number, raw_line in enumerate(lines, 1):
            self._line = number
            line = _SRUN_LABEL.sub("", raw_line)
            if match := _ROW.match(line):
                yield from self._measurement_rows(match)
            elif match := _STARTING.search(line):
                self._collective = _find_collective(match[1]) or match[1]
            elif SETTINGS.search(line):
                self._devices.clear()  # another run in the same file
                iterations = _ITERATIONS.search(line)
                self._iterations = int(iterations[1]) if iterations else None
            elif match := _RANK.search(line):
                self._devices[match[2] or "0", int(match[1])] = match[3]
            elif match := _VERSION.search(line):
                self.version = match[1]

    def _measurement_rows(self, match: re.Match[str]) -> Iterator[Row]:
        words = match[6].split()
        if self._collective is None:
            self.diagnostics.note("collective_unknown")
        for place, placement in enumerate(_PLACEMENTS):
            figures = words[place * _FIGURES : (place + 1) * _FIGURES]
            if not figures:
                continue
            if len(figures) < _FIGURES:
                self.lost += 1
                self.diagnostics.note("line_lost", f"line {self._line:,}")
                continue
            if figures[3] not in ("0", "N/A", "0e+00"):
                self.diagnostics.note("wrong_results", f"{self._collective}, {match[1]} bytes, {placement}")
            yield from self._bandwidth_rows(match, placement, figures)

    def _bandwidth_rows(self, match: re.Match[str], placement: str, figures: list[str]) -> Iterator[Row]:
        mean = f"mean of {self._iterations} iterations" if self._iterations else "mean"
        for name, text, formula in (("algbw", figures[1], "S / t"), ("busbw", figures[2], "bytes each link moves / t")):
            value = _parse_number(text)
            if value is None:
                self.diagnostics.note("value_unfit", f"{name} {describe_value(text)}")
                self.lost += 1
                continue
            yield {
                "device_name": next((name for _, name in sorted(self._devices.items())), None),
                "metric": f"{self._collective or _UNKNOWN}_{name}",
                "size_bytes": int(match[1]) if int(match[1]) < 1 << 63 else None,
                "gpus": len(self._devices) or None,
                "best": value,
                "repeats": self._iterations,
                "unit": "gb_per_s",
                "counting": f"{formula}; {placement}, {match[3]}, {match[4]}, {mean}",
            }


def _find_collective(text: str) -> str | None:
    """Return the collective in the name of a program or file."""
    return next((name for mark, name in _COLLECTIVES if mark in text.lower()), None)


def _parse_number(text: str) -> float | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return float(value) if value.is_finite() else None
