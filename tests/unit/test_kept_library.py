"""Sessions copy their rules and macros from the user's cache, and define them where that cannot be used."""

import re
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.store import session

KERNEL = {"name": "gemm", "start_ns": 0, "dur_ns": 10, "device": 0, "stream": 7}
DEFINED = """
    select function_name as name, parameters::varchar as parts, coalesce(macro_definition, '') as body
    from duckdb_functions() where not internal
    union all
    select view_name, '', sql from duckdb_views() where not internal
    order by all
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return build_store(tmp_path / "lab", {"kernels": [KERNEL]})


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tracelab"


def _definitions(store: Path) -> list[tuple[str, str, list[str]]]:
    with session.connect(store) as con:
        assert con.execute("select busy_ns from busy('kernels')").fetchall() == [(10,)]
        databases = con.execute("select database_name from duckdb_databases() where not internal").fetchall()
        assert databases == [("memory",)]
        # DuckDB keeps the columns after EXCLUDE and REPLACE in no order.
        return [
            (name, parts, sorted(re.findall(r"\w+", body))) for name, parts, body in con.execute(DEFINED).fetchall()
        ]


def test_a_copied_library_is_the_defined_one(store: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _definitions(store)
    (kept,) = cache.iterdir()
    written = kept.stat().st_mtime_ns
    assert _definitions(store) == first
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == [written]
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))  # a file, so that no folder can be in it
    assert _definitions(store) == first


def test_a_session_opens_beside_a_damaged_file(store: Path, cache: Path) -> None:
    first = _definitions(store)
    (kept,) = cache.iterdir()
    kept.write_bytes(b"\0" * 5000)
    assert _definitions(store) == first


def test_rules_of_a_store_are_a_library_of_its_own(store: Path, cache: Path) -> None:
    with session.connect(store) as con:
        assert con.execute("select class from kernel_classes").fetchall() == [("gemm",)]
    (store / "classes.csv").write_text("pattern,class\n^gemm$,softmax\n", "utf-8")
    with session.connect(store) as con:
        assert con.execute("select class from kernel_classes").fetchall() == [("softmax",)]
    assert len(list(cache.iterdir())) == 2


def test_the_oldest_files_are_removed(store: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_LIBRARIES", 1)
    _definitions(store)
    (first,) = cache.iterdir()
    (store / "classes.csv").write_text("pattern,class\n^gemm$,softmax\n", "utf-8")
    _definitions(store)
    (second,) = cache.iterdir()
    assert second != first
