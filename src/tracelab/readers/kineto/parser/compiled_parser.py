"""Parse chunks of a trace with the compiled parser, and copy the columns that it builds into Arrow tables."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import ARGUMENT_NUMBERS, ARGUMENT_TYPES, COUNTERS
from tracelab.readers.kineto.parser.layout import (
    MAX_ARGUMENTS,
    MAX_KINDS,
    MAX_SHAPES,
    NO_ITEM,
    NOT_WATCHED,
    STRUCTS,
    ArgumentType,
    Column,
)
from tracelab.readers.kineto.parser.types import (
    KindsOf,
    ParsedChunk,
    ParserError,
    RefusedChunkError,
    Shape,
    UnfitValues,
)
from tracelab.readers.kineto.parser.wasm_module import Bytes, WasmModule, struct_type
from tracelab.store.writer import repeat_number

_TYPES = {
    mapping.REDUNDANT: ArgumentType.REDUNDANT,
    "BIGINT": ArgumentType.INT64,
    "INTEGER": ArgumentType.INT32,
    mapping.ID32: ArgumentType.ID32,
    "DOUBLE": ArgumentType.REAL,
    "VARCHAR": ArgumentType.STRING,
    "JSON": ArgumentType.JSON,
    "INTEGER[3]": ArgumentType.INT32_LIST,
}
_US_TO_NS = 3
"""The power of ten from the unit of a trace's times to nanoseconds."""


_DICTIONARIES = {"ph": Column.PH, "source_cat": Column.CAT, "name": Column.NAME}
_DICTIONARY_TYPE = pa.dictionary(pa.int32(), pa.string())
_TEXTS = {
    mapping.LEFTOVER: Column.LEFTOVER_ARGS,
    mapping.SECONDARY_LEFTOVER: Column.SECONDARY_LEFTOVER_ARGS,
}
_TIMES = {"start_ns": Column.START_NS, "dur_ns": Column.DUR_NS}
_IDS = {"pid": (Column.PID, Column.PID_TEXT), "tid": (Column.TID, Column.TID_TEXT)}
"""Process and thread: the column of numbers, and that of texts, which has more values where an id is no number."""
_CODES = [name for name, _ in STRUCTS["ColumnBuffers"]].index("codes")
_COLUMN_COUNT = Column.FIRST_ARGUMENT + MAX_ARGUMENTS


class Module(Protocol):
    """A compiled parser: its functions and its memory."""

    address_bytes: int
    has_fixed_memory: bool
    """Whether its memory never moves, so that what `read` returns remains valid."""

    def call(self, function: str, *numbers: int) -> int:
        """Call a function of exports.c."""

    def write(self, address: int, content: "bytes | memoryview") -> None:
        """Copy bytes into the memory."""

    def read(self, address: int, size: int) -> Bytes:
        """Return a view of bytes in memory, valid until the next call unless the memory is fixed."""

    def memory_bytes(self) -> int:
        """Return how large the memory has become."""


def read_array(module: Module, address: int, kind: str, count: int) -> "np.ndarray[Any, Any]":
    """Return structs or numbers from memory; see `layout.STRUCTS`."""
    dtype = struct_type(kind, module.address_bytes)
    return module.read(address, dtype.itemsize * count).view(dtype)


def read_text(module: Module, start: int, size: int) -> str:
    """Return a text from memory."""
    return module.read(start, size).tobytes().decode()


class TooManyNamesError(ParserError):
    """The mappings use more names or arguments than the compiled parser has space for."""


class CompiledParser:
    """Parses one chunk after another; not for two threads at once."""

    def __init__(self) -> None:
        self._module: Module = WasmModule()
        self._text_address = 0
        self._module.call("reset")
        watched = [name.encode() for name in mapping.WATCHED_NAMES]
        keys = {key.encode(): _TYPES[type_name] for key, type_name in ARGUMENT_TYPES.items()}
        self._write_names(b"".join([*watched, *keys]))
        for name in watched:
            self._set("add_watched_name", len(name))
        for key, argument_type in keys.items():
            self._set("add_argument", len(key), argument_type)
        self._module.call("set_watched_argument", ARGUMENT_NUMBERS[mapping.WATCHED_KEY])
        self._module.call("set_secondary_arguments", _bits(mapping.COLLECTIVE_KEYS))
        for kind in range(COUNTERS + 1):
            plan = mapping.plan_arguments(kind)
            self._set("set_plan", kind, _bits(plan.columns), _bits(plan.omitted), int(plan.keeps_all))
            self._set("set_secondary_plan", kind, _bits(plan.secondary_columns), _bits(plan.secondary_omitted))

    def reserve_text(self, size: int) -> memoryview | None:
        """Return memory for text; chunks in it are parsed without a copy. None where there is no such memory.

        It keeps its content in the next call, and otherwise until the next chunk is parsed that does not lie in it.
        Parsing a chunk overwrites what follows it.
        """
        address = self._module.call("reserve_text", size) if self._module.has_fixed_memory else 0
        if not address:
            return None
        text = self._module.read(address, size)
        self._text_address = _address_of(text)
        return text.data

    def parse_chunk(self, chunk: memoryview, kinds_of: KindsOf, *, base_ns: int) -> ParsedChunk:
        """Parse events whose times are microseconds; start times are counted from `base_ns`.

        Raises RefusedChunkError where all of the chunk must be read tolerantly.
        """
        return self._parse(chunk, kinds_of, repaired=False, time_exponent=_US_TO_NS, base_ns=base_ns)

    def parse_repaired(self, lines: Sequence[bytes], kinds_of: KindsOf) -> Iterator[ParsedChunk]:
        """Parse events that were repaired, some at a time; their times are nanoseconds."""
        for start in range(0, len(lines), MAX_SHAPES):  # so many events cannot have too many shapes
            chunk = memoryview(b",".join(lines[start : start + MAX_SHAPES]))
            yield self._parse(chunk, kinds_of, repaired=True, time_exponent=0, base_ns=0)

    def memory_bytes(self) -> int:
        """Return how large its memory has become."""
        return self._module.memory_bytes()

    def _write_names(self, names: bytes) -> None:
        address = self._module.call("reserve_name", len(names))
        if not address:
            raise TooManyNamesError(f"no space for names of {len(names):,} bytes")
        self._module.write(address, names)

    def _set(self, function: str, *numbers: int) -> None:
        if not self._module.call(function, *numbers):
            raise TooManyNamesError(f"{function}{numbers} exceeds the capacity")

    def _parse(
        self, chunk: memoryview, kinds_of: KindsOf, *, repaired: bool, time_exponent: int, base_ns: int
    ) -> ParsedChunk:
        call = self._module.call
        self._place(chunk)
        if not call("parse_chunk", int(repaired), time_exponent, base_ns):
            raise RefusedChunkError("not valid JSON of events")
        if call("has_non_ascii"):
            try:
                str(chunk, "utf-8")
            except UnicodeDecodeError as error:
                raise RefusedChunkError(str(error)) from error
        shapes = self._shapes()
        kinds = bytes(kinds_of(shapes))
        if len(kinds) != len(shapes):
            raise ValueError(f"{len(kinds)} kinds for {len(shapes)} shapes")
        self._module.write(call("get_kinds"), kinds)
        if not call("build_columns"):
            raise RefusedChunkError(f"no memory for the columns of {len(chunk):,} bytes")
        columns = ColumnReader(self._module)
        tables = {kind: columns.read_table(kind) for kind in columns.kinds}
        return ParsedChunk(tables, columns.read_unfit(), columns.read_irregular())

    def _place(self, chunk: memoryview) -> None:
        """Take a chunk where it lies in reserved text, or else a copy of it."""
        skipped = _address_of(np.frombuffer(chunk, np.uint8)) - self._text_address
        if self._text_address and 0 <= skipped < self._module.memory_bytes():
            if self._module.call("place_chunk", skipped, len(chunk)):
                return
        elif address := self._module.call("reserve_chunk", len(chunk)):
            self._module.write(address, chunk)
            return
        raise RefusedChunkError(f"no memory to parse {len(chunk):,} bytes")

    def _shapes(self) -> list[Shape]:
        module = self._module
        count, address = module.call("count_shapes"), module.call("get_shapes")
        return [
            Shape(
                read_text(module, *ph) if ph[0] else None,
                read_text(module, *cat) if cat[0] else None,
                None if watched_name == NOT_WATCHED else mapping.WATCHED_NAMES[watched_name],
                has_watched_key,
            )
            for ph, cat, watched_name, has_watched_key in read_array(module, address, "Shape", count).tolist()
        ]


def _bits(keys: Sequence[str] | frozenset[str]) -> int:
    return sum(1 << ARGUMENT_NUMBERS[key] for key in keys)


class ColumnReader:
    """Reads the columns of the chunk that was parsed last."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._buffers = self._array("get_buffers", "ColumnBuffers", _COLUMN_COUNT).tolist()
        fills = self._array("get_fills", "ColumnFill", MAX_KINDS * _COLUMN_COUNT)
        self._present = fills["present"].reshape(MAX_KINDS, _COLUMN_COUNT).tolist()
        self._next_texts = fills["next_text"].reshape(MAX_KINDS, _COLUMN_COUNT).tolist()
        self._starts = self._array("get_starts", "u4", MAX_KINDS).tolist()
        self._counts = self._array("get_counts", "u4", MAX_KINDS).tolist()
        self.kinds = [kind for kind, count in enumerate(self._counts) if count]

    def read_table(self, kind: int) -> pa.Table:
        """Return the events of a kind, with `ph` and the columns that have values."""
        present = self._present[kind]
        columns = {name: self._dictionary(kind, column) for name, column in _DICTIONARIES.items() if present[column]}
        if "ph" not in columns:
            columns["ph"] = pa.nulls(self._counts[kind], _DICTIONARY_TYPE)
        columns |= {name: self._texts(kind, column) for name, column in _TEXTS.items() if present[column]}
        columns |= {name: self._numbers(kind, column) for name, column in _TIMES.items() if present[column]}
        for name, (numbers, texts) in _IDS.items():
            if present[texts] > present[numbers]:
                columns[name] = self._texts(kind, texts)
            elif present[numbers]:
                columns[name] = self._numbers(kind, numbers)
        for column, (key, type_name) in enumerate(ARGUMENT_TYPES.items(), Column.FIRST_ARGUMENT):
            if present[column]:
                columns[mapping.argument_column(key)] = self._argument(kind, column, type_name)
        return pa.table(columns)

    def read_unfit(self) -> list[UnfitValues]:
        """Return the values that do not fit, each with the first table that has a column for them."""
        values = self._array("get_unfit", "UnfitValues", MAX_KINDS * MAX_ARGUMENTS).reshape(MAX_KINDS, MAX_ARGUMENTS)
        unfit = []
        for kind, number in zip(*np.nonzero(values["count"]), strict=True):
            count, (start, size) = values[kind, number].tolist()
            key = list(ARGUMENT_TYPES)[number]
            first = read_text(self._module, start, size)
            unfit.append(UnfitValues(mapping.argument_table(int(kind), key), key, unquote(first), count))
        return unfit

    def read_irregular(self) -> list[bytes]:
        """Return the text of the irregular events."""
        texts = self._array("get_irregular", "Text", self._module.call("count_irregular")).tolist()
        return [self._module.read(start, size).tobytes() for start, size in texts]

    def _array(self, function: str, kind: str, count: int) -> "np.ndarray[Any, Any]":
        return read_array(self._module, self._module.call(function), kind, count)

    def _argument(self, kind: int, column: int, type_name: str) -> "pa.Array[Any]":
        if type_name == "INTEGER[3]":
            return self._lists(kind, column)
        return (
            self._numbers(kind, column)
            if type_name in ("BIGINT", "INTEGER", mapping.ID32)
            else self._texts(kind, column)
        )

    def _numbers(self, kind: int, column: int) -> "pa.Array[Any]":
        values, *_ = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        numbers = read_array(self._module, values + 8 * start, "i8", count)
        if numbers[0] == numbers[-1] and (numbers == numbers[0]).all():
            content = _repeat(int(numbers[0]), count, pa.int64())
        else:
            content = self._copy(values + 8 * start, 8 * count)
        return pa.Array.from_buffers(pa.int64(), count, [*self._validity(kind, column), content])

    def _lists(self, kind: int, column: int) -> "pa.Array[Any]":
        """Return three numbers for each event; those are null that are no integers."""
        values, *_ = self._buffers[column]
        start, count = self._starts[kind], self._counts[kind]
        items = self._module.read(values + 24 * start, 24 * count).tobytes()
        fits = np.frombuffer(items, np.int64) != NO_ITEM
        validity = None if fits.all() else pa.py_buffer(np.packbits(fits, bitorder="little").tobytes())
        # not pa.array(), which imports numpy.ma to find out whether the array is masked
        numbers = pa.Array.from_buffers(pa.int64(), len(fits), [validity, pa.py_buffer(items)])
        return pa.Array.from_buffers(pa.list_(pa.int64(), 3), count, self._validity(kind, column), children=[numbers])

    def _texts(self, kind: int, column: int) -> "pa.Array[Any]":
        return self._text_rows(kind, column, self._counts[kind], self._validity(kind, column))

    def _dictionary(self, kind: int, column: int) -> "pa.Array[Any]":
        """Return texts as the different ones among them, and the number of its own for each event."""
        start, count = self._starts[kind], self._counts[kind]
        distinct = self._next_texts[kind][column] - start
        texts = self._text_rows(kind, column, distinct, [None])
        address = self._buffers[column][_CODES] + 4 * start
        content = self._copy(address, 4 * count) if distinct > 1 else _repeat(0, count, pa.int32())
        codes = pa.Array.from_buffers(pa.int32(), count, [*self._validity(kind, column), content])
        return pa.DictionaryArray.from_arrays(codes, texts, safe=False)

    def _text_rows(self, kind: int, column: int, count: int, validity: list[pa.Buffer | None]) -> "pa.Array[Any]":
        """Return the first texts of a kind."""
        values, _, offsets, _ = self._buffers[column]
        ends = read_array(self._module, offsets + 4 * self._starts[kind], "u4", count + 1)
        content = self._copy(values + int(ends[0]), int(ends[-1] - ends[0]))
        return pa.Array.from_buffers(pa.string(), count, [*validity, pa.py_buffer((ends - ends[0]).data), content])

    def _validity(self, kind: int, column: int) -> list[pa.Buffer | None]:
        """Return a bit for each event that has a value; None where all have."""
        count = self._counts[kind]
        if self._present[kind][column] == count:
            return [None]
        _, validity, *_ = self._buffers[column]
        return [self._copy(validity + self._starts[kind] // 8, (count + 7) // 8)]

    def _copy(self, address: int, size: int) -> pa.Buffer:
        return pa.py_buffer(self._module.read(address, size).copy().data)  # other threads run meanwhile


def _repeat(number: int, count: int, as_type: pa.DataType) -> pa.Buffer:
    """Return memory, which columns share: events of a kind mostly have one process, and few threads."""
    _, memory = repeat_number(number, count, as_type).buffers()
    assert memory is not None  # noqa: S101 - only where there are no rows
    return memory.slice(0, count * as_type.bit_width // 8)


def _address_of(content: Bytes) -> int:
    address: int = content.ctypes.data
    return address


def unquote(value: str) -> str:
    """Return JSON as people write it: a string without its quotes."""
    return str(json.loads(value)) if value.startswith('"') else value
