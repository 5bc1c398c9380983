"""What ncu prints without --csv, and its session page: the same rows as from CSV."""

import json

import pytest

from tests.ncu import Cell, Kernel, Rule, console_text, details_csv
from tests.readers.small import Lab, ingest_bytes

AXPY, DOT = Kernel(), Kernel("dot(float *)", id=1, stream="13", block="(32, 4, 1)", grid="(9, 1, 1)")


def ingest(tmp_path, content: str, name: str = "ncu.txt") -> Lab:
    return ingest_bytes(tmp_path, content, name)


def values(lab: Lab) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in ("launch", "metric", "value", "unit")) for row in lab.rows("kernel_metrics")]


def page(*cells: Cell) -> str:
    return details_csv([(AXPY, cell) for cell in cells])


@pytest.mark.parametrize("widths", [(70, 15, 30), (38, 11, 20), (23, 13, 12)])
@pytest.mark.parametrize("headings", [False, True])
def test_console_text_has_the_rows_of_the_details_page(tmp_path, widths, headings):
    rows = [
        (AXPY, Cell("Duration", "usecond", "10.72", "GPU Speed Of Light Throughput")),
        (AXPY, Cell("SM Frequency", "cycle/nsecond", "1.31", "GPU Speed Of Light Throughput")),
        (AXPY, Cell("Waves Per SM", "", "0.18", "Launch Statistics")),
        (AXPY, Rule("", "WRN", "This grid is small.", "Launch Statistics")),
        (DOT, Cell("Function Cache Configuration", "", "PreferNone", "Launch Statistics")),
        (DOT, Cell("dram__bytes.sum", "Mbyte", "5,318.97")),
    ]
    stored = []
    for name, content in (("csv", details_csv(rows)), ("text", console_text(rows, widths=widths, headings=headings))):
        (tmp_path / name).mkdir()
        lab = ingest(tmp_path / name, content)
        assert lab.counts == (6, 6, 0)
        stored.append([{k: v for k, v in row.items() if k != "source"} for row in lab.rows("kernel_metrics")])
    assert stored[0] == stored[1]
    assert stored[1][3]["text"] == "PreferNone"


def test_the_oldest_console_names_a_date_and_no_shape(tmp_path):
    text = console_text([(Kernel("axpy(float *)", grid="", device=""), Cell("dram__bytes.sum", "Mbyte", "5.32"))])
    text = text.replace(", Context 1", ", 2021-Nov-01 09:55:10, Context 1")
    row = ingest(tmp_path, text, "out.txt").one("kernel_metrics")
    assert (row["kernel"], row["stream"], row["grid_x"], row["device"]) == ("axpy(float *)", 7, None, None)
    assert json.loads(row["args"]) == {"kernel_time": "2021-Nov-01 09:55:10"}
    assert (row["value"], row["unit"]) == (5320000.0, "byte")


def test_a_name_wider_than_its_console_column_moves_the_others(tmp_path):
    name = "smsp__sass_thread_inst_executed_op_fadd_pred_on_and_some_more_of_it_to_make_it_long.sum"
    text = console_text([(AXPY, Cell(name, "inst", "913,129,472")), (AXPY, Cell("b__c.sum", "", "1"))])
    assert values(ingest(tmp_path, text))[0] == (0, name, 913129472.0, "inst")


def test_a_console_cell_goes_on_in_the_next_line(tmp_path):
    text = console_text(
        [(AXPY, Cell("inst_executed", "inst", "60 (0x10: 10; 0x20:"))], widths=(14, 11, 20), headings=True
    )
    text = text.replace("0x20:\n", "0x20:\n" + " " * 4 + " " * 14 + " " * 13 + "       50)\n".rjust(21))
    rows = ingest(tmp_path, text).rows("kernel_metrics")
    assert [(row["instance"], row["value"]) for row in rows] == [(None, 60.0), ("0x10", 10.0), ("0x20", 50.0)]


def test_console_launches_are_numbered_in_each_process(tmp_path):
    other = Kernel("other()", pid=4243)
    rows = [(AXPY, Cell("a__b.sum", "", "1")), (DOT, Cell("a__b.sum", "", "2")), (other, Cell("a__b.sum", "", "3"))]
    stored = ingest(tmp_path, console_text(rows)).rows("kernel_metrics")
    assert [(row["pid"], row["launch"], row["rank"]) for row in stored] == [(4242, 0, 0), (4242, 1, 0), (4243, 0, 1)]


def test_console_text_shows_that_clocks_were_not_fixed(tmp_path):
    text = console_text([(AXPY, Cell("a__b.sum", "", "1"))])
    warning = (
        "    Warning: Data collection happened without fixed GPU frequencies. Profiling results may be inconsistent.\n"
    )
    row = ingest(tmp_path, text.replace("    Section", warning + "    Section")).one("kernel_metrics")
    assert row["clock_control"] == "none"


def test_nvtx_ranges_on_the_console_are_in_args(tmp_path):
    text = console_text([(AXPY, Cell("a__b.sum", "", "1"))])
    ranges = "    NVTX Push/Pop Stack for Thread 4242:\n     <0,default domain>\n        <0,forward>\n"
    row = ingest(tmp_path, text.replace("    Section", ranges + "    Section")).one("kernel_metrics")
    assert json.loads(row["args"])["nvtx"].splitlines()[1:] == ["<0,default domain>", "<0,forward>"]


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("+ ncu --set full --clock-control none -o x ./axpy", "none"),
        ('Profiler Command Line "ncu --clock-control=base ./axpy"', "base"),
        ("my_tool --clock-control none", None),
        ("ncu --set full ./axpy", None),
    ],
)
def test_the_clocks_are_those_of_a_recorded_command_line(tmp_path, text, clock):
    assert (
        ingest(tmp_path, text + "\n" + page(Cell("a__b.sum", "", "1"))).one("kernel_metrics")["clock_control"] == clock
    )


def test_the_session_page_has_devices_and_no_names_of_people(tmp_path):
    content = (
        'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu --secret ./axpy"\n\n'
        'Session Info\n"Session Attribute","Value"\n"Host Name","node17"\n"Nsight Compute","2024.1.1.0"\n\n'
        'Processes\n"Process Id","Process Name"\n"4242","train.py"\n\n'
        'Device Attributes\n"Device Attribute","Device 0","Device 1"\n"display_name","A100","H100"\n'
        '"multiprocessor_count","108","132"\n"total_memory","42949672960","85899345920"\n"clock_rate","1410000","1980000"\n'
        '"compute_capability_major","8","9"\n"compute_capability_minor","0","0"\n'
    )
    lab = ingest(tmp_path, content)
    names = ("device", "name", "sm_count", "memory_bytes", "spec_clock_hz", "compute_capability", "rank")
    assert [tuple(row[name] for name in names) for row in lab.rows("devices")] == [
        (0, "A100", 108, 42949672960, 1410000000.0, "8.0", 0),
        (1, "H100", 132, 85899345920, 1980000000.0, "9.0", 0),
    ]
    assert lab.source["producer_version"] == "2024.1.1.0"
    assert lab.rows("kernel_metrics") == []
    assert not any(word in lab.texts() for word in ("node17", "train.py", "--secret"))


def test_the_session_page_as_console_text(tmp_path):
    content = (
        "Session Info\n----------------- ----------\nSession Attribute Value     \n----------------- ----------\n"
        "Nsight Compute    2024.1.1.0\n\nDevice Attributes\n-------------------- --------\n"
        "Device Attribute     Device 0\n-------------------- --------\nmultiprocessor_count 108     \n"
    )
    lab = ingest(tmp_path, content, "session.txt")
    assert (lab.one("devices")["sm_count"], lab.source["producer_version"]) == (108, "2024.1.1.0")


def test_the_console_prints_a_rule_s_gain_before_its_text(tmp_path):
    text = console_text([(AXPY, Cell("a__b.sum", "", "1")), (AXPY, Rule("", "OPT", "Est. Local Speedup: 12.5%"))])
    lab = ingest(tmp_path, text.rstrip("\n") + "\n" + " " * 10 + "Do less work.\n    ----- " + "-" * 60 + "\n")
    (message,) = [row["message"] for row in lab.rows("diagnostics") if row["code"] == "ncu_rule"]
    assert message.endswith(f"OPT ({Cell('', '', '').section}): Do less work. Estimated speedup: 12.5 % (local).")


def test_dashes_that_damage_repeated_leave_the_rows_as_they_are(tmp_path):
    text = console_text([(AXPY, Cell("Duration", "ns", "7009", "Speed Of Light"))])
    lab = ingest(tmp_path, text.replace("-" * 70, "-" * 470, 1))
    assert values(lab) == [(0, "Duration", 7009.0, "ns")]
