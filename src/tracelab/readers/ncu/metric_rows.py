"""Metrics of launches as rows of `kernel_metrics`, gathered and put into the sink some ten thousand at a time."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.ncu.locale_numbers import ENGLISH, NumberFormat, detect_format, looks_like_number, parse_instances
from tracelab.readers.ncu.metric_names import current_name
from tracelab.readers.units import Scale, apply_scale, parse_unit

_BLOCK_ROWS = 50_000
Shape = tuple[int | None, int | None, int | None]
_NO_SHAPE: Shape = (None, None, None)


@dataclass(frozen=True)
class Launch:
    """One profiled launch, as the rows of its metrics name it."""

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
    """A metric as a section of the report writes it."""

    written: str
    unit: str = ""
    section: str | None = None
    args: tuple[tuple[str, str], ...] = ()

    @cached_property
    def name(self) -> str:
        """Today's name."""
        return self._named[0]

    @cached_property
    def scale(self) -> Scale:
        """How its values are put into base units."""
        return parse_unit("" if self.unit in ("(!) n/a", "n/a") else self.unit)

    @cached_property
    def shift(self) -> str | None:
        """The scale as the exponent of a decimal number, where it is one: the value is then rounded once."""
        factor = self.scale.factor
        exponent = factor.adjusted()
        return (f"e{exponent}" if exponent else "") if factor == Decimal(1).scaleb(exponent) else None

    @cached_property
    def all_args(self) -> tuple[tuple[str, str], ...]:
        """What no column holds: label or earlier name, and what else stood in the row."""
        return (*self._named[1].items(), *self.args)

    @cached_property
    def _named(self) -> tuple[str, dict[str, str]]:
        return current_name(self.section, self.written, dict(self.args).get("item", ""))


@dataclass
class MetricRows:
    """Takes metrics one by one, with their values as written; `put` gets them as tables, in their order."""

    put: Callable[[str, pa.Table], None]
    diagnostics: DiagnosticCounts
    seen: Callable[[Launch, Metric, str], None]
    """Told of every metric that describes a device."""
    pids: set[int | None] = field(default_factory=set)
    kept: int = 0
    dialect: NumberFormat | None = None
    _launches: list[Launch] = field(default_factory=list)
    _metrics: list[Metric] = field(default_factory=list)
    _texts: list[str] = field(default_factory=list)
    _instances: list[str | None] = field(default_factory=list)

    def add(self, launch: Launch, metric: Metric, text: str, instance: str | None = None) -> None:
        """One metric of one launch, or one of its instances."""
        if len(self._texts) >= _BLOCK_ROWS:  # not behind the row: its cell may go on
            self.flush()
        self._launches.append(launch)
        self._instances.append(instance)
        self._metrics.append(metric)
        self._texts.append(text)

    def amend(self, more: str) -> None:
        """Put a text behind the last value: a table's cell that went on in the next line."""
        self._texts[-1] = f"{self._texts[-1]} {more}"

    def flush(self) -> None:
        """Put what was gathered."""
        if not self._texts:
            return
        if self.dialect is None:
            self.dialect = detect_format(self._texts)
        if self.dialect is not ENGLISH:
            self.diagnostics.note("decimal_comma", self._texts[0])
        self.put("kernel_metrics", _build_table(list(self._valued(self.dialect))))
        self._launches, self._metrics, self._texts, self._instances = [], [], [], []

    def _valued(self, dialect: NumberFormat) -> Iterator["_Row"]:
        gathered = zip(self._launches, self._metrics, self._texts, self._instances, strict=True)
        for launch, metric, text, instance in gathered:
            self.pids.add(launch.pid)
            if metric.name.startswith("device__attribute_"):
                self.seen(launch, metric, text)
            value, rest = self._value(metric, text, dialect)
            if rest and instance is None and (found := parse_instances(rest, dialect)):
                whole, parts = found
                yield launch, metric, None, *self._value(metric, whole, dialect)
                for name, part in parts:
                    yield launch, metric, name, *self._value(metric, part, dialect)
            else:
                yield launch, metric, instance, value, rest

    def _value(self, metric: Metric, text: str, dialect: NumberFormat) -> tuple[float | None, str | None]:
        """The value in base units, or the text that is no number."""
        plain = dialect.plain(text)
        if plain is None:
            if looks_like_number(text):
                self.diagnostics.note("number_unreadable", f"{metric.written}: {text}")
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
    types = {column.name: schema.ARROW_TYPES[column.type] for column in schema.BY_NAME["kernel_metrics"].columns}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})


def _build_args(launches: list[Launch], metrics: list[Metric]) -> list[str | None]:
    known: dict[tuple[tuple[str, str], ...], str | None] = {}
    found = []
    for launch, metric in zip(launches, metrics, strict=True):
        args = launch.args + metric.all_args
        if args not in known:
            known[args] = json.dumps(dict(args), ensure_ascii=False) if args else None
        found.append(known[args])
    return found
