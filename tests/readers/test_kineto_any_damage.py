"""Any damage whatever to a Kineto file: no crash, and no event lost but those that it touches."""

import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.damaged import FIRST, LAST
from tests.readers.small import STATUSES, STORED, ingest_bytes, kernel, trace

WHOLE = [kernel(f"k{index}", ts=index, note=[1, {"a": "}"}]) for index in range(8)]
WHOLE_TEXT = trace(*WHOLE).encode()
ENDS = [WHOLE_TEXT.index(text) + len(text) for text in (json.dumps(row).encode() for row in WHOLE)]
STARTS = [end - len(json.dumps(row)) for end, row in zip(ENDS, WHOLE, strict=True)]


def damaged(position: int, change: str, byte: int) -> bytes:
    head, rest = WHOLE_TEXT[:position], WHOLE_TEXT[position:]
    if change == "insert":
        return head + bytes([byte]) + rest
    return head + (b"" if change == "delete" else bytes([byte])) + rest[1:]


BYTES = st.one_of(st.sampled_from(list(b'{}[]",:\\\0\xff \n0-')), st.integers(0, 255))
CHANGES = st.tuples(st.integers(ENDS[0], ENDS[-1]), st.sampled_from(["flip", "delete", "insert"]), BYTES)


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(change=CHANGES)
def test_one_damaged_byte_costs_no_event_but_its_own_and_the_next(change: tuple[int, str, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), damaged(*change))
        status, names, counts = lab.file.status, set(lab.kernels), lab.counts
    position = change[0]
    untouched = {
        f"k{index}" for index in range(8) if ENDS[index] <= position or (index > 0 and STARTS[index - 1] > position)
    }
    assert status in STORED
    assert names >= untouched
    assert counts[0] == counts[1] + counts[2]


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_damage_never_crashes_and_keeps_every_event_before_it(data: st.DataObject) -> None:
    content = bytearray(WHOLE_TEXT)
    first = data.draw(st.integers(0, len(content)))
    for _ in range(data.draw(st.integers(1, 12))):
        position = data.draw(st.integers(first, len(content)))
        length = data.draw(st.integers(0, 40))
        content[position : position + length] = data.draw(st.binary(max_size=20))
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), bytes(content))
        result, names = lab.file, set(lab.kernels)
    whole = {f"k{index}" for index in range(8) if ENDS[index] <= first}
    assert result.status in STATUSES
    assert names >= whole
    assert result.events_read == result.events_kept + result.events_skipped


@examples(30, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_no_crash(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert ingest_bytes(Path(folder), data).file.status in STATUSES


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    key=st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "s", "new"]),
)
def test_any_json_in_any_field_costs_no_other_event(value: object, key: str) -> None:
    odd = kernel("middle", ts=2000) | {key: value}
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), trace(FIRST, odd, LAST))
        names, counts = set(lab.kernels), lab.counts
    assert names >= {"first", "last"}
    assert counts == (3, 3, 0)


@examples(40, suppress_health_check=[HealthCheck.too_slow])
@given(
    key=st.sampled_from(["device", "context", "stream", "correlation", "grid", "block", "External id", "bytes", "kind"])
    | st.sampled_from(["registers per thread", "est. achieved occupancy %", "Collective name", "Process Group Ranks"])
    | st.text(),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers() | st.text()),
    cat=st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "cuda_sync", "overhead"]),
)
def test_any_argument_of_any_value_costs_no_event(key: str, value: object, cat: str) -> None:
    odd = kernel("middle", ts=2000, **{key: value}) | {"cat": cat}
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), trace(FIRST, odd, LAST))
        starts = [
            row["start_ns"]
            for table in ("kernels", "memcpys", "memsets", "api_calls", "ops", "syncs", "other_events")
            for row in lab.rows(table)
        ]
        counts = lab.counts
    assert sorted(starts) == [1_000_000, 2_000_000, 3_000_000]
    assert counts == (3, 3, 0)
