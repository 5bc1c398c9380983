"""Connections are lent from file to file: their queries stay bound, and no table of the previous file is left."""

import duckdb
import pyarrow as pa
import pytest

from tracelab.readers.kineto.mapper import borrow_connection

QUERY = "select sum(n) as n, any_value(text) as text from events"


def test_the_next_file_gets_the_same_connection_without_tables() -> None:
    with borrow_connection() as first:
        first.register("events", pa.table({"n": [1, 2], "text": ["a", "a"]}))
        assert first.arrow(QUERY).to_pylist() == [{"n": 3, "text": "a"}]
    with borrow_connection() as second:
        assert second is first
        with pytest.raises(duckdb.CatalogException, match="events"):
            second.arrow(QUERY)


def test_a_bound_query_reads_tables_of_other_types() -> None:
    with borrow_connection() as con:
        con.register("events", pa.table({"n": [1, 2], "text": ["a", "a"]}))
        con.arrow(QUERY)
    with borrow_connection() as con:
        con.register("events", pa.table({"text": [7], "n": [0.5]}))
        assert con.arrow(QUERY).to_pylist() == [{"n": 0.5, "text": 7}]


def test_a_connection_is_not_kept_where_reading_failed() -> None:
    with pytest.raises(KeyboardInterrupt), borrow_connection() as failed:
        raise KeyboardInterrupt
    with borrow_connection() as other:
        assert other is not failed
        assert other.rows("select 1") == [(1,)]
