"""The rows of a path's relations are sorted as Python sorts them, in whatever order they are read."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given

from tests.properties import examples
from tracelab.paths.order import find_order, sort_cpu_rows

row = st.tuples(st.integers(0, 2), st.sampled_from([0, 7, 1 << 40]), st.integers(0, 4), st.integers(0, 4))


@examples(200)
@given(st.lists(row, max_size=12), st.booleans())
def test_rows_are_sorted_by_groups_then_times(rows: list[tuple[int, ...]], in_time: bool) -> None:
    rows = sorted(rows, key=lambda each: each[2:]) if in_time else rows
    rank, stream, start, end = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    order = find_order([rank, stream], start, [lambda: end])
    found = list(range(len(rows))) if order is None else order.tolist()
    assert found == sorted(range(len(rows)), key=rows.__getitem__)
    assert (order is None) == (rows == sorted(rows))


def test_cpu_rows_are_in_the_order_of_threads_an_outer_row_before_those_inside_it() -> None:
    """NULL comes last: thread 9 before no thread. Of rows of equal times a range is outside an op, and that a call."""
    rows = [
        ("call", None, 0, 5, 1), ("call", 9, 2, 3, 4), ("call", 9, 0, 9, None), ("call", 9, 0, 9, 8),
        ("op", 9, 0, 9, 7), ("range", 9, 0, 9, None), ("op", 9, 0, 10, None),
    ]  # fmt: skip
    names = ("kind", "tid", "start_ns", "end_ns", "correlation")
    table = pa.Table.from_pylist([dict(zip(names, each, strict=True)) for each in rows])
    same = {"rank": pa.array([0] * 7), "source": pa.array(["a"] * 7), "pid": pa.array([1] * 7)}
    for name, column in same.items():
        table = table.append_column(name, column)
    assert sort_cpu_rows(table).rows.tolist() == [6, 5, 4, 3, 2, 1, 0]


def test_rows_of_very_many_streams_are_sorted_all_at_once() -> None:
    stream, start = np.repeat(np.arange(10_001)[::-1], 2), np.arange(20_002)[::-1]
    order = find_order([stream], start, [])
    assert order is not None
    assert order.tolist() == np.lexsort((start, stream)).tolist()


def test_a_column_in_few_bytes_decides_between_rows_that_start_together() -> None:
    same = np.zeros(3, dtype=np.int8)
    order = find_order([same], same, [lambda: np.array([100, -100, 0], dtype=np.int8)])
    assert order is not None
    assert order.tolist() == [1, 2, 0]
