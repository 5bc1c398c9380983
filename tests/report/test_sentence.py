"""What is said of an answer: the worst row, its share with both terms, the rule, and what is fine."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tracelab.query.library import library
from tracelab.query.report_rules import Finding, Report
from tracelab.report.answers import ReportSession, open_report_session
from tracelab.report.findings import render_findings

IDLE = Finding(
    "idle_ns > 0.2 * window_ns", "idle_ns", "{where} idles for {idle_ns of window_ns}, at {name}.", "Try.", 1, None
)
QUESTION = replace(
    library()["gpu_breakdown"], report=Report("time", 1, (), (IDLE,), "All is fine.", "Nobody knows.", None, "")
)
ROWS = [
    {"run": run, "rank": rank, "device": 0, "idle_ns": idle_ns, "window_ns": 100_000, "name": "<b>"}
    for run, rank, idle_ns in (("a", 0, 20_000), ("a", 1, 21_000), ("b", 0, 80_001), ("b", 1, None))
]


SCHEMA = pa.schema(
    {
        "run": pa.string(),
        "rank": pa.int32(),
        "device": pa.int32(),
        "idle_ns": pa.int64(),
        "window_ns": pa.int64(),
        "name": pa.string(),
    }
)


@pytest.fixture
def both(asking: ReportSession) -> ReportSession:
    """A page of the two runs."""
    return replace(asking, run_names=("a", "b"))


@pytest.fixture(scope="module")
def asking(lab: Path) -> Iterator[ReportSession]:
    with open_report_session(lab, ("first",)) as asking:
        yield asking


def said(asking: ReportSession, rows: list[dict[str, object]], *says: Finding) -> list[str]:
    """The lists of sentences as text, the one of all runs first."""
    assert QUESTION.report is not None
    question = replace(QUESTION, report=replace(QUESTION.report, findings=says or (IDLE,)))
    written = render_findings(asking, question, pa.Table.from_pylist(rows, SCHEMA))
    lists = re.findall(r"<ul[^>]*>(.*?)</ul>", written)
    return [html.unescape(re.sub(r"<[^>]+>", "", each)).replace("\xa0", " ") for each in lists]


def test_the_worst_row_is_reported_with_its_share_both_terms_and_the_rule(asking: ReportSession) -> None:
    assert said(asking, ROWS)[0] == (
        "b · rank 0 idles for 80.00 % (80.00 µs of 100.0 µs), at <b>. Try. "
        "Why? Rule: idle_ns > 0.2 * window_ns, true for 2 of 4 rows. SQL"
    )


def test_each_run_has_its_own_for_when_it_is_picked(both: ReportSession) -> None:
    assert said(both, ROWS)[1:] == [
        "a · rank 1 idles for 21.00 % (21.00 µs of 100.0 µs), at <b>.",
        "b · rank 0 idles for 80.00 % (80.00 µs of 100.0 µs), at <b>.",
    ]
    assert QUESTION.report is not None
    written = render_findings(both, QUESTION, pa.Table.from_pylist(ROWS, SCHEMA))
    assert re.findall(r'data-count="([^"]*)"', written) == ["1 of 2 rows", "1 of 2 rows"]


def test_a_long_name_keeps_its_ends_and_is_whole_on_hover(asking: ReportSession) -> None:
    name = "void kernel<" + "int, " * 40 + "float>(Args)"
    rows = [ROWS[0] | {"name": name, "idle_ns": 90_000}]
    assert f"at void kernel<{'int, ' * 8}i…nt, int, int, float>(Args). Try." in said(asking, rows)[0]
    assert QUESTION.report is not None
    written = render_findings(asking, QUESTION, pa.Table.from_pylist(rows, SCHEMA))
    assert f'title="{html.escape(name)}"' in written


def test_what_is_within_the_threshold_is_reported_as_fine(asking: ReportSession) -> None:
    assert said(asking, ROWS[:1]) == ["All is fine."]


def test_the_first_row_of_each_value_is_reported(asking: ReportSession) -> None:
    each = replace(IDLE, when="idle_ns is not null", text="{rank}: {idle_ns}.", advice=None, most=5, each="rank")
    told = said(asking, ROWS, each)[0]
    assert told == (
        "0: 80.00 µs. Why? Rule: idle_ns is not null, true for 2 of 2 rows where rank is 0. SQL"
        "1: 21.00 µs. Why? Rule: idle_ns is not null, true for 1 of 2 rows where rank is 1. SQL"
    )


def test_runs_of_which_the_same_is_reported_share_their_list(asking: ReportSession) -> None:
    shown = tuple(f"run {at:03}" for at in range(120))
    rows = [ROWS[0] | {"run": run, "idle_ns": 90_000 if run == "run 077" else 1} for run in shown]
    assert QUESTION.report is not None
    written = render_findings(replace(asking, run_names=shown), QUESTION, pa.Table.from_pylist(rows, SCHEMA))
    places = re.findall(r'data-only="([^"]*)"', written)
    assert sorted(places, key=len) == ["77", " ".join(str(at) for at in range(120) if at != 77)]
    assert "<b>run 077</b> idles for" in written.split("data-only")[2 - (places[0] == "77")]


def test_a_share_of_nothing_is_its_terms_alone(asking: ReportSession) -> None:
    rows = [ROWS[0] | {"window_ns": 0}]
    assert said(asking, rows)[0].startswith("The GPU idles for 20.00 µs of 0 ns, at")


def test_a_rule_without_a_value_in_any_row_is_not_fine_but_unknown(asking: ReportSession) -> None:
    rows = [row | {"idle_ns": None} for row in ROWS]
    assert said(asking, rows) == ["Nobody knows. No row has a value for the rule idle_ns > 0.2 * window_ns."]


def test_what_is_fine_reports_how_many_rows_it_is_known(asking: ReportSession) -> None:
    assert said(asking, [ROWS[0], ROWS[3]]) == ["All is fine. Known of 1 of 2 rows."]


def test_one_of_two_rules_without_a_value_leaves_it_unknown(asking: ReportSession) -> None:
    without = replace(IDLE, when="name > 'z' and window_ns is null and device > 9 or nullif(rank, rank) > 0")
    assert said(asking, ROWS[:1], IDLE, without)[0].startswith("Nobody knows.")


def test_a_run_is_unknown_by_itself_where_others_are_not(both: ReportSession) -> None:
    rows = [ROWS[0], ROWS[3]]
    assert said(both, rows) == [
        "All is fine. Known of 1 of 2 rows.",
        "All is fine.",
        "Nobody knows. No row has a value for the rule idle_ns > 0.2 * window_ns.",
    ]


@pytest.mark.parametrize(
    ("device", "told"),
    [
        (1, "The GPU idles for 21.00 µs. Why? Rule"),
        (None, "The process idles. Why? Rule"),
    ],
)
def test_a_clause_whose_value_is_missing_is_left_out(asking: ReportSession, device: int | None, told: str) -> None:
    say = replace(IDLE, when="true", text="{where} idles[ for {idle_ns}].", advice=None)
    row = ROWS[1] | {"device": device, "idle_ns": 21_000 if device else None}
    assert said(asking, [row], say)[0].startswith(told)


def test_brackets_without_a_value_are_brackets(asking: ReportSession) -> None:
    say = replace(IDLE, advice="Record `activities=[CPU, CUDA]`.")
    assert "at <b>. Record activities=[CPU, CUDA]. Why? Rule" in said(asking, ROWS[1:2], say)[0]


def test_a_place_in_a_clause_is_left_out_where_there_is_one(asking: ReportSession, both: ReportSession) -> None:
    say = replace(IDLE, text="[{where}: ]the loader is slow.", advice=None)
    assert said(asking, ROWS[1:2], say)[0].startswith("The loader is slow.")
    assert said(both, ROWS[1:2], say)[0].startswith("a: the loader is slow.")


def test_a_row_without_a_device_is_reported_by_its_rank_alone(asking: ReportSession) -> None:
    rows = [ROWS[0], ROWS[1] | {"device": None}]
    assert said(asking, rows)[0].startswith("Rank 1 idles for 21.00 %")


def test_a_row_lacking_a_value_of_the_sentence_is_passed_over(asking: ReportSession) -> None:
    rows = [ROWS[2] | {"name": None}, ROWS[1]]
    assert said(asking, rows)[0] == (
        "a · rank 1 idles for 21.00 % (21.00 µs of 100.0 µs), at <b>. Try. "
        "Why? Rule: idle_ns > 0.2 * window_ns, true for 2 of 2 rows. SQL"
    )


def test_one_is_spoken_of_as_one_and_a_ratio_in_percent(asking: ReportSession) -> None:
    say = replace(IDLE, when="true", text="{rank} calls of {device} calls, {window_ns %}.", advice=None)
    rows = [ROWS[1] | {"window_ns": 1, "device": 0}]
    assert said(asking, rows, say)[0].startswith("1 call of 0 calls, 100.0 %.")


def test_exact_values_stand_on_hover(asking: ReportSession) -> None:
    assert QUESTION.report is not None
    written = render_findings(asking, QUESTION, pa.Table.from_pylist(ROWS[2:3]))
    assert '<b title="80001">80.00&nbsp;µs</b>' in written
    assert "&lt;b&gt;" in written
