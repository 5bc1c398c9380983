"""What is said of an answer: the worst row, its share with both terms, the rule, and what is fine."""

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tracelab.query import library
from tracelab.report.asking import Asking, opened
from tracelab.report.sentence import sentences
from tracelab.says import Report, Say

IDLE = Say(
    "idle_ns > 0.2 * window_ns", "idle_ns", "{where} idles for {idle_ns of window_ns}, at {name}.", "Try.", 1, None
)
QUESTION = replace(library()["gpu_breakdown"], report=Report("time", 1, (), (IDLE,), "All is fine.", None, ""))
ROWS = [
    {"run": run, "rank": rank, "device": 0, "idle_ns": idle_ns, "window_ns": 100_000, "name": "<b>"}
    for run, rank, idle_ns in (("a", 0, 20_000), ("a", 1, 21_000), ("b", 0, 80_001), ("b", 1, None))
]


@pytest.fixture
def asking(lab: Path) -> Iterator[Asking]:
    with opened(lab, ("first",)) as asking:
        yield asking


def said(asking: Asking, rows: list[dict[str, object]], say: Say = IDLE) -> list[str]:
    """The lists of sentences as text, the one of all runs first."""
    assert QUESTION.report is not None
    question = replace(QUESTION, report=replace(QUESTION.report, says=(say,)))
    written = sentences(asking, question, pa.Table.from_pylist(rows))
    lists = re.findall(r"<ul[^>]*>(.*?)</ul>", written)
    return [html.unescape(re.sub(r"<[^>]+>", "", each)).replace("\xa0", " ") for each in lists]


def test_the_worst_row_is_told_with_its_share_both_terms_and_the_rule(asking: Asking) -> None:
    assert said(asking, ROWS)[0] == (
        "b · rank 0 idles for 80.00 % (80.00 µs of 100.0 µs), at <b>. Try. "
        "Rule: idle_ns > 0.2 * window_ns, so in 2 of 4 rows."
    )


def test_each_run_has_its_own_for_when_it_is_picked(asking: Asking) -> None:
    first, second = said(asking, ROWS)[1:]
    assert first.startswith("a · rank 1 idles for 21.00 % (21.00 µs of 100.0 µs)")
    assert first.endswith("so in 1 of 2 rows.")
    assert second.startswith("b · rank 0 idles")


def test_what_is_within_the_threshold_is_said_to_be_fine(asking: Asking) -> None:
    assert said(asking, ROWS[:1]) == ["All is fine."]


def test_the_first_row_of_each_value_is_told(asking: Asking) -> None:
    each = replace(IDLE, when="idle_ns is not null", text="{rank}: {idle_ns}.", attempt=None, most=5, each="rank")
    told = said(asking, ROWS, each)[0]
    assert told == (
        "0: 80.00 µs. Rule: idle_ns is not null, so in 2 of 2 rows where rank is 0."
        "1: 21.00 µs. Rule: idle_ns is not null, so in 1 of 2 rows where rank is 1."
    )


def test_a_share_of_nothing_is_its_terms_alone(asking: Asking) -> None:
    rows = [ROWS[0] | {"window_ns": 0}]
    assert said(asking, rows)[0].startswith("it idles for (20.00 µs of 0 ns)")


def test_exact_values_stand_on_hover(asking: Asking) -> None:
    assert QUESTION.report is not None
    written = sentences(asking, QUESTION, pa.Table.from_pylist(ROWS[2:3]))
    assert '<b title="80001">80.00&nbsp;µs</b>' in written
    assert "&lt;b&gt;" in written
