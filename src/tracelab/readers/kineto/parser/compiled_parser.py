"""Parse chunks of a trace with the compiled parser."""

from collections.abc import Iterator, Sequence

from tracelab.readers.kineto import arguments, mapping
from tracelab.readers.kineto.arguments import NUMBERS, TYPES
from tracelab.readers.kineto.mapping import COUNTERS
from tracelab.readers.kineto.parser.columns import ColumnReader, Module, read_array, read_text
from tracelab.readers.kineto.parser.layout import MAX_SHAPES, NOT_WATCHED, ArgumentType
from tracelab.readers.kineto.parser.results import KindsOf, ParsedChunk, ParserError, RefusedChunkError, Shape
from tracelab.readers.kineto.parser.wasm_module import WasmModule

_TYPES = {
    arguments.REDUNDANT: ArgumentType.REDUNDANT,
    "BIGINT": ArgumentType.INT64,
    "INTEGER": ArgumentType.INT32,
    "DOUBLE": ArgumentType.REAL,
    "VARCHAR": ArgumentType.STRING,
    "JSON": ArgumentType.JSON,
    "INTEGER[3]": ArgumentType.INT32_LIST,
}
_US_TO_NS = 3
"""The power of ten from the unit of a trace's times to nanoseconds."""


class TooManyNamesError(ParserError):
    """The mappings use more names or arguments than the compiled parser has space for."""


class CompiledParser:
    """Parses one chunk after another; not for two threads at once."""

    def __init__(self) -> None:
        self._module: Module = WasmModule()
        self._module.call("reset")
        for name in mapping.WATCHED_NAMES:
            self._add("add_watched_name", name)
        for key, type_name in TYPES.items():
            self._add("add_argument", key, _TYPES[type_name])
        self._module.call("set_watched_argument", NUMBERS[mapping.WATCHED_KEY])
        self._module.call("set_secondary_arguments", _bits(mapping.COLLECTIVE_KEYS))
        for kind in range(COUNTERS + 1):
            plan = arguments.plan(kind)
            self._set("set_plan", kind, _bits(plan.columns), _bits(plan.omitted), int(plan.keeps_all))
            self._set("set_secondary_plan", kind, _bits(plan.secondary_columns), _bits(plan.secondary_omitted))

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

    def _add(self, function: str, name: str, *numbers: int) -> None:
        content = name.encode()
        address = self._module.call("reserve_name", len(content))
        if not address:
            raise TooManyNamesError(f"no space for the name {name!r}")
        self._module.write(address, content)
        self._set(function, len(content), *numbers)

    def _set(self, function: str, *numbers: int) -> None:
        if not self._module.call(function, *numbers):
            raise TooManyNamesError(f"{function}{numbers} exceeds the capacity")

    def _parse(
        self, chunk: memoryview, kinds_of: KindsOf, *, repaired: bool, time_exponent: int, base_ns: int
    ) -> ParsedChunk:
        call = self._module.call
        address = call("reserve_chunk", len(chunk))
        if not address:
            raise RefusedChunkError(f"no memory to parse {len(chunk):,} bytes")
        self._module.write(address, chunk)
        if not call("parse_chunk", int(repaired), time_exponent, base_ns):
            raise RefusedChunkError("not valid JSON of events")
        if call("has_non_ascii"):
            try:
                str(chunk, "utf-8")
            except UnicodeDecodeError as error:
                raise RefusedChunkError(str(error)) from error
        kinds = bytes(kinds_of(self._shapes()))
        self._module.write(call("get_kinds"), kinds)
        if not call("build_columns"):
            raise RefusedChunkError(f"no memory for the columns of {len(chunk):,} bytes")
        columns = ColumnReader(self._module)
        tables = {kind: columns.read_table(kind) for kind in columns.kinds}
        return ParsedChunk(tables, columns.read_unfit(), columns.read_irregular())

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
    return sum(1 << NUMBERS[key] for key in keys)
