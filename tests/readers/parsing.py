"""Parse a chunk of a trace and check its tables: helpers of the parser's tests."""

import json
import re

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto import mapping, recovery
from tracelab.readers.kineto.chunker import CLEAN, Chunk, Trace
from tracelab.readers.kineto.mapper import Rows
from tracelab.readers.kineto.mapping import MAPPINGS
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
from tracelab.readers.kineto.parser.types import ParsedChunk

PLAIN = len(MAPPINGS)
"""The kind of events whose arguments have no columns."""
KERNELS, COMMUNICATION = MAPPINGS.index(mapping.KERNELS), MAPPINGS.index(mapping.COMMUNICATION_OPS)
SEVERAL = (COMMUNICATION, KERNELS, PLAIN)

_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')

argument = mapping.argument_column


def parse(
    text: str | bytes | memoryview,
    *,
    base_ns: int = 0,
    kind_of=lambda shape: PLAIN,
    parser: CompiledParser | None = None,
) -> ParsedChunk:
    """Parse a chunk into valid tables."""
    chunk = memoryview(text.encode() if isinstance(text, str) else text)
    parser = parser or CompiledParser()
    parsed = parser.parse_chunk(chunk, lambda shapes: [kind_of(shape) for shape in shapes], base_ns=base_ns)
    for table in parsed.tables.values():
        table.validate(full=True)
    return parsed


def parse_rows(text: str | bytes, **options) -> list[dict]:
    """Return the events of a chunk without irregular ones, kind after kind, each without its nulls."""
    parsed = parse(text, **options)
    assert not parsed.irregular
    return [
        {key: value for key, value in row.items() if value is not None}
        for _, table in sorted(parsed.tables.items())
        for row in table.to_pylist()
    ]


class LineCollector:
    """Reads a chunk as where no compiled parser runs: every event is rewritten in Python."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def add_events(self, events: memoryview, rows: Rows) -> bool:
        return False

    def add_lines(self, lines: list[bytes], rows: Rows) -> None:
        self.lines += lines


def rewrite_chunk(data: bytes, base_ns: int, diagnostics: DiagnosticCounts) -> tuple[list[bytes], int]:
    """Return the events of a whole array as JSON lines, and the number of those that are skipped."""
    reader = LineCollector()
    chunk = Chunk(0, 0, memoryview(data), len(data), is_last=True)
    rows, _ = recovery.recover(CLEAN, chunk, Trace(array_form=True), reader, base_ns, lambda: None)
    diagnostics.merge(rows.diagnostics)
    return reader.lines, rows.events_skipped


def compact(value: str) -> str:
    """Return JSON without space, and with no more escapes than necessary."""
    return _STRING_OR_SPACE.sub(lambda match: normalize(match[1]) if match[1] else "", value)


def normalize(text: str) -> str:
    """Return a JSON string as the parser writes it."""
    return json.dumps(json.loads(text), ensure_ascii=False)
