"""Every real nvprof file of the corpus reads as plain sqlite3, csv and Decimal read it."""

import csv
import json
import re
import sqlite3
from collections import Counter
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import Lab, ingest_paths

pytestmark = corpus.needs_traces

NVPROF = corpus.ROOT / "nvprof"
DATABASE = NVPROF / "ece408" / "timeline.nvprof"
TRACE = NVPROF / "nanzifan" / "print-gpu-trace.csv"
LAUNCHES = NVPROF / "cachecheck" / "multigpu.csv"
STUDY = NVPROF / "pranshu777"
API_LOG = STUDY / "out.resnet18_64_0.01_k80_full_mem.757751"

NS = {"s": 9, "ms": 6, "us": 3, "ns": 0}


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Lab]:
    """Each file ingested alone, filled as the tests go."""
    return {}


@pytest.fixture
def read(labs: dict[Path, Lab], tmp_path_factory: pytest.TempPathFactory):
    def lab(path: Path) -> Lab:
        if path not in labs:
            labs[path] = ingest_paths(tmp_path_factory.mktemp("nvprof"), [path])
        return labs[path]

    return lab


def printed(path: Path, header: str, delimiter: str = ",") -> list[dict[str, str]]:
    """The rows below the line that begins with `header`, by column, the row of units first where there is one."""
    text = path.read_bytes().decode().splitlines()
    begin = next(at for at, line in enumerate(text) if line.startswith(header))
    rows = csv.reader(text[begin:], delimiter=delimiter)
    columns = next(rows)
    return [dict(zip(columns, row, strict=True)) for row in rows if len(row) == len(columns)]


def ns(text: str, unit: str) -> int:
    return int(Decimal(text).scaleb(NS[unit]).to_integral_value())


def busy(rows: list[dict[str, object]]) -> tuple[int, int]:
    """Time with at least one, and with at least two, by a sweep over all ends."""
    changes: Counter[int] = Counter()
    for row in rows:
        changes[row["start_ns"]] += 1
        changes[row["start_ns"] + row["dur_ns"]] -= 1
    depth, before, one, two = 0, 0, 0, 0
    for time, change in sorted(changes.items()):
        one += (time - before) * (depth >= 1)
        two += (time - before) * (depth >= 2)
        depth, before = depth + change, time
    return one, two


# ------------------------------------------------------------------------------------------------------- database


def asked(sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{DATABASE}?mode=ro&immutable=1", uri=True)) as con:
        return con.execute(sql).fetchall()


def test_database_is_stored_whole_on_the_unix_clock(read) -> None:
    source = read(DATABASE).source
    assert (source["complete"], source["clock"], source["producer"]) == (True, "unix", "nvprof")


def test_kernels_of_the_database_are_its_rows(read) -> None:
    expected = asked(
        'select start, "end" - start, deviceId, contextId, streamId, correlationId, s.value, gridX, gridY, gridZ, '
        "blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory "
        "from CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL k join StringTable s on s._id_ = k.name"
    )
    columns = (
        *("start_ns", "dur_ns", "device", "context", "stream", "correlation", "name", "grid_x", "grid_y", "grid_z"),
        *("block_x", "block_y", "block_z", "registers", "shared_static_bytes", "shared_dynamic_bytes"),
    )
    stored = [tuple(row[column] for column in columns) for row in read(DATABASE).rows("kernels")]
    assert (Counter(stored), len(stored)) == (Counter(expected), 27)


def test_kernels_of_the_database_overlap_as_its_rows_do(read) -> None:
    rows = asked('select start, "end" - start from CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL')
    expected = busy([{"start_ns": start, "dur_ns": dur} for start, dur in rows])
    assert (busy(read(DATABASE).rows("kernels")), expected[0]) == (expected, 2_651_077)


def test_copies_of_the_database_are_its_rows(read) -> None:
    expected = asked(
        'select start, "end" - start, deviceId, streamId, correlationId, bytes, copyKind '
        "from CUPTI_ACTIVITY_KIND_MEMCPY"
    )
    kinds = {1: "HtoD", 2: "DtoH", 8: "DtoD"}
    columns = ("start_ns", "dur_ns", "device", "stream", "correlation", "size_bytes", "direction")
    stored = [tuple(row[column] for column in columns) for row in read(DATABASE).rows("memcpys")]
    assert Counter(stored) == Counter((*row[:-1], kinds[row[-1]]) for row in expected)


def test_throughput_of_the_database_is_the_one_counted_elsewhere(read) -> None:
    rows = [row for row in read(DATABASE).rows("memcpys") if row["direction"] == "HtoD"]
    assert f"{sum(row['size_bytes'] for row in rows) / sum(row['dur_ns'] for row in rows):.3f}" == "5.282"


def test_memsets_of_the_database_are_its_rows(read) -> None:
    expected = asked('select start, "end" - start, streamId, bytes, value from CUPTI_ACTIVITY_KIND_MEMSET')
    columns = ("start_ns", "dur_ns", "stream", "size_bytes", "value")
    assert [tuple(row[column] for column in columns) for row in read(DATABASE).rows("memsets")] == sorted(expected)


def test_calls_of_the_database_are_its_rows(read) -> None:
    expected = [
        (api, *row)
        for api, table in (("driver", "DRIVER"), ("runtime", "RUNTIME"))
        for row in asked(
            'select start, "end" - start, processId, threadId, correlationId, returnValue '
            f"from CUPTI_ACTIVITY_KIND_{table}"
        )
    ]
    columns = ("api", "start_ns", "dur_ns", "pid", "tid", "correlation", "return_value")
    stored = [tuple(row[column] for column in columns) for row in read(DATABASE).rows("api_calls")]
    assert (Counter(stored), len(stored)) == (Counter(expected), 1531)


def test_every_gpu_row_of_the_database_was_launched_by_a_call_that_can_launch_it(read) -> None:
    lab = read(DATABASE)
    names = {(row["pid"], row["correlation"]): row["name"] for row in lab.rows("api_calls")}
    launched = Counter(
        (table, re.match(r"cu(?:da)?(Launch|Memcpy|Memset)|", names[row["pid"], row["correlation"]])[1])
        for table in ("kernels", "memcpys", "memsets")
        for row in lab.rows(table)
    )
    assert launched == {("kernels", "Launch"): 27, ("memcpys", "Memcpy"): 21, ("memsets", "Memset"): 9}


def test_every_other_row_of_the_database_is_kept(read) -> None:
    kinds = ("CONTEXT", "CUDA_EVENT", "DEVICE_ATTRIBUTE", "OVERHEAD", "PCIE", "STREAM")
    expected = {kind: asked(f"select count(*) from CUPTI_ACTIVITY_KIND_{kind}")[0][0] for kind in kinds}
    stored = Counter(row["category"].upper() for row in read(DATABASE).rows("other_events"))
    assert stored == expected


def test_device_of_the_database(read) -> None:
    row = read(DATABASE).one("devices")
    expected = {"device": 0, "name": "TITAN V", "compute_capability": "7.0", "sm_count": 80, "async_engines": 7}
    expected |= {"memory_bytes": 12_621_381_632, "spec_bandwidth_gb_per_s": 652.8, "max_threads_per_sm": 2048}
    assert {key: row[key] for key in expected} == expected


def test_command_line_in_the_database_is_not_stored(read) -> None:
    (command,) = (text for (text,) in asked("select value from StringTable") if text.startswith("python "))
    assert command not in read(DATABASE).texts()


# ---------------------------------------------------------------------------------------------------------- trace


def traced(prefix: str | None) -> list[dict[str, str]]:
    rows = printed(TRACE, '"Start"')[1:]
    return [row for row in rows if (row["Name"].startswith(prefix) if prefix else not row["Name"].startswith("["))]


def test_every_row_of_the_trace_is_kept(read) -> None:
    assert read(TRACE).counts == (16_238, 16_238, 0)


def test_kernels_of_the_trace_are_its_rows(read) -> None:
    expected = Counter(
        (
            *(ns(row["Start"], "s"), ns(row["Duration"], "ms"), 0, int(row["Context"]), int(row["Stream"])),
            *(row["Name"], int(row["Correlation_ID"]), int(row["Registers Per Thread"])),
            *(int(row[f"{what} {axis}"]) for what in ("Grid", "Block") for axis in "XYZ"),
        )
        for row in traced(None)
    )
    columns = (
        *("start_ns", "dur_ns", "device", "context", "stream", "name", "correlation", "registers"),
        *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"),
    )
    rows = read(TRACE).rows("kernels")
    assert (Counter(tuple(row[column] for column in columns) for row in rows), len(rows)) == (expected, 14_003)


def test_kernels_of_the_trace_overlap_as_its_rows_do(read) -> None:
    rows = [{"start_ns": ns(row["Start"], "s"), "dur_ns": ns(row["Duration"], "ms")} for row in traced(None)]
    assert busy(read(TRACE).rows("kernels")) == busy(rows)


def test_copies_of_the_trace_are_its_rows_in_bytes(read) -> None:
    expected = Counter(
        (
            *(ns(row["Start"], "s"), ns(row["Duration"], "ms"), row["Name"][-5:-1]),
            int((Decimal(row["Size"]) * 1024**2).to_integral_value()),
        )
        for row in traced("[CUDA memcpy")
    )
    rows = [row for row in read(TRACE).rows("memcpys") if not row["direction"].startswith("UVM")]
    columns = ("start_ns", "dur_ns", "direction", "size_bytes")
    assert (Counter(tuple(row[column] for column in columns) for row in rows), len(rows)) == (expected, 2005)


def test_sizes_of_the_trace_divided_by_their_times_are_its_throughputs(read) -> None:
    rows = [row for row in read(TRACE).rows("memcpys") if row["size_bytes"] > 1 << 20 and row["args"]]
    worst = max(
        abs(json.loads(row["args"])["throughput_gb_per_s"] / (row["size_bytes"] / row["dur_ns"]) - 1) for row in rows
    )
    assert (len(rows), worst < 1e-6) == (2000, True)


def test_migrations_of_the_trace_are_copies_of_unified_memory(read) -> None:
    expected = [
        (ns(row["Start"], "s"), int(Decimal(row["Unified Memory"]))) for row in traced("[Unified Memory Memcpy")
    ]
    rows = [row for row in read(TRACE).rows("memcpys") if row["direction"] == "UVM HtoD"]
    assert (sorted((row["start_ns"], row["size_bytes"]) for row in rows), len(rows)) == (sorted(expected), 160)


def test_page_faults_of_the_trace_are_counters(read) -> None:
    stored = Counter((row["name"], row["value"] is None) for row in read(TRACE).rows("counters"))
    assert stored == {("unified_memory_cpu_page_faults", True): 49, ("unified_memory_gpu_page_faults", False): 20}


# -------------------------------------------------------------------------------------------------------- metrics


def test_metrics_of_each_launch_are_the_cells_of_its_row(read) -> None:
    metrics = ("l2_read_transactions", "l2_tex_read_transactions", "l2_tex_read_hit_rate", "l2_global_load_bytes")
    metrics += ("tex_cache_hit_rate",)
    expected = Counter(
        (launch, row["Kernel"], metric, float(row[metric]))
        for launch, row in enumerate(printed(LAUNCHES, '"Device"')[1:])
        for metric in metrics
    )
    columns = ("launch", "kernel", "metric", "value")
    rows = read(LAUNCHES).rows("kernel_metrics")
    assert (Counter(tuple(row[column] for column in columns) for row in rows), len(rows)) == (expected, 5 * 2258)


def test_rates_of_launches_have_the_unit_above_their_column(read) -> None:
    stored = {(row["metric"], row["unit"]) for row in read(LAUNCHES).rows("kernel_metrics")}
    assert {metric for metric, unit in stored if unit == "%"} == {"l2_tex_read_hit_rate", "tex_cache_hit_rate"}


@pytest.mark.parametrize(
    ("name", "header", "delimiter", "rows"),
    [("alexnet_p40_32_conv.815024", '"Device"', ",", 24), ("out.expCloudML.812055", "Device", "\t", 16)],
)
def test_metric_summaries_are_the_rows_of_the_log(read, name: str, header: str, delimiter: str, rows: int) -> None:
    expected = [
        (
            *(row["Device"], row["Kernel"], int(row["Invocations"]), row["Metric Name"]),
            *(float(row["Min"]), float(row["Max"]), float(row["Avg"])),
        )
        for row in printed(STUDY / name, header, delimiter)
    ]
    stored = [
        (
            *(f"{row['device_name']} ({row['device']})", row["name"], row["calls"], row["metric"]),
            *(row["min_value"], row["max_value"], row["value"]),
        )
        for row in read(STUDY / name).rows("summaries")
    ]
    assert (Counter(stored), len(stored)) == (Counter(expected), rows)


def test_mean_of_flops_weighted_by_invocations_is_the_study_s(read) -> None:
    rows = [row for row in read(STUDY / "out.expCloudML.812055").rows("summaries") if row["device"] == 0]
    weighted = sum(row["value"] * row["calls"] for row in rows) / sum(row["calls"] for row in rows)
    assert (max(row["value"] for row in rows), weighted) == (43_173_660, 10_793_415.0)


# ------------------------------------------------------------------------------------------------------ summaries


def test_api_summary_is_the_table_of_the_log(read) -> None:
    expected = [
        (
            *("api_calls", row["Name"], int(row["Calls"])),
            *(ns(row["Time"], "ms"), float(ns(row["Avg"], "ms")), ns(row["Min"], "ms"), ns(row["Max"], "ms")),
        )
        for row in printed(API_LOG, '"Type"')[1:]
    ]
    columns = ("kind", "name", "calls", "dur_ns", "mean_ns", "min_ns", "max_ns")
    stored = [tuple(row[column] for column in columns) for row in read(API_LOG).rows("summaries")]
    assert (stored, len(stored)) == (expected, 11)


def test_shares_of_api_time_are_the_published_ones(read) -> None:
    published = {
        "cuDeviceGetAttribute": "34.590301",
        "cudaGetDeviceProperties": "32.870813",
        "cuDeviceTotalMem": "29.398245",
        "cuDeviceGetName": "2.862447",
        "cudaGetDevice": "0.102239",
        "cudaGetDeviceCount": "0.074432",
        "cudaSetDevice": "0.045188",
        "cuDeviceGet": "0.032247",
        "cuDeviceGetCount": "0.015087",
        "cuInit": "0.005386",
        "cuDriverGetVersion": "0.003615",
    }
    rows = read(API_LOG).rows("summaries")
    total = sum(row["dur_ns"] for row in rows)
    shares = {row["name"]: f"{Decimal(100 * row['dur_ns']) / total:.6f}" for row in rows}
    assert shares == published


@pytest.mark.parametrize(
    ("name", "status", "complete"),
    [
        ("alexnet_k80_16_conv.815034", "profiler_error", False),
        ("alexnet_p40_32_conv.815024", "timeout", True),
        ("out.expCloudML.812055", "timeout", True),
        ("out.resnet18_64_0.01_k80_full_mem.757751", "no_kernels", True),
    ],
)
def test_how_a_run_ended_is_its_status(read, name: str, status: str, complete: bool) -> None:
    lab = read(STUDY / name)
    assert (lab.one("runs")["status"], lab.source["complete"]) == (status, complete)


@pytest.mark.parametrize("path", sorted(STUDY.iterdir()) if STUDY.is_dir() else [], ids=lambda path: path.name)
def test_command_lines_folders_and_users_are_not_stored(read, path: Path) -> None:
    texts = read(path).texts().replace(str(path), "").replace(json.dumps(str(path))[1:-1], "")
    assert [
        word for word in ("main.py", "imagenet_pytorch_small", "/scratch", "/home", "--epochs") if word in texts
    ] == []
