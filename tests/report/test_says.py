"""The `[report]` table of a header: what it may say, and how a mistake is told."""

from pathlib import Path

import pytest

from tracelab.errors import UsageError
from tracelab.query import library
from tracelab.query.report_rules import Say

HEADER = (
    '-- What. A row is one.\n-- /// query\n-- title = "T"\n-- needs = ["kernels"]\n'
    '-- [columns]\n-- n = "N."\n{}-- ///\nselect 1 as n\n'
)
SAY = '-- [report]\n-- part = "time"\n-- [[report.says]]\n'


def test_a_header_places_its_question_and_says_its_sentences(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(
        HEADER.format(
            SAY + '-- when = "n > 3"\n-- by = "n"\n-- text = "{n} of {where}"\n-- try = "less"\n-- each = "n"\n'
        )
    )
    found = library.parse(path).report
    assert found is not None
    (say,) = found.says
    assert (found.part, found.place, found.fine) == ("time", 99, None)
    assert (say.when, say.by, say.text, say.attempt, say.most, say.each) == (
        "n > 3",
        "n",
        "{n} of {where}",
        "less",
        1,
        "n",
    )


def test_a_column_is_required_where_a_sentence_names_it_outside_of_clauses() -> None:
    say = Say("true", "a", "{where}: {a of b}[ in {c}] [{d of e}]", "{f %}", 1, None)
    assert say.required == ("a", "b", "f")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('-- [report]\n-- part = "tine"\n', r"q\.sql:7: \[report\] needs a part, one of summary, health, time, "),
        ('-- [report]\n-- part = "time"\n-- plce = 1\n', r"q\.sql:7: \[report\] has an unknown key 'plce'"),
        ('-- [report]\n-- part = "time"\n-- worth = "n > 0"\n', "has worth and without together, or neither"),
        ('-- [report]\n-- part = "time"\n-- fine = "F"\n', "has fine only beside unknown"),
        ('-- [report]\n-- part = "time"\n-- unknown = "U"\n', "unknown only beside sentences"),
        (SAY + '-- when = "n > 3"\n-- by = "n"\n-- text = "`{n}`"\n', "a value between ` `"),
        (SAY + '-- when = "n > 3"\n-- by = "n"\n-- text = "a [{n}"\n', r"or a lone \[ or \]"),
        (SAY + '-- when = "n > 3"\n', "needs when, by and text, each a text"),
        (SAY + '-- when = "n > 3"\n-- by = "n"\n-- text = "{m}"\n', "names 'm', which is no column of the query"),
        (SAY + '-- when = "n > 3"\n-- by = "n"\n-- text = "{n of m}"\n', "names 'm', which is no column of the query"),
        (SAY + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- each = "m"\n', "each = 'm', which is no column"),
        (SAY + '-- when = "n"\n-- by = "n"\n-- text = "n"\n-- what = "m"\n', "has when, by and text, and may have try"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(lines: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(HEADER.format(lines))
    with pytest.raises(UsageError, match=said):
        library.parse(path)
