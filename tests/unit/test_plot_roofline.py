"""A roofline as a picture: what is drawn where, and that no label covers another."""

import io
import math
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from tracelab import plot
from tracelab.errors import NoDataError
from tracelab.query import library

Row = dict[str, Any]
QUERY = library.find("roofline")
CARD = {
    "run": "r",
    "rank": 0,
    "device": 0,
    "launch": None,
    "class": "gemm",
    "device_name": "Card",
    "launches": 1,
    "ceiling_gb_per_s": 1_000.0,
    "ceiling_l2_gb_per_s": 4_000.0,
    "theoretical_gb_per_s": 1_100.0,
    "ceiling_source": "measured",
    "theoretical_source": "ncu",
    "time_source": "ncu",
    "ceiling_run": "bench",
}
PEAKS = {"fp32": 10_000.0, "tensor_bf16": 160_000.0}


def rows(
    kernel: str, flop: float | None, dram_bytes: int, dur_ns: int, precision: str = "fp32", **more: Any
) -> list[Row]:
    """A kernel of one precision: its row, and its total."""
    figures = {
        "flop": flop,
        "dram_bytes": dram_bytes,
        "dur_ns": dur_ns,
        "intensity_flop_per_byte": None if flop is None else flop / dram_bytes,
        "achieved_gflop_per_s": None if flop is None else flop / dur_ns,
    }
    ceilings = {"ceiling_gflop_per_s": PEAKS[precision], "theoretical_gflop_per_s": PEAKS[precision]}
    row = dict.fromkeys(QUERY.columns) | CARD | figures | ceilings | {"kernel": kernel} | more
    return [row | {"precision": precision}, row | {"precision": "all"}]


def draw(*kernels: list[Row]) -> Figure:
    return plot.figure(pa.Table.from_pylist([row for kernel in kernels for row in kernel]), QUERY)


def texts(drawn: Figure) -> list[str]:
    return [text.get_text() for text in drawn.axes[0].texts]


def spots(drawn: Figure, marker: str) -> list[tuple[float, float]]:
    return [
        (round(line.get_xdata()[0], 6), round(line.get_ydata()[0], 6))
        for line in _lines(drawn)
        if line.get_marker() == marker and len(line.get_xdata())
    ]


def _lines(drawn: Figure) -> list[Any]:
    return list(drawn.axes[0].lines)


def test_a_kernel_stands_at_its_intensity_and_speed() -> None:
    drawn = draw(rows("gemm", 4_000_000, 1_000_000, 2_000))
    assert (4.0, 2.0) in spots(drawn, "o")  # 4 FLOP/byte, 2 TFLOP/s
    assert "TFLOP/s" in drawn.axes[0].get_ylabel()


def test_all_kernels_together_stand_at_their_sums_over_the_time() -> None:
    drawn = draw(rows("gemm", 9_000_000, 1_000_000, 1_000), rows("copy", 0, 2_000_000, 2_000))
    assert spots(drawn, "*") == [(3.0, 3.0)]


def test_a_total_that_is_unknown_leaves_its_parts_hollow_and_the_whole_out() -> None:
    part, total = rows("gemm", 4_000_000, 1_000_000, 2_000)
    unknown = {"flop": None, "intensity_flop_per_byte": None, "achieved_gflop_per_s": None}
    drawn = draw([part, total | unknown])
    assert spots(drawn, "*") == []
    assert "gemm (fp32)" in texts(drawn)
    assert "one precision, others not counted" in [text.get_text() for text in drawn.legends[0].get_texts()]


def test_each_precision_and_level_has_a_roof_with_its_name() -> None:
    drawn = draw(rows("a", 4_000_000, 1_000_000, 2_000), rows("b", 10**9, 10**6, 10**4, "tensor_bf16"))
    assert {"DRAM 1.00 TB/s", "L2 4.00 TB/s", "fp32\n10.0 TFLOP/s", "tensor bf16\n160 TFLOP/s"} <= set(texts(drawn))
    assert {"ridge 10.0", "ridge 160"} <= set(texts(drawn))


def test_solid_roofs_are_what_counts_and_dashed_ones_theory() -> None:
    drawn = draw(rows("a", 4_000_000, 1_000_000, 2_000, theoretical_gflop_per_s=12_000.0))
    flats = {line.get_linestyle(): line.get_ydata()[0] for line in _lines(drawn) if _is_flat(line)}
    assert flats == {"-": 10.0, "--": 12.0}
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert names == ["gemm", "ceiling (measured)", "theoretical (by the report)"]


def _is_flat(line: Any) -> bool:
    ys = line.get_ydata()
    return len(ys) == 2 and ys[0] == ys[1] and line.get_marker() in {"None", None, ""}


def test_no_label_covers_another() -> None:
    kernels = [
        rows(f"kernel_number_{at}", 10**7 * (at + 1), 10**6 * (1 + at % 3), 1_000 * (30 + at)) for at in range(30)
    ]
    drawn = draw(*kernels)
    shown = [text for text in drawn.axes[0].texts if isinstance(text, Annotation)]
    boxes = [text.get_window_extent().shrunk(0.98, 0.9) for text in shown if text.get_rotation() == 0]
    assert len([text for text in texts(drawn) if text.startswith("kernel_number")]) >= 2
    assert [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])] == []


def test_the_area_of_a_kernel_is_its_time() -> None:
    drawn = draw(rows("a", 10**6, 10**6, 9_000), rows("b", 10**7, 10**6, 1_000))
    sizes = sorted(line.get_markersize() for line in drawn.axes[0].lines if line.get_markeredgecolor() == "white")
    sizes = [size for size in sizes if size not in {13}]
    assert [round((larger / smaller) ** 2, 6) for smaller, larger in pairwise(sizes)] == [9.0]


def test_each_device_has_a_panel() -> None:
    drawn = draw(rows("a", 10**6, 10**6, 900), rows("a", 10**6, 10**6, 800, device=1))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["GPU 0", "GPU 1"]


def test_without_ceilings_only_the_kernels_are_drawn() -> None:
    nothing: Row = {name: None for name in CARD if name.startswith(("ceiling", "theoretical"))}
    nothing |= {"ceiling_gflop_per_s": None, "theoretical_gflop_per_s": None}
    drawn = draw(rows("a", 10**6, 10**6, 900, **nothing))
    assert texts(drawn) == ["all kernels", "a"]


@pytest.mark.parametrize("name", ["$x$", r"$\frac{", "<b>", "A" * 5_000, "核\nb", "\x1b[2J", "%s{}", "", "\0"])
def test_a_hostile_name_is_only_a_name(name: str) -> None:
    stream = io.BytesIO()
    plot.save(draw(rows(name, 10**6, 10**6, 900)), stream, fmt="png")
    assert stream.getvalue()[:4] == b"\x89PNG"


def test_the_same_answer_gives_the_same_picture() -> None:
    pictures = []
    for _ in range(2):
        stream = io.BytesIO()
        plot.save(draw(rows("a", 10**6, 10**6, 900)), stream, fmt="svg")
        pictures.append(stream.getvalue())
    assert pictures[0] == pictures[1]


def test_kernels_without_flop_are_nothing_to_draw() -> None:
    with pytest.raises(NoDataError, match="no kernel has both FLOPs and bytes to draw"):
        draw(rows("copy", 0, 10**6, 900))


def test_the_name_of_a_roof_covers_no_kernel() -> None:
    kernels = [rows(f"k{at}", 10**4 * 2**at, 10**6, 1_300 + at) for at in range(12)]
    drawn = draw(*kernels)
    plot.save(drawn, io.BytesIO(), fmt="png")
    (name,) = (text for text in drawn.axes[0].texts if text.get_text().startswith("DRAM"))
    box = name.get_window_extent()
    width, height = box.width, box.height
    for x, y in spots(drawn, "o"):
        right, up = drawn.axes[0].transData.transform((x, y)) - (box.x0, box.y0)
        along = min(max((right * width + up * height) / (width**2 + height**2), 0), 1)
        assert math.hypot(right - along * width, up - along * height) > 6  # pixels from the middle of the letters


def test_ops_by_shapes_have_a_marker_of_their_own_and_no_part_in_the_total_of_counted_kernels() -> None:
    drawn = draw(
        rows("gemm", 8e6, 100_000, 1_000, flop_source="counted"),
        rows("aten::mm", 4e6, 20_000, 1_000, flop_source="shapes"),
    )
    marks = [(line.get_marker(), line.get_xydata().tolist()) for line in drawn.axes[0].lines]
    assert [mark for mark in marks if mark[0] == "s"] == [("s", [[200.0, 4.0]])]
    assert [mark for mark in marks if mark[0] == "*"] == [("*", [[80.0, 8.0]])]
    assert ("o", [[80.0, 8.0]]) in marks
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert "op: FLOPs from shapes, least bytes" in legend


def test_a_label_without_a_leader_is_nearer_to_its_kernel_than_to_any_other() -> None:
    drawn = draw(*(rows(f"k{at}", 2e9 + 1e8 * at, 10**6, 90_000) for at in range(4)))
    axes = drawn.axes[0]
    points = {f"k{at}": spot for at, spot in enumerate(sorted(spots(drawn, "o"))[-4:])}
    assert [round(x) for x, _ in points.values()] == [2_000, 2_100, 2_200, 2_300]
    pixels = {name: axes.transData.transform(point) for name, point in points.items()}
    leaders = {round(line.get_xdata()[0], 6) for line in axes.lines if line.get_color() == "#777777"}
    beside = [text for text in axes.texts if text.get_text() in points and points[text.get_text()][0] not in leaders]
    assert beside
    for text in beside:
        box = text.get_window_extent()
        distances = {
            name: math.hypot(min(max(x, box.x0), box.x1) - x, min(max(y, box.y0), box.y1) - y)
            for name, (x, y) in pixels.items()
        }
        assert min(distances, key=lambda name: distances[name]) == text.get_text()


def test_the_legend_names_other_classes_only_where_one_is_drawn() -> None:
    classes = [rows(f"k{at}", 10**7 * (at + 1), 10**6, 1_000 + at, **{"class": f"class{at}"}) for at in range(8)]

    def legend(*kernels: list[Row]) -> list[str]:
        return [text.get_text() for text in draw(*kernels).legends[0].get_texts()]

    assert "other classes" in legend(*classes)
    assert "other classes" not in legend(*classes[:7], rows("copy", 0, 10**6, 900, **{"class": "copies"}))
