"""Pieces of a trace straight through the parser: the tools of its tests."""

import json
import re

from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import MAPPINGS
from tracelab.readers.kineto.parser import ParsedChunk
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

PLAIN = len(MAPPINGS)
"""The kind of events of whose arguments all are left over."""
KERNELS, COMMUNICATION = MAPPINGS.index(mapping.KERNELS), MAPPINGS.index(mapping.COMMUNICATION_OPS)
ALIKE = (COMMUNICATION, KERNELS, PLAIN)

_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')

argument = mapping.argument_column


def parsed(
    text: str | bytes, *, base_ns: int = 0, kind_of=lambda shape: PLAIN, parser: CompiledParser | None = None
) -> ParsedChunk:
    """A piece; its tables are valid, and have no more odd events than the test says."""
    piece = memoryview(text.encode() if isinstance(text, str) else text)
    found = (parser or CompiledParser()).parse_chunk(
        piece, lambda shapes: [kind_of(shape) for shape in shapes], base_ns=base_ns
    )
    for table in found.tables.values():
        table.validate(full=True)
    return found


def rows(text: str | bytes, **how) -> list[dict]:
    """The events of a piece, kind after kind, without what they do not have; none of them is odd."""
    found = parsed(text, **how)
    assert not found.irregular
    return [
        {key: value for key, value in row.items() if value is not None}
        for _, table in sorted(found.tables.items())
        for row in table.to_pylist()
    ]


def compact(value: str) -> str:
    """The same JSON without space, and with no more escapes than there must be."""
    return _STRING_OR_SPACE.sub(lambda found: one_way(found[1]) if found[1] else "", value)


def one_way(text: str) -> str:
    """A string of JSON as the parser writes it."""
    return json.dumps(json.loads(text), ensure_ascii=False)
