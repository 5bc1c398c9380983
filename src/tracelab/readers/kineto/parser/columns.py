"""What the parser laid out in its memory, copied into tables of Arrow; `columns.h` is its other side."""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tracelab.readers.kineto import arguments
from tracelab.readers.kineto.arguments import TYPES
from tracelab.readers.kineto.mapping import KINDS
from tracelab.readers.kineto.parser import module
from tracelab.readers.kineto.parser.module import Module

_TEXTS = {"ph": 0, "source_cat": 1, "name": 2, arguments.LEFTOVER: 7, arguments.SECONDARY_LEFTOVER: 8}
_TIMES = {"start_ns": 5, "dur_ns": 6}
_IDS = {"pid": (3, 9), "tid": (4, 10)}
"""Process and thread: the column of numbers, and that of texts, which has more where an id is no number."""
_ARGUMENTS = 11
_MOST_KEYS = 64
_COLUMNS = _ARGUMENTS + _MOST_KEYS + 1
_KINDS = 64
_NO_ITEM = -(2**63)
"""What the parser puts for an item of a list that does not fit."""


@dataclass(frozen=True)
class Unfit:
    """An argument some of whose values do not fit its column."""

    table: str
    key: str
    first: str
    count: int


class LaidOut:
    """The columns of a piece, until another one is parsed."""

    def __init__(self, parser: Module) -> None:
        self._parser = parser
        self._memory = memory = parser.memory()
        self._buffers = module.words(memory, parser.call("buffers_at"), (_COLUMNS, 3)).tolist()
        filled = module.words(memory, parser.call("filled_at"), (_KINDS, _COLUMNS, 3))
        self._present = filled[:, :, 0].tolist()
        self._starts = module.words(memory, parser.call("starts_at"), (_KINDS,)).tolist()
        self._counts = module.words(memory, parser.call("counts_at"), (_KINDS,)).tolist()
        self.kinds = [kind for kind, count in enumerate(self._counts) if count]

    def table(self, kind: int) -> pa.Table:
        """The events of a kind, with the columns that hold anything, and `ph`."""
        present = self._present[kind]
        columns: dict[str, pa.Array[Any]] = {"ph": pa.nulls(self._counts[kind], pa.string())}
        columns |= {name: self._text(kind, at) for name, at in _TEXTS.items() if present[at]}
        columns |= {name: self._numbers(kind, at) for name, at in _TIMES.items() if present[at]}
        for name, (numbers, texts) in _IDS.items():
            if present[texts] > present[numbers]:
                columns[name] = self._text(kind, texts)
            elif present[numbers]:
                columns[name] = self._numbers(kind, numbers)
        for at, (key, as_type) in enumerate(TYPES.items(), _ARGUMENTS):
            if present[at]:
                columns[arguments.column(key)] = self._argument(kind, at, as_type)
        return pa.table(columns)

    def unfit(self) -> list[Unfit]:
        """The arguments some of whose values do not fit, by the first table that has a column for them."""
        found = module.words(self._memory, self._parser.call("unfit_at"), (_KINDS, _MOST_KEYS, 3))
        unfit = []
        for kind, number in zip(*np.nonzero(found[:, :, 0]), strict=True):
            count, address, size = found[kind, number].tolist()
            first, key = _said(module.text(self._memory, address, size)), list(TYPES)[number]
            beside = arguments.collectives_of(KINDS[kind])
            table = KINDS[kind] if key in arguments.keys_of(KINDS[kind]) else beside
            assert table is not None  # noqa: S101 - an argument has a column in one of them
            unfit.append(Unfit(table.table, key, first, count))
        return unfit

    def odd(self) -> list[bytes]:
        """The events that are odd, as they stand."""
        count = self._parser.call("odd_count")
        found = module.words(self._memory, self._parser.call("odd_at"), (count, 2)).tolist()
        return [self._memory[address : address + size].tobytes() for address, size in found]

    def _argument(self, kind: int, column: int, as_type: str) -> "pa.Array[Any]":
        if as_type == "INTEGER[3]":
            return self._threes(kind, column)
        return self._numbers(kind, column) if as_type in ("BIGINT", "INTEGER") else self._text(kind, column)

    def _numbers(self, kind: int, column: int) -> "pa.Array[Any]":
        values, *_ = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        content = self._copied(values + 8 * start, 8 * count)
        return pa.Array.from_buffers(pa.int64(), count, [*self._valid(kind, column), content])

    def _threes(self, kind: int, column: int) -> "pa.Array[Any]":
        """Three numbers for each event, of which those are null that are none."""
        values, *_ = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        items = self._memory[values + 24 * start :][: 24 * count].view(np.int64).copy()
        numbers = pa.array(items, mask=items == _NO_ITEM)
        return pa.Array.from_buffers(pa.list_(pa.int64(), 3), count, self._valid(kind, column), children=[numbers])

    def _text(self, kind: int, column: int) -> "pa.Array[Any]":
        values, _, offsets = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        ends = module.words(self._memory, offsets + 4 * start, (count + 1,))
        content = self._copied(values + int(ends[0]), int(ends[-1] - ends[0]))
        buffers = [*self._valid(kind, column), pa.py_buffer((ends - ends[0]).tobytes()), content]
        return pa.Array.from_buffers(pa.string(), count, buffers)

    def _valid(self, kind: int, column: int) -> list[pa.Buffer | None]:
        """A bit for each event that has the column; None where all have."""
        count = self._counts[kind]
        if self._present[kind][column] == count:
            return [None]
        _, valid, *_ = self._buffers[column]
        return [self._copied(valid + self._starts[kind] // 8, (count + 7) // 8)]

    def _copied(self, address: int, size: int) -> pa.Buffer:
        return pa.py_buffer(self._memory[address : address + size].tobytes())


def _said(value: str) -> str:
    """A value of JSON as people write it: a string without its quotes."""
    return str(json.loads(value)) if value.startswith('"') else value
