"""The result of a query in Python: exact in polars, pandas and Arrow, readable in a notebook."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tracelab
from tests.build import build_store
from tests.cli.conftest import HOSTILE
from tracelab import schema
from tracelab.client import Lab
from tracelab.errors import TracelabError, UsageError
from tracelab.output.result import Result

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
def result(lab: Lab) -> Result:
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


def test_polars_holds_exact_integers_beside_null(result: Result) -> None:
    frame = result.pl()
    assert frame.schema == {"name": polars.String, "device": polars.Int32, "dur_ns": polars.Int64}
    assert frame["dur_ns"].to_list() == [EXACT, 1500, None]


def test_pandas_holds_exact_integers_beside_null(result: Result) -> None:
    frame = result.df()
    assert frame.dtypes[["device", "dur_ns"]].astype(str).to_list() == ["Int32", "Int64"]
    assert frame["dur_ns"][:2].to_list() == [EXACT, 1500]
    assert frame["dur_ns"][2] is pandas.NA


def test_integers_are_the_same_type_without_null(lab: Lab) -> None:
    result = lab.sql("select dur_ns, dur_ns > 0 as ran from kernels where dur_ns is not null")
    assert result.df().dtypes.astype(str).to_list() == ["Int64", "boolean"]
    assert result.pl()["dur_ns"].dtype == polars.Int64


@pytest.mark.parametrize("table", schema.BY_NAME)
def test_every_table_is_a_frame(lab: Lab, table: str) -> None:
    result = lab.sql(f"from {table}")
    assert result.pl().columns == result.column_names
    assert list(result.df().columns) == result.column_names


def test_without_pandas_an_error_names_the_extra(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TracelabError, match=r"pip install 'tracelab\[pandas\]'"):
        result.df()


def test_arrow_is_a_plain_table(result: Result, tmp_path: Path) -> None:
    assert type(result.arrow()) is pa.Table
    pq.write_table(result.arrow(), tmp_path / "result.parquet")
    assert pq.read_table(tmp_path / "result.parquet") == result.arrow()


def test_a_result_is_an_arrow_stream(result: Result) -> None:
    assert pa.table(result) == result.arrow()
    assert polars.DataFrame(result).shape == (3, 3)
    assert duckdb.from_arrow(result).aggregate("max(dur_ns)").fetchall() == [(EXACT,)]


def test_it_has_rows_and_columns(result: Result) -> None:
    assert (len(result), result.num_rows, result.column_names) == (3, 3, ["name", "device", "dur_ns"])
    assert result.to_pylist()[1] == {"name": HOSTILE, "device": 0, "dur_ns": 1500}


def test_it_prints_as_a_table(lab: Lab) -> None:
    assert repr(lab.sql("select 1500 as dur_ns")) == "  dur_ns\n────────\n1.500 µs"
    assert repr(lab.sql("from range(21)")).splitlines()[-2:] == ["   19", "(20 of 21 rows)"]


def test_html_has_readable_units_and_exact_values_on_hover(result: Result) -> None:
    read = Cells(result._repr_html_())
    assert (read.cells[2], read.titles[2]) == ("9,007,199 s", str(EXACT))
    assert (read.cells[5], read.titles[5]) == ("1.500 µs", "1500")
    assert (read.cells[7], read.cells[8]) == ("NULL", "NULL")
    assert (read.cells[1], read.titles[1]) == ("0", None)


def test_html_escapes_what_a_trace_brings(result: Result) -> None:
    html = result._repr_html_()
    read = Cells(html)
    assert "script" not in read.tags
    assert read.cells[3] == r"$x$ <script>|`*_\n\x1b[2J核"
    assert "\x1b" not in html


def test_html_shortens_long_text_and_keeps_it_on_hover(result: Result) -> None:
    read = Cells(result._repr_html_())
    assert (len(read.cells[6]), "…" in read.cells[6], read.titles[6]) == (200, True, "x" * 300)


def test_html_escapes_the_names_of_columns(lab: Lab) -> None:
    assert "<b>" not in lab.sql('select 1 as "<b>", 2 as """ onclick="')._repr_html_()


@pytest.mark.parametrize(
    ("rows", "caption", "cells"),
    [(0, "0 rows", 0), (1, "1 row", 1), (60, "60 rows", 60), (1234, "the first 60 of 1,234 rows", 60)],
)
def test_html_states_how_many_rows_there_are(lab: Lab, rows: int, caption: str, cells: int) -> None:
    read = Cells(lab.sql(f"from range({rows})")._repr_html_())
    assert (read.caption, len(read.cells)) == (caption, cells)


def test_html_of_a_query_has_its_title(lab: Lab) -> None:
    assert Cells(lab.query("kernel_summary")._repr_html_()).caption == "Kernel summary · 3 rows"


def test_html_is_an_accessible_table_without_colours_of_its_own(result: Result) -> None:
    html = result._repr_html_()
    assert html.count('<th scope="col"') == 3
    assert {"table", "caption", "thead", "tbody"} <= set(Cells(html).tags)
    assert re.findall(r"(?<!-)\bcolor: ([^;} ]+)", html) == ["inherit"] * 3
    assert re.findall(r"background: ([^;} ]+)", html) == ["none"] * 2


def test_the_schema_shows_tables_and_columns(lab: Lab) -> None:
    assert lab.schema().arrow()["table"].to_pylist()[:2] == ["runs", "sources"]
    described = lab.schema("memcpys")
    assert described.column_names == ["column", "type", "meaning"]
    assert Cells(described._repr_html_()).caption.startswith("memcpys: a row is one copy · ")
    assert max(len(text) for text in described.arrow()["meaning"].to_pylist()) <= 200  # none is shortened
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
