"""Every form in which ncu writes, small and hand-made: rows in, rows out."""

import gzip
import json

import pytest

from tests.ncu import Cell, Kernel, Rule, details_csv, golden_roofline, raw_csv
from tests.readers.small import Lab, ingest_bytes

AXPY, DOT = Kernel(), Kernel("dot(float *)", id=1, stream="13", block="(32, 4, 1)", grid="(9, 1, 1)")


def ingest(tmp_path, content: str | bytes, name: str = "ncu.csv") -> Lab:
    return ingest_bytes(tmp_path, content, name)


def values(lab: Lab) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("launch", "metric", "value", "unit")) for row in lab.rows("kernel_metrics")]


def page(*cells: Cell) -> str:
    return details_csv([(AXPY, cell) for cell in cells])


def test_a_details_page_has_a_row_for_each_launch_section_and_metric(tmp_path):
    lab = ingest(
        tmp_path, details_csv([(AXPY, Cell("dram__bytes.sum", "Kbyte", "32.77")), (DOT, Cell("a__b.sum", "", "7"))])
    )
    first, second = lab.rows("kernel_metrics")
    del first["run"], first["source"]
    assert {name: value for name, value in first.items() if value is not None} == {
        "rank": 0,
        "pid": 4242,
        "launch": 0,
        "device": 0,
        "context": 1,
        "stream": 7,
        "kernel": "axpy(float *, float)",
        "grid_x": 64,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 128,
        "block_y": 1,
        "block_z": 1,
        "section": "Command line profiler metrics",
        "metric": "dram__bytes.sum",
        "value": 32770.0,
        "unit": "byte",
    }
    assert (second["launch"], second["stream"], second["block_y"], second["unit"]) == (1, 13, 4, None)
    assert lab.counts == (2, 2, 0)


def test_a_raw_page_has_a_column_for_each_metric_and_its_units_in_the_second_row(tmp_path):
    units = {"gpu__time_duration.sum": "usecond", "dram__bytes.sum": "Mbyte", "launch__func_cache_config": ""}
    launches = [(AXPY, ["10.72", "1,215.5", "CachePreferNone"]), (DOT, ["3", "", "n/a"])]
    lab = ingest(tmp_path, raw_csv(units, launches))
    assert values(lab) == [
        (0, "gpu__time_duration.sum", 10720.0, "ns"),
        (0, "dram__bytes.sum", 1215500000.0, "byte"),
        (0, "launch__func_cache_config", None, None),
        (1, "gpu__time_duration.sum", 3000.0, "ns"),
        (1, "launch__func_cache_config", None, None),
    ]
    assert [row["text"] for row in lab.rows("kernel_metrics")][2::2] == ["CachePreferNone", "n/a"]
    assert lab.counts == (2, 2, 0)


def test_columns_that_old_raw_pages_lack_are_taken_from_the_launch_s_metrics(tmp_path):
    sizes = {f"launch__{what}_dim_{axis}": "" for what in ("block", "grid") for axis in "xyz"} | {
        "launch__device_id": ""
    }
    values = ["1,024.000000", "1.000000", "1.000000", "80", "2", "1", "3"]
    without = ["Block Size", "Grid Size", "Device", "CC"]
    row = ingest(tmp_path, raw_csv(sizes, [(AXPY, values)], without=without)).rows("kernel_metrics")[0]
    assert [row[f"{what}_{axis}"] for what in ("block", "grid") for axis in "xyz"] == [1024, 1, 1, 80, 2, 1]
    assert row["device"] == 3


def test_old_details_pages_leave_shape_and_device_open(tmp_path):
    content = details_csv([(AXPY, Cell("a__b.sum", "", "1"))], without=["Block Size", "Grid Size", "Device", "CC"])
    row = ingest(tmp_path, content).one("kernel_metrics")
    assert [row[name] for name in ("device", "grid_x", "grid_y", "grid_z", "block_x")] == [None] * 5


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("10.72", "us"), ("10720", "nsecond")),
        (("10.72", "usecond"), ("10.72", "us")),
        (("32.77", "Kbyte"), ("32770", "byte")),
        (("1.31", "cycle/nsecond"), ("1.31", "Ghz")),
        (("76.44", "Gbyte/second"), ("76.44", "byte/ns")),
        (("1,215.5", "Mbyte"), ("1215500000.000", "byte")),
    ],
)
def test_units_of_two_versions_have_equal_values(tmp_path, one, other):
    stored = []
    for name, (value, unit) in (("one", one), ("other", other)):
        (tmp_path / name).mkdir()
        stored.append(values(ingest(tmp_path / name, page(Cell("a__b.sum", unit, value)))))
    assert stored[0] == stored[1]


def test_labels_are_metrics_under_another_name(tmp_path):
    section = "GPU Speed Of Light Throughput"
    lab = ingest(
        tmp_path,
        page(
            Cell("Memory Throughput", "%", "49.19", section),
            Cell("Memory Throughput", "Gbyte/s", "925.12", "Memory Workload Analysis"),
            Cell("Duration (gpu__time_duration.sum)", "us", "1", section),
            Cell("Nobody Knows", "", "1", section),
        ),
    )
    assert [(row["metric"], json.loads(row["args"] or "{}")) for row in lab.rows("kernel_metrics")] == [
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", {"label": "Memory Throughput"}),
        ("dram__bytes.sum.per_second", {"label": "Memory Throughput"}),
        ("gpu__time_duration.sum", {"label": "Duration"}),
        ("Nobody Knows", {}),
    ]


def test_a_metric_in_two_sections_is_two_rows(tmp_path):
    sections = ("GPU Speed Of Light Throughput", "GPU Speed Of Light Roofline Chart")
    rows = ingest(tmp_path, page(*(Cell("DRAM Frequency", "Ghz", "1.5", section) for section in sections)))
    assert [(row["section"], row["metric"]) for row in rows.rows("kernel_metrics")] == [
        (section, "dram__cycles_elapsed.avg.per_second") for section in sections
    ]


def test_former_names_become_current_and_stay_in_args(tmp_path):
    lab = ingest(tmp_path, page(Cell("dram__read_bytes.sum", "byte", "1"), Cell("flop_count_sp_fma", "", "2")))
    assert [(row["metric"], json.loads(row["args"])) for row in lab.rows("kernel_metrics")] == [
        ("dram__bytes_read.sum", {"earlier_name": "dram__read_bytes.sum"}),
        ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", {"earlier_name": "flop_count_sp_fma"}),
    ]


def test_flop_count_hp_has_no_current_name(tmp_path):
    row = ingest(tmp_path, page(Cell("flop_count_hp.sum", "", "n/a"))).one("kernel_metrics")
    assert (row["metric"], row["value"], row["text"]) == ("flop_count_hp.sum", None, "n/a")


@pytest.mark.parametrize("text", ["n/a", "(!) n/a", "nan", "inf", "-inf", "no data"])
def test_a_value_that_is_not_a_number_is_text(tmp_path, text):
    row = ingest(tmp_path, page(Cell("a__b.sum", "Kbyte", text))).one("kernel_metrics")
    assert (row["value"], row["text"], row["unit"]) == (None, text, "byte")


def test_instances_are_rows_of_their_own(tmp_path):
    lab = ingest(tmp_path, page(Cell("a__b.sum", "Kbyte", "1.5 (1; 0.5)"), Cell("c__d", "", "n/a")))
    assert [(row["metric"], row["instance"], row["value"]) for row in lab.rows("kernel_metrics")] == [
        ("a__b.sum", None, 1500.0),
        ("a__b.sum", "0", 1000.0),
        ("a__b.sum", "1", 500.0),
        ("c__d", None, None),
    ]


def test_the_advice_of_rules_names_its_launch(tmp_path):
    rule = Rule("SOLBottleneck", "OPT", "Do less.\nDo it later.", gain_kind="local", gain="98.51")
    note = Rule("Occupancy", "INF", "All is well.", section="Occupancy")
    lab = ingest(tmp_path, details_csv([(AXPY, Cell("a__b.sum", "", "1")), (DOT, rule), (DOT, note)]))
    assert [(row["severity"], row["message"]) for row in lab.rows("diagnostics") if row["code"] == "ncu_rule"] == [
        (
            "warning",
            "launch 1, dot(float *): OPT SOLBottleneck (SpeedOfLight): Do less. Do it later. "
            "Estimated speedup: 98.51 % (local).",
        ),
        ("info", "launch 1, dot(float *): INF Occupancy (Occupancy): All is well."),
    ]
    assert lab.counts == (3, 3, 0)


def test_nvtx_ranges_in_a_csv_are_in_args(tmp_path):
    column = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    content = page(Cell("a__b.sum", "", "1")).replace('"Kernel Name"', f'"{column}","Kernel Name"')
    content = content.replace('"axpy', '"4242  ""<default domain>:forward:none""","axpy')
    row = ingest(tmp_path, content).one("kernel_metrics")
    assert json.loads(row["args"]) == {"nvtx_push_pop": '4242  "<default domain>:forward:none"'}
    assert row["kernel"] == "axpy(float *, float)"


def test_columns_are_found_by_name_at_any_position(tmp_path):
    content = (
        ",Kernel Name,Metric Value,Metric Unit,Metric Name,Novelty,ID,Process ID\n"
        '0,axpy(),"1,024",Kbyte,a__b.sum,new,5,77\n'
        '1,"dot(int, int)",2,byte,a__b.sum,,6,77\n'
    )
    rows = ingest(tmp_path, content).rows("kernel_metrics")
    assert [(row["launch"], row["pid"], row["kernel"], row["value"]) for row in rows] == [
        (5, 77, "axpy()", 1024000.0),
        (6, 77, "dot(int, int)", 2.0),
    ]
    assert [row["args"] for row in rows] == ['{"Novelty": "new"}', None]


PAGE = page(Cell("a__b.sum", "Kbyte", "32.77"), Cell("Größe", "", "1"))


@pytest.mark.parametrize(
    "content",
    [
        PAGE.encode(),
        b"\xef\xbb\xbf" + PAGE.encode(),
        b"\xff\xfe" + PAGE.encode("utf-16-le"),
        b"\xfe\xff" + PAGE.encode("utf-16-be"),
        PAGE.encode("cp1252"),
        PAGE.replace("\n", "\r\n").encode(),
        gzip.compress(PAGE.encode()),
        details_csv(
            [(AXPY, Cell("a__b.sum", "Kbyte", "32.77")), (AXPY, Cell("Größe", "", "1"))], separator=";"
        ).encode(),
        details_csv(
            [(AXPY, Cell("a__b.sum", "Kbyte", "32.77")), (AXPY, Cell("Größe", "", "1"))], separator="\t"
        ).encode(),
        PAGE.rstrip("\n").encode(),
    ],
    ids=["utf-8", "utf-8 mark", "utf-16", "utf-16 be", "cp1252", "crlf", "gzip", "semicolon", "tab", "no last end"],
)
def test_encoding_packing_and_separator_make_no_difference(tmp_path, content):
    assert values(ingest(tmp_path, content)) == [(0, "a__b.sum", 32770.0, "byte"), (0, "Größe", 1.0, None)]


def test_decimal_commas_are_detected_in_several_cells(tmp_path):
    cells = [Cell("a__b.sum", "Mbyte", "65,77"), Cell("c__d", "", "27.595.520"), Cell("e__f", "", "1.234")]
    lab = ingest(tmp_path, details_csv([(AXPY, cell) for cell in cells], separator=";"))
    assert [row["value"] for row in lab.rows("kernel_metrics")] == [65770000.0, 27595520.0, 1234.0]
    assert lab.diagnostics() == {"decimal_comma"}


@pytest.mark.parametrize("grid", ["(1.024, 1, 2)", "(1,024, 1, 2)", "(1024, 1, 2)"])
def test_a_grid_has_the_separators_of_its_locale(tmp_path, grid):
    lab = ingest(tmp_path, details_csv([(Kernel(grid=grid), Cell("a__b.sum", "", "7"))], separator=";"))
    assert [[row[f"grid_{axis}"] for axis in "xyz"] for row in lab.rows("kernel_metrics")] == [[1024, 1, 2]]
    assert lab.diagnostics() == set()


def test_one_odd_cell_is_no_decimal_comma_and_stays_text(tmp_path):
    lab = ingest(tmp_path, page(Cell("a__b.sum", "", "65,77"), Cell("c__d", "", "1.234")))
    assert [(row["value"], row["text"]) for row in lab.rows("kernel_metrics")] == [(None, "65,77"), (1.234, None)]
    assert lab.diagnostics() == {"number_unreadable"}


def test_several_processes_are_ranks_by_process_id(tmp_path):
    rows = [(Kernel(pid=pid), Cell("a__b.sum", "", str(pid))) for pid in (900, 17, 450)]
    lab = ingest(tmp_path, details_csv(rows), "ncu.rank7.csv")
    assert [(row["pid"], row["rank"]) for row in lab.rows("kernel_metrics")] == [(900, 2), (17, 0), (450, 1)]
    assert sorted(row["rank"] for row in lab.rows("devices")) == [0, 1, 2]
    assert lab.diagnostics() == {"ranks_by_pid"}


def test_one_process_has_the_rank_of_the_file_s_name(tmp_path):
    lab = ingest(tmp_path, PAGE, "ncu.rank3.csv")
    assert {row["rank"] for row in lab.rows("kernel_metrics")} == {3}
    assert lab.rows("diagnostics") == []


def test_a_device_that_ncu_knows_nothing_of_is_absent(tmp_path):
    lab = ingest(tmp_path, details_csv([(Kernel(device="255", cc="0.0"), Cell("a__b.sum", "", "1"))]))
    assert lab.one("kernel_metrics")["device"] is None
    assert lab.rows("devices") == []


def test_the_golden_roofline_is_stored_under_the_names_of_its_metrics(tmp_path):
    lab = ingest(tmp_path, golden_roofline())
    by_name = {(row["metric"], row["unit"]): row["value"] for row in lab.rows("kernel_metrics")}
    fma, add = (
        "derived__smsp__sass_thread_inst_executed_op_ffma_pred_on_x2",
        "smsp__sass_thread_inst_executed_op_fadd_pred_on",
    )
    flop_per_s = (by_name[fma, "inst"] + by_name[f"{add}.sum.per_cycle_elapsed", "inst/cycle"]) * by_name[
        "smsp__cycles_elapsed.avg.per_second", "Hz"
    ]
    assert round(flop_per_s / 1e9, 2) == 344.19
    assert round(flop_per_s / by_name["dram__bytes.sum.per_second", "byte/s"], 5) == 0.99726
    assert round(by_name["dram__bytes_read.sum", "byte"] / by_name["gpu__time_duration.sum", "ns"], 2) == 345.19


def test_the_format_and_the_tool_are_named(tmp_path):
    source = ingest(tmp_path, PAGE).source
    assert [source[name] for name in ("format", "producer", "complete", "clock")] == [
        "ncu",
        "Nsight Compute",
        True,
        None,
    ]
