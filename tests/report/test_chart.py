"""What a chart is told to draw: all of an answer's rows count, also those that the table has no room for."""

from typing import Any

import pyarrow as pa
import pytest

from tracelab.query.library import library
from tracelab.query.spec import Chart
from tracelab.report.charts.bars import bar_panels
from tracelab.report.charts.chart import build_chart
from tracelab.report.charts.rows import AT, MOST_BEYOND, share_equally


def drawn(name: str, rows: list[dict[str, Any]], kept: list[int], *, several: bool = False) -> dict[str, Any]:
    found = build_chart(library()[name], pa.Table.from_pylist(rows), kept, several=several)
    assert found is not None
    return found


def kernels(count: int, run: str = "r", device: int = 0) -> list[dict[str, Any]]:
    """Kernels k1, k2 … of 1, 2 … ns, the longest first."""
    return [
        {"run": run, "rank": 0, "device": device, "kernel": f"k{dur}", "dur_ns": dur} for dur in range(count, 0, -1)
    ]


def test_kernels_without_a_bar_are_one_bar_of_their_sum() -> None:
    found = drawn("kernel_summary", kernels(20), list(range(20)))
    (panel,) = found["panels"]
    assert panel["labels"][-1] == "others (5 kernels)"
    assert panel["rows"] == [*range(15), 20]
    assert panel["others"] == 20
    assert found["beyond"] == [[None, 5 + 4 + 3 + 2 + 1, None]]


def test_the_sum_of_the_others_follows_rows_of_the_table_without_a_bar() -> None:
    unknown = {"run": "r", "rank": 0, "device": 0, "kernel": "k", "dur_ns": None}
    found = drawn("kernel_summary", [*kernels(20), unknown, unknown], list(range(22)))
    (panel,) = found["panels"]
    assert (panel["rows"][-1], panel["others"], found["beyond"]) == (22, 22, [[None, 15, None]])


def test_rows_that_the_table_lacks_bring_their_figures() -> None:
    found = drawn("kernel_summary", kernels(3), [0])
    assert found["panels"][0]["rows"] == [0, 1, 2]
    assert found["panels"][0]["labels"] == ["k3", "k2", "k1"]
    assert (found["beyond"], found["runs"]) == ([[None, 2, 0], [None, 1, 0]], ["r"])


def test_each_of_many_devices_has_its_longest_and_the_sum_of_the_others() -> None:
    rows = [row for device in range(60) for row in kernels(12, device=device)]
    found = drawn("kernel_summary", rows, [12 * device for device in range(60)])
    assert {tuple(panel["labels"]) for panel in found["panels"]} == {
        (*(f"k{at}" for at in range(12, 2, -1)), "others (2 kernels)")
    }
    assert len(found["panels"]) == 60
    assert {found["beyond"][panel["others"] - 60][1] for panel in found["panels"]} == {3}


def test_of_many_ranks_those_with_the_most_time_have_a_panel() -> None:
    rows = [row | {"rank": rank, "dur_ns": rank + row["dur_ns"]} for rank in range(100) for row in kernels(2)]
    found = drawn("kernel_summary", rows, list(range(20)))
    assert [panel["title"] for panel in found["panels"]] == [f"rank {rank}" for rank in range(36, 100)]
    assert found["note"] == "36 of 100 rank and device values not drawn, those with the least"
    of_two_runs = drawn("kernel_summary", [*rows, *(row | {"run": "s"} for row in rows)], [], several=True)
    assert [panel["run"] for panel in of_two_runs["panels"]] == [0] * 32 + [1] * 32


def test_bars_beyond_the_table_are_bounded() -> None:
    rows = [row for device in range(1_000) for row in kernels(40, device=device)]
    found = drawn("kernel_summary", rows, [40 * device for device in range(1_000)])
    others = [found["beyond"][panel["others"] - 1_000][1] for panel in found["panels"]]
    assert others == [sum(range(1, 32))] * 64
    assert len(found["beyond"]) - len(others) <= MOST_BEYOND


def test_shares_do_not_add_up_so_they_are_counted() -> None:
    rows = [
        {"run": "r", "rank": 0, "device": 0, "collective": f"c{at}"}
        | dict.fromkeys(library()["nccl_share"].chart.y, at / 100)  # type: ignore[union-attr]
        for at in range(18, 0, -1)
    ]
    (panel,) = drawn("nccl_share", rows, list(range(18)))["panels"]
    assert (len(panel["rows"]), panel["note"]) == (15, "3 of 18 collectives not drawn")


def test_kernels_of_no_length_are_counted_not_added_up() -> None:
    rows = [*kernels(15), *({**row, "kernel": f"z{row['kernel']}", "dur_ns": 0} for row in kernels(2))]
    (panel,) = drawn("kernel_summary", rows, list(range(17)))["panels"]
    assert (panel["rows"], panel["note"]) == (list(range(15)), "2 of 17 kernels not drawn, all 0")


def test_a_sum_beyond_a_scripts_numbers_is_exact_text() -> None:
    rows = [{**row, "dur_ns": 2**53 + 2 * row["dur_ns"] + 1} for row in kernels(16)]
    assert drawn("kernel_summary", rows, list(range(16)))["beyond"] == [[None, "9007199254740995", None]]


def test_stacked_bars_leave_out_parts_that_are_0_in_all_panels() -> None:
    parts = library()["gpu_breakdown"].chart.y  # type: ignore[union-attr]
    rows = [
        {"run": run, "rank": 0, "device": 0} | dict.fromkeys(parts, 0) | {parts[0]: 5, parts[3]: idle_ns}
        for run, idle_ns in (("r", 0), ("s", 3))
    ]
    assert [panel["y"] for panel in drawn("gpu_breakdown", rows, [0, 1], several=True)["panels"]] == [[0, 3]]


def test_panels_of_each_unit_name_the_same_rows() -> None:
    rows = [row | {"flop": 10 * row["dur_ns"], "dram_bytes": 64} for row in kernels(18)]
    found = drawn("kernel_flop", rows, [0, 1, 17])
    assert [panel["rows"] for panel in found["panels"]] == [list(range(2)) + list(range(3, 17))] * 3
    assert [panel["others"] for panel in found["panels"]] == [16] * 3
    assert found["beyond"][-1] == [None, 3 + 2 + 1, 60, 192, None]
    assert found["beyond"][0] == [None, 16, 160, 64, 0]


def test_a_long_curve_keeps_its_peak() -> None:
    rows = [
        {"run": "r", "rank": 0, "device": 0, "at_ns": at, "allocated_bytes": 9 if at == 4_567 else 1}
        | {"reserved_bytes": None}
        for at in range(10_000)
    ]
    found = drawn("memory_timeline", rows, list(range(100)))
    (panel,) = found["panels"]
    places = panel["series"][0]["rows"]
    assert len(places) == 100 + MOST_BEYOND
    assert [figures for figures in found["beyond"] if figures[1] == 9] == [[4_567, 9, None, 0]]
    assert panel["note"] == "1,600 of 10,000 points drawn, the highest of each stretch"


def test_panels_of_a_sweep_double_alike() -> None:
    cells = [("alexnet", 16), ("alexnet", 256), ("vgg16", 16), ("vgg16", 64)]
    rows = [
        {"sweep": "s", "run": f"{model}{size}", "model": model, "variant": None, "layout": "1 GPU", "batch_size": size}
        | {"samples_per_s": 5.0}
        for model, size in cells
    ]
    panels = drawn("sweep_throughput", rows, list(range(4)))["panels"]
    assert [(panel["title"], panel["log"], panel["run"]) for panel in panels] == [
        ("alexnet", [True, False], 0),
        ("vgg16", [True, False], 0),
    ]


def test_a_line_has_its_colour_in_every_panel() -> None:
    cells = [("alexnet", "1 GPU"), ("alexnet", "2 GPUs"), ("vgg16", "2 GPUs")]
    rows = [
        {"sweep": "s", "run": f"{model} {layout}", "model": model, "variant": None, "layout": layout, "batch_size": 1}
        | {"samples_per_s": 5.0}
        for model, layout in cells
    ]
    panels = drawn("sweep_throughput", rows, list(range(3)))["panels"]
    inks = [[(series["name"], series["ink"]) for series in panel["series"]] for panel in panels]
    assert inks == [[("1 GPU", 0), ("2 GPUs", 1)], [("2 GPUs", 1)]]


def test_names_stand_in_charts_as_they_are() -> None:
    rows = [{**row, "kernel": "日本🔥", "run": "実行"} for row in kernels(1)]
    (panel,) = drawn("kernel_summary", rows, [0], several=True)["panels"]
    assert (panel["title"], panel["labels"]) == ("実行", ["日本🔥"])


@pytest.mark.parametrize(
    ("sizes", "most", "share"),
    [([1, 1, 10], 6, 4), ([3, 3], 100, 3), ([5, 5, 5], 2, 1), ([7, 2], 8, 6), ([4, 4], 7, 3)],
)
def test_room_that_small_groups_leave_goes_to_large_ones(sizes: list[int], most: int, share: int) -> None:
    assert share_equally(sizes, most) == share


def test_runs_that_are_named_alike_at_both_ends_have_bars_that_are_named_apart() -> None:
    runs = [f"generated-scaling-alexnet-b{batch}-g2-ddp" for batch in (16, 128)]
    shares = {"dur_ns": 3, "busy_ns": 1, "of_busy_ratio": 0.5}
    rows = [{"run": run, "rank": rank, "device": 0} | shares for run in runs for rank in (0, 1)]
    bars = bar_panels(
        [row | {AT: at} for at, row in enumerate(rows)],
        4,
        Chart("bars", "device", ("of_busy_ratio",), None),
        ["run", "rank"],
    )
    assert bars[0]["labels"] == [f"…{name} · rank {rank} · GPU 0" for name in ("b16…", "b128…") for rank in (0, 1)]


def test_a_timeline_has_a_panel_for_each_rank_and_its_parts_as_layers() -> None:
    parts = ("gpu_ns", "communication_ns", "cpu_ns", "waiting_ns", "unknown_ns", "elsewhere_ns")
    rows = [
        {"run": "r", "rank": rank, "at_ns": at_ns, "bin_ns": 10} | dict(zip(parts, figures, strict=True))
        for rank, at_ns, figures in (
            (0, 0, (4, 0, 0, 5, 1, 0)),
            (0, 10, (0, 0, 0, 0, 0, 10)),
            (1, 0, (0, 0, 0, 0, 0, 10)),
            (1, 10, (0, 1, 9, 0, 0, 0)),
        )
    ]
    chart = drawn("critical_path_timeline", rows, [0, 1, 2, 3])
    layers = [
        (panel["title"], [(each["name"], each["ink"], each["rows"]) for each in panel["series"]])
        for panel in chart["panels"]
    ]
    assert layers == [
        (
            "rank 0",
            [
                ("GPU", 0, [0, 1]),
                ("gaps, synchronization", 2, [0, 1]),
                ("unknown", 4, [0, 1]),
                ("path on other ranks", "idle", [0, 1]),
            ],
        ),
        ("rank 1", [("communication", 3, [2, 3]), ("CPU", 1, [2, 3]), ("path on other ranks", "idle", [2, 3])]),
    ]
    assert (chart["x"]["name"], {panel["join"] for panel in chart["panels"]}) == ("time since the start", {"step"})
