"""Format Arrow rows as JSON objects, column by column: for most types Arrow does it for all rows at once."""

from collections.abc import Iterator
from functools import cache
from json.encoder import encode_basestring
from typing import Any, TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.exact_json import json_text
from tracelab.output.plain_values import to_plain

_Column: TypeAlias = Any
"""pyarrow's stubs do not describe its functions well enough."""

_ROWS = 10_000
_BYTES = 16 << 20
"""The objects of at most so many rows, or of rows of about so many bytes, are in memory at a time."""

_ESCAPED = r'["\\\x00-\x1f]'
_IS_ESCAPED = np.isin(np.arange(256), [*range(0x20), *b'"\\'])
_NULL = pa.scalar("null", pa.large_string())


def iter_objects(batch: pa.RecordBatch, before: str, after: str) -> Iterator[pa.Buffer]:
    """Yield the rows as JSON objects in UTF-8, each between `before` and `after`."""
    rows = min(_ROWS, max(1, _BYTES * batch.num_rows // max(batch.nbytes, 1)))
    for start in range(0, batch.num_rows, rows):
        yield _join_rows(batch.slice(start, rows), before, after)


def _join_rows(batch: pa.RecordBatch, before: str, after: str) -> pa.Buffer:
    pieces: list[_Column] = []
    text = before + "{"
    for number, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        text += ", " * (number > 0) + encode_basestring(name) + ": "
        pieces += [pa.scalar(text, pa.large_string()), pc.coalesce(_json_values(column), _NULL)]
        text = ""
    pieces.append(pa.scalar(text + "}" + after, pa.large_string()))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar("", pa.large_string()))
    return _text_bytes(joined)


def _text_bytes(texts: _Column) -> pa.Buffer:
    """Return the bytes of all texts, one after the other, without a copy."""
    _, offsets, content = texts.buffers()
    if not len(texts) or content is None:
        return pa.py_buffer(b"")
    ends = pa.Array.from_buffers(pa.int64(), len(texts) + 1, [None, offsets], offset=texts.offset)
    first = ends[0].as_py()
    joined: pa.Buffer = content.slice(first, ends[-1].as_py() - first)
    return joined


def _json_values(column: _Column) -> _Column:
    """Return each value as JSON; NULL stays NULL."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _json_values(column.dictionary).take(column.indices)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return column.cast(pa.large_string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _json_strings(column.cast(pa.large_string()))
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return column.cast(pa.large_string())
    if pa.types.is_float64(kind) or pa.types.is_float32(kind):
        return _json_floats(column)
    texts = [None if value is None else json_text(value) for value in to_plain(column)]
    return pa.array(texts, pa.large_string())


def _json_floats(values: _Column) -> _Column:
    """Format floats as Python does, with the fewest digits that identify the number; NULL if not finite."""
    finite = pc.if_else(pc.is_finite(values), values, None).cast(pa.float64())
    with _connection().cursor() as cursor:
        texts = cursor.from_arrow(pa.table({"value": finite})).select("value::varchar").to_arrow_table()
    return texts.column(0).combine_chunks().cast(pa.large_string())


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def _json_strings(texts: _Column) -> _Column:
    quote = pa.scalar('"', pa.large_string())
    quoted = pc.binary_join_element_wise(quote, texts, quote, pa.scalar("", pa.large_string()))
    if not _IS_ESCAPED[np.frombuffer(memoryview(_text_bytes(texts)), np.uint8)].any():  # faster than the expression
        return quoted
    is_escaped = pc.match_substring_regex(texts, _ESCAPED)
    escaped = [encode_basestring(text) for text in texts.filter(is_escaped).to_pylist()]
    return pc.replace_with_mask(quoted, is_escaped, pa.array(escaped, pa.large_string()))
