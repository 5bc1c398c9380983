"""Activity of accelerators other than GPUs is in the tables; what has no table is counted in a sentence."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import TIMES, event, given, ingest_bytes, ingest_paths, op, trace
from tracelab.client import Lab


def ccp(name: str, **args: object) -> dict:
    """An event of an MTIA device, on a track that is no stream."""
    return event("mtia_ccp_events", name, pid=17, tid=3774, args={"correlation": 5, "stream": 108} | args)


MTIA = TIMES | {"pid": 100, "device": 17, "stream": 108, "correlation": 5}


def test_mtia_jobs_are_kernels(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("merge", column="0")))
    assert given(lab.one("kernels"), MTIA | {"name": "merge"}) == MTIA | {"name": "merge"}
    assert lab.one("kernels")["args"] == '{"column":"0"}'


@pytest.mark.parametrize(
    ("direction", "expected"), [("HOST_TO_DEVICE", "HtoD"), ("DEVICE_TO_HOST", "DtoH"), ("SIDEWAYS", "unknown")]
)
def test_mtia_dma_requests_are_copies(tmp_path: Path, direction: str, expected: str) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("dma_request", direction=direction, size=1024)))
    row = MTIA | {"direction": expected, "size_bytes": 1024}
    assert given(lab.one("memcpys"), row) == row


def test_mtia_events_are_synchronization(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), ccp("event_wait", wait_on_stream=104)))
    row = MTIA | {"kind": "event_wait", "waits_for_stream": 104}
    assert given(lab.one("syncs"), row) == row


def test_the_device_half_of_an_mtia_call_is_no_call(tmp_path: Path) -> None:
    args = {"correlation": 5, "device": 17, "stream_id": 108}
    call = event("mtia_runtime", "synchronizeStream", args=args)
    half = event("mtia_runtime", "synchronize", pid=17, tid=3568, args=args)
    lab = ingest_bytes(tmp_path, trace(op(), call, half))
    assert (lab.one("api_calls")["name"], lab.one("api_calls")["pid"]) == ("synchronizeStream", 100)
    assert given(lab.one("syncs"), MTIA | {"kind": "synchronize"}) == MTIA | {"kind": "synchronize"}


def test_xpu_synchronization_has_neither_device_nor_stream(tmp_path: Path) -> None:
    args = {"correlation": 5, "Type": "HOST_FENCE", "Queue_handle": "0x00000001"}
    lab = ingest_bytes(tmp_path, trace(op(), event("xpu_sync", "zeFenceHostSynchronize", pid=-1, args=args)))
    row = TIMES | {"pid": 100, "device": None, "stream": None, "correlation": 5, "kind": "HOST_FENCE"}
    assert given(lab.one("syncs"), row) == row
    assert lab.one("syncs")["args"] == '{"Queue_handle":"0x00000001"}'


@pytest.mark.parametrize(
    ("handle", "context"),
    [("0x0000000003F1abc0", 66_169_792), ("0x7fffffffffffffff", 2**63 - 1), ("0x8000000000000000", None)],
)
def test_the_context_of_an_xpu_is_a_handle_in_hexadecimal(tmp_path: Path, handle: str, context: int | None) -> None:
    args = {"context": handle, "sycl queue": 2, "correlation": 5}
    lab = ingest_bytes(tmp_path, trace(op(), event("kernel", "gemm", pid=0, tid=1, args=args)))
    row = lab.one("kernels")
    assert (row["context"], row["stream"], row["correlation"]) == (context, 1, 5)
    unfit = [row["message"] for row in lab.rows("diagnostics") if row["code"] == "value_unfit"]
    assert len(unfit) == (context is None)


@pytest.mark.parametrize(
    ("name", "direction", "memories"),
    [
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "HtoD", ("MEMORY(Unknown)", "DEVICE")),
        ("Memcpy D2M (DEVICE -> MEMORY(Unknown))", "DtoH", ("DEVICE", "MEMORY(Unknown)")),
        ("Memcpy D2D (DEVICE -> DEVICE)", "DtoD", ("DEVICE", "DEVICE")),
        ("Memcpy S2S (SHARED -> SHARED)", "unknown", ("SHARED", "SHARED")),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", ("Pinned", "Device")),
        ("Memcpy HtoD", "HtoD", (None, None)),
    ],
)
def test_copies_of_an_xpu_have_the_directions_of_all_others(
    tmp_path: Path, name: str, direction: str, memories: tuple[str | None, str | None]
) -> None:
    row = ingest_bytes(tmp_path, trace(event("gpu_memcpy", name, pid=0, tid=1))).one("memcpys")
    assert (row["direction"], (row["src_memory"], row["dst_memory"])) == (direction, memories)


@pytest.mark.parametrize(
    ("name", "memory", "value"), [("Memset (7 -> Device)", "Device", 7), ("Memset (Device)", "Device", None)]
)
def test_memsets_of_an_xpu_name_their_value(tmp_path: Path, name: str, memory: str, value: int | None) -> None:
    row = ingest_bytes(tmp_path, trace(event("gpu_memset", name, pid=0, tid=1))).one("memsets")
    assert (row["memory"], row["value"]) == (memory, value)


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_real_mtia_trace(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [corpus.ROOT / "kineto" / "hta" / "mtia_inference_rank_0.json.gz"])
    assert Counter(row["name"] for row in lab.rows("kernels")) == {"remote": 37, "merge": 36, "pe_exe": 24}
    assert Counter(row["direction"] for row in lab.rows("memcpys")) == {"DtoH": 450, "HtoD": 427}
    assert Counter(row["kind"] for row in lab.rows("syncs")) == {
        "event_record": 291,
        "synchronize": 113,
        "event_wait": 48,
    }
    assert {row["device"] for table in ("kernels", "memcpys", "syncs") for row in lab.rows(table)} == {17}
    assert sum(row["dur_ns"] for row in lab.rows("kernels")) == 414_085_123
    (row,) = Lab(lab.store).query("gpu_breakdown").arrow().to_pylist()
    assert row["device"] == 17
    assert "no_gpu_activity" not in Lab(lab.store).doctor().arrow().column("code").to_pylist()


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_each_event_of_the_real_mtia_trace_is_in_one_table(tmp_path: Path) -> None:
    path = corpus.ROOT / "kineto" / "hta" / "mtia_inference_rank_0.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    by_category = Counter(event.get("cat") for event in events)
    assert by_category == {
        "cpu_op": 10_346,
        "user_annotation": 1_696,
        "mtia_ccp_events": 1_313,
        "mtia_runtime": 823,
        "ac2g": 1_801,
        None: 178,
        "Trace": 1,
    }
    lab = ingest_paths(tmp_path, [path])
    assert lab.counts == (16_158, 16_158, 0)
    tables = {table: len(lab.rows(table)) for table in TABLES_OF_MTIA}
    assert tables == TABLES_OF_MTIA
    assert sum(tables.values()) == 16_158
    of_device = tables["kernels"] + tables["memcpys"] + tables["syncs"]
    assert of_device + tables["api_calls"] == by_category["mtia_ccp_events"] + by_category["mtia_runtime"]
    assert of_device - by_category["mtia_ccp_events"] == 113  # the device's halves of synchronizeStream
    stored = Counter(
        (row["name"], row["start_ns"], row["dur_ns"])
        for table in ("ops", "annotations", "api_calls", "kernels")
        for row in lab.rows(table)
    )
    stored += Counter((row["kind"], row["start_ns"], row["dur_ns"]) for row in lab.rows("syncs"))
    stored += Counter(("dma_request", row["start_ns"], row["dur_ns"]) for row in lab.rows("memcpys"))
    base_ns = 1_767_189_312_000_000_000
    assert stored == Counter(
        (event["name"], base_ns + round(event["ts"] * 1000), round(event["dur"] * 1000))
        for event in events
        if event["ph"] == "X" and event["cat"] != "Trace"
    )


TABLES_OF_MTIA = {
    "ops": 10_346,
    "annotations": 1_696,
    "kernels": 97,
    "memcpys": 877,
    "syncs": 452,
    "api_calls": 710,
    "other_events": 1_980,
}


def process(pid: int, name: str, layer: int) -> list[dict]:
    """The metadata events by which msprof names a process of a trace."""
    common = {"ph": "M", "pid": pid, "tid": 0}
    return [
        common | {"name": "process_name", "args": {"name": name}},
        common | {"name": "process_sort_index", "args": {"sort_index": layer}},
    ]


def task(name: str, pid: int = 803, **args: object) -> dict:
    return event(None, name, pid=pid, tid=7, args={"Stream Id": 3, "connection_id": 8, "Task Id": 1} | args)


ASCEND = TIMES | {"pid": 100, "device": 3, "stream": 3, "correlation": 8, "args": '{"Task Id":1}'}


def test_tasks_of_an_ascend_device_are_kernels_wherever_the_file_names_its_process(tmp_path: Path) -> None:
    for place, events in enumerate(
        (
            [*process(803, "Ascend Hardware", 8), op(), task("MatMul")],
            [task("MatMul"), op(), *process(803, "Ascend Hardware", 8)],
        )
    ):
        lab = ingest_bytes(tmp_path / str(place), trace(*events))
        assert given(lab.one("kernels"), ASCEND | {"name": "MatMul"}) == ASCEND | {"name": "MatMul"}
        assert lab.counts == (4, 4, 0)
        assert [row["name"] for row in lab.rows("other_events")] == ["process_name", "process_sort_index"]


@pytest.mark.parametrize(
    ("name", "table"),
    [("MEMCPY_ASYNC", "memcpys"), ("EVENT_WAIT", "syncs"), ("NOTIFY_WAIT_SQE", "syncs"), ("MODEL_EXECUTE", "syncs")],
)
def test_copies_and_waits_of_an_ascend_device_are_no_kernels(tmp_path: Path, name: str, table: str) -> None:
    lab = ingest_bytes(tmp_path, trace(*process(803, "Ascend Hardware", 8), op(), task(name, connection_id=-1)))
    assert given(lab.one(table), ASCEND | {"correlation": None}) == ASCEND | {"correlation": None}
    assert lab.kernels == []


@pytest.mark.parametrize(
    ("operation", "direction"),
    [
        ("host to device", "HtoD"),
        ("device to host ex", "DtoH"),
        ("addr device to device", "DtoD"),
        ("host to host", "HtoH"),
        ("other", "unknown"),
    ],
)
@pytest.mark.parametrize(("operation_key", "size_key"), [("operation", "size(B)"), ("direction", "dataSize(B)")])
def test_copies_of_an_ascend_device_have_the_direction_that_msprof_names(
    tmp_path: Path, operation: str, direction: str, operation_key: str, size_key: str
) -> None:
    copy = task("MEMCPY_ASYNC", **{operation_key: operation, size_key: 4096, "bandwidth(GB/s)": 1.5})
    lab = ingest_bytes(tmp_path, trace(*process(803, "Ascend Hardware", 8), op(), copy))
    row = lab.one("memcpys")
    assert (row["direction"], row["size_bytes"]) == (direction, 4096)
    assert row["args"] == '{"Task Id":1,"bandwidth(GB/s)":1.5}'
    assert ("copy_undirected" in lab.diagnostics()) == (direction == "unknown")


def test_copies_of_an_older_msprof_are_counted_as_without_a_direction(tmp_path: Path) -> None:
    copies = [task("MEMCPY_ASYNC"), {**task("MEMCPY_ASYNC"), "ts": 1020}, task("MatMul", operation="host to device")]
    lab = ingest_bytes(tmp_path, trace(*process(803, "Ascend Hardware", 8), op(), *copies))
    assert {row["direction"] for row in lab.rows("memcpys")} == {"unknown"}
    (note,) = (row for row in lab.rows("diagnostics") if row["code"] == "copy_undirected")
    assert note["message"] == (
        "2 copies of an Ascend device (MEMCPY_ASYNC) have no direction in the trace; their direction is unknown."
    )
    assert lab.one("kernels")["args"] == '{"Task Id":1,"operation":"host to device"}'


@pytest.mark.parametrize(("device_pid", "host_pid"), [(803, 10002), (100 << 10 | 8 << 5 | 3, 100 << 10 | 2 << 5 | 31)])
def test_ascend_calls_launch_kernels(tmp_path: Path, device_pid: int, host_pid: int) -> None:
    names = [*process(device_pid, "Ascend Hardware", 8), *process(host_pid, "CANN", 2)]
    call = event(None, "AscendCL@aclnnMm", pid=host_pid, tid=101, ts=980, args={"connection_id": 8})
    lab = ingest_bytes(tmp_path, trace(op(), *names, task("MatMul", pid=device_pid), call))
    expected = {"pid": 100, "tid": 101, "name": "AscendCL@aclnnMm", "api": "runtime", "correlation": 8, "args": None}
    assert given(lab.one("api_calls"), expected) == expected
    (row,) = Lab(lab.store).query("launch_latency").arrow().to_pylist()
    assert (row["device"], row["launches"], row["mean_latency_ns"]) == (3, 1, 20_000)


@pytest.mark.parametrize("category", ["hpu_op", "mtia_insight", "privateuse1_memcpy"])
def test_accelerator_events_without_a_table_are_counted(tmp_path: Path, category: str) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), event(category, "a"), event(category, "b")))
    (note,) = (row for row in lab.rows("diagnostics") if row["code"] == "device_events_unmapped")
    assert note["message"] == (
        f"2 events of an accelerator ({category}) have no table of their own; query them in other_events."
    )
    assert len(lab.rows("other_events")) == 2
    assert "no_gpu_activity" not in Lab(lab.store).doctor().arrow().column("code").to_pylist()


def test_ascend_communication_without_a_table_is_counted(tmp_path: Path) -> None:
    names = [*process(803, "Ascend Hardware", 8), *process(903, "HCCL", 9)]
    lab = ingest_bytes(tmp_path, trace(op(), *names, task("MatMul"), task("hcom_allReduce__1", pid=903)))
    (note,) = (row for row in lab.rows("diagnostics") if row["code"] == "device_events_unmapped")
    assert (note["count"], "(HCCL)" in str(note["message"])) == (1, True)


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_real_ascend_trace(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [corpus.ROOT / "kineto2" / "ascend"])
    kernels, others = lab.rows("kernels"), lab.rows("other_events")
    assert (len(kernels), len(lab.rows("memcpys")), len(lab.rows("api_calls"))) == (274, 2, 382)
    assert {(row["device"], row["stream"], row["pid"]) for row in kernels} == {(0, 3, 437675)}
    computing = [row["dur_ns"] for row in others if row["name"] == "Computing"]  # msprof's own row of the same work
    assert (len(computing), sum(row["dur_ns"] for row in kernels)) == (274, 1_788_267)
    assert abs(sum(computing) - 1_788_267) <= 1  # msprof rounds them apart
