"""Parse repaired events in Python, into the same tables as the compiled parser, where that one cannot run."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.json_text import Number, decoder, encode
from tracelab.readers.kineto.mapping import ARGUMENT_TYPES, ArgumentPlan
from tracelab.readers.kineto.parser.types import KindsOf, ParsedChunk, RefusedChunkError, Shape, UnfitValues

Event = dict[str, Any]

_BATCH = 20_000
_ZERO_FRACTION = re.compile(r"(?<=.)\.0+$")
_FIELDS = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args"}
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_MAX_DIGITS = 19
_MAX_POWER = 18
_LIST_ITEMS = 3


class PythonParser:
    """Parses one chunk after another, all of them tolerantly."""

    def reserve_text(self, size: int) -> memoryview | None:  # noqa: ARG002
        """Return None: a chunk may lie anywhere."""
        return None

    def parse_chunk(self, chunk: memoryview, kinds_of: KindsOf, *, base_ns: int) -> ParsedChunk:  # noqa: ARG002
        """Raise RefusedChunkError: the tolerant path must read the chunk."""
        raise RefusedChunkError("the compiled parser cannot run here")

    def parse_repaired(self, lines: Sequence[bytes], kinds_of: KindsOf) -> Iterator[ParsedChunk]:
        """Parse events that were repaired, some at a time; their times are nanoseconds."""
        decode = decoder().decode
        for start in range(0, len(lines), _BATCH):
            events = [decode(line.decode()) for line in lines[start : start + _BATCH]]
            yield parse_events(events, kinds_of)


def parse_events(events: Sequence[Event], kinds_of: KindsOf) -> ParsedChunk:
    """Return the tables of decoded events."""
    shapes = [_shape(event) for event in events]
    distinct = list(dict.fromkeys(shapes))
    kinds = dict(zip(distinct, kinds_of(distinct), strict=True))
    builders: dict[int, _TableBuilder] = {}
    for event, shape in zip(events, shapes, strict=True):
        kind = kinds[shape]
        if kind not in builders:
            builders[kind] = _TableBuilder(kind, mapping.plan_arguments(kind))
        builders[kind].add(event)
    ordered = sorted(builders.items())
    return ParsedChunk(
        {kind: builder.table() for kind, builder in ordered},
        [unfit for _, builder in ordered for unfit in builder.unfit()],
        [],
    )


def _shape(event: Event) -> Shape:
    name = event.get("name")
    has_watched_key = mapping.WATCHED_KEY in (event.get("args") or ())
    watched_name = name if name in mapping.WATCHED_NAMES else None
    return Shape(event.get("ph"), event.get("cat"), watched_name, has_watched_key)


@dataclass
class _TableBuilder:
    """Collects the rows of one kind."""

    kind: int
    plan: ArgumentPlan
    count: int = 0
    columns: dict[str, dict[int, Any]] = field(default_factory=dict)  # by column and row
    misfits: dict[str, list[str]] = field(default_factory=dict)  # by argument

    def add(self, event: Event) -> None:
        for column, key in (("ph", "ph"), ("source_cat", "cat"), ("name", "name"), ("pid", "pid"), ("tid", "tid")):
            self._set(column, event.get(key))
        self._set("start_ns", event.get("ts"))
        self._set("dur_ns", event.get("dur"))
        self._add_arguments(event)
        self.count += 1

    def table(self) -> pa.Table:
        columns: dict[str, pa.Array[Any]] = {"ph": self._array("ph", pa.string()).dictionary_encode()}
        texts = ("source_cat", "name", mapping.LEFTOVER, mapping.SECONDARY_LEFTOVER)
        columns |= {name: self._array(name, pa.string()) for name in texts if name in self.columns}
        columns |= {name: columns[name].dictionary_encode() for name in texts[:2] if name in columns}
        for name in ("start_ns", "dur_ns"):
            if name in self.columns:
                columns[name] = self._array(name, pa.int64())
        for name in ("pid", "tid"):
            if name in self.columns:
                columns[name] = self._ids(name)
        for key, type_name in ARGUMENT_TYPES.items():
            if mapping.argument_column(key) in self.columns:
                columns[mapping.argument_column(key)] = self._array(
                    mapping.argument_column(key), _ARROW_TYPES[type_name]
                )
        return pa.table(columns)

    def unfit(self) -> list[UnfitValues]:
        return [
            UnfitValues(mapping.argument_table(self.kind, key), key, self.misfits[key][0], len(self.misfits[key]))
            for key in ARGUMENT_TYPES
            if key in self.misfits
        ]

    def _set(self, column: str, value: object) -> None:
        if value is not None:
            self.columns.setdefault(column, {})[self.count] = value

    def _add_arguments(self, event: Event) -> None:
        args: Mapping[str, Any] | None = event.get("args")
        own_keys = {key: value for key, value in event.items() if key not in _FIELDS and value is not None}
        if self.plan.keeps_all:
            self._set(mapping.LEFTOVER, None if args is None else encode(args))
            return
        present = {key: value for key, value in (args or {}).items() if value is not None}
        unfit = {key for key, value in present.items() if key in self.plan.columns and not self._store(key, value)}
        self._set(mapping.LEFTOVER, _leftover(present, own_keys, self.plan.omitted - unfit))
        if self.plan.secondary_omitted and args and any(key in args for key in mapping.COLLECTIVE_KEYS):
            omitted = self.plan.secondary_omitted - (unfit & self.plan.secondary_columns)
            self._set(mapping.SECONDARY_LEFTOVER, _leftover(present, own_keys, omitted))

    def _store(self, key: str, value: object) -> bool:
        """Store a value in the column of its argument; returns whether it fits."""
        stored, fits = _READ[ARGUMENT_TYPES[key]](value)
        self._set(mapping.argument_column(key), stored)
        if not fits:
            self.misfits.setdefault(key, []).append(_text(value))
        return fits

    def _array(self, column: str, arrow_type: pa.DataType) -> "pa.Array[Any]":
        values = self.columns.get(column, {})
        return pa.array([values.get(row) for row in range(self.count)], arrow_type)

    def _ids(self, column: str) -> "pa.Array[Any]":
        """Return numbers where all ids are integers, else texts."""
        texts = self.columns[column]
        numbers = {row: _integer(text) for row, text in texts.items()}
        if None in numbers.values():
            return self._array(column, pa.string())
        return pa.array([numbers.get(row) for row in range(self.count)], pa.int64())


def _leftover(args: Mapping[str, Any], own_keys: Mapping[str, Any], omitted: Collection[str]) -> str | None:
    """Return the arguments without those omitted, and behind them an event's own keys, as JSON."""
    kept = {key: value for key, value in args.items() if key not in omitted}
    kept |= {key: value for key, value in own_keys.items() if key not in kept}
    return encode(kept) if kept else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else encode(value)


def _integer(text: str) -> int | None:
    """Return the integer of 64 bits that a text is."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _parse_whole_number(value: object) -> int | None:
    """Return the whole number that a value is, also a quoted one, which may be hexadecimal, or one with a point."""
    text = _text(value)
    if isinstance(value, str) and _HEX.fullmatch(text):
        handle = int(text, 16)
        return handle if handle < 1 << 63 else None
    number = _integer(_ZERO_FRACTION.sub("", text))
    if number is not None or not _NUMBER.fullmatch(text):
        return number
    decimal = Number(text)
    _, digits, exponent = decimal.as_tuple()
    if len(digits) > _MAX_DIGITS or not isinstance(exponent, int):
        return None
    if abs(exponent) > _MAX_POWER:
        return None if decimal else 0
    integer = int(decimal)
    return integer if integer == decimal and abs(integer) < 1 << 63 else None


def _int32(value: object) -> int | None:
    number = _parse_whole_number(value)
    return number if number is not None and -(1 << 31) <= number < 1 << 31 else None


def _read_int64(value: object) -> tuple[object, bool]:
    number = _parse_whole_number(value)
    return number, number is not None


def _read_int32(value: object) -> tuple[object, bool]:
    number = _parse_whole_number(value)
    fits = number is not None and -(1 << 31) <= number < 1 << 31
    return (number if fits else None), fits


def _read_id32(value: object) -> tuple[object, bool]:
    number = _parse_whole_number(value)
    return (number, True) if number == (1 << 32) - 1 else _read_int32(value)


def _read_real(value: object) -> tuple[object, bool]:
    text = _text(value)
    fits = _NUMBER.fullmatch(text) is not None
    return (text if fits else None), fits


def _read_list(value: object) -> tuple[object, bool]:
    if not isinstance(value, list):
        return None, False
    numbers = [_int32(item) for item in value]
    first = (numbers + [None] * _LIST_ITEMS)[:_LIST_ITEMS]
    return first, len(numbers) == _LIST_ITEMS and None not in numbers


_READ: dict[str, Callable[[object], tuple[object, bool]]] = {
    "BIGINT": _read_int64,
    "INTEGER": _read_int32,
    mapping.ID32: _read_id32,
    "DOUBLE": _read_real,
    "VARCHAR": lambda value: (_text(value), True),
    "JSON": lambda value: (encode(value), True),
    "INTEGER[3]": _read_list,
}
"""By type, what is stored of a value, and whether it fits."""

_ARROW_TYPES: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int64(),
    mapping.ID32: pa.int64(),
    "DOUBLE": pa.string(),
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "INTEGER[3]": pa.list_(pa.int64(), _LIST_ITEMS),
}
