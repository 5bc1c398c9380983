"""Small results as nvprof prints them, form by form, and the rows they make."""

import json
from pathlib import Path

import pytest

from tests.readers.small import Lab, Row, ingest_bytes

HELLO = "==77== NVPROF is profiling process 77, command: ./secret --token abc\n"
RESULT = "==77== Profiling application: ./secret --token abc\n==77== Profiling result:\n"

GPU_TRACE = (
    HELLO
    + RESULT
    + '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
    '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context",'
    '"Stream","Name","Correlation_ID"\n'
    "ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,\n"
    '10.000001,2.500000,,,,,,,,,,4.000000,1.500000,"Pinned","Device","Tesla X (1)","1","7","[CUDA memcpy HtoD]",11\n'
    '10.010000,1.000000,,,,,,,,,,1.000000,1.000000,"Device",,"Tesla X (1)","1","7","[CUDA memset]",12\n'
    '10.020000,30.250000,8,4,2,64,2,1,18,1.500000,16,,,,,"Tesla X (1)","1","13","void scale<int, 2>(float*, int)",13\n'
)
CONSOLE_TRACE = (
    HELLO
    + RESULT
    + "   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput"
    "           Device   Context    Stream  Name\n"
    "133.81ms  781.55us                    -               -         -         -         -  1.5000MB  1.0000GB/s"
    "  Tesla X (1)         1         7  [CUDA memcpy HtoD]\n"
    "134.62ms  1.0e-3s              (8 4 2)        (64 2 1)        18      1.5KB       16B         -           -"
    "  Tesla X (1)         1         7  void scale<int>(float*, int) [119]\n"
    "\n"
    "Regs: Number of registers used per CUDA thread.\n"
    "SSMem: Static shared memory allocated per CUDA block.\n"
)
SUMMARY = (
    HELLO + RESULT + "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    " GPU activities:   75.00%  3.0000ms         2  1.5000ms  1.2340us  2.9988ms  scale(float*)\n"
    "                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy HtoD]\n"
    "      API calls:  100.00%  2.00000s         4  500.00ms     517ns  1.50000s  cudaMalloc\n"
)
OLD_SUMMARY = (
    HELLO + RESULT + "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    "100.00%  3.0000ms         2  1.5000ms  1.2340us  2.9988ms  scale(float*)\n"
    "\n"
    "==77== API calls:\n"
    "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    "100.00%  2.00000s         4  500.00ms     517ns  1.50000s  cudaMalloc\n"
)


def read(folder: Path, text: str | bytes, name: str = "log.txt") -> Lab:
    return ingest_bytes(folder, text, name)


def part(row: Row, *columns: str) -> tuple[object, ...]:
    return tuple(row[column] for column in columns)


# ---------------------------------------------------------------------------------------------------------- traces


def test_kernel_of_a_csv_trace(tmp_path: Path) -> None:
    row = read(tmp_path, GPU_TRACE).one("kernels")
    expected = {
        "pid": 77,
        "device": 1,
        "context": 1,
        "stream": 13,
        "start_ns": 10_020_000,
        "dur_ns": 30_250,
        "correlation": 13,
        "name": "void scale<int, 2>(float*, int)",
        "registers": 18,
        "grid_x": 8,
        "grid_y": 4,
        "grid_z": 2,
        "block_x": 64,
        "block_y": 2,
        "block_z": 1,
        "shared_static_bytes": 1536,
        "shared_dynamic_bytes": 16,
        "args": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_copy_of_a_csv_trace_has_kibibytes(tmp_path: Path) -> None:
    row = read(tmp_path, GPU_TRACE).one("memcpys")
    columns = ("start_ns", "dur_ns", "direction", "src_memory", "dst_memory", "size_bytes", "correlation")
    assert part(row, *columns) == (10_000_001, 2_500, "HtoD", "Pinned", "Device", 4096, 11)


def test_throughput_is_kept_in_1e9_bytes_a_second(tmp_path: Path) -> None:
    assert json.loads(read(tmp_path, GPU_TRACE).one("memcpys")["args"]) == {"throughput_gb_per_s": 1.610612736}


def test_memset_of_a_csv_trace(tmp_path: Path) -> None:
    assert part(read(tmp_path, GPU_TRACE).one("memsets"), "memory", "size_bytes", "dur_ns") == ("Device", 1024, 1000)


def test_device_column_is_model_and_ordinal(tmp_path: Path) -> None:
    assert part(read(tmp_path, GPU_TRACE).one("devices"), "device", "name", "rank") == (1, "Tesla X", 0)


def test_printed_times_count_from_the_session_s_start(tmp_path: Path) -> None:
    lab = read(tmp_path, GPU_TRACE)
    assert part(lab.source, "format", "clock", "complete", "producer") == ("nvprof", "session", True, "nvprof")


def test_console_trace_has_units_in_its_cells(tmp_path: Path) -> None:
    row = read(tmp_path, CONSOLE_TRACE).one("memcpys")
    assert part(row, "start_ns", "dur_ns", "size_bytes", "stream") == (133_810_000, 781_550, 1_572_864, 7)


def test_kernel_of_a_console_trace_has_its_shape_in_brackets_and_its_correlation_after_its_name(
    tmp_path: Path,
) -> None:
    row = read(tmp_path, CONSOLE_TRACE).one("kernels")
    columns = ("name", "correlation", "grid_x", "grid_y", "grid_z", "block_x", "dur_ns", "shared_static_bytes")
    assert part(row, *columns) == ("void scale<int>(float*, int)", 119, 8, 4, 2, 64, 1_000_000, 1536)


def test_legend_below_a_console_trace_is_no_row(tmp_path: Path) -> None:
    lab = read(tmp_path, CONSOLE_TRACE)
    assert (lab.counts, lab.diagnostics()) == ((2, 2, 0), {"printed_digits"})


@pytest.mark.parametrize(
    "text",
    [
        '"Start","Duration","Name","Correlation_ID"\nms,us,,\n1.5,2.0,"cudaMalloc",5\n1.6,3.0,"cuInit",6\n',
        "   Start  Duration  Name\n1.5000ms  2.0000us  cudaMalloc\n1.6000ms  3.0000us  cuInit\n",
    ],
    ids=["csv", "console"],
)
def test_api_trace(tmp_path: Path, text: str) -> None:
    rows = read(tmp_path, HELLO + RESULT + text).rows("api_calls")
    stored = [part(row, "api", "name", "pid", "start_ns", "dur_ns") for row in rows]
    assert stored == [("runtime", "cudaMalloc", 77, 1_500_000, 2_000), ("driver", "cuInit", 77, 1_600_000, 3_000)]


def test_api_calls_among_a_gpu_trace_are_recognized_by_having_no_device(tmp_path: Path) -> None:
    call = '10.015,5.0,,,,,,,,,,,,,,,,,"cudaLaunchKernel",13\n'
    lab = read(tmp_path, GPU_TRACE + call)
    assert (lab.one("api_calls")["name"], len(lab.rows("kernels"))) == ("cudaLaunchKernel", 1)


def test_copy_between_devices_names_both(tmp_path: Path) -> None:
    text = (
        '"Start","Duration","Size","Throughput","Device","Context","Stream","Src Dev","Src Ctx","Dst Dev","Dst Ctx",'
        '"Name"\ns,ms,MB,GB/s,,,,,,,,\n'
        '1.0,2.0,1.0,0.5,"Tesla X (0)","1","7","Tesla X (0)","1","Tesla X (3)","2","[CUDA memcpy PtoP]"\n'
    )
    row = read(tmp_path, HELLO + RESULT + text).one("memcpys")
    assert part(row, "direction", "src_device", "dst_device", "size_bytes") == ("PtoP", 0, 3, 1 << 20)


def test_unknown_rows_of_a_trace_are_kept(tmp_path: Path) -> None:
    text = '"Start","Duration","Name"\ns,s,\n1.0,,"[Marker] begin of epoch"\n'
    row = read(tmp_path, HELLO + RESULT + text).one("other_events")
    assert part(row, "category", "name", "start_ns", "dur_ns") == ("trace", "[Marker] begin of epoch", 10**9, None)


@pytest.mark.parametrize(
    ("cell", "unit", "expected"),
    [
        ("1.183779", "s", 1_183_779_000),
        ("0.000992", "ms", 992),
        ("0.0005", "us", 0),  # halves go to even
        ("0.0015", "us", 2),
        ("0.00250001", "us", 3),
        ("1543505602.461412344", "s", 1_543_505_602_461_412_344),
        ("1.5e3", "us", 1_500_000),
        ("7", "ns", 7),
        ("2.5ms", "us", 2_500_000),  # the cell's own unit wins
        ("-3.5", "us", -3_500),
    ],
)
def test_times_are_exactly_as_printed(tmp_path: Path, cell: str, unit: str, expected: int) -> None:
    text = f'"Start","Duration","Name"\n{unit},us,\n{cell},1.0,"cudaFree"\n'
    assert read(tmp_path, HELLO + RESULT + text).one("api_calls")["start_ns"] == expected


# ------------------------------------------------------------------------------------------------------- summaries


SUMMARIES = [
    ("gpu_activities", "scale(float*)", 2, 3_000_000, 1_500_000.0, 1_234, 2_998_800),
    ("gpu_activities", "[CUDA memcpy HtoD]", 1, 1_000_000, 1_000_000.0, 1_000_000, 1_000_000),
    ("api_calls", "cudaMalloc", 4, 2_000_000_000, 500_000_000.0, 517, 1_500_000_000),
]
TIMES = ("kind", "name", "calls", "dur_ns", "mean_ns", "min_ns", "max_ns")


def test_console_summary_has_its_type_in_the_first_row_of_each(tmp_path: Path) -> None:
    assert [part(row, *TIMES) for row in read(tmp_path, SUMMARY).rows("summaries")] == SUMMARIES


def test_old_console_summary_has_its_type_in_the_heading(tmp_path: Path) -> None:
    stored = [part(row, *TIMES) for row in read(tmp_path, OLD_SUMMARY).rows("summaries")]
    assert stored == [SUMMARIES[0], SUMMARIES[2]]


def test_csv_summary(tmp_path: Path) -> None:
    text = (
        '"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"\n,%,ms,,ms,ms,ms,\n'
        '"GPU activities",75.0,3.0,2,1.5,0.001234,2.9988,"scale(float*)"\n'
        '"GPU activities",25.0,1.0,1,1.0,1.0,1.0,"[CUDA memcpy HtoD]"\n'
        '"API calls",100.0,2000.0,4,500.0,0.000517,1500.0,"cudaMalloc"\n'
    )
    assert [part(row, *TIMES) for row in read(tmp_path, HELLO + RESULT + text).rows("summaries")] == SUMMARIES


def test_old_csv_summary(tmp_path: Path) -> None:
    text = (
        '"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,ms,,ms,us,ms,\n100.0,3.0,2,1.5,1.234,2.9988,"scale(float*)"\n'
        '==77== API calls:\n"Time(%)","Time","Calls","Avg","Min","Max","Name"\n%,s,,ms,ns,s,\n'
        '100.0,2.0,4,500.0,517,1.5,"cudaMalloc"\n'
    )
    stored = [part(row, *TIMES) for row in read(tmp_path, HELLO + RESULT + text).rows("summaries")]
    assert stored == [SUMMARIES[0], SUMMARIES[2]]


def test_share_that_nvprof_printed_is_kept_in_args(tmp_path: Path) -> None:
    assert [json.loads(row["args"]) for row in read(tmp_path, SUMMARY).rows("summaries")] == [
        {"Time(%)": 75.0},
        {"Time(%)": 25.0},
        {"Time(%)": 100.0},
    ]


def test_summaries_of_nvtx_ranges_are_of_other_kinds_and_name_their_range(tmp_path: Path) -> None:
    text = (
        "\n==77== NVTX result:\n"
        '==77==   Thread "<unnamed>" (id = 66653056)\n'
        '==77==     Domain "<unnamed>"\n'
        '==77==       Range "forward"\n'
        "            Type  Time(%)      Time     Calls       Avg       Min       Max  Name\n"
        "          Range:  100.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  forward\n"
        " GPU activities:  100.00%  3.0000ms         2  1.5000ms  1.2340us  2.9988ms  scale(float*)\n"
    )
    rows = read(tmp_path, SUMMARY + text).rows("summaries")[3:]
    assert [(row["kind"], json.loads(row["args"])["nvtx_range"]) for row in rows] == [
        ("nvtx_range", "forward"),
        ("nvtx_gpu_activities", "forward"),
    ]


def test_unified_memory_summary_of_a_console(tmp_path: Path) -> None:
    text = (
        "\n==77== Unified Memory profiling result:\n"
        'Device "Tesla X (1)"\n'
        "   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name\n"
        "      48  170.50KB  4.0000KB  1.0000MB  7.992188MB  843.8660us  Host To Device\n"
        "      12         -         -         -           -  4.243755ms  Gpu page fault groups\n"
        "Total CPU Page faults: 36\n"
    )
    rows = read(tmp_path, SUMMARY + text).rows("summaries")[3:]
    columns = ("kind", "device", "name", "calls", "dur_ns", "value", "min_value", "max_value", "unit")
    assert [part(row, *columns) for row in rows] == [
        ("unified_memory", 1, "Host To Device", 48, 843_866, 174_592.0, 4096.0, 1_048_576.0, "byte"),
        ("unified_memory", 1, "Gpu page fault groups", 12, 4_243_755, None, None, None, None),
        ("unified_memory", None, "Total CPU Page faults", 36, None, None, None, None, None),
    ]


def test_unified_memory_summary_as_csv(tmp_path: Path) -> None:
    text = (
        "==77== Unified Memory profiling result:\n"
        '"Device","Count","Avg Size","Min Size","Max Size","Total Size","Total Time","Name"\n,,KB,KB,KB,MB,ms,\n'
        '"Tesla X (1)",2,512.0,256.0,768.0,1.0,0.5,"Device To Host"\n'
    )
    row = read(tmp_path, HELLO + text).one("summaries")
    columns = ("device_name", "device", "calls", "dur_ns", "value", "args")
    assert part(row, *columns) == ("Tesla X", 1, 2, 500_000, 524_288.0, '{"total_bytes": 1048576}')


def test_summary_per_device_names_it(tmp_path: Path) -> None:
    table = "Time(%)      Time     Calls       Avg       Min       Max  Name\n"
    row = "100.00%  3.0000ms         2  1.5000ms  1.2340us  2.9988ms  scale(float*)\n"
    text = HELLO + RESULT + "".join(f'==77== Device "Tesla X ({at})"\n{table}{row}\n' for at in (0, 1))
    rows = read(tmp_path, text).rows("summaries")
    assert [part(row, "device_name", "device", "name") for row in rows] == [
        ("Tesla X", 0, "scale(float*)"),
        ("Tesla X", 1, "scale(float*)"),
    ]


# --------------------------------------------------------------------------------------------------------- metrics


METRIC = ("kind", "device", "name", "calls", "metric", "min_value", "max_value", "value", "unit")


def test_metric_summary_of_a_console(tmp_path: Path) -> None:
    text = (
        "==77== Metric result:\n"
        "Invocations                               Metric Name                        Metric Description"
        "         Min         Max         Avg\n"
        'Device "Tesla X (1)"\n'
        "    Kernel: scale(float*)\n"
        "          3                             sm_efficiency                   Multiprocessor Activity"
        "      12.34%      56.78%      34.56%\n"
        "          3                  dram_read_throughput             Device Memory Read Throughput"
        "  1.0000GB/s  3.0000GB/s  2.0000GB/s\n"
        "    Kernel: fill(float*)\n"
        "          1                          dram_utilization                 Device Memory Utilization"
        "     Low (2)     Mid (5)     Low (3)\n"
    )
    rows = read(tmp_path, HELLO + text).rows("summaries")
    gib = float(1 << 30)
    assert [part(row, *METRIC) for row in rows] == [
        ("metrics", 1, "scale(float*)", 3, "sm_efficiency", 12.34, 56.78, 34.56, "%"),
        ("metrics", 1, "scale(float*)", 3, "dram_read_throughput", gib, 3 * gib, 2 * gib, "byte/s"),
        ("metrics", 1, "fill(float*)", 1, "dram_utilization", 2.0, 5.0, 3.0, None),
    ]


def test_metric_summary_as_csv_has_units_in_its_cells(tmp_path: Path) -> None:
    text = (
        '==77== Metric result:\n"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"Tesla X (0)","scale(float*)",2,"sm_efficiency","Multiprocessor Activity",10.5%,20.5%,15.5%\n'
        '"Tesla X (0)","scale(float*)",2,"flop_count_sp","Floating Point Operations(Single)",100,300,200\n'
        '"Tesla X (0)","scale(float*)",2,"dram_utilization","Device Memory Utilization","Low (2)","Mid (5)","Low (3)"\n'
        '"Tesla X (0)","scale(float*)",2,"ipc","Executed IPC","<OVERFLOW>","<OVERFLOW>","<OVERFLOW>"\n'
    )
    lab = read(tmp_path, HELLO + text)
    assert [part(row, "metric", "min_value", "max_value", "value", "unit") for row in lab.rows("summaries")] == [
        ("sm_efficiency", 10.5, 20.5, 15.5, "%"),
        ("flop_count_sp", 100.0, 300.0, 200.0, None),
        ("dram_utilization", 2.0, 5.0, 3.0, None),
        ("ipc", None, None, None, None),
    ]


def test_levels_in_words_and_texts_are_in_args(tmp_path: Path) -> None:
    text = (
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
        '"Tesla X (0)","scale(float*)",2,"dram_utilization","Utilization","Low (2)","Mid (5)","<INVALID>"\n'
    )
    lab = read(tmp_path, HELLO + text)
    assert json.loads(lab.one("summaries")["args"]) == {
        "Metric Description": "Utilization",
        "Avg": "<INVALID>",
        "Min": "Low (2)",
        "Max": "Mid (5)",
    }
    assert lab.diagnostics() == {"value_invalid"}


def test_event_summary_as_csv(tmp_path: Path) -> None:
    text = (
        '==77== Event result:\n"Device","Kernel","Invocations","Event Name","Min","Max","Avg","Total"\n'
        '"Tesla X (0)","scale(float*)",2,"warps_launched",6400,6500,6450,12900\n'
    )
    row = read(tmp_path, HELLO + text).one("summaries")
    assert (*part(row, *METRIC), json.loads(row["args"])) == (
        *("events", 0, "scale(float*)", 2, "warps_launched", 6400.0, 6500.0, 6450.0, None),
        {"Total": 12900.0},
    )


LAUNCHES = (
    HELLO
    + RESULT
    + '"Device","Context","Stream","Kernel","Correlation_ID","sm_efficiency","dram_utilization","inst (3)","l2_read"\n'
    ",,,,,%,,,GB/s\n"
    '"Tesla X (0)","1","7","scale(float*)",21,50.500000,"Low (2)",7,2.000000\n'
    '"Tesla X (0)","1","7","fill(float*)",22,<OVERFLOW>,"Low (1)",8,1.000000\n'
)


def test_metrics_of_launches(tmp_path: Path) -> None:
    columns = ("launch", "kernel", "metric", "instance", "value", "text", "unit")
    assert [part(row, *columns) for row in read(tmp_path, LAUNCHES).rows("kernel_metrics")] == [
        (0, "scale(float*)", "sm_efficiency", None, 50.5, None, "%"),
        (0, "scale(float*)", "dram_utilization", None, 2.0, "Low (2)", None),
        (0, "scale(float*)", "inst", "3", 7.0, None, None),
        (0, "scale(float*)", "l2_read", None, float(2 << 30), None, "byte/s"),
        (1, "fill(float*)", "sm_efficiency", None, None, "<OVERFLOW>", None),
        (1, "fill(float*)", "dram_utilization", None, 1.0, "Low (1)", None),
        (1, "fill(float*)", "inst", "3", 8.0, None, None),
        (1, "fill(float*)", "l2_read", None, float(1 << 30), None, "byte/s"),
    ]


def test_metrics_of_launches_on_a_console(tmp_path: Path) -> None:
    text = (
        "         Device          Context           Stream                          Kernel   sm_efficiency\n"
        "    Tesla X (0)                1                7        scale(float*, int, char)          50.50%\n"
    )
    row = read(tmp_path, HELLO + RESULT + text).one("kernel_metrics")
    columns = ("device", "stream", "kernel", "metric", "value", "unit")
    assert part(row, *columns) == (0, 7, "scale(float*, int, char)", "sm_efficiency", 50.5, "%")


def test_trace_with_metrics_has_kernels_and_their_metrics(tmp_path: Path) -> None:
    text = (
        '"Start","Duration","Device","Context","Stream","Kernel","ipc"\nms,us,,,,,\n1.0,2.0,"Tesla X (0)",1,7,"k",0.5\n'
    )
    lab = read(tmp_path, HELLO + RESULT + text)
    assert (lab.one("kernels")["name"], lab.one("kernel_metrics")["value"]) == ("k", 0.5)


# ----------------------------------------------------------------------------------------------- how files come


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda text: text.encode("utf-16"), set()),
        (lambda text: text.encode("utf-16-le"), set()),
        (lambda text: b"\xef\xbb\xbf" + text.encode(), set()),
        (lambda text: text.replace("\n", "\r\n").encode(), set()),
        (lambda text: b"\xfa\xfb noise\n" * 2 + text.encode(), {"invalid_text", "program_output"}),
        (lambda text: ("Epoch 1\n" * 20_000 + text).encode(), {"program_output"}),
        (lambda text: (text + "done\nbye\n").encode(), {"program_output"}),
        (
            lambda text: text.replace("==77== Profiling result", "loss 0.5==77== Profiling result").encode(),
            {"program_output"},
        ),
        (lambda text: text.replace('"Start"', 'loss 0.5"Start"').encode(), set()),
        (
            lambda text: text.replace("10.01", "Epoch 1\n==77== Warning: slow\n10.01").encode(),
            {"program_output", "profiler_warning"},
        ),
        (lambda text: text.replace("10.01", "50%\r60%\r10.01").encode(), {"program_output"}),
    ],
)
def test_dialects_and_other_output_change_no_row(tmp_path: Path, change, noticed: set[str]) -> None:
    lab = read(tmp_path, change(GPU_TRACE))
    rows = [lab.one(table) for table in ("kernels", "memcpys", "memsets")]
    assert [row["start_ns"] for row in rows] == [10_020_000, 10_000_001, 10_010_000]
    assert (lab.counts, lab.diagnostics() - {"printed_digits"}) == ((3, 3, 0), noticed)


@pytest.mark.parametrize("mark", ["\t", ";"])
def test_other_delimiters_of_spreadsheets(tmp_path: Path, mark: str) -> None:
    text = SUMMARY_CSV.replace(",", mark)
    stored = [part(row, *TIMES) for row in read(tmp_path, HELLO + RESULT + text).rows("summaries")]
    assert stored == [SUMMARIES[0]]


SUMMARY_CSV = (
    "Type,Time(%),Time,Calls,Avg,Min,Max,Name\n,%,ms,,ms,ms,ms,\n"
    "GPU activities,75.0,3.0,2,1.5,0.001234,2.9988,scale(float*)\n"
)


def test_decimal_commas_of_spreadsheets(tmp_path: Path) -> None:
    text = SUMMARY_CSV.replace(",", ";").replace(".", ",")
    stored = [part(row, *TIMES) for row in read(tmp_path, HELLO + RESULT + text).rows("summaries")]
    assert stored == [SUMMARIES[0]]


def test_unquoted_commas_of_a_name_are_put_right(tmp_path: Path) -> None:
    text = SUMMARY_CSV.replace("scale(float*)", "scale(float*, int, int)")
    lab = read(tmp_path, HELLO + RESULT + text)
    assert (lab.one("summaries")["name"], lab.diagnostics()) == ("scale(float*, int, int)", {"row_repaired"})


def test_processes_of_one_file_are_ranks_in_the_order_of_their_ids(tmp_path: Path) -> None:
    text = GPU_TRACE.replace("77", "99") + GPU_TRACE
    lab = read(tmp_path, text)
    assert sorted(part(row, "pid", "rank") for row in lab.rows("kernels")) == [(77, 0), (99, 1)]
    assert sorted(part(row, "rank", "device") for row in lab.rows("devices")) == [(0, 1), (1, 1)]
    assert "several_processes" in lab.diagnostics()


def test_rank_comes_from_the_file_s_name(tmp_path: Path) -> None:
    lab = read(tmp_path, GPU_TRACE, "rank-3.csv")
    assert (lab.one("kernels")["rank"], lab.one("devices")["rank"]) == (3, 3)


def test_gzip_is_unpacked(tmp_path: Path) -> None:
    import gzip

    assert read(tmp_path, gzip.compress(GPU_TRACE.encode()), "log.csv.gz").counts == (3, 3, 0)


@pytest.mark.parametrize(
    ("line", "status", "code"),
    [
        (
            "==77== Warning: ERR_NVGPUCTRPERM - The user does not have permission",
            "permission_denied",
            "permission_denied",
        ),
        ("==77== Error: Internal profiling error 4277:999.", "profiler_error", "profiler_error"),
        ("======== Error: Application returned non-zero code 1", "failed", "failed"),
        ("======== Error: Application received signal 139", "failed", "failed"),
        ("==77== Execution timeout, stopping the application...", "timeout", "timeout"),
        ("No kernels were profiled.", "no_kernels", "no_kernels"),
        ("======== Warning: No events/metrics were profiled.", "no_kernels", "no_kernels"),
        ("======== Warning: Unknown option in /home/me/x/y", None, "profiler_warning"),
    ],
)
def test_a_problem_is_the_run_s_status(tmp_path: Path, line: str, status: str | None, code: str) -> None:
    lab = read(tmp_path, HELLO + line + "\n")
    assert (lab.one("runs")["status"], lab.diagnostics()) == (status, {code, "no_result"})
    assert (lab.file.status, lab.source["complete"], "/home" in str(lab.rows("diagnostics"))) == (
        "salvaged",
        False,
        False,
    )


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("Warning: unknown: python x hunter2", "an unknown message of 25 characters."),
        ("Error: option hunter2", "an unknown message of 14 characters."),
        ("Error: Internal profiling error 4277:999.", "Internal profiling error 4277:999."),
        (
            "Warning: Unified Memory Profiling is not supported on the underlying platform. hunter2",
            "Unified Memory Profiling is not supported on the underlying platform ….",
        ),
    ],
)
def test_only_nvprof_s_own_messages_are_quoted(tmp_path: Path, line: str, sample: str) -> None:
    lab = read(tmp_path, f"{HELLO}==77== {line}\n")
    (row,) = [row for row in lab.rows("diagnostics") if row["code"].startswith("profiler_")]
    assert (row["message"].endswith(f"the first: {sample}"), "hunter2" in lab.texts()) == (True, False)


def test_names_with_an_argument_of_the_command_line_are_not_stored(tmp_path: Path) -> None:
    command = "./scale_rows vector_add hunter2hunter2"
    rows = SUMMARY.replace("./secret --token abc", command).replace("scale(float*)", "scagoken hunter2hunter2")
    rows += "                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  ./scale_rows\n"
    rows += "                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  vector_add(float*)\n"
    lab = read(tmp_path, rows)
    names = [None, "[CUDA memcpy HtoD]", "cudaMalloc", "./scale_rows", "vector_add(float*)"]
    assert [row["name"] for row in lab.rows("summaries")] == names
    assert ("hunter2" in lab.texts(), lab.diagnostics()) == (False, {"value_unfit"})


def test_command_lines_are_not_stored(tmp_path: Path) -> None:
    assert "secret" not in read(tmp_path, GPU_TRACE).texts()


def test_a_name_that_nvprof_truncated_is_kept_and_reported(tmp_path: Path) -> None:
    lab = read(tmp_path, SUMMARY.replace("scale(float*)", "scale(float*, in..."))
    assert ("scale(float*, in..." in [row["name"] for row in lab.rows("summaries")], lab.diagnostics()) == (
        True,
        {"name_cut"},
    )


@pytest.mark.parametrize(
    "text", ["hello\n" * 10, "a,b,c\n1,2,3\n", "x" * 200_000, "line\n" * 50_000, 'print("==7== Profiling result:")\n']
)
def test_text_without_nvprof_is_no_profiler_data(tmp_path: Path, text: str) -> None:
    lab = read(tmp_path, text)
    assert (lab.file.status, lab.report.exit_code) == ("not_profiler_data", 3)
