"""The summary of many runs: all runs in one pass, and those that matter first."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.query.library import library
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.figures import Figure
from tracelab.report.summary.html import render_summaries
from tracelab.report.summary.overview import find_outliers
from tracelab.report.summary.settings import settings_of
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import MOST_LISTED, summary_lines
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
        store_of(tmp_path / str(count), [gaps_of(f"run {at}", 100 * at) for at in range(count)]) for count in (5, 7)
    )
    (alone,) = summarize(many, ("run 4",))
    statements = []
    fetch = execution.fetch_table
    monkeypatch.setattr(execution, "fetch_table", lambda *args: statements.append(args[1]) or fetch(*args))  # type: ignore[func-returns-value]
    summarize(few)
    of_few = len(statements)
    together = summarize(many)
    assert len(statements) == 2 * of_few
    assert summarize(few, tuple(f"run {at}" for at in range(5))) == summarize(few)  # once for all, not for each run
    assert len(statements) == 4 * of_few
    assert replace(together[4], settings=None) == alone
    shares = {each.run: each.leads[0].share for each in together if each.leads}
    assert shares == {f"run {at}": pytest.approx(at / (8 + at)) for at in range(1, 7)}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[RunSummary]:
    """14 runs that idle for 0, 100, 200 … of 800, 900, 1000 … ns, the shortest gap last."""
    runs = [gaps_of(f"{'abcdefghijklmn'[at]}", 100 * (13 - at)) for at in range(14)]
    with pytest.MonkeyPatch.context() as patch:
        needed = [each for name, each in library().items() if name in SOME_QUERIES]
        patch.setattr(summarize_module, "needed_queries", lambda: needed)
        return summarize(store_of(tmp_path_factory.mktemp("many") / "lab", runs))


def test_of_many_runs_the_largest_share_of_a_cause_is_listed_with_the_others_that_have_it(
    many: list[RunSummary],
) -> None:
    """Run a idles for 1300 of 2100 ns, 61.9 %, b for 1200 of 2000; n for none."""
    assert len(many) == MOST_LISTED + 2
    lines = list(summary_lines(many[::-1], 200))
    assert lines[0] == "14 runs: 14 with GPU activity."
    assert lines[4].startswith("  1. a: 61.9 % of its time. ")
    text = " ".join(" ".join(lines).split())
    assert "12 other runs lose time to it, too: b 60.0 %, c 57.9 %, d 55.6 %, and 9 more. Next: " in text
    assert f"Next: tracelab summary --run a --store {many[0].commands.store}" in text
    assert "1 run has no finding of 1 % or more. All runs: tracelab summary --all-runs" in text
    assert len(lines) < 15


def test_all_runs_are_listed_on_request_the_largest_share_first(many: list[RunSummary]) -> None:
    lines = list(summary_lines(many[::-1], 200, all_runs=True))
    assert [line[0] for line in lines if re.match(r"[a-n]: ", line)] == list("abcdefghijklmn")


def test_the_report_of_many_runs_folds_those_that_lose_least(many: list[RunSummary]) -> None:
    shown, folded = (
        render_summaries(many[::-1], named=True).split("<article")[0].split("<summary>2 more runs</summary>")
    )
    assert re.findall(r"<th scope=row>(\w)", shown) == list("abcdefghijkl")
    assert re.findall(r"<th scope=row>(\w)", folded) == list("mn")
    assert folded.endswith('<p class="paper cut" data-all>2 more runs are in the file.</p>')


def timed(run: str, step_ns: float, settings: str = "same") -> RunSummary:
    return RunSummary(run, "", (Figure("step time", step_ns, "", "", "ns"),), "", (), "", settings=settings)


def test_a_step_time_unlike_that_of_runs_with_the_same_settings_is_an_outlier() -> None:
    """The median is 101, the median deviation 1: what differs by more than 5 and by more than 10 % is an outlier."""
    times = {"a": 100, "b": 102, "c": 101, "d": 111, "e": 112, "f": 100, "g": 101}
    (found,) = find_outliers([timed(run, step_ns) for run, step_ns in times.items()])
    assert (found.summary.run, found.median_ns, found.typical) == ("e", 101, "c")
    assert found.sentence == (
        "a step takes 112 ns, 1.11 times the median of the 7 runs with its settings; the others take 100 ns to 111 ns."
    )
    assert found.command == "tracelab compare c e"


def test_runs_of_other_settings_and_few_runs_are_no_outliers() -> None:
    few = [timed(run, step_ns) for run, step_ns in {"a": 100, "b": 100, "c": 100, "d": 200}.items()]
    assert find_outliers(few) == []
    assert find_outliers([*few, timed("e", 100, "other")]) == []
    assert [each.summary.run for each in find_outliers([*few, timed("e", 100)])] == ["d"]


def test_runs_without_settings_are_alike_where_their_names_differ_in_digits() -> None:
    unknown = dict.fromkeys(
        (
            *("gpu", "gpus", "ranks", "world_size", "workload", "model", "dataset", "batch_size", "global_batch_size"),
            *("image_size", "program", "precision", "optimizer", "parallelism", "workers", "profiler"),
        )
    )
    assert settings_of("main-1", unknown) == settings_of("main-12", unknown)
    assert settings_of("main-1", unknown) != settings_of("branch-1", unknown)
    named = unknown | {"model": "resnet18"}
    assert settings_of("main-1", named) == settings_of("branch-1", named)
