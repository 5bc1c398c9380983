"""Collect metrics of launches as rows of `kernel_metrics`, and put them into the sink in large blocks."""

import json
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.ncu.locale_numbers import ENGLISH, NumberFormat, detect_format, looks_like_number, parse_instances
from tracelab.readers.ncu.metric_names import current_name
from tracelab.readers.units import Scale, apply_scale, parse_unit

_BLOCK_ROWS = 50_000
_COMMAND_LINE = re.compile(r"\s--[A-Za-z]|==(?:PROF|ERROR|WARNING)==")
"""Part of a command line or of a message with one, which damage can join to a value or to a name."""

Shape = tuple[int | None, int | None, int | None]
_NO_SHAPE: Shape = (None, None, None)


@dataclass(frozen=True)
class Launch:
    """One profiled launch, with the columns that all rows of its metrics share."""

    pid: int | None = None
    number: int | None = None
    device: int | None = None
    context: int | None = None
    stream: int | None = None
    kernel: str | None = None
    grid: Shape = _NO_SHAPE
    block: Shape = _NO_SHAPE
    clock_control: str | None = None
    args: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Metric:
    """A metric as a section of the report has it."""

    written: str
    unit: str = ""
    section: str | None = None
    args: tuple[tuple[str, str], ...] = ()

    @cached_property
    def name(self) -> str:
        """Current name."""
        return self._name_and_args[0]

    @cached_property
    def scale(self) -> Scale:
        """Conversion of its values to base units."""
        return parse_unit("" if self.unit in ("(!) n/a", "n/a") else self.unit)

    @cached_property
    def shift(self) -> str | None:
        """The scale as the exponent of a decimal number, if it is one: the value is then rounded only once."""
        factor = self.scale.factor
        exponent = factor.adjusted()
        return (f"e{exponent}" if exponent else "") if factor == Decimal(1).scaleb(exponent) else None

    @cached_property
    def all_args(self) -> tuple[tuple[str, str], ...]:
        """What no column holds: label or former name, and other cells of the row."""
        return (*self._name_and_args[1].items(), *self.args)

    @cached_property
    def has_command_line(self) -> bool:
        """Whether a text that describes it can be part of a command line."""
        texts = (self.written, self.unit, self.section or "", *chain.from_iterable(self.args))
        return any(map(_COMMAND_LINE.search, texts))

    @cached_property
    def _name_and_args(self) -> tuple[str, dict[str, str]]:
        return current_name(self.section, self.written, dict(self.args).get("item", ""))


@dataclass
class MetricRows:
    """Collector of metrics with their values as written; `put` receives them as tables, in order."""

    put: Callable[[str, pa.Table], None]
    diagnostics: DiagnosticCounts
    on_device_metric: Callable[[Launch, Metric, str], None]
    """Callback for every metric that describes a device."""
    pids: set[int | None] = field(default_factory=set)
    kept: int = 0
    number_format: NumberFormat | None = None
    _launches: list[Launch] = field(default_factory=list)
    _metrics: list[Metric] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _instances: list[str | None] = field(default_factory=list)

    def add(self, launch: Launch, metric: Metric, text: str, instance: str | None = None) -> None:
        """Add one metric of one launch, or one of its instances."""
        if len(self._texts) >= _BLOCK_ROWS:  # not after the row: its cell may continue
            self.flush()
        self._launches.append(launch)
        self._instances.append(instance)
        self._metrics.append(metric)
        self._texts.append(text)

    def extend_last(self, more: str) -> None:
        """Append to the last value: a cell that continues in the next line."""
        self._texts[-1] = f"{self._texts[-1]} {more}"

    def flush(self) -> None:
        """Put the collected rows."""
        if not self._texts:
            return
        if self.number_format is None:
            self.number_format = detect_format(self._texts)
        if self.number_format is not ENGLISH:
            self.diagnostics.note("decimal_comma")
        self.put("kernel_metrics", _build_table(list(self._iter_valued(self.number_format))))
        self._launches, self._metrics, self._texts, self._instances = [], [], [], []

    def _iter_valued(self, number_format: NumberFormat) -> Iterator["_Row"]:
        collected = zip(self._launches, self._metrics, self._texts, self._instances, strict=True)
        for launch, metric, text, instance in collected:
            self.pids.add(launch.pid)
            if metric.has_command_line:
                self.diagnostics.note("metric_lost", "its name can be part of a command line")
                continue
            if metric.name.startswith("device__attribute_"):
                self.on_device_metric(launch, metric, text)
            value, rest = self._value(metric, text, number_format)
            if rest and instance is None and (texts := parse_instances(rest, number_format)):
                total, parts = texts
                yield launch, metric, None, *self._value(metric, total, number_format)
                for name, part in parts:
                    yield launch, metric, name, *self._value(metric, part, number_format)
            else:
                yield launch, metric, instance, value, rest

    def _value(self, metric: Metric, text: str, number_format: NumberFormat) -> tuple[float | None, str | None]:
        """Return the value in base units, or the text if it is not a number."""
        plain = number_format.normalize(text)
        if plain is None:
            if looks_like_number(text):
                self.diagnostics.note("number_unreadable", f"{metric.written}: {text}")
            if _COMMAND_LINE.search(text):
                self.diagnostics.note("text_withheld")
                return None, None
            return None, text or None
        if metric.shift is not None and "e" not in plain and "E" not in plain:
            value = float(plain + metric.shift)
        else:
            value = float(apply_scale(Decimal(plain), metric.scale))
        if math.isinf(value):
            self.diagnostics.note("number_unreadable", f"{metric.written}: {text}")
            return None, text
        return value, None


_Row = tuple[Launch, Metric, str | None, float | None, str | None]


def _build_table(rows: list[_Row]) -> pa.Table:
    launches = [row[0] for row in rows]
    metrics = [row[1] for row in rows]
    columns: dict[str, list[Any]] = {
        "pid": [launch.pid for launch in launches],
        "launch": [launch.number for launch in launches],
        "device": [launch.device for launch in launches],
        "context": [launch.context for launch in launches],
        "stream": [launch.stream for launch in launches],
        "kernel": [launch.kernel for launch in launches],
        **{f"grid_{axis}": [launch.grid[at] for launch in launches] for at, axis in enumerate("xyz")},
        **{f"block_{axis}": [launch.block[at] for launch in launches] for at, axis in enumerate("xyz")},
        "clock_control": [launch.clock_control for launch in launches],
        "section": [metric.section for metric in metrics],
        "metric": [metric.name for metric in metrics],
        "instance": [row[2] for row in rows],
        "value": [row[3] for row in rows],
        "text": [row[4] for row in rows],
        "unit": [metric.scale.unit for metric in metrics],
        "args": _build_args(launches, metrics),
    }
    types = {column.name: column.arrow.type for column in schema.BY_NAME["kernel_metrics"].columns}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def _build_args(launches: list[Launch], metrics: list[Metric]) -> list[str | None]:
    cached: dict[tuple[tuple[str, str], ...], str | None] = {}
    texts = []
    for launch, metric in zip(launches, metrics, strict=True):
        args = launch.args + metric.all_args
        if args not in cached:
            cached[args] = json.dumps(dict(args), ensure_ascii=False) if args else None
        texts.append(cached[args])
    return texts
