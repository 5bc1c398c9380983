"""The `[report]` table of a header: what it may say, and how a mistake is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from tracelab.errors import UsageError
from tracelab.query import spec
from tracelab.query.report_rules import Finding, Report

HEADER = (
    '-- What. A row is one.\n-- /// query\n-- title = "T"\n-- needs = ["kernels"]\n'
    '-- [columns]\n-- n = "N."\n{}-- ///\nselect 1 as n\n'
)
FINDING = '-- [report]\n-- section = "time"\n-- [[report.findings]]\n'


def test_a_header_places_its_query_and_states_its_sentences(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(
        HEADER.format(
            FINDING + '-- when = "n > 3"\n-- by = "n"\n-- text = "{n} of {where}"\n-- advice = "less"\n-- each = "n"\n'
        )
    )
    found = spec.parse(path).report
    assert found is not None
    (say,) = found.findings
    assert (found.section, found.order, found.ok_text) == ("time", 99, None)
    assert (say.when, say.by, say.text, say.advice, say.most, say.each) == (
        "n > 3",
        "n",
        "{n} of {where}",
        "less",
        1,
        "n",
    )


def test_a_column_is_required_where_a_sentence_names_it_outside_of_clauses() -> None:
    say = Finding("true", "a", "{where}: {a of b}[ in {c}] [{d of e}]", "{f %}", 1, None)
    assert say.required == ("a", "b", "f")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('-- [report]\n-- section = "tine"\n', r"q\.sql:7: \[report\] needs a section, one of summary, fleet, "),
        ('-- [report]\n-- section = "time"\n-- plce = 1\n', r"q\.sql:7: \[report\] has an unknown key 'plce'"),
        ('-- [report]\n-- section = "time"\n-- show_if = "n > 0"\n', "must have both show_if and without, or neither"),
        ('-- [report]\n-- section = "time"\n-- ok_text = "F"\n', "has ok_text without unknown"),
        ('-- [report]\n-- section = "time"\n-- unknown = "U"\n', r"has unknown without \[\[report.findings"),
        (FINDING + '-- when = "n > 3"\n-- by = "n"\n-- text = "`{n}`"\n', "a value between ` `"),
        (FINDING + '-- when = "n > 3"\n-- by = "n"\n-- text = "a [{n}"\n', r"has a \[ or \] without its"),
        (FINDING + '-- when = "n > 3"\n', "needs when, by and text, each as text"),
        (
            FINDING + '-- when = "n > 3"\n-- by = "n"\n-- text = "{m}"\n',
            "names 'm', which is not a column of the query",
        ),
        (
            FINDING + '-- when = "n > 3"\n-- by = "n"\n-- text = "{n of m}"\n',
            "names 'm', which is not a column of the query",
        ),
        (FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- each = "m"\n', "each = 'm', which is not a column"),
        (
            FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- every = "{where}"\n',
            "every, which needs a cost that adds up",
        ),
        (FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- step = "m"\n', "step = 'm', which is not a column"),
        (
            FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- what_if = "median"\n',
            "has what_if = 'median'; expected a change, one of on_time, ",
        ),
        (
            FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- what_if = { change = "scale", factor = 0 }\n',
            "what_if of the change scale needs without",
        ),
        (
            FINDING + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- what = "m"\n',
            "and may have advice",
        ),
    ],
)
def test_a_mistake_is_reported_with_file_and_line(lines: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(HEADER.format(lines))
    with pytest.raises(UsageError, match=said):
        spec.parse(path)


def test_rows_are_counted_in_the_words_of_the_query() -> None:
    """The noun has the ending of its plural in brackets."""
    report = replace(Report("time", 1, (), (), None, None, None, ""), row="cause[s] of a late rank")
    assert report.count_rows(1) == "1 cause of a late rank"
    assert report.count_rows(1_007) == "1,007 causes of a late rank"
    assert report.share_of_rows(7, 92) == "7 of 92 causes of a late rank"
    assert report.share_of_rows(2, 2) == "both causes of a late rank"
    assert report.share_of_rows(8, 8) == "all 8 causes of a late rank"
    assert report.share_of_rows(1, 1) == "the only cause of a late rank"
    assert replace(report, row=Report.row).count_rows(2) == "2 rows"
