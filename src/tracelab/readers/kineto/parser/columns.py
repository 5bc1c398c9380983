"""What the parser laid out in its memory, copied into tables of Arrow; `columns.h` is its other side."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tracelab.readers.kineto.parser import module
from tracelab.readers.kineto.parser.module import Module

_TEXTS = {"ph": 0, "source_cat": 1, "name": 2, "args": 7}
_TIMES = {"start_ns": 5, "dur_ns": 6}
_IDS = {"pid": (3, 8), "tid": (4, 9)}
"""Process and thread: the column of numbers, and that of texts, which has more where an id is no number."""
_EXTRAS = 10
_COLUMNS = _EXTRAS + 64 + 2
_KINDS = 64


class LaidOut:
    """The columns of a piece, until another one is parsed."""

    def __init__(self, parser: Module, extras: Sequence[str]) -> None:
        self._memory = memory = parser.memory()
        self._buffers = module.words(memory, parser.call("buffers_at"), (_COLUMNS, 3)).tolist()
        filled = module.words(memory, parser.call("filled_at"), (_KINDS, _COLUMNS, 3))
        self._present = filled[:, :, 0].tolist()
        self._starts = module.words(memory, parser.call("starts_at"), (_KINDS,)).tolist()
        self._counts = module.words(memory, parser.call("counts_at"), (_KINDS,)).tolist()
        self._texts = _TEXTS | {name: _EXTRAS + at for at, name in enumerate(extras)}

    def table(self, kind: int) -> pa.Table:
        """The events of a kind, with the columns that hold anything, and `ph`."""
        present = self._present[kind]
        columns: dict[str, pa.Array[Any]] = {"ph": pa.nulls(self._counts[kind], pa.string())}
        columns |= {name: self._text(kind, at) for name, at in self._texts.items() if present[at]}
        columns |= {name: self._numbers(kind, at) for name, at in _TIMES.items() if present[at]}
        for name, (numbers, texts) in _IDS.items():
            if present[texts] > present[numbers]:
                columns[name] = self._text(kind, texts)
            elif present[numbers]:
                columns[name] = self._numbers(kind, numbers)
        return pa.table(columns)

    def _numbers(self, kind: int, column: int) -> "pa.Array[Any]":
        values, *_ = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        content = self._copied(values + 8 * start, 8 * count)
        return pa.Array.from_buffers(pa.int64(), count, [*self._valid(kind, column), content])

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
