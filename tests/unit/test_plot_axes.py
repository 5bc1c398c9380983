"""Axes of pictures: what they are called, where they begin, and which characters stand on them."""

import warnings

import pyarrow as pa
import pytest

from tests.unit.test_plot import drawn_memory, kernel, labels, memory, png, question
from tracelab import plot
from tracelab.output.labels import strip_signature
from tracelab.plot.labels import is_additive
from tracelab.query.library import library


def test_shares_are_read_in_percent() -> None:
    rows = [{"run": "r", "rank": 0, "device": 0, "mfu_ratio": 0.92876}]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "rank", "mfu_ratio"))
    assert drawn.axes[0].get_xlabel() == "mfu (%)"
    assert [text.get_text() for text in drawn.axes[0].texts] == ["92.9"]


def test_several_shares_on_one_axis_are_shares() -> None:
    rows = [{"run": "r", "rank": 0, "device": 0, "a_ratio": 0.5, "b_ratio": 0.25}]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "rank", "a_ratio", "b_ratio"))
    assert drawn.axes[0].get_xlabel() == "share (%)"


@pytest.mark.parametrize(("failed", "label"), [(2, "count"), (None, "count"), (0.5, "")])
def test_whole_numbers_side_by_side_are_counts(failed: float | None, label: str) -> None:
    table = pa.Table.from_pylist([{"sweep": "s", "ok": 3, "failed": failed}])
    drawn = plot.figure(table, question("stacked", "sweep", "ok", "failed"))
    assert drawn.axes[0].get_xlabel() == label


def test_columns_that_end_alike_are_called_so() -> None:
    table = pa.Table.from_pylist([{"layout": "l", "crossover_batch_size": 3, "estimated_batch_size": 4}])
    drawn = plot.figure(table, question("bars", "layout", "crossover_batch_size", "estimated_batch_size"))
    assert drawn.axes[0].get_xlabel() == "batch size"


def test_memory_is_drawn_from_0_without_dots() -> None:
    drawn = drawn_memory(memory(0, 900, 1_000), memory(5, 950, 1_000), memory(9, 910, 1_000))
    assert drawn.axes[0].get_ylim()[0] == 0
    assert [line.get_marker() for line in drawn.axes[0].lines] == ["", ""]


def test_the_only_point_of_a_line_is_a_dot() -> None:
    assert [line.get_marker() for line in drawn_memory(memory(0, 900, None)).axes[0].lines] == ["o"]


def test_characters_that_the_font_lacks_are_spelled_with_their_whole_number() -> None:
    drawn = plot.figure(pa.Table.from_pylist([kernel("日a🔥f", 5)]), question("bars", "kernel", "dur_ns"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert png(drawn).startswith(b"\x89PNG")
    assert labels(drawn) == [r"\u65e5a\U0001f525f"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("## wait() ##", "## wait() ##"),
        ("f(int) const", "f"),
        ("f(int) [clone .kd]", "f"),
        ("f(int)::{lambda()#1}::operator()() const", "f"),
        ("f(int, cut", "f"),
    ],
)
def test_only_arguments_at_the_end_of_a_function_are_left_out(name: str, plain: str) -> None:
    assert strip_signature(name) == plain


def test_the_picture_of_flops_and_bytes_shows_both() -> None:
    chart = library()["kernel_flop"].chart
    assert chart is not None
    assert chart.y == ("dur_ns", "flop", "dram_bytes")
    assert all(map(is_additive, chart.y))


def test_a_unit_of_which_nothing_is_known_has_no_panel() -> None:
    rows = [kernel("a", 5) | {"flop": None, "dram_bytes": 64}, kernel("b", 4) | {"flop": None, "dram_bytes": None}]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns", "flop", "dram_bytes"))
    assert [axes.get_xlabel() for axes in drawn.axes] == ["duration (ns)", "dram (B)"]
    assert [text.get_text() for text in drawn.axes[1].texts] == ["64", "no value"]


def test_others_of_which_nothing_is_known_have_no_value() -> None:
    rows = [kernel(f"k{at}", 100 - at) | {"flop": 7 if at == 0 else None} for at in range(22)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns", "flop"))
    assert labels(drawn)[-1] == "others (2 kernels)"
    assert [axes.texts[-1].get_text() for axes in drawn.axes] == ["159", "no value"]
