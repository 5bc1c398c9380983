"""Pictures of answers: what is drawn, in which unit, under which names."""

import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from tracelab import plot
from tracelab.errors import NoDataError
from tracelab.output.labels import strip_signature
from tracelab.plot.bars import MOST_BARS
from tracelab.plot.labels import row_labels
from tracelab.query import library
from tracelab.query.spec import Chart, ChartKind, Query

Row = dict[str, object]


def question(kind: ChartKind, x: str, *y: str, by: str | None = None) -> Query:
    return Query("q", Path("q.sql"), "Title", "", (), Chart(kind, x, y, by), (), {}, "")


def kernel(name: str, dur_ns: int | None, *, rank: int = 0) -> Row:
    return {"run": "r", "rank": rank, "device": 0, "kernel": name, "dur_ns": dur_ns, "mean_ns": dur_ns}


def labels(drawn: Figure, panel: int = 0) -> list[str]:
    return [text.get_text() for text in drawn.axes[panel].get_yticklabels()]


def png(drawn: Figure) -> bytes:
    stream = io.BytesIO()
    plot.save(drawn, stream, fmt="png")
    return stream.getvalue()


def test_bars_are_sorted_and_in_the_unit_that_fits() -> None:
    rows = [kernel("short", 1_500_000), kernel("long", 3_000_000)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert labels(drawn) == ["long", "short"]
    assert drawn.axes[0].get_xlabel() == "duration (ms)"
    assert [bar.get_width() for bar in drawn.axes[0].patches] == [3.0, 1.5]


def test_differences_stand_on_both_sides_of_zero_the_largest_first() -> None:
    rows = [kernel("slower", 1_000_000), kernel("faster", -3_000_000)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    left, right = drawn.axes[0].get_xlim()
    assert labels(drawn) == ["faster", "slower"]
    assert [bar.get_width() for bar in drawn.axes[0].patches] == [-3.0, 1.0]
    assert (left < -3.0, right > 1.0, drawn.axes[0].get_xlabel()) == (True, True, "duration (ms)")


def test_steps_stand_in_their_order() -> None:
    rows = [{"run": "r", "rank": 0, "step": step, "wait_ns": wait_ns} for step, wait_ns in ((7, 10), (8, 30), (9, 20))]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "step", "wait_ns"))
    assert labels(drawn) == ["step 7", "step 8", "step 9"]


@pytest.mark.parametrize(("points", "marker"), [(50, "o"), (51, "")])
def test_a_long_line_has_no_dots(points: int, marker: str) -> None:
    rows = [{"run": "r", "rank": 0, "at_ns": at, "allocated_bytes": at} for at in range(points)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("line", "at_ns", "allocated_bytes"))
    assert drawn.axes[0].lines[0].get_marker() == marker


def memory(at_ns: int, allocated: int, reserved: int | None, *, device: int | None = 0) -> Row:
    sizes = {"allocated_bytes": allocated, "reserved_bytes": reserved}
    return {"run": "r", "rank": 0, "device": device, "at_ns": at_ns} | sizes


def drawn_memory(*rows: Row) -> Figure:
    each = question("steps", "at_ns", "allocated_bytes", "reserved_bytes", by="run")
    return plot.figure(pa.Table.from_pylist(list(rows)), replace(each, chart=replace(each.chart, host=True)))


def test_steps_hold_a_value_until_the_next_and_keep_the_order_of_one_instant() -> None:
    line = drawn_memory(memory(0, 5, 7), memory(4, 9, 7), memory(4, 2, 7)).axes[0].lines[0]
    assert (line.get_drawstyle(), list(line.get_ydata())) == ("steps-post", [5, 9, 2])


def test_memory_without_a_device_is_the_hosts() -> None:
    drawn = drawn_memory(*(memory(at, 5, 7, device=device) for at in (0, 1) for device in (0, None)))
    assert [line.get_label() for line in drawn.axes[0].lines] == [
        "allocated · GPU 0",
        "allocated · host",
        "reserved · GPU 0",
        "reserved · host",
    ]


def test_a_device_that_is_not_known_is_not_the_host() -> None:
    rows = [kernel("k", 5) | {"device": device} for device in (0, None)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["GPU 0", "GPU none"]


@pytest.mark.parametrize(("reserved", "said"), [(0, "1 of 2 lines left out, all 0"), (None, "r · rank 0 · host")])
def test_a_line_of_zeros_or_of_nothing_is_left_out(reserved: int | None, said: str) -> None:
    drawn = drawn_memory(memory(0, 5, reserved, device=None), memory(4, 9, reserved, device=None))
    assert [line.get_label() for line in drawn.axes[0].lines] == ["allocated"]
    assert said in drawn.get_suptitle()


def test_a_panel_of_nothing_is_left_out() -> None:
    rows = [{"run": "r", "step": step, "dur_ns": step + 1, "size_bytes": None} for step in (0, 1)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("scatter", "step", "dur_ns", "size_bytes"))
    assert [axes.get_ylabel() for axes in drawn.axes] == ["duration (ns)"]


def test_what_does_not_fit_is_added_up() -> None:
    rows = [kernel(f"k{index}", 1_000) for index in range(MOST_BARS + 5)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert labels(drawn)[-1] == "others (5 kernels)"
    assert drawn.axes[0].patches[-1].get_width() == 5.0


@pytest.mark.parametrize(
    ("more", "column", "said"),
    [
        (1, "class", "others (1 class)"),
        (3, "class", "others (3 classes)"),
        (2, "memory", "others (2 memories)"),
        (2, "way", "others (2 ways)"),
    ],
)
def test_what_does_not_fit_is_counted_in_words_that_fit(more: int, column: str, said: str) -> None:
    rows = [{"run": "r", column: f"k{index}", "dur_ns": 1_000} for index in range(MOST_BARS + more)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", column, "dur_ns"))
    assert labels(drawn)[-1] == said


def test_means_are_not_added_up() -> None:
    rows = [kernel(f"k{index}", 1_000) for index in range(MOST_BARS + 5)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "mean_ns"))
    assert len(labels(drawn)) == MOST_BARS


def test_titles_of_another_tool_say_their_unit_too() -> None:
    rows = [{"run": "r", "Name": f"k{index}", "Total Time (ns)": 2_500_000, "Avg (ns)": 5} for index in range(25)]
    total, mean = (question("bars", "Name", title) for title in ("Total Time (ns)", "Avg (ns)"))
    drawn = plot.figure(pa.Table.from_pylist(rows), total)
    assert (drawn.axes[0].get_xlabel(), drawn.axes[0].patches[0].get_width()) == ("Total Time (ms)", 2.5)
    assert labels(drawn)[-1] == "others (5 Names)"
    assert len(labels(plot.figure(pa.Table.from_pylist(rows), mean))) == MOST_BARS


def test_each_process_has_its_panel() -> None:
    rows = [kernel("k", 5, rank=rank) for rank in (0, 1)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns", by="run"))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["rank 0", "rank 1"]


@pytest.mark.parametrize(
    ("of", "durations", "expected"),
    [("rank", (100, 300), [300, 300]), ("rank", (100, 5_000), [5, 5]), ("run", (100, 5_000), [100, 5])],
)
def test_ranks_share_an_axis_and_runs_of_other_sizes_have_their_own(
    of: str, durations: tuple[int, int], expected: list[float]
) -> None:
    def limits() -> list[float]:
        rows = [kernel("k", dur_ns) | {of: each} for each, dur_ns in zip("01", durations, strict=True)]
        drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
        return [round(axes.get_xlim()[1] / 1.12, 6) for axes in drawn.axes]

    assert limits() == expected


def test_losses_and_gains_of_a_signed_chart_differ_by_color_hatch_and_sign() -> None:
    query = question("bars", "kernel", "dur_ns")
    assert query.chart is not None
    signed = replace(query, chart=replace(query.chart, signed=True))
    drawn = plot.figure(
        pa.Table.from_pylist([kernel("slower", 300), kernel("faster", -200), kernel("same", 0)]), signed
    )
    bars = {
        name: (patch.get_facecolor(), patch.get_hatch())
        for name, patch in zip(labels(drawn), drawn.axes[0].patches, strict=True)
    }
    assert bars["slower"] == (to_rgba("#D55E00"), "////")
    assert bars["faster"] == (to_rgba("#0072B2"), None)
    assert [text.get_text() for text in drawn.axes[0].texts] == ["▲ 300", "▼ -200", "0"]


def test_the_axis_of_differences_states_what_they_are_per() -> None:
    query = library.find("run_difference")
    rows = [
        {"section": "kernels", "name": name, "difference_ns": difference_ns, "per": "step", "before": "a", "after": "b"}
        for name, difference_ns in (("k", 5_000), ("l", -3_000))
    ]
    assert plot.figure(pa.Table.from_pylist(rows), query).axes[0].get_xlabel() == "difference per step (µs)"


def test_a_panel_of_zeros_is_left_out_and_counted() -> None:
    rows = [kernel("k", dur_ns, rank=rank) for rank, dur_ns in enumerate((0, 7, 8))]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["rank 1", "rank 2"]
    assert "1 of 3 panels left out, all 0" in drawn.get_suptitle()


def test_a_panel_with_few_bars_leaves_room_to_the_others() -> None:
    rows = [{"run": "many", "rank": rank, "device": rank, "dur_ns": 5} for rank in range(12)]
    rows += [{"run": f"r{run}", "rank": 0, "device": 0, "dur_ns": 5} for run in range(8)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("stacked", "rank", "dur_ns", by="run"))
    assert len(labels(drawn)) == 12


def test_a_share_is_written_only_where_it_fits() -> None:
    rows = [
        {"run": "r", "rank": rank, "device": 0, "compute_ns": size, "idle_ns": size}
        for rank, size in enumerate((2, 98))
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("stacked", "rank", "compute_ns", "idle_ns", by="run"))
    assert [text.get_text() for text in drawn.axes[0].texts] == ["50%", "50%"]


def test_stacked_parts_begin_where_the_last_ended() -> None:
    rows = [{"run": "r", "rank": 0, "device": 0, "compute_ns": 3, "idle_ns": 1}]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("stacked", "rank", "compute_ns", "idle_ns", by="run"))
    assert [(bar.get_x(), bar.get_width()) for bar in drawn.axes[0].patches] == [(0.0, 3.0), (3.0, 1.0)]


def test_the_legend_of_stacked_bars_leaves_out_parts_that_are_0_in_all() -> None:
    rows = [{"run": "r", "rank": rank, "device": 0, "a_ns": 5, "b_ns": 0, "c_ns": 3 * rank} for rank in (0, 1)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("stacked", "rank", "a_ns", "b_ns", "c_ns"))
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "c"]
    beside = plot.figure(pa.Table.from_pylist(rows), question("bars", "rank", "a_ns", "b_ns", "c_ns"))
    assert [text.get_text() for text in beside.legends[0].get_texts()] == ["a", "b", "c"]


def test_rows_that_share_a_label_are_distinguished() -> None:
    rows = [
        {"direction": "HtoD", "src_memory": memory, "throughput_gb_per_s": speed}
        for memory, speed in (("Pageable", 4.0), ("Pinned", 24.0))
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "direction", "throughput_gb_per_s"))
    assert labels(drawn) == ["HtoD (Pinned)", "HtoD (Pageable)"]
    assert drawn.axes[0].get_xlabel() == "throughput (GB/s)"


def test_names_that_shorten_alike_are_cut_to_where_they_differ() -> None:
    rows = [kernel("k " * 20 + middle + " k" * 20, 5) for middle in "ab"]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert [text.lstrip("… k")[0] for text in labels(drawn)] == ["a", "b"]


def test_names_that_shorten_alike_wherever_they_are_cut_are_numbered() -> None:
    rows = [kernel("k" * 200 + middle + "k" * 200, 5) for middle in "ab"]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "kernel", "dur_ns"))
    assert [text[-3:] for text in labels(drawn)] == [" #1", " #2"]


@pytest.mark.parametrize(
    "name", ["$x$", r"$\frac{", "<script>", "A" * 5_000, "核\nb", "\x1b[2J", "%s{}", "_", "", "\0"]
)
@pytest.mark.parametrize("kind", ["bars", "stacked"])
def test_a_hostile_name_is_only_a_name(name: str, kind: ChartKind) -> None:
    drawn = plot.figure(pa.Table.from_pylist([kernel(name, 5)]), question(kind, "kernel", "dur_ns"))
    assert len(png(drawn)) > 1_000
    assert len(labels(drawn)[0]) <= 60


def test_a_kernel_without_a_name_is_labelled() -> None:
    drawn = plot.figure(pa.Table.from_pylist([kernel("", 5)]), question("bars", "kernel", "dur_ns"))
    assert labels(drawn) == ["(no name)"]


@pytest.mark.parametrize("kind", ["scatter", "line", "steps"])
def test_points_are_drawn_a_series_a_run(kind: ChartKind) -> None:
    rows = [{"run": run, "step": step, "dur_ns": 1_000 * step + 1} for run in ("$a$", "b") for step in range(3)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question(kind, "step", "dur_ns", by="run"))
    assert [line.get_label() for line in drawn.axes[0].lines] == ["$a$", "b"]
    assert len(png(drawn)) > 1_000


@pytest.mark.parametrize("rows", [[], [kernel("k", None)]])
def test_nothing_to_draw_is_reported(rows: list[Row]) -> None:
    table = pa.Table.from_pylist(rows, pa.schema({"kernel": pa.string(), "dur_ns": pa.int64()}))
    with pytest.raises(NoDataError, match="no rows to draw"):
        plot.figure(table, question("bars", "kernel", "dur_ns"))


def test_the_same_answer_gives_the_same_picture() -> None:
    table = pa.Table.from_pylist([kernel("k", 5)])
    pictures = []
    for _ in range(2):
        stream = io.BytesIO()
        plot.save(plot.figure(table, question("bars", "kernel", "dur_ns")), stream, fmt="svg")
        pictures.append(stream.getvalue())
    assert pictures[0] == pictures[1]


def test_a_label_has_the_text_that_only_some_rows_have() -> None:
    rows = [{"cause": "host", "detail": None}, *({"cause": "compute", "detail": name} for name in ("gemm", "norm"))]
    assert row_labels(rows, ["cause"]) == ["host", "compute (gemm)", "compute (norm)"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("void at::native::add<float>(int, float*)", "add<float>"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
        ("void (anonymous namespace)::softmax<4>(int)", "softmax<4>"),
        ("gemm", "gemm"),
        ("(", "("),
    ],
)
def test_a_kernel_is_named_without_what_all_have(name: str, plain: str) -> None:
    assert strip_signature(name) == plain


def pair(run: str, few: int | None, many: int | None) -> Row:
    return {"run": run, "rank": 0, "device": 0, "few": few, "many": many}


def test_figures_orders_of_magnitude_apart_stand_on_one_logarithmic_line() -> None:
    rows = [pair("a", 1_000, 400_000), pair("b", 5_000_000, 8_000_000), pair("c", None, 0)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("pairs", "run", "few", "many"))
    said = [text.get_text() for text in drawn.axes[0].texts]
    assert (labels(drawn), drawn.axes[0].get_xscale()) == (["a", "b"], "log")
    assert said == ["1.0 k", "400.0 k", "400 times", "5.0 M", "8.0 M"]


def test_pairs_without_a_figure_above_0_have_no_picture() -> None:
    with pytest.raises(NoDataError, match="few and many are 0 or unknown in every row"):
        plot.figure(pa.Table.from_pylist([pair("a", 0, None)]), question("pairs", "run", "few", "many"))


def test_the_legend_states_what_the_header_calls_a_column() -> None:
    chart = Chart("stacked", "kernel", ("dur_ns", "mean_ns"), None, labels={"dur_ns": "queue"})
    asked = replace(question("stacked", "kernel", "dur_ns", "mean_ns"), chart=chart)
    drawn = plot.figure(pa.Table.from_pylist([kernel("gemm", 7)]), asked)
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["queue", "mean"]


@pytest.mark.parametrize(
    ("machines", "said", "titles"),
    [
        (["bp", "bp"], ["compared with: bc", "this machine: bp"], [""]),
        (["bp", "bq"], ["compared with: bc", "this machine"], ["bp", "bq"]),
    ],
)
def test_the_legend_names_what_all_bars_share_and_a_panel_what_they_do_not(
    machines: list[str], said: list[str], titles: list[str]
) -> None:
    words = {"base_ns": "compared with[: {base}]", "dur_ns": "this machine[: {machine}]"}
    chart = Chart("bars", "kernel", ("base_ns", "dur_ns"), None, panel=("base", "machine"), labels=words)
    rows = [
        kernel(f"k{at}", 7) | {"base_ns": 9, "base": "bc", "machine": machine} for at, machine in enumerate(machines)
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), replace(question("bars", "kernel", "dur_ns"), chart=chart))
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == said
    assert [axes.get_title(loc="left") for axes in drawn.axes] == titles


def test_stacked_bars_stand_by_their_whole_length() -> None:
    rows = [{"kernel": "a", "first_ns": 5, "second_ns": 1}, {"kernel": "b", "first_ns": 2, "second_ns": 9}]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("stacked", "kernel", "first_ns", "second_ns"))
    assert labels(drawn) == ["b", "a"]


def test_rows_of_one_op_are_named_with_their_kernel() -> None:
    long = "sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize64x64x64"
    rows = [
        {"run": "r", "rank": 0, "device": 0, "op": op, "forward_op": forward, "kernel": name, "dur_ns": dur_ns}
        for op, forward, name, dur_ns in (
            ("aten::convolution_backward", "aten::conv2d", f"{long}_stage3", 9),
            ("aten::convolution_backward", "aten::conv2d", "void cudnn::bn_bw<float>(int)", 8),
            ("aten::mm", None, "volta_sgemm", 7),
            ("aten::mm", None, None, 6),
        )
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "op", "dur_ns"))
    assert labels(drawn) == [
        "aten::convoluti…ackward (aten::conv2d, sm80_xmma_fprop…_stage3)",
        "aten::convolution_backward (aten::conv2d, cudnn::bn_bw<float>)",
        "aten::mm (volta_sgemm)",
        "aten::mm",
    ]


def test_the_chart_of_the_critical_path_has_a_bar_for_each_class_and_a_panel_for_each_run() -> None:
    rows = [
        {"run": run, "class": name, "rank": None, "op": None, "dur_ns": dur_ns}
        for run, name, dur_ns in (("a", "gemm", 3_000_000), ("a", "copy", 1_000_000), ("b", "gemm", 2_000_000))
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), library.find("critical_path"))
    assert [labels(drawn, panel) for panel in (0, 1)] == [["gemm", "copy"], ["gemm"]]
    assert [bar.get_width() for axes in drawn.axes for bar in axes.patches] == [3.0, 1.0, 2.0]
    one_run = plot.figure(pa.Table.from_pylist(rows[:2]), library.find("critical_path"))
    assert one_run.get_suptitle() == "Critical path\na"  # the rank is NULL and not named


def test_the_chart_of_what_if_compares_each_class_before_and_after() -> None:
    rows = [{"run": "a", "class": "gemm", "before_ns": 3_000_000, "after_ns": 2_000_000}]
    drawn = plot.figure(pa.Table.from_pylist(rows), library.find("what_if"))
    assert (labels(drawn), [bar.get_width() for bar in drawn.axes[0].patches]) == (["gemm"], [3.0, 2.0])
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["before", "after"]


def test_the_balance_of_ranks_is_a_matrix_of_all_ranks_and_terms() -> None:
    rows = [
        {"run": "r", "rank": rank, "step": None, "term": term, "of_median_ratio": ratio}
        for term, ratios in (("compute", (1.0, 1.64)), ("wait", (1.0, 0.15)))
        for rank, ratio in enumerate(ratios)
    ]
    drawn = plot.figure(pa.Table.from_pylist(rows), library.find("rank_balance"))
    assert labels(drawn) == ["compute", "wait"]
    assert [text.get_text() for text in drawn.axes[0].texts] == ["1.0", "1.6", "1.0", "0.15"]
    assert [text.get_color() for text in drawn.axes[0].texts] == ["black", "black", "black", "white"]  # 1.0 is gray
    assert drawn.get_suptitle() == "Balance of ranks\nr · cells: amount, as a multiple of the median"


def test_bars_of_the_same_ranks_in_several_panels_are_not_counted_as_ranks() -> None:
    rows = [{"run": "r", "rank": rank, "step": step, "wait_ns": 10} for step in range(7) for rank in range(8)]
    drawn = plot.figure(pa.Table.from_pylist(rows), question("bars", "rank", "wait_ns", by="step"))
    assert "14 of 56 bars not drawn" in drawn.get_suptitle()
    five = plot.figure(pa.Table.from_pylist(rows[:40]), question("bars", "rank", "wait_ns", by="step"))
    assert [len(axes.patches) for axes in five.axes] == [8] * 5


def test_a_label_has_as_many_texts_of_its_row_as_distinguish_it() -> None:
    rows = [
        {"cause": cause, "detail": detail, "details": "gemm 67 %, norm 33 %"}
        for cause, detail in (("compute", "gemm"), ("compute", "norm"), ("host", None))
    ]
    rows[2]["details"] = None
    assert row_labels(rows, ["cause"]) == ["compute (gemm)", "compute (norm)", "host"]
