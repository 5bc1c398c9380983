"""Pictures of very many rows: none is taller than a page, and what is not drawn is counted."""

from pathlib import Path

import pyarrow as pa
import pytest

from tracelab import plot
from tracelab.query.spec import Chart, Param, Query

Row = dict[str, object]
SIDES = ("run", "rank", "device", "kernel", "step", "at_ns", "batch_size")
WIDEST, TALLEST = 30.0, 22.0


def question(chart: Chart, *params: str) -> Query:
    taken = tuple(Param(name, "text" if name == "run" else "integer", None, "") for name in params)
    return Query("q", Path("q.sql"), "Title", "", (), chart, taken, {}, "")


def many(count: int, *varied: str, of_each: int = 1) -> list[Row]:
    """So many rows that differ in `varied`, and of each `of_each` kernels."""
    names = [{name: index if name in varied else 0 for name in SIDES} for index in range(count)]
    return [
        row
        | {"run": f"r{row['run']}", "kernel": f"k{kernel}", "bin_ns": 10, "layout": f"l{row['run']}", "model": "m"}
        | {"dur_ns": 1_000 - kernel, "mean_ns": 5, "ok": "ok", "flop": 10**9}
        for row in names
        for kernel in range(of_each)
    ]


BARS = Chart("bars", "kernel", ("dur_ns",), "run")
GROUPS = Chart("bars", "kernel", ("dur_ns", "mean_ns", "bin_ns", "at_ns"), "run")


@pytest.mark.parametrize(
    ("chart", "rows"),
    [
        (BARS, many(300, "run", of_each=30)),
        (GROUPS, many(300, "run", of_each=30)),
        (Chart("stacked", "rank", ("dur_ns",), "run"), many(900, "run", "rank")),
        (Chart("stacked", "rank", ("dur_ns", "mean_ns"), "run"), many(900, "rank")),
        (Chart("bars", "run", ("dur_ns",), None), many(900, "run")),
        (Chart("pairs", "run", ("dur_ns", "flop"), None), many(900, "run")),
        (Chart("line", "at_ns", ("dur_ns",), "run"), many(900, "run", "at_ns")),
        (Chart("timeline", "at_ns", ("bin_ns",), "run"), many(300, "run")),
        (Chart("curves", "batch_size", ("dur_ns",), "layout", panel=("model",)), many(300, "run", "batch_size")),
        (Chart("curves", "batch_size", ("dur_ns",), "layout", panel=("rank",)), many(300, "rank", "batch_size")),
        (Chart("grid", "batch_size", ("ok",), "layout", panel=("model",)), many(300, "run", "batch_size")),
        (
            Chart("grid", "batch_size", ("ok", "dur_ns"), "layout", panel=("rank",)),
            many(300, "rank", "batch_size", "run"),
        ),
    ],
    ids=lambda value: f"{value.kind}-{value.x}-{len(value.y)}-{value.panel}" if isinstance(value, Chart) else "",
)
def test_no_picture_outgrows_a_page(chart: Chart, rows: list[Row]) -> None:
    width, height = plot.figure(pa.Table.from_pylist(rows), question(chart)).get_size_inches()
    assert (width <= WIDEST, height <= TALLEST) == (True, True), (width, height)


def test_what_is_not_drawn_is_counted_with_the_option_that_narrows() -> None:
    drawn = plot.picture(pa.Table.from_pylist(many(40, "run", of_each=3)), question(BARS, "run", "rank"))
    assert (len(drawn.figure.axes), drawn.not_drawn) == (12, ("28 of 40 panels not drawn", "--run NAME narrows"))
    assert drawn.figure.get_suptitle().endswith("28 of 40 panels not drawn · --run NAME narrows")


def test_panels_that_would_make_the_picture_too_tall_are_not_drawn() -> None:
    rows = many(40, "rank", of_each=30)
    drawn = plot.picture(pa.Table.from_pylist(rows), question(BARS, "run", "rank"))
    assert (len(drawn.figure.axes), drawn.not_drawn) == (8, ("32 of 40 panels not drawn", "--rank N narrows"))


def test_processes_are_compared_and_not_added_up() -> None:
    drawn = plot.picture(
        pa.Table.from_pylist(many(64, "rank")), question(Chart("stacked", "rank", ("dur_ns",), "run"), "rank")
    )
    assert drawn.not_drawn == ("44 of 64 ranks not drawn", "--rank N narrows")
    assert [text.get_text() for text in drawn.figure.axes[0].get_yticklabels()][-1] == "rank 19"


def test_a_grid_draws_the_first_lines_and_columns() -> None:
    chart = Chart("grid", "batch_size", ("ok",), "layout", panel=("model",))
    rows = [row | {"batch_size": size} for row in many(70, "run") for size in range(40)]
    assert plot.picture(pa.Table.from_pylist(rows), question(chart)).not_drawn == (
        "10 of 40 batch sizes not drawn",
        "5 of 70 layouts not drawn",
    )


def test_a_legend_names_the_lines_in_colour_and_counts_the_others() -> None:
    chart = Chart("curves", "batch_size", ("dur_ns",), "layout", panel=("model",))
    drawn = plot.figure(pa.Table.from_pylist(many(30, "run", "batch_size")), question(chart))
    assert [text.get_text() for text in drawn.legends[0].get_texts()][7:] == ["l7", "22 others"]


def test_a_picture_of_everything_notes_nothing() -> None:
    drawn = plot.picture(pa.Table.from_pylist(many(3, "run")), question(BARS, "run"))
    assert drawn.not_drawn == ()
    assert "narrows" not in drawn.figure.get_suptitle()
