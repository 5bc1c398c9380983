"""What a row's figure joins, shows and names; the cells are literal."""

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from matplotlib.axes import Axes

from tracelab.study import figure, spec
from tracelab.study.evaluate import CELLS, Answer
from tracelab.study.spec import Chart

TYPES = {"varchar": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in CELLS.items()])
LINE = Chart(kind="line", x="batch_size", by="model")


def panels(chart: Chart, cells: list[Mapping[str, object]]) -> dict[str, Axes]:
    """The panels of a figure of these cells, by their titles."""
    filled = [{"quantity": "q", "unit": "ratio", "run": f"r{place}"} | dict(cell) for place, cell in enumerate(cells)]
    answer = Answer(replace(spec.find("S4-02"), chart=chart), (), pa.Table.from_pylist(filled, SCHEMA), "v.")
    return {axes.get_title(loc="left"): axes for axes in figure.draw_row(answer).axes if axes.get_visible()}


def joined(axes: Axes) -> list[list[float]]:
    """The heights of the panel's lines, without the dots."""
    return [[round(float(y), 6) for y in line.get_ydata()] for line in axes.lines if line.get_linestyle() != "None"]


@pytest.mark.parametrize("column", ["setting", "machine", "gpus", "model"])
def test_a_line_joins_cells_that_differ_in_x_alone(column: str) -> None:
    one, other = (2, 4) if column == "gpus" else ("2 GPUs", "4 GPUs")
    found = panels(
        replace(LINE, by=None),
        [
            {column: one, "batch_size": 4, "corrected": 0.1},
            {column: one, "batch_size": 8, "corrected": 0.2},
            {column: other, "batch_size": 4, "corrected": 0.5},
            {column: other, "batch_size": 8, "corrected": 0.7},
        ],
    )
    assert joined(found["q"]) == [[10, 20], [50, 70]]


def test_repeats_are_one_point_of_a_line() -> None:
    cell = {"model": "m", "setting": "1 GPU"}
    found = panels(
        LINE,
        [
            cell | {"batch_size": 4, "study": 0.1},
            cell | {"batch_size": 4, "study": 0.3},
            cell | {"batch_size": 8, "study": 0.5},
        ],
    )
    assert joined(found["q\nm"]) == [[20, 50]]


def test_lines_are_named_by_what_distinguishes_them() -> None:
    cells = [
        {"model": "m", "batch_size": batch, "corrected": 0.1, "setting": f"{gpus} GPUs, window step", "gpus": gpus}
        for gpus in (2, 4)
        for batch in (4, 8)
    ]
    legend = panels(LINE, cells)["q\nm"].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["2 GPUs", "4 GPUs"]


def test_names_of_lines_stay_apart_when_they_are_shortened() -> None:
    machine = "A card with a name that is longer than a legend's room"
    cells: list[Mapping[str, object]] = [
        {"model": "m", "batch_size": batch, "corrected": 0.1, "setting": f"{gpus} GPUs dp", "machine": machine}
        for gpus in (2, 4)
        for batch in (4, 8)
    ]
    cells += [{"model": "m", "batch_size": 4, "corrected": 0.2, "setting": "2 CPU processes ddp"}]
    legend = panels(LINE, cells)["q\nm"].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["2 GPUs dp", "4 GPUs dp", "2 CPU processes ddp"]


def test_models_with_one_point_each_are_named_and_have_a_shape_each() -> None:
    cells = [{"model": model, "setting": "1 GPU", "batch_size": 64, "corrected": 0.1} for model in ("alexnet", "vgg16")]
    axes = panels(replace(LINE, by="setting"), cells)["q\n1 GPU"]
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["alexnet", "vgg16"]
    assert {line.get_marker() for line in axes.lines if line.get_linestyle() == "None"} == {"o", "s"}


def test_the_peak_of_a_run_that_failed_is_hollow_with_its_status_and_on_no_line() -> None:
    cells = [
        {"model": "m", "batch_size": 4, "corrected": 0.1},
        {"model": "m", "batch_size": 8, "corrected": 0.2},
        {"model": "m", "batch_size": 16, "corrected": 0.9, "status": "oom"},
    ]
    axes = panels(LINE, cells)["q\nm"]
    dots = {float(line.get_ydata()[0]): line for line in axes.lines if line.get_linestyle() == "None"}
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["corrected", "corrected, until the run failed"]
    assert (joined(axes), dots[90].get_markerfacecolor(), [text.get_text() for text in axes.texts]) == (
        [[10, 20]],
        "white",
        ["oom"],
    )


def test_of_too_many_panels_those_with_published_figures_are_drawn() -> None:
    cells: list[Mapping[str, object]] = [{"model": f"m{n:02}", "batch_size": 4, "corrected": 0.1} for n in range(13)]
    found = panels(LINE, [*cells, {"model": "of the study", "batch_size": 4, "published": 0.5, "run": None}])
    assert (len(found), next(iter(found))) == (12, "q\nof the study")


def test_the_legend_names_what_is_drawn() -> None:
    cells = [
        {"model": "m", "batch_size": 4, "corrected": 0.1},
        {"model": "m", "batch_size": None, "published": 0.5},
    ]
    (figure,) = {axes.figure for axes in panels(LINE, cells).values()}
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["corrected"]
