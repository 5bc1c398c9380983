"""Pack the graph of a run into tables that a store can keep, and unpack it in a later process."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from tracelab.paths.columns import Array, join_chunks, number_column, text_column
from tracelab.paths.dependencies import Edges
from tracelab.paths.graph import Followed, Graph, build_graph
from tracelab.paths.nesting import Nesting
from tracelab.paths.recording import Clock, CpuRows, GpuRows, Recording, Relations, Syncs
from tracelab.paths.threads import Segments
from tracelab.paths.work import RecordedWork

_CLASSES: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        Graph, Segments, Nesting, Edges, Followed, Recording, GpuRows, CpuRows, Syncs, Clock, RecordedWork,
    )
}  # fmt: skip
_OUTLINE = "outline"


def condense(relations: Relations, check: Callable[[], None]) -> dict[str, pa.Table]:
    """Return the graph of a run as tables, in place of the relations that it is built from; `apart` stays."""
    return pack_graph(build_graph(relations, check)) | {"apart": relations["apart"]}


def read_graph(relations: Relations, check: Callable[[], None]) -> Graph:
    """Return the graph of a run, from the tables of `condense` or else from its rows."""
    return unpack_graph(relations) if _OUTLINE in relations else build_graph(relations, check)


def pack_graph(graph: Graph) -> dict[str, pa.Table]:
    """Return a graph as tables: one with its outline, and one for the arrays and texts of each length."""
    packer = _Packer()
    outline = packer.pack(graph)
    tables = {name: pa.table(columns) for name, columns in packer.columns.items()}
    return {_OUTLINE: pa.table({"json": text_column([json.dumps(outline)])})} | tables


def unpack_graph(tables: Mapping[str, pa.Table]) -> Graph:
    """Return the graph that `pack_graph` made tables of."""
    outline = json.loads(tables[_OUTLINE].column("json")[0].as_py())
    return cast("Graph", _Unpacker(tables).unpack(outline))


class _Packer:
    """The columns of an outline, by the table of their length. What several objects share is packed once."""

    def __init__(self) -> None:
        self.columns: dict[str, dict[str, Any]] = {}
        self._packed: dict[int, tuple[Any, int]] = {}

    def pack(self, value: Any) -> Any:  # noqa: ANN401  numbers, texts, arrays, and dataclasses of these
        if value is None or isinstance(value, int | float | str):
            return value
        if id(value) in self._packed:
            return {"again": self._packed[id(value)][1]}
        self._packed[id(value)] = value, (number := len(self._packed))  # the value stays alive, and its id its own
        return {"number": number, **self._pack_new(value)}

    def _pack_new(self, value: Any) -> dict[str, Any]:  # noqa: ANN401
        if is_dataclass(value):
            return {
                "class": type(value).__name__,
                "fields": {each.name: self.pack(getattr(value, each.name)) for each in fields(value)},
            }
        if isinstance(value, np.ndarray):
            return self._pack_array(value)
        if isinstance(value, list):
            return {"texts": self._add(len(value), text_column(value))}
        return {"items": [[key, self.pack(item)] for key, item in cast("dict[int, Any]", value).items()]}

    def _pack_array(self, array: Array) -> dict[str, Any]:
        if len(array) and not array.strides[0]:
            return {"item": array[0].item(), "length": len(array), "type": array.dtype.str}
        if array.base is not None and id(array.base) in self._packed:
            since = (_address(array) - _address(array.base)) // array.itemsize
            return {"part": self._packed[id(array.base)][1], "since": since, "length": len(array)}
        plain = array.view(np.int8) if array.dtype == np.bool_ else array
        return {"array": self._add(len(array), number_column(plain)), "type": array.dtype.str}

    def _add(self, length: int, column: Any) -> list[str]:  # noqa: ANN401  an Arrow column
        columns = self.columns.setdefault(f"rows_{length}", {})
        name = f"c{len(columns)}"
        columns[name] = column
        return [f"rows_{length}", name]


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class _Unpacker:
    """The objects of an outline, by their numbers."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = tables
        self._unpacked: dict[int, Any] = {}

    def unpack(self, outline: Any) -> Any:  # noqa: ANN401
        if not isinstance(outline, dict):
            return outline
        if "again" in outline:
            return self._unpacked[outline["again"]]
        value = self._unpacked[outline["number"]] = self._unpack_new(outline)
        return value

    def _unpack_new(self, outline: dict[str, Any]) -> Any:  # noqa: ANN401
        match outline:
            case {"class": name, "fields": values}:
                return _CLASSES[name](**{each: self.unpack(value) for each, value in values.items()})
            case {"array": [table, column], "type": dtype}:
                return self._read_array(table, column, np.dtype(dtype))
            case {"item": item, "length": length, "type": dtype}:
                return np.broadcast_to(np.array(item, np.dtype(dtype)), length)
            case {"part": number, "since": since, "length": length}:
                return self._unpacked[number][since : since + length]
            case {"texts": [table, column]}:
                return self._tables[table].column(column).to_pylist()
        return {key: self.unpack(item) for key, item in outline["items"]}

    def _read_array(self, table: str, column: str, dtype: np.dtype[Any]) -> Array:
        chunks = self._tables[table].column(column)
        if not len(chunks):
            return np.zeros(0, dtype)
        whole: Any = join_chunks(chunks)
        array = np.frombuffer(whole.buffers()[1], dtype, whole.offset + len(whole))[whole.offset :]
        array.flags.writeable = False  # the tables may be written to the store meanwhile
        return array
