"""Rows, figures and captures of the studies fit each other: a row is a file, and every word in it leads somewhere."""

import csv
import fnmatch
import shlex
from collections import Counter
from pathlib import Path

import pytest

from tracelab.collect.sweep import matrix
from tracelab.errors import UsageError
from tracelab.query import execute, library
from tracelab.resources import COLLECTORS, DATA
from tracelab.study import session, spec

ROWS = spec.rows()
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
def test_a_row_draws_on_queries_of_the_library_with_parameters_that_they_have(row: spec.Row) -> None:
    for asked in row.answers.values():
        execute.bind(library.find(asked.query), asked.values)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_what_is_to_be_captured_is_a_command_that_finds_cells(row: spec.Row) -> None:
    words = shlex.split(row.capture)
    assert words[:2] == ["tracelab", "collect"]
    if words[2] == "ceilings":
        return
    sweep = matrix.load_sweep(matrix.find_sweep_file(COLLECTORS / "sweeps", words[3]), Path("runs"))
    pattern = words[words.index("--match") + 1] if "--match" in words else "*"
    assert any(fnmatch.fnmatchcase(cell.run, pattern) for cell in sweep.cells)


def test_a_chart_names_an_answer_or_columns_of_the_cells() -> None:
    from tracelab.study.evaluate import CELLS

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
        ('-- as = "S9-02"\n', "`as` needs the id of a row beside it"),
        ('-- fits = "kernels"\n-- [answers]\n-- shares = "nccl_share"\n', "answers needs a table of queries"),
    ],
)
def test_a_header_that_is_wrong_is_reported_with_its_place(tmp_path: Path, more: str, told: str) -> None:
    path = tmp_path / "S9-01.sql"
    path.write_text(HEADER.format(more=more))
    with pytest.raises(UsageError, match=told) as caught:
        spec.parse(path)
    assert str(caught.value).startswith(f"{path}:3: ")


def test_a_row_as_another_has_its_sql_and_what_it_does_not_say_itself(tmp_path: Path) -> None:
    (tmp_path / "S9-01.sql").write_text(HEADER.format(more='-- fits = "kernels"\n'))
    (tmp_path / "S9-02.sql").write_text(
        '-- The same, of copies.\n-- /// study\n-- as = "S9-01"\n-- fits = "memcpys"\n-- ///\n'
    )
    one, other = spec.parse(tmp_path / "S9-01.sql"), spec.parse(tmp_path / "S9-02.sql")
    assert (other.id, other.prose, other.fits) == ("S9-02", "The same, of copies.", "memcpys")
    assert (other.sql, other.title, other.capture) == (one.sql, "T", "tracelab collect sweep S0")


def test_a_row_as_one_that_is_as_another_and_a_row_without_sql_are_refused(tmp_path: Path) -> None:
    for name, header in (("S9-01", 'as = "S9-02"'), ("S9-02", 'as = "S9-03"'), ("S9-03", 'title = "T"')):
        (tmp_path / f"{name}.sql").write_text(f"-- P.\n-- /// study\n-- {header}\n-- ///\n")
    with pytest.raises(UsageError, match="`as` needs a row with SQL; S9-02 is as S9-03"):
        spec.parse(tmp_path / "S9-01.sql")
    (tmp_path / "S9-04.sql").write_text(HEADER.format(more='-- fits = "kernels"\n').partition("select")[0])
    with pytest.raises(UsageError, match="a row needs its two SELECTs"):
        spec.parse(tmp_path / "S9-04.sql")


def test_a_row_and_a_study_are_found_in_any_case_and_a_misspelt_one_is_answered_with_the_nearest() -> None:
    assert (spec.find("s2-03").id, len(spec.select_rows("s4")), len(spec.select_rows(None))) == ("S2-03", 7, 59)
    with pytest.raises(UsageError, match="did you mean 'S2-03'"):
        spec.find("S2-3")
    with pytest.raises(UsageError, match="list S2"):
        spec.find("S2")
    with pytest.raises(UsageError, match="no study 'S9'"):
        spec.select_rows("S9")


def test_a_study_is_cited_with_the_repository_of_its_logs_where_it_has_one() -> None:
    assert session.format_citation("S2") == "Y. Zheng, New York University, 2024: ImageNet Analysis"
    assert session.format_citation("S3").endswith(
        "on High Performance Computing Systems; logs: github.com/pranshu777/imagenet, commit d897087"
    )
