"""The summary of many runs: all runs in one pass, and those that matter first."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.query.library import library
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.summarize import summarize
from tracelab.store import execution

SOME_QUERIES = ("recordings", "gpu_breakdown", "idle_causes")


def gaps_of(run: str, idle_ns: int, rank: int = 0) -> dict[str, list[dict[str, object]]]:
    """One GPU of a run: kernels of 400 ns before and behind a gap, whose end a launch decides."""
    starts = (0, 400 + idle_ns)
    place = {"run": run, "rank": rank, "pid": rank}
    return {
        "kernels": [
            place | {"device": 0, "stream": 7, "name": "gemm", "start_ns": at, "dur_ns": 400, "correlation": at}
            for at in starts
        ],
        "api_calls": [
            place | {"tid": 1, "name": "cudaLaunchKernel", "start_ns": at - 10, "dur_ns": 5, "correlation": at}
            for at in starts
        ],
    }


def store_of(root: Path, runs: Sequence[dict[str, list[dict[str, object]]]]) -> Path:
    return build_store(root, {name: [row for run in runs for row in run[name]] for name in runs[0]})


@pytest.fixture
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run some of the queries: all together take several times as long."""
    needed = [each for name, each in library().items() if name in SOME_QUERIES]
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: needed)


@pytest.mark.usefixtures("few_queries")
def test_a_summary_of_many_runs_takes_no_more_statements_than_one_of_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run idles for 0, 100, 200 … of 800, 900, 1000 … ns; from the second on that is above the threshold."""
    few, many = (
        store_of(tmp_path / str(count), [gaps_of(f"run {at}", 100 * at) for at in range(count)]) for count in (3, 6)
    )
    (alone,) = summarize(many, ("run 4",))
    statements = []
    fetch = execution.fetch_table
    monkeypatch.setattr(execution, "fetch_table", lambda *args: statements.append(args[1]) or fetch(*args))  # type: ignore[func-returns-value]
    summarize(few)
    of_few = len(statements)
    together = summarize(many)
    assert len(statements) == 2 * of_few
    assert together[4] == alone
    shares = {each.run: each.leads[0].share for each in together if each.leads}
    assert shares == {f"run {at}": pytest.approx(at / (8 + at)) for at in range(1, 6)}
