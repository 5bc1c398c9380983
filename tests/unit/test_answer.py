"""An answer in Python: a plain Arrow table, which IPython is told to draw well."""

import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracelab
from tests.build import build_store
from tests.cli.conftest import HOSTILE
from tracelab.client import Lab
from tracelab.errors import UsageError
from tracelab.output.notebook import html_of, tell_ipython, text_of, titled

EXACT = 2**53 + 1
KERNELS = [
    {"name": "volta_sgemm_128x32_nt", "device": 0, "start_ns": 10, "dur_ns": EXACT},
    {"name": HOSTILE, "device": 0, "start_ns": 20, "dur_ns": 1500},
    {"name": "x" * 300, "device": None, "start_ns": 30, "dur_ns": None},
]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return tracelab.open(build_store(tmp_path / "lab", {"kernels": KERNELS}))


@pytest.fixture
def answer(lab: Lab) -> pa.Table:
    return lab.sql("select name, device, dur_ns from kernels order by start_ns")


class Cells(HTMLParser):
    """The text of each cell, the title of each, and every tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.titles: list[str | None] = []
        self.tags: list[str] = []
        self.caption = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        if tag == "td":
            self.cells.append("")
            self.titles.append(dict(attrs).get("title"))

    def handle_data(self, data: str) -> None:
        if self._inside == "td":
            self.cells[-1] += data
        elif self._inside == "caption":
            self.caption += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def test_an_answer_is_an_arrow_table_for_everyone(answer: pa.Table, tmp_path: Path) -> None:
    assert type(answer) is pa.Table
    assert polars.from_arrow(answer).shape == (3, 3)
    assert duckdb.from_arrow(answer).aggregate("max(dur_ns)").fetchall() == [(EXACT,)]
    pq.write_table(answer, tmp_path / "answer.parquet")
    assert pq.read_table(tmp_path / "answer.parquet") == answer


def test_answers_of_different_questions_can_be_put_together(lab: Lab) -> None:
    assert pa.concat_tables([lab.sql("select 1::bigint as calls"), titled(pa.table({"calls": [2]}), "T")]).num_rows == 2


def test_it_prints_as_a_table(lab: Lab) -> None:
    assert text_of(lab.sql("select 1500 as dur_ns")) == "  dur_ns\n────────\n1.500 µs"
    assert text_of(lab.sql("from range(21)")).splitlines()[-2:] == ["   19", "(20 of 21 rows)"]


def test_a_table_of_others_is_left_to_others(answer: pa.Table) -> None:
    table = pa.table({"a": [1]})
    assert (html_of(table), text_of(table)) == (None, repr(table))
    assert html_of(answer.slice(1)) is not None


class Formatter:
    """What we use of IPython's formatters."""

    def __init__(self) -> None:
        self.type_printers: dict[type, Callable[..., object]] = {}

    def for_type(self, kind: type, draw: Callable[..., object]) -> None:
        self.type_printers[kind] = draw


class Printer:
    """What we use of IPython's printer."""

    def __init__(self) -> None:
        self.said = ""

    def text(self, text: str) -> None:
        self.said += text


@pytest.fixture
def formatters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Formatter]:
    made = {"text/html": Formatter(), "text/plain": Formatter()}
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters=made))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return made


def test_opening_a_store_tells_ipython(formatters: dict[str, Formatter], lab: Lab, answer: pa.Table) -> None:
    printer = Printer()
    tracelab.open(lab.store)
    formatters["text/plain"].type_printers[pa.Table](answer, printer, False)
    assert formatters["text/html"].type_printers[pa.Table](answer) == html_of(answer)
    assert printer.said == text_of(answer)


def test_what_drew_tables_before_still_draws_those_of_others(
    formatters: dict[str, Formatter], answer: pa.Table
) -> None:
    formatters["text/html"].for_type(pa.Table, lambda table: "theirs")
    formatters["text/plain"].for_type(pa.Table, lambda table, printer, cycle: printer.text("theirs"))
    tell_ipython()
    tell_ipython()
    printer = Printer()
    formatters["text/plain"].type_printers[pa.Table](pa.table({}), printer, False)
    draw = formatters["text/html"].type_printers[pa.Table]
    assert (draw(pa.table({})), printer.said, draw(answer)) == ("theirs", "theirs", html_of(answer))


def test_outside_a_notebook_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    tell_ipython()
    monkeypatch.delitem(sys.modules, "IPython")
    tell_ipython()


def test_html_has_readable_units_and_exact_values_on_hover(answer: pa.Table) -> None:
    read = Cells(html_of(answer))
    assert (read.cells[2], read.titles[2]) == ("9,007,199 s", str(EXACT))
    assert (read.cells[5], read.titles[5]) == ("1.500 µs", "1500")
    assert (read.cells[7], read.cells[8]) == ("NULL", "NULL")
    assert (read.cells[1], read.titles[1]) == ("0", None)


def test_html_escapes_what_a_trace_brings(answer: pa.Table) -> None:
    html = html_of(answer)
    read = Cells(html)
    assert "script" not in read.tags
    assert read.cells[3] == r"$x$ <script>|`*_\n\x1b[2J核"
    assert "\x1b" not in html


def test_html_shortens_long_text_and_keeps_it_on_hover(answer: pa.Table) -> None:
    read = Cells(html_of(answer))
    assert (len(read.cells[6]), "…" in read.cells[6], read.titles[6]) == (200, True, "x" * 300)


def test_html_escapes_the_names_of_columns(lab: Lab) -> None:
    assert "<b>" not in html_of(lab.sql('select 1 as "<b>", 2 as """ onclick="'))


@pytest.mark.parametrize(
    ("rows", "caption", "cells"),
    [(0, "0 rows", 0), (1, "1 row", 1), (60, "60 rows", 60), (1234, "the first 60 of 1,234 rows", 60)],
)
def test_html_says_how_many_rows_there_are(lab: Lab, rows: int, caption: str, cells: int) -> None:
    read = Cells(html_of(lab.sql(f"from range({rows})")))
    assert (read.caption, len(read.cells)) == (caption, cells)


def test_html_of_a_question_has_its_title(lab: Lab) -> None:
    assert Cells(html_of(lab.query("kernel_summary"))).caption == "Kernel summary · 3 rows"


def test_html_is_an_accessible_table_without_colours_of_its_own(answer: pa.Table) -> None:
    html = html_of(answer)
    assert html.count('<th scope="col"') == 3
    assert {"table", "caption", "thead", "tbody"} <= set(Cells(html).tags)
    assert re.findall(r"(?<!-)\bcolor: ([^;} ]+)", html) == ["inherit"] * 3
    assert re.findall(r"background: ([^;} ]+)", html) == ["none"] * 2


def test_the_schema_shows_tables_and_columns(lab: Lab) -> None:
    assert lab.schema().column("table").to_pylist()[:2] == ["runs", "sources"]
    described = lab.schema("memcpys")
    assert described.column_names == ["column", "type", "meaning"]
    assert Cells(html_of(described)).caption.startswith("memcpys: a row is one copy · ")
    assert max(len(text) for text in described.column("meaning").to_pylist()) <= 200  # none is shortened
    with pytest.raises(UsageError, match="did you mean 'kernels'"):
        lab.schema("kernel")


def test_the_queries_are_a_dict_that_shows_itself(lab: Lab) -> None:
    queries = lab.queries()
    assert queries["kernel_summary"] == "Kernel summary"
    assert isinstance(queries, dict)
    assert "kernel_summary" in Cells(queries._repr_html_()).cells


def test_the_doctor_answers_in_python_too(lab: Lab) -> None:
    rows = lab.doctor(run="r").to_pylist()
    assert {row["code"] for row in rows} >= {"calls_missing", "device_unknown", "unmeasured"}
