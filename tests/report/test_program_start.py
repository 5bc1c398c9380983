"""Summary, report and comparison leave out the start of a program that `collect run` recorded, and state it.

The start lasts 90,000 ns, and launches a copy of 100 ns at its begin. Behind it are the five steps of `recording`: from
the first kernel to the end of the last copy 46,500 ns, in each of which the GPU is busy for 5,500.
"""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tests.compare.small_runs import Tables, recording, together
from tests.report.few_queries import report_of
from tracelab.cli import main
from tracelab.collect.recording.recorder import PROGRAM_START
from tracelab.compare import comparison
from tracelab.errors import UsageError
from tracelab.output.commands import DEFAULT_STORE, StoreCommands
from tracelab.query.library import library
from tracelab.report.answers import open_report_session
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import summary_lines
from tracelab.report.verdict import compare_pair, render_verdict
from tracelab.store.scope.request import Scope, parse_time
from tracelab.store.scope.start_up import format_time

AFTER_NS, WHOLE_NS = 46_500, 137_500
START_NS = 90_000
LEFT_OUT = "The figures leave out the program's start, 90.00 µs until its first step ended. To include it, "
LEFT_OUT_OF_COMPARISON = "The start of the program is left out of started (90.00 µs); --whole includes it."
INCLUDED = "The figures include the program's start, 90.00 µs until its first step ended. To leave it out, "


def with_start(run: str) -> Tables:
    place = {"run": run, "pid": 1, "rank": 0}
    begin = place | {"tid": 1, "start_ns": -START_NS}
    start: Tables = {
        "annotations": [begin | {"name": PROGRAM_START, "scope": "cpu", "dur_ns": START_NS}],
        "api_calls": [begin | {"api": "runtime", "name": "cudaMemcpyAsync", "dur_ns": 20, "correlation": 99}],
        "memcpys": [place | {"device": 0, "stream": 7, "direction": "HtoD", "correlation": 99}
                    | {"start_ns": -START_NS, "dur_ns": 100}],
    }  # fmt: skip
    return together(start, recording(run, start_ns=0))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(
        tmp_path_factory.mktemp("start") / "lab", together(with_start("started"), recording("plain", start_ns=0))
    )


@pytest.fixture(scope="module", autouse=True)
def few_queries() -> Iterator[None]:
    needed = [library()[name] for name in ("gpu_breakdown", "idle_causes")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summarize_module, "needed_queries", lambda: needed)
        yield


@cache
def summaries_of(store: Path, scope: Scope | None = None) -> dict[str, RunSummary]:
    return {each.run: each for each in summarize(store, scope=scope)}


@pytest.mark.parametrize(
    ("scope", "window_ns", "busy_ns", "sentence"),
    [
        (None, AFTER_NS, 27_500, LEFT_OUT + "add --whole."),
        (Scope(), WHOLE_NS, 27_600, INCLUDED + "omit --whole."),
        (Scope(after_start=True), AFTER_NS, 27_500, LEFT_OUT + "omit --after-start."),
        (Scope(stream="7-9"), WHOLE_NS, 27_600, INCLUDED + "add --after-start."),
    ],
)
def test_the_start_of_a_program_is_left_out_unless_a_scope_is_given(
    store: Path, scope: Scope | None, window_ns: int, busy_ns: int, sentence: str
) -> None:
    found = summaries_of(store, scope)["started"]
    busy = next(each for each in found.figures if each.name == "GPU busy")
    assert (found.window_ns, busy.value) == (window_ns, pytest.approx(busy_ns / window_ns))
    assert found.start == sentence
    assert busy.note.startswith(
        f"of the windows of 1 GPU, {'after the program' if LEFT_OUT in sentence else 'start-up and end included'}"
    )
    assert found.start in " ".join(" ".join(summary_lines([found], 100)).split())


def test_a_run_without_a_start_has_the_same_summary_beside_one_with_a_start(store: Path) -> None:
    found, whole = (replace(summaries_of(store, scope)["plain"], commands=DEFAULT_STORE) for scope in (None, Scope()))
    assert found == whole
    assert (found.window_ns, found.start) == (AFTER_NS, "")


def test_gains_behind_a_start_are_those_of_what_if_in_that_window(store: Path) -> None:
    leads = [each for each in summaries_of(store)["started"].leads if each.gain is not None]
    assert leads
    for lead in leads:
        lab = tracelab.open(store).scoped(after_start=True)
        assert lead.finding.what_if is not None
        rows = lab.query("what_if", run="started", **dict(lead.finding.what_if.params)).to_pylist()
        assert lead.gain is not None
        assert {(row["time_before_ns"], row["gain_ns"]) for row in rows} == {(lead.gain.window_ns, lead.gain.gain_ns)}
        assert lead.gain.window_ns < WHOLE_NS


def test_the_next_command_prints_the_figures_of_the_summary(store: Path) -> None:
    found = summaries_of(store)
    assert found["started"].leads
    for run, is_started in (("started", True), ("plain", False)):
        assert all(("--after-start" in each.next_command) == is_started for each in found[run].leads)
        words = shlex.split(found[run].commands.query("gpu_breakdown", run=run))
        printed = CliRunner().invoke(main, [*words[1:], "--columns", "window_ns"]).stdout
        assert printed == f"window_ns\n{AFTER_NS}\n"
    whole = summaries_of(store, Scope())["started"]
    assert whole.commands.summary().endswith(f"summary --whole --store {store}")
    assert "--after-start" not in whole.leads[0].next_command


def test_a_recording_without_steps_keeps_its_start_and_states_until_when_its_gpus_have_little_to_do(
    tmp_path: Path,
) -> None:
    """1 % of 27,600 ns of work is done by the first kernel, 91 us behind the copy, launched 300 ns earlier."""
    marked, unmarked, few = (with_start(name) for name in ("marked", "unmarked", "few"))
    marked["annotations"], unmarked["annotations"] = marked["annotations"][:1], []
    few["annotations"], few["memcpys"] = few["annotations"][:1], few["memcpys"][1:]
    store = build_store(tmp_path / "lab", together(marked, unmarked, few))
    found = {each.run: each for each in summarize(store)}
    included = (
        "The figures include 91.00 µs of 137.5 µs (66.2 %) in which the GPUs have not yet done 1 % of their work, as "
        "while a program starts or waits for a first request. --from 90.7us leaves out what precedes that time."
    )
    follows = "No step follows the program's start of 90.00 µs, so the figures include all of it, such as imports. "
    assert found["marked"].window_ns == WHOLE_NS
    assert (found["marked"].start, found["marked"].start_ns) == (follows + included, START_NS)
    assert (found["unmarked"].start, found["unmarked"].start_ns) == (included, 91_000)
    assert found["few"].start == follows + "--from TIME leaves out what precedes a time."
    (later,) = summarize(store, ("unmarked",), scope=Scope(from_="90.7us"))
    assert (later.window_ns, later.start) == (WHOLE_NS - 90_700, "")  # from bound to the end
    answer = comparison.compare_runs(store, comparison.Request(("marked",), ("few",)))
    assert (
        "The values include how the recordings begin, before their GPUs have done 1 % of their work: 91.00 µs of 137.5 "
        "µs (66.2 %) of marked. Mark steps, and only these are compared."
    ) in answer.notes


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (999, "999"),
        (91_000, "91us"),
        (498_571_999, "498.571ms"),
        (1_490_000_001, "1.49s"),
        (12_345_678_000_000, "12345.678s"),
    ],
)
def test_a_time_for_the_option_is_never_later_than_it_is(ns: int, text: str) -> None:
    assert format_time(ns) == text
    assert parse_time(text) <= ns


def test_data_and_lists_of_runs_state_the_start_too(store: Path) -> None:
    found = list(summaries_of(store).values())
    notes = [row for row in summary_rows(found).to_pylist() if row["kind"] == "note" and row["unit"] == "ns"]
    assert [(row["run"], row["name"], row["value"]) for row in notes] == [("started", "program_start", START_NS)]
    text = "The figures of 2 runs leave out the program's start; --whole includes it."
    for listed in (found * 2, found[1:] * 2 + found[:1] * 11):  # two lines for each, and the runs that matter
        assert text in " ".join(summary_lines(listed, 100))


@pytest.mark.parametrize("command", ["summary", "report -o -"])
def test_whole_takes_no_scope_beside_it(store: Path, command: str) -> None:
    result = CliRunner().invoke(main, [*command.split(), "--whole", "--steps", "3", "--store", str(store)])
    assert result.stderr == (
        "tracelab: --whole includes all of a recording, and other options restrict it; omit one of them\n"
    )
    with pytest.raises(UsageError, match="open the store without a scope"):
        tracelab.open(store).scoped(steps="3").summary(whole=True)


def test_a_report_is_about_what_follows_the_start(store: Path) -> None:
    page = report_of(("gpu_breakdown",), store)
    note = "<p>Scope of started: after the program&#x27;s start of 90.00 µs; rows of GPUs by the time of their launch; "
    assert note in page
    assert LEFT_OUT.replace("'", "&#x27;") in page
    assert f"tracelab query gpu_breakdown --format csv --after-start --store {store}" in page


@pytest.mark.parametrize(("scope", "option"), [(None, ""), (Scope(), "--whole ")])
def test_the_verdict_of_a_report_is_that_of_its_command(store: Path, scope: Scope | None, option: str) -> None:
    with open_report_session(store, (), scope=scope) as session:
        page = render_verdict(session, compare_pair(session))
        assert len(session.notes) == (scope is None)
    assert f"tracelab compare plain started {option}--store {store}" in page
    assert (LEFT_OUT_OF_COMPARISON in page) == (scope is None)


def notes_of(compared: Any) -> list[str]:
    return [note for note in compared.notes if "start" in note or "before" in note]


def test_a_comparison_leaves_out_the_start(store: Path) -> None:
    request = comparison.Request(("plain",), ("started",))
    compared = comparison.compare_runs(store, request)
    whole = comparison.compare_runs(store, replace(request, whole=True))
    assert notes_of(compared) == [LEFT_OUT_OF_COMPARISON]
    assert notes_of(whole) == [
        "GPU work that was launched before, between or behind the ranges of steps is in no metric: 1 row of 100 ns in "
        "started (most: HtoD, 100 ns)."
    ]
    assert [row.candidate for row in compared.rows] == [row.candidate for row in whole.rows]


def test_commands_have_the_option_for_runs_with_a_start_and_queries_that_take_it() -> None:
    commands = StoreCommands(started_runs=frozenset({"a"}), unscoped_queries=frozenset({"sweep_throughput"}))
    assert commands.query("mfu", run="a") == "tracelab query mfu --run a --after-start"
    assert commands.query("mfu") == "tracelab query mfu --after-start"
    assert commands.query("mfu", run="b") == "tracelab query mfu --run b"
    assert commands.query("sweep_throughput") == "tracelab query sweep_throughput"
    assert (commands.summary(), commands.compare("a", "b")) == ("tracelab summary", "tracelab compare a b")
    scoped = StoreCommands(scope_options=("--steps", "3"), unscoped_queries=frozenset({"sweep_throughput"}))
    assert scoped.query("sweep_throughput") == "tracelab query sweep_throughput"
