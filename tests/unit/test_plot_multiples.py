"""Small multiples: which panels there are, what is on one axis, where lines break, what stands in a cell."""

from math import isnan
from pathlib import Path

import pyarrow as pa
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tracelab import plot
from tracelab.errors import NoDataError
from tracelab.query import library
from tracelab.query.spec import Chart, ChartKind, Query

Row = dict[str, object]
CURVES_AND_GRID: tuple[ChartKind, ...] = ("curves", "grid")


def question(kind: ChartKind, *y: str) -> Query:
    chart = Chart(kind, "batch_size", y, "layout", panel=("model", "variant"))
    return Query("q", Path("q.sql"), "Title", "", (), chart, (), {}, "")


def cell(batch_size: int, speed: float | None, *, model: str = "vgg", layout: str = "1 GPU", status: str = "ok") -> Row:
    row = {"sweep": "s", "model": model, "variant": None, "layout": layout, "batch_size": batch_size}
    return row | {"samples_per_s": speed, "speedup_factor": speed, "step_ns": 1_500_000, "status": status}


def drawn(rows: list[Row], kind: ChartKind, *y: str) -> Figure:
    return plot.figure(pa.Table.from_pylist(rows), question(kind, *y))


def lines(axes: Axes) -> list[list[float]]:
    return [list(line.get_ydata()) for line in axes.lines]


def test_a_panel_for_each_model_and_a_line_for_each_layout() -> None:
    rows = [cell(8, 1.0), cell(16, 2.0), cell(8, 3.0, layout="2 GPUs dp"), cell(8, 2.5, model="alexnet")]
    figure = drawn(rows, "curves", "samples_per_s")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["vgg", "alexnet"]
    assert [lines(axes) for axes in figure.axes] == [[[1.0, 2.0], [3.0]], [[2.5]]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["1 GPU", "2 GPUs dp"]
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()


def test_a_line_breaks_where_a_cell_has_no_speed() -> None:
    rows = [cell(8, 1.0), cell(16, None, status="oom"), cell(32, 4.0)]
    ((first, gap, last),) = lines(drawn(rows, "curves", "samples_per_s").axes[0])
    assert (first, isnan(gap), last) == (1.0, True, 4.0)


def test_repeats_are_dots_around_their_mean() -> None:
    figure = drawn([cell(8, 1.0), cell(8, 3.0)], "curves", "samples_per_s")
    assert lines(figure.axes[0]) == [[2.0], [1.0, 3.0]]
    assert "a line is the mean of several rows, each a dot" in figure.get_suptitle()


def test_panels_that_differ_much_have_an_axis_each_and_say_so() -> None:
    figure = drawn([cell(8, 100.0), cell(8, 1.0, model="alexnet")], "curves", "samples_per_s")
    assert figure.axes[1].get_ylim()[1] < 2
    assert "each panel has its own axis" in figure.get_suptitle()


def test_each_unit_has_a_row_of_panels_and_a_factor_its_line_at_one() -> None:
    figure = drawn([cell(8, 0.5), cell(16, 2.0)], "curves", "speedup_factor", "step_ns")
    assert [axes.get_ylabel() for axes in figure.axes] == ["speedup factor", "step (ms)"]
    assert lines(figure.axes[0])[0] == [1, 1]
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["8", "16"]


def test_a_grid_writes_what_a_cell_holds_and_leaves_free_what_there_is_not() -> None:
    rows = [cell(8, 1.0), cell(16, None, status="oom"), cell(8, 1.0, layout="2 GPUs dp", status="not_run")]
    (axes,) = drawn(rows, "grid", "status").axes
    assert {text.get_text(): text.get_position() for text in axes.texts} == {
        "ok": (0, 0),
        "oom": (1, 0),
        "not run": (0, 1),
    }
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1 GPU", "2 GPUs dp"]


def test_a_grid_too_wide_for_numbers_has_a_color_bar() -> None:
    rows = [cell(size, float(size)) | {"layout": size % 2} for size in range(1, 51)]
    figure = drawn(rows, "grid", "samples_per_s")
    axes, bar = figure.axes
    (image,) = axes.images
    assert "white: no value" in figure.get_suptitle()
    values = image.get_array()
    assert values.shape == (2, 50)
    assert [values[1, 0], values[0, 1], values[1, 48], values[0, 49]] == [1, 2, 49, 50]
    assert (values.mask.sum(), image.get_clim()) == (50, (0, 50))
    assert (axes.get_ylabel(), bar.get_ylabel(), axes.texts[:]) == ("layout", "samples per s", [])


def test_ranks_of_a_grid_are_in_their_order_whichever_comes_first() -> None:
    rows = [cell(8, 1.0) | {"layout": rank} for rank in (0, 7, 6)]
    (axes,) = drawn(rows, "grid", "samples_per_s").axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["0", "6", "7"]


def test_the_ranks_of_the_wait_matrix_and_of_lateness_are_named() -> None:
    waits = [{"run": "r", "number": 1, "rank": rank, "wait_ns": 1_000_000 * rank} for rank in (0, 1)]
    (axes,) = plot.figure(pa.Table.from_pylist(waits), library.find("collective_wait")).axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["rank 0", "rank 1"]
    assert axes.get_xlabel() == "collective, in the order of first starts"
    late = [{"run": "r", "step": 5, "rank": rank, "lateness_ns": 1_000_000 * (rank + 1)} for rank in (0, 1)]
    figure = plot.figure(pa.Table.from_pylist(late), library.find("step_lateness"))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["rank 0", "rank 1"]


def test_repeats_that_ended_differently_show_the_rarest_end() -> None:
    rows = [cell(8, 1.0), cell(8, 1.0), cell(8, None, status="oom")]
    (axes,) = drawn(rows, "grid", "status").axes
    assert [text.get_text() for text in axes.texts] == ["1/3 oom"]


def test_numbers_of_a_grid_are_written_in_two_digits() -> None:
    (axes,) = drawn([cell(8, 0.123), cell(16, -1.77)], "grid", "samples_per_s").axes
    assert [text.get_text() for text in axes.texts] == ["0.12", "-1.8"]


@pytest.mark.parametrize("kind", ["curves", "grid"])
def test_nothing_to_draw_is_reported(kind: ChartKind) -> None:
    with pytest.raises(NoDataError, match="q has no rows to draw"):
        drawn([cell(8, None)], kind, "samples_per_s")


def test_panels_name_their_sweep_and_those_of_nothing_are_left_out() -> None:
    rows = [cell(8, 1.0), cell(8, None), cell(8, None, model="alexnet"), cell(8, 2.0) | {"sweep": "t"}]
    for kind in CURVES_AND_GRID:
        figure = drawn(rows, kind, "samples_per_s")
        assert [axes.get_title(loc="left") for axes in figure.axes] == ["s · vgg", "t · vgg"]
        assert "1 of 3 panels left out, empty" in figure.get_suptitle()


def test_of_too_many_panels_those_with_the_most_values_are_drawn() -> None:
    rows = [cell(8, 1.0, model=f"m{number:02}") for number in range(14)]
    figure = drawn([*rows, cell(16, 2.0, model="m13")], "curves", "samples_per_s")
    assert [axes.get_title(loc="left") for axes in figure.axes][:2] == ["m13", "m00"]
    assert "2 of 14 panels not drawn" in figure.get_suptitle()


def test_of_too_many_lines_those_with_the_most_points_have_a_colour() -> None:
    dots = [cell(8, 1.0, layout=f"l{number:02}") for number in range(20)]
    figure = drawn([*dots, *(cell(8 * at, 1.0, layout="long") for at in range(1, 5))], "curves", "samples_per_s")
    assert [text.get_text() for text in figure.legends[0].get_texts()][0::8] == ["long", "13 others"]


def test_lines_whose_names_shorten_alike_stay_two() -> None:
    rows = [cell(8, speed, layout=f"{'a' * 40}{speed}{'b' * 40}") for speed in (1.0, 2.0)]
    assert lines(drawn(rows, "curves", "samples_per_s").axes[0]) == [[1.0], [2.0]]


@pytest.mark.parametrize("kind", ["curves", "grid"])
def test_a_title_is_no_wider_than_its_panel(kind: ChartKind) -> None:
    variant = "epochs=1, learning_rate=0.01, optimizer=adam, workers="
    rows = [cell(8, 1.0) | {"variant": f"{variant}{number}", "sweep": f"sweep-{number}"} for number in range(8)]
    figure = drawn(rows, kind, "samples_per_s", "speedup_factor")
    figure.canvas.draw()
    boxes = [axes._left_title.get_window_extent() for axes in figure.axes]  # type: ignore[attr-defined]
    places = [axes.get_window_extent() for axes in figure.axes]
    assert all(box.width <= place.width for box, place in zip(boxes, places, strict=True))
