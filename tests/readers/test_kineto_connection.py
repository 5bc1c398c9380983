"""The connections that go from file to file: their queries stay bound, and nothing of the file before is left."""

import duckdb
import pyarrow as pa
import pytest

from tracelab.readers.kineto.connection import connection

ASKED = "select sum(n) as n, any_value(text) as text from events"


def test_the_next_file_takes_the_same_connection_without_its_tables() -> None:
    with connection() as first:
        first.register("events", pa.table({"n": [1, 2], "text": ["a", "a"]}))
        assert first.arrow(ASKED).to_pylist() == [{"n": 3, "text": "a"}]
    with connection() as second:
        assert second is first
        with pytest.raises(duckdb.CatalogException, match="events"):
            second.arrow(ASKED)


def test_a_query_that_is_bound_reads_tables_of_other_types() -> None:
    with connection() as con:
        con.register("events", pa.table({"n": [1, 2], "text": ["a", "a"]}))
        con.arrow(ASKED)
    with connection() as con:
        con.register("events", pa.table({"text": [7], "n": [0.5]}))
        assert con.arrow(ASKED).to_pylist() == [{"n": 0.5, "text": 7}]


def test_a_connection_is_not_kept_where_reading_failed() -> None:
    with pytest.raises(KeyboardInterrupt), connection() as failed:
        raise KeyboardInterrupt
    with connection() as other:
        assert other is not failed
        assert other.rows("select 1") == [(1,)]
