"""Query files of a user: what a header may contain, and errors that name file and line."""

import re
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.client import Lab
from tracelab.errors import UsageError
from tracelab.query import execute, library

HEADER = (
    '-- What.\n-- /// query\n-- title = "T"\n-- needs = ["kernels"]\n-- [params]\n-- [columns]\n-- n = "N."\n-- ///\n'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEADER.replace("-- [params]", '-- show = ["nn"]\n-- [params]'),
            "q.sql:5: show names 'nn', which is not a column",
        ),
        (
            HEADER.replace("-- [params]", '-- show = ["n", "n"]\n-- [params]'),
            "q.sql:5: show needs a list of at most 14 different columns",
        ),
        (
            HEADER.replace("-- [params]", '-- subject = "gpu"\n-- [params]'),
            "q.sql:5: subject needs one of summary, fleet, health",
        ),
        (
            HEADER.replace("-- [columns]", '-- [report]\n-- section = "time"\n-- [columns]').replace(
                "-- [params]", '-- subject = "host"\n-- [params]'
            ),
            "q.sql:5: a query with [report] has its section as subject",
        ),
        ("select 1", "q.sql:1: no header"),
        (HEADER.replace("title =", "titel ="), "q.sql:3: unknown key 'titel'"),
        (HEADER.replace('"T"', "T"), "q.sql:3: the header is not valid TOML"),
        (HEADER.replace('-- title = "T"\n', ""), "q.sql:2: the header needs 'title'"),
        (HEADER.replace('["kernels"]', '["kernel"]'), "q.sql:4: needs names 'kernel', which is not a table"),
        (HEADER + "select $x as n", "q.sql:9: the SQL uses $x, which [params] does not declare"),
        (
            HEADER.replace("[params]", '[params]\n-- devices = { default = 1, about = "X" }')
            + "\nselect 1 as m,\n$device",
            "q.sql:12: the SQL uses $device, which [params] does not declare (did you mean '$devices'?)",
        ),
        (
            HEADER.replace("[params]", '[params]\n-- x = { default = 1, about = "X" }'),
            "q.sql:6: [params] declares 'x', which the SQL does not use",
        ),
        (
            HEADER.replace("[params]", '[params]\n-- x = { about = "X" }'),
            "q.sql:6: parameter 'x' needs a default, or a type",
        ),
        (
            HEADER.replace("[params]", '[params]\n-- x = { default = 1, example = "a", about = "X" }')
            + "select $x as n",
            "q.sql:6: parameter 'x' has an example that is not of type integer",
        ),
        (HEADER.replace('"N."', "1"), "q.sql:7: column 'n' needs its meaning"),
        (
            HEADER.replace("[params]", '[params]\n-- x = { default = "c", choices = ["a", "b"], about = "X" }'),
            "q.sql:6: parameter 'x' has choices, so it must be text, and its default one of them",
        ),
        (HEADER.replace('n = "N."', '"N (%)" = ""'), "q.sql:7: column 'N (%)' needs its meaning"),
        (
            HEADER.replace("-- [params]", '-- chart = { kind = "pie", x = "n", y = ["n"] }'),
            "q.sql:5: chart needs a kind",
        ),
        (HEADER.replace("-- [params]", '-- chart = { kind = "bars", x = "m", y = ["n"] }'), "q.sql:5: chart names 'm'"),
        (
            HEADER.replace("-- [params]", '-- chart = { kind = "bars", x = "n", y = ["n"], labels = { m = "M" } }'),
            "q.sql:5: chart has a label for 'm', which is not its x or in its y",
        ),
    ],
)
def test_malformed_headers_name_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(said)):
        library.find(str(path))


def test_a_header_takes_common_entries_in_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    header = HEADER.replace("[params]", '[params]\n-- sweep = { example = "a" }\n-- common = ["rank"]')
    header = header.replace('n = "N."', 'n = "N."\n-- common = ["run", "rank"]\n-- window_ns = "common"\n-- m = "M."')
    path.write_text(header + "select 1 where $sweep is null and $rank is null", encoding="utf-8")
    query = library.find(str(path))
    assert [(param.name, param.type, param.example) for param in query.params] == [
        ("sweep", "text", "a"),
        ("rank", "integer", 0),
    ]
    assert list(query.columns) == ["n", "run", "rank", "window_ns", "m"]


@pytest.mark.parametrize(
    ("line", "message"),
    [('common = ["ruin"]', "q.sql:7: 'ruin' is not in [columns] of"), ('k = "common"', "q.sql:7: 'k'")],
)
def test_a_common_name_that_does_not_exist_is_refused_with_its_line(line: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_text(HEADER.replace('n = "N."', line) + "select 1 as n", encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(message)):
        library.find(str(path))


def test_a_query_file_that_is_no_utf_8_is_refused_with_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    path.write_bytes(("-- ü\n" + HEADER).encode("latin-1"))
    with pytest.raises(UsageError, match=r"q\.sql: not valid UTF-8 at byte 3"):
        library.find(str(path))


def test_values_in_shown_sql_leave_strings_and_comments_alone(tmp_path: Path) -> None:
    path = tmp_path / "q.sql"
    header = HEADER.replace("[params]", '[params]\n-- x = { type = "text", about = "X" }')
    path.write_text(header + "select '$x' as n -- $x\nwhere $x is null or n = $x", encoding="utf-8")
    shown = execute.render_sql(library.find(str(path)), {"x": "it's"})
    assert shown == "-- What.\nselect '$x' as n -- $x\nwhere 'it''s' is null or n = 'it''s';\n"


def test_errors_of_a_file_s_own_sql_name_file_and_line(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [{"name": "gemm", "start_ns": 0, "dur_ns": 10}]})
    path = tmp_path / "q.sql"
    path.write_text(HEADER + "\n\nselect\n  devcie as n\nfrom kernels", encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape("q.sql:12: Binder Error")):
        Lab(store).query(str(path))
    path.write_text(
        HEADER.replace("-- n =", "-- kernels =") + "select count(*) as kernel from kernels", encoding="utf-8"
    )
    message = "q.sql: [columns] describes 'kernels', which the SQL does not return (did you mean 'kernel'?)"
    with pytest.raises(UsageError, match=re.escape(message)):
        Lab(store).query(str(path))


def test_no_window_with_a_partition_or_an_order_counts_by_a_filter() -> None:
    """DuckDB 2.0 takes quadratic time for count(*) with a filter there, 11 s for 194,000 rows: count_if takes 3 ms."""
    root = Path(__file__).parents[2]
    counts = re.compile(
        r"count\(\*\) filter \((?:[^()]|\([^()]*\))*\)\s+over\s+(?!\(rows between unbounded preceding and)"
    )
    texts = {
        path: path.read_text()
        for folder in ("queries", "src")
        for path in (root / folder).rglob("*.*")
        if path.suffix in {".sql", ".py"}
    }
    assert [str(path) for path, text in texts.items() if counts.search(text)] == []
