"""Rows, figures and captures of the studies fit each other: a row is a file, and every word in it leads somewhere."""

import csv
import fnmatch
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tracelab import query
from tracelab.collect.sweep import matrix
from tracelab.errors import UsageError
from tracelab.resources import COLLECTORS, DATA
from tracelab.study import rows

ROWS = rows.rows()
FIGURES = [
    figure
    for path in sorted((DATA / "studies").glob("S*.csv"))
    for figure in csv.DictReader(path.read_text("utf-8").splitlines())
]

HEADER = """-- What the study did.
-- /// study
-- title = "T"
-- study = "a / b"
-- corrected = "a / c"
-- capture = "tracelab collect sweep S0"
{more}-- ///
select 1;
select 2
"""


def test_every_row_of_the_five_studies_is_there() -> None:
    assert Counter(row.of for row in ROWS.values()) == {"S0": 11, "S1": 14, "S2": 10, "S3": 17, "S4": 7}
    assert [row for row in ROWS if row != f"{row[:2]}-{int(row[3:]):02}"] == []


def test_every_row_has_a_published_figure_and_every_figure_a_row() -> None:
    assert {figure["row"] for figure in FIGURES} == set(ROWS)


def test_a_figure_has_a_number_with_a_unit_or_a_claim() -> None:
    wrong = [each for each in FIGURES if not each["claim"] and not (each["value"] and each["unit"])]
    assert [each["row"] for each in wrong] == []
    assert [each["row"] for each in FIGURES if not each["place"] or not each["quantity"]] == []


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_a_row_draws_on_questions_of_the_library_with_parameters_that_they_have(row: rows.Row) -> None:
    for asked in row.answers.values():
        query.bind(query.find(asked.query), asked.values)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_what_is_to_be_captured_is_a_command_that_finds_cells(row: rows.Row) -> None:
    words = shlex.split(row.capture)
    assert words[:2] == ["tracelab", "collect"]
    if words[2] == "ceilings":
        return
    sweep = matrix.load(matrix.shipped(COLLECTORS / "sweeps", words[3]), Path("runs"))
    pattern = words[words.index("--match") + 1] if "--match" in words else "*"
    assert any(fnmatch.fnmatchcase(cell.run, pattern) for cell in sweep.cells)


def test_a_chart_names_an_answer_or_columns_of_the_cells() -> None:
    from tracelab.study.answer import CELLS

    for row in ROWS.values():
        if row.chart is not None:
            known = row.answers if row.chart.answer else CELLS
            assert {row.chart.answer or row.chart.x, row.chart.by} - {None} <= set(known), row.id


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "a row needs `fits`"),
        ('-- fits = "kernels"\n-- colour = "red"\n', "unknown key 'colour'"),
        ('-- fits = "kernels"\n-- chart = { kind = "pie", x = "run" }\n', "chart needs x, and a kind"),
        ('-- fits = "kernels"\n-- [answers]\n-- shares = "nccl_share"\n', "answers needs a table of questions"),
    ],
)
def test_a_header_that_is_wrong_is_told_with_its_place(tmp_path: Path, more: str, told: str) -> None:
    path = tmp_path / "S9-01.sql"
    path.write_text(HEADER.format(more=more))
    with pytest.raises(UsageError, match=told) as caught:
        rows.parse(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_row_and_a_study_are_found_in_any_case_and_a_misspelt_one_is_answered_with_the_nearest() -> None:
    assert (rows.find("s2-03").id, len(rows.of_study("s4")), len(rows.of_study(None))) == ("S2-03", 7, 59)
    with pytest.raises(UsageError, match="did you mean 'S2-03'"):
        rows.find("S2-3")
    with pytest.raises(UsageError, match="list S2"):
        rows.find("S2")
    with pytest.raises(UsageError, match="no study 'S9'"):
        rows.of_study("S9")
