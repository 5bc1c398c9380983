"""JSON and JSON lines have the bytes that Python's encoder writes row by row, for each type of a column."""

import io
import random
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from tracelab.exact_json import json_text
from tracelab.output import json_rows, writers
from tracelab.output.plain_values import to_plain

RNG = random.Random(1)
FLOATS = [0.0, -0.0, 1.0, 0.1, 1e15, 1e16, 1e17, 1e-4, 1e-5, 1.5e300, 5e-324, 123456789012345680.0]
FLOATS += [struct.unpack("<d", RNG.randbytes(8))[0] for _ in range(5000)]
FLOATS += [float("nan"), float("inf"), -float("inf"), *(RNG.randrange(10**9) / 1000 for _ in range(1000))]
TEXTS = ["", "plain", 'a "quoted" \\ path', "line\nfeed\ttab\r\b\f", "\0\x01\x1f\x7f", "é漢😀\u2028\ufeff", "a" * 5000]
NOON = datetime(2024, 2, 29, 12, 0, 1, 500)
HUGE = Decimal(2**126)

COLUMNS: dict[str, pa.Array] = {
    "int64": pa.array([0, -(2**63), 2**63 - 1, None]),
    "uint64": pa.array([0, 2**64 - 1, None], pa.uint64()),
    "int8": pa.array([-128, 127, None], pa.int8()),
    "bool": pa.array([True, False, None]),
    "null": pa.nulls(3),
    "text": pa.array([*TEXTS, None]),
    "plain text": pa.array(["a", "b", None]),
    "no text": pa.nulls(2, pa.string()),
    "empty text": pa.array(["", None]),
    "large text": pa.array([*TEXTS, None], pa.large_string()),
    "enumeration": pa.array(["b", 'a"', None, "b"]).dictionary_encode(),
    "float64": pa.array([*FLOATS, None]),
    "float32": pa.array([0.1, 1e-30, 3e38, float("nan"), 16777216.0, None], pa.float32()),
    "float16": pa.array([0.5, None], pa.float16()),
    "hugeint": pa.array([HUGE, -HUGE, Decimal(0), None], pa.decimal128(38, 0)),
    "decimal": pa.array([Decimal("1.50"), Decimal("-0.01"), Decimal("0.00"), None], pa.decimal128(18, 2)),
    "small decimal": pa.array([Decimal("1e-30"), Decimal("0"), None], pa.decimal128(38, 30)),
    "negative scale": pa.array([Decimal("1200"), None], pa.decimal128(5, -2)),
    "date": pa.array([date(1, 1, 1), date(9999, 12, 31), None]),
    "time": pa.array([time(23, 59, 59, 1), time(0), None]),
    "timestamp s": pa.array([NOON.replace(microsecond=0), None], pa.timestamp("s")),
    "timestamp us": pa.array([NOON, datetime(1, 1, 1), None]),
    "timestamp ns": pa.array([1, 1_700_000_000_123_456_789, None], pa.timestamp("ns")),
    "timestamp ns that fits": pa.array([1_700_000_000_123_456_000, None], pa.timestamp("ns")),
    "timestamp with zone": pa.array([NOON.replace(tzinfo=UTC), None], pa.timestamp("us", "UTC")),
    "year beyond Python": pa.array([2**62, None], pa.timestamp("us")),
    "duration": pa.array([timedelta(days=-1, microseconds=1), None]),
    "interval": pa.array([pa.MonthDayNano([1, 2, 1_500_000_000]), None]),
    "blob": pa.array([b"\xff\x00", b"", None]),
    "list": pa.array([[1.5, float("nan"), None], [], None]),
    "list of decimals": pa.array([[Decimal("1.50")], None], pa.list_(pa.decimal128(18, 2))),
    "struct": pa.array([{"a": 'x"', "b": [None]}, {"a": None, "b": None}, None]),
    "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
}


def expected_lines(table: pa.Table) -> list[str]:
    """The rows as the encoder of Python writes them, one by one."""
    columns = [to_plain(column) for column in table.columns]
    return [json_text(dict(zip(table.column_names, row, strict=True))) for row in zip(*columns, strict=True)]


def written(rows: pa.Table | pa.RecordBatchReader, fmt: str) -> str:
    stream = io.BytesIO()
    writers.write(rows, fmt, stream)
    return stream.getvalue().decode()


def check(table: pa.Table) -> None:
    lines = expected_lines(table)
    assert written(table, "jsonl") == "".join(f"{line}\n" for line in lines)
    assert written(table, "json") == ("[\n " + ",\n ".join(lines) + "\n]\n" if lines else "[]\n")


@pytest.mark.parametrize("values", COLUMNS.values(), ids=COLUMNS)
def test_each_type_has_the_bytes_of_the_encoder(values: pa.Array) -> None:
    table = pa.table({'name "of" column\n': values, "n": range(len(values))})
    for part in (table, table.slice(1), table.slice(0, 1), table.slice(0, 0), pa.concat_tables([table, table])):
        check(part)


def test_rows_of_all_types_have_the_bytes_of_the_encoder() -> None:
    check(pa.table({name: values.take(pa.array([0, len(values) - 1] * 50)) for name, values in COLUMNS.items()}))


@pytest.mark.parametrize("limit", ["_ROWS", "_BYTES"])
def test_rows_are_written_in_pieces(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(json_rows, limit, 7)
    table = pa.table({"n": range(100), "text": [f'"{at}"' for at in range(100)]})
    check(table)
    for fmt in ("json", "jsonl"):
        assert written(table.to_reader(max_chunksize=9), fmt) == written(table, fmt)
