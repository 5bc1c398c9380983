"""Sessions of small stores plan with fewer passes, and return the same rows; SQL of users is planned with all."""

from pathlib import Path

import pytest

from tests.traces import write_trace
from tracelab.ingest import pipeline
from tracelab.query import execute, library
from tracelab.sql import sandbox
from tracelab.store import execution, session
from tracelab.store.commit_log import Part, Snapshot


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([[999_999], [1]], True),
        ([[999_999, 1], [1]], False),
        ([[1_000_001]], False),
        ([[1, None]], False),  # of a source whose size is not known
    ],
)
def test_a_store_is_small_up_to_a_megabyte_of_traces(sizes: list[list[int | None]], expected: bool) -> None:
    parts = [Part("a", str(number), "3", 0.0, "kernels", "s", each, [], "{}") for number, each in enumerate(sizes)]
    assert Snapshot(parts={part.key: part for part in parts}).is_small is expected


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    pipeline.ingest([write_trace(folder / f"rank{rank}.json", kernels=20, rank=rank) for rank in (0, 1)], folder / "s")
    return folder / "s"


def test_a_session_of_a_small_store_returns_the_same_rows_in_the_same_types(small_store: Path) -> None:
    """Read at once or as they are computed, planned with all passes or with fewer."""
    with session.connect(small_store) as small, session.connect(small_store) as usual:
        execution.plan_for_any_rows(usual)
        assert [execution.has_few_rows(con) for con in (small, small.cursor(), usual)] == [True, True, False]
        for name in ("kernel_summary", "gpu_breakdown", "kernel_class_share", "rank_balance"):
            query = library.find(name)
            expected = execute.start(usual, query, {}).read_all()
            assert expected.num_rows
            assert execute.start(small, query, {}).read_all().equals(expected), name
            assert execute.run(small, query, {}).equals(expected), name


def test_sql_of_users_has_all_passes_on_a_small_store(small_store: Path) -> None:
    """They may join tables in any order: a cross join of the first two would have the square of the rows."""
    with sandbox.connect(small_store) as con:
        passes = con.execute("select current_setting('disabled_optimizers')").fetchall()
        assert passes == [("projection_pullup",)]
        assert not execution.has_few_rows(con)
