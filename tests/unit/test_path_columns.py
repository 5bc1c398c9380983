"""Columns of Arrow become arrays and back as Arrow itself converts them."""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from tests.properties import examples
from tracelab.paths.columns import (
    NONE,
    boolean_column,
    codes,
    floats,
    narrow_column,
    narrow_integers,
    nullable_column,
    numbers,
    text_column,
)
from tracelab.paths.dependencies import places_by_process

texts = st.lists(st.none() | st.sampled_from(["", "a", "ü", "gemm"]), max_size=20)


@examples(100)
@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20), st.sampled_from([32, 64]), st.data())
def test_numbers_of_a_column_or_a_slice_of_it(values: list[int | None], bits: int, data: st.DataObject) -> None:
    since = data.draw(st.integers(0, len(values)))
    table = pa.table({"x": pa.array(values, f"int{bits}")}).slice(since)
    assert numbers(table, "x").tolist() == [NONE if value is None else value for value in values[since:]]


def test_columns_without_rows_and_of_nulls_alone() -> None:
    assert numbers(pa.table({"x": pa.array([], pa.int64())}), "x").tolist() == []
    assert numbers(pa.table({"x": pa.chunked_array([], pa.int32())}), "x").tolist() == []
    assert numbers(pa.table({"x": pa.nulls(2)}), "x").tolist() == [NONE, NONE]
    assert codes(pa.table({"x": pa.chunked_array([], pa.string())}), "x")[1] == [None]


def test_floats_of_a_column() -> None:
    found = floats(pa.table({"x": pa.array([0.5, None, -2.0])}), "x")
    assert np.array_equal(found, [0.5, np.nan, -2.0], equal_nan=True)


@examples(100)
@given(texts, st.booleans(), st.data())
def test_texts_have_codes_and_null_is_the_last(values: list[str | None], encoded: bool, data: st.DataObject) -> None:
    column = text_column(values)
    assert column.type == pa.string()
    assert column.to_pylist() == values
    since = data.draw(st.integers(0, len(values)))
    table = pa.table({"x": column.dictionary_encode() if encoded else column}).slice(since)
    places, listed = codes(table, "x")
    assert listed[-1] is None
    assert [listed[place] for place in places] == values[since:]


@examples(50)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_numbers_and_nulls_become_a_column(values: list[int | None]) -> None:
    column = nullable_column(values)
    column.validate(full=True)
    assert column.to_pylist() == values


def test_booleans_become_a_column() -> None:
    values = [True, False, True, True, False, False, True, False, True]
    assert boolean_column(np.array(values)).to_pylist() == values


def test_rows_have_their_places_by_process() -> None:
    assert places_by_process(np.zeros(0, np.int64)) == {}
    places = places_by_process(np.array([7, 3, 7, 9]))
    assert {process: list(each) for process, each in places.items()} == {3: [1], 7: [0, 2], 9: [3]}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "int8"),
        ([-128, 127], "int8"),
        ([0, 128], "int16"),
        ([-129, 0], "int16"),
        ([2**31], "int64"),
        ([-(2**63), 2**63 - 1], "int64"),
    ],
)
def test_a_narrow_column_keeps_its_values(values: list[int], kind: str) -> None:
    column = narrow_column(np.array(values, dtype=np.int64))
    assert (str(column.type), column.to_pylist()) == (kind, values)


def test_a_null_does_not_widen_a_column() -> None:
    column = narrow_column(np.array([NONE, 7]), np.array([True, False]))
    assert (str(column.type), column.to_pylist()) == ("int8", [None, 7])


@pytest.mark.parametrize(
    ("values", "kind"), [([5, None, -128], "int8"), ([None], "int8"), ([200], "int16"), ([], "int8")]
)
def test_whole_numbers_are_narrowed(values: list[int | None], kind: str) -> None:
    narrow = narrow_integers(pa.array(values, pa.int64()))
    assert narrow is not None
    assert (str(narrow.type), narrow.to_pylist()) == (kind, values)
    assert narrow_integers(narrow) is None, "it has no fewer bytes"
