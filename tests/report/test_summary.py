"""The text, the page, the command, and the rows of summaries."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tests.report.leads import lead, replayable
from tracelab.cli import main
from tracelab.errors import NoDataError
from tracelab.output.commands import StoreCommands
from tracelab.query.library import library
from tracelab.report.page import Page
from tracelab.report.summary import summarize as summarize_module
from tracelab.report.summary.html import MOST_WHOLE, render_summaries
from tracelab.report.summary.lead import Gain
from tracelab.report.summary.overview import group_by_lead
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import summary_lines


@pytest.fixture(scope="module")
def first(lab: Path) -> RunSummary:
    (found,) = summarize(lab, ("first",))
    return found


def test_unknown_figures_state_what_to_record(first: RunSummary) -> None:
    notes = {each.name: each.note for each in first.figures if each.value is None}
    assert "pass a schedule to torch.profiler.profile and call profiler.step()" in notes["step time"]
    assert "ncu" in notes["MFU"]
    assert {each.name: each.value for each in first.figures}["GPU busy"] == pytest.approx(0.55)


def test_many_runs_are_a_table_and_the_one_that_is_selected(first: RunSummary) -> None:
    runs = [replace(first, run=f"run {at}") for at in range(MOST_WHOLE + 1)]
    page = render_summaries(runs, named=True, drawn={"run 1"})
    assert page.count("<tr>") == 1 + len(runs)
    assert "<th scope=row>run 3<td>" in page
    assert 'id="summary-3" data-only="3" hidden' in page
    assert "<table" not in render_summaries(runs[:MOST_WHOLE], named=True)


def test_a_finding_links_to_its_rank_and_step_in_a_timeline_that_is_drawn(first: RunSummary) -> None:
    run = replace(first, leads=(replace(lead("late", 0.5, 1, "waiting"), rank=2, step=7),))
    place = f'<a href="#timeline" data-place="{first.run}" data-step="7" data-rank="2">Timeline</a>'
    assert place in render_summaries([run], named=False, drawn={first.run})
    assert "#timeline" not in render_summaries([run], named=False)
    assert 'href="#' in render_summaries([run], named=False)
    assert 'href="#' not in render_summaries([run], named=False, on_page=False)


def test_a_report_prints_as_one_line_and_is_its_html_otherwise() -> None:
    page = Page("<p>" + "a" * 1_996 + "</p>")
    line = "<tracelab report, 2.003 kB of HTML; .save(PATH) writes it>"
    assert (repr(page), str(page), f"{page}", page.html) == (line, line, line, "".join(page))
    assert page.html.startswith("<p>a")


def test_a_run_that_is_not_there_is_refused(lab: Path) -> None:
    with pytest.raises(NoDataError, match="no run 'thrid'; nearest: "):
        summarize(lab, ("thrid",))


@pytest.fixture
def no_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the queries of the figures alone: those that may lead take several times as long."""
    figures = [library()[name] for name in summarize_module._FIGURES]
    monkeypatch.setattr(summarize_module, "needed_queries", lambda: figures)


@pytest.mark.usefixtures("no_leads")
def test_the_command_prints_text_also_in_a_pipe_and_rows_on_request(lab: Path) -> None:
    run = CliRunner().invoke
    text = run(main, ["summary", "--store", str(lab), "--run", "first"], catch_exceptions=False).stdout
    assert text.splitlines()[0] == "first"
    assert re.search(r"^  GPU busy +55\.0 %", text, re.MULTILINE)
    rows = json.loads(run(main, ["summary", "first", "--store", str(lab), "--format", "json"]).stdout)
    assert [row["name"] for row in rows if row["kind"] == "figure"] == [
        *("step time", "GPU busy", "exposed communication", "host-bound", "MFU"),
    ]
    both = run(main, ["summary", "first", "--run", "first", "--store", str(lab)])
    assert both.exit_code == 2


@pytest.mark.usefixtures("no_leads")
def test_python_has_the_text_the_rows_and_html(lab: Path) -> None:
    found = tracelab.open(lab).summary("first")
    assert repr(found).startswith("first\n")
    assert repr(tracelab.open(lab).summary(["first"])) == repr(found)
    with pytest.raises(NoDataError, match="the store has no run 'fourth'"):
        tracelab.open(lab).summary(run="fourth")
    assert re.search(r"<dt>GPU busy<dd>[\d.]+ % <small>", found._repr_html_())
    assert found.rows.column_names[:5] == ["run", "kind", "name", "value", "unit"]
    units = {row["name"]: row["unit"] for row in found.rows.to_pylist()}
    assert units.pop("step time") == "ns"
    assert set(units.values()) == {"ratio"}


def test_all_findings_of_many_runs_are_listed_whole(first: RunSummary) -> None:
    runs = [replace(first, run=f"r{number}") for number in range(20)]
    lines = list(summary_lines(runs, 100, most_leads=None, is_whole=True))
    assert sum("GPU busy" in line for line in lines) == 20
    assert [line for line in lines if line in {each.run for each in runs}] == [each.run for each in runs]


@pytest.mark.parametrize("command", ["summary", "doctor"])
def test_help_states_the_format_in_a_pipe(command: str) -> None:
    text = " ".join(CliRunner().invoke(main, [command, "--help"]).stdout.split())
    assert "[default: by the suffix of -o; table, in a pipe too]" in text


def test_no_line_is_wider_than_the_terminal(first: RunSummary) -> None:
    lines = list(summary_lines([first], 80))
    assert max(len(line) for line in lines if ": tracelab " not in line and "Evidence" not in line) <= 80


def test_of_several_runs_each_has_its_end_and_a_second_finding_that_costs_much() -> None:
    """5 % or more: the late rank of a run that its host bounds is named, too."""
    leads = (lead("host", 0.5, 1, "host"), lead("late", 0.09, 3, "waiting"), lead("copies", 0.08, 2, "copies"))
    run = RunSummary("r", "", (), "", leads, "", ended=("status failed: killed", "only 3 of 9 steps"))
    other = replace(run, run="s", leads=(leads[0], replace(leads[1], rest=0.04)), ended=())
    lines = list(summary_lines([run, other, other, other], 100))
    assert lines[:6] == [
        *("r", "  status failed: killed · only 3 of 9 steps", "  50.0 %  host", "  9.0 %  late"),
        *("s", "  50.0 %  host"),
    ]
    assert not any("Shares are" in line or "≤" in line for line in lines)
    bounded = replace(replayable("host", 0.5, 1, "host", "scale"), gain=Gain(300, 1_000))
    shown = [*summary_lines([run, other, other, replace(other, run="t", leads=(bounded,))], 200)]
    assert "  ≤ 30.0 %  host" in shown
    assert (
        '"≤" marks what a run gains or loses at most, such as by a replay that leaves out more than the cause. Other'
        in " ".join(shown)
    )
    within = replace(leads[0], finding=replace(leads[0].finding, when="b", rule="a"))
    groups = group_by_lead([replace(other, leads=(within,)), run])
    assert [(each.first.run, each.lead.sentence, len(each.members)) for each in groups] == [
        ("s", "host", 2),
        ("r", "late", 1),
    ]


CONTRADICTIONS = (("host", "ahead"), ("every event", "skipped"))


@pytest.mark.parametrize(("topic", "denial"), CONTRADICTIONS)
def test_no_text_denies_what_a_finding_of_another_query_states(topic: str, denial: str) -> None:
    """Whether the host is late is decided by idle_causes alone, and whether events are missing by the health."""
    texts = [each.report.ok_text or "" for each in library().values() if each.report]
    assert [text for text in texts if topic in text.lower() and denial in text.lower()] == []


def test_commands_have_lines_of_their_own_with_the_store(first: RunSummary) -> None:
    name = "r" * 40
    commands = StoreCommands(Path("my store"))
    following = (commands.query("roofline", run=name),)
    run = replace(first, run=name, leads=(), note="Nothing exceeds.", next_commands=following, commands=commands)
    for runs in ([run], [run] * 5):
        lines = {line.strip() for line in summary_lines(runs, 60)}
        assert f"Next: tracelab query roofline --run {name} --store 'my store'" in lines


def test_a_summary_has_no_two_empty_lines(tmp_path: Path) -> None:
    metrics = [{"launch": 0, "device": 0, "kernel": "k", "metric": "dram__bytes.sum", "value": 7.0}]
    lines = list(summary_lines(summarize(build_store(tmp_path / "lab", {"kernel_metrics": metrics})), 100))
    assert ("", "") not in list(itertools.pairwise(lines))
