"""What a session remembers in Python: for its cursors too, until its rows change or memory is short."""

from contextlib import closing

import pytest

from tests.memory import MemoryStore
from tracelab.query import library
from tracelab.store import computed_tables, execution, session, session_cache
from tracelab.store.session_cache import SessionCache


def test_cursors_share_values_that_other_sessions_lack() -> None:
    with closing(session.open_duckdb()) as con, closing(session.open_duckdb()) as other:
        SessionCache.of(con).put("key", [1], 8)
        assert SessionCache.of(con.cursor()).get("key") == [1]
        assert SessionCache.of(other).get("key") is None


def test_dropped_rows_are_not_remembered() -> None:
    with closing(session.open_duckdb()) as con:
        SessionCache.of(con).put("key", [1], 8)
        computed_tables.forget(con)
        assert SessionCache.of(con).get("key") is None


def test_what_was_not_used_for_the_longest_time_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(session.open_duckdb()) as con:
        cache = SessionCache.of(con)
        for name in ("first", "second"):
            cache.put(name, name, 1_000)
        assert cache.get("first") == "first"
        monkeypatch.setattr(session_cache, "MOST_BYTES", 5_500)  # two values of 2,000 bytes with their overhead
        cache.put("third", "third", 1_000)
        assert [cache.get(name) for name in ("first", "second", "third")] == ["first", None, "third"]
        cache.put("large", "large", 6_000)
        assert [cache.get(name) for name in ("first", "third", "large")] == [None, None, None]


def test_a_second_replay_reads_no_relation_of_a_small_run(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [
        {"device": 0, "stream": 7, "name": name, "start_ns": start, "dur_ns": 10}
        for name, start in (("gemm", 0), ("copy", 15))
    ]
    memory.filled({"kernels": kernels})
    read: list[str] = []
    fetch_table = execution.fetch_table

    def fetch(con: object, sql: str, *values: object) -> object:
        read.append(sql)
        return fetch_table(con, sql, *values)  # type: ignore[arg-type]

    query = library.find("what_if")
    monkeypatch.setattr(execution, "fetch_table", fetch)
    gains, reads = [], []

    def replay(kernel: str) -> None:
        answer = memory.run_query(query, {"change": "scale", "kernel": kernel, "factor": 0.5})
        gains.append(answer.column("gain_ns")[0].as_py())
        reads.append(sum("path_gpu_rows" in sql for sql in read))

    for kernel in ("gemm", "copy", "gemm|copy"):
        replay(kernel)
    assert (gains, reads) == ([5, 5, 10], [1, 1, 1])
    memory.filled({"kernels": kernels[:1]})
    replay("gemm|copy")
    assert (gains[-1], reads[-1]) == (5, 2)
