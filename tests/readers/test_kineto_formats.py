"""Literal events in, literal rows out: every category of every era of Kineto, and what a column takes from where."""

import json
from pathlib import Path

import pytest

from tests.readers.small import TIMES, Row, args_of, event, given, ingest_bytes, kernel, op, trace


def call(name: str = "cudaLaunchKernel", cat: str = "cuda_runtime", **args: object) -> Row:
    return event(cat, name, args={"cbid": 211, "correlation": 11} | args)


def copy(name: str = "Memcpy HtoD (Pageable -> Device)", **args: object) -> Row:
    held = {"device": 0, "context": 1, "stream": 7, "correlation": 12, "bytes": 4096} | args
    return event("gpu_memcpy", name, pid=0, tid=7, args={key: value for key, value in held.items() if value != ...})


# -------------------------------------------------------------------------------------------------------------- kernels


def test_kernel_of_today(tmp_path: Path) -> None:
    args = {
        "External id": 42,
        "queued": 0,
        "device": 1,
        "context": 2,
        "stream": 20,
        "correlation": 377,
        "registers per thread": 96,
        "shared memory": 16_640,
        "blocks per SM": 0.5,
        "warps per SM": 4.25,
        "grid": [11, 2, 3],
        "block": [512, 4, 5],
        "est. achieved occupancy %": 37,
        "graph id": 5,
        "graph node id": 6,
        "priority": 0,
        "channel": 12,
    }
    lab = ingest_bytes(tmp_path, trace(kernel("gemm<float>(int)") | {"pid": 1, "tid": 20, "args": args}))
    expected = TIMES | {
        "run": "r",
        "name": "gemm<float>(int)",
        "device": 1,
        "context": 2,
        "stream": 20,
        "correlation": 377,
        "graph": 5,
        "graph_node": 6,
        "grid_x": 11,
        "grid_y": 2,
        "grid_z": 3,
        "block_x": 512,
        "block_y": 4,
        "block_z": 5,
        "registers": 96,
        "shared_static_bytes": None,
        "occupancy_ratio": 0.37,
        "external_id": 42,
    }
    assert given(lab.one("kernels"), expected) == expected


def test_arguments_no_column_holds_are_kept_as_json(tmp_path: Path) -> None:
    args = {"queued": 0, "blocks per SM": 0.5, "shared memory": 16_640, "priority": -1, "new": {"a": [1, None, "x"]}}
    assert args_of(ingest_bytes(tmp_path, trace(kernel(**args))).one("kernels")) == args


def test_arguments_that_columns_hold_are_not_kept_twice(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(kernel())).one("kernels")["args"] is None


def test_kernel_of_torch_1_9(tmp_path: Path) -> None:
    args = {"device": 0, "context": 1, "stream": 7, "correlation": 34475, "external id": 561, "grid": [1, 2, 3]}
    old = event("Kernel", "vectorized", pid=0, tid="stream 7", args=args)
    expected = TIMES | {"name": "vectorized", "device": 0, "stream": 7, "correlation": 34475, "external_id": 561}
    assert given(ingest_bytes(tmp_path, trace(old)).one("kernels"), expected) == expected


def test_kernel_without_arguments_takes_device_and_stream_from_its_track(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(event("kernel", "k", pid=3, tid=21)))
    expected = TIMES | {"device": 3, "stream": 21, "context": None, "correlation": None, "grid_x": None}
    assert given(lab.one("kernels"), expected) == expected


def test_arguments_win_over_the_track(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(kernel(device=5, stream=9) | {"pid": 3, "tid": 21}))
    assert given(lab.one("kernels"), {"device": 5, "stream": 9}) == {"device": 5, "stream": 9}


@pytest.mark.parametrize("track", ["stream 7", "7", 7])
def test_stream_of_a_textual_track(tmp_path: Path, track: object) -> None:
    assert ingest_bytes(tmp_path, trace(event("Kernel", "k", pid="0", tid=track))).one("kernels")["stream"] == 7


@pytest.mark.parametrize("absent", [-1, 4294967295])
def test_sentinels_are_null(tmp_path: Path, absent: int) -> None:
    row = ingest_bytes(tmp_path, trace(kernel(device=absent, stream=absent, correlation=absent))).one("kernels")
    assert given(row, {"stream": 0, "correlation": 0}) == {"stream": None, "correlation": None}
    assert row["device"] in (None, 0)


def test_zero_is_no_sentinel(tmp_path: Path) -> None:
    expected = {"device": 0, "stream": 0, "correlation": 0, "external_id": 0}
    lab = ingest_bytes(tmp_path, trace(kernel(**{"stream": 0, "correlation": 0, "External id": 0})))
    assert given(lab.one("kernels"), expected) == expected


def test_gpu_rows_belong_to_the_files_only_process(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), call(), kernel(), copy()))
    assert (lab.one("kernels")["pid"], lab.one("memcpys")["pid"]) == (100, 100)


def test_process_0_of_python_frames_is_no_second_process(tmp_path: Path) -> None:
    frame = {"ph": "X", "cat": "python_function", "name": "f", "pid": 0, "tid": 9, "ts": 1, "dur": 1}
    lab = ingest_bytes(tmp_path, trace(op(), call(), frame, kernel()))
    assert lab.one("kernels")["pid"] == 100


def test_launch_and_kernel_share_source_pid_and_correlation(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(kernel(), call()))
    keys = ("source", "pid", "correlation")
    assert [lab.one("kernels")[key] for key in keys] == [lab.one("api_calls")[key] for key in keys]


def test_gpu_rows_of_several_processes_name_none_by_guess(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), op() | {"pid": 200}, kernel(correlation=999)))
    assert lab.one("kernels")["pid"] is None


# ------------------------------------------------------------------------------------------------------ copies, memsets


@pytest.mark.parametrize(
    ("name", "direction", "src_memory", "dst_memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", "Pageable", "Device"),
        ("Memcpy HtoD (Pinned -> Device)", "HtoD", "Pinned", "Device"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", "Device", "Pinned"),
        ("Memcpy DtoD (Device -> Device)", "DtoD", "Device", "Device"),
        ("Memcpy HtoH (Pageable -> Pinned)", "HtoH", "Pageable", "Pinned"),
        ("Memcpy HtoA (Pageable -> Array)", "HtoA", "Pageable", "Array"),
        ("Memcpy AtoH (Array -> Pinned)", "AtoH", "Array", "Pinned"),
        ("Memcpy AtoA (Array -> Array)", "AtoA", "Array", "Array"),
        ("Memcpy AtoD (Array -> Device)", "AtoD", "Array", "Device"),
        ("Memcpy DtoA (Device -> Array)", "DtoA", "Device", "Array"),
        ("Memcpy PtoP (Device -> Device)", "PtoP", "Device", "Device"),
        ("Memcpy HtoD (Managed -> Device Static)", "HtoD", "Managed", "Device Static"),
        ("Memcpy DtoH (Managed Static -> Pageable)", "DtoH", "Managed Static", "Pageable"),
    ],
)
def test_direction_and_memory_of_a_copy(
    tmp_path: Path, name: str, direction: str, src_memory: str, dst_memory: str
) -> None:
    expected = {"direction": direction, "src_memory": src_memory, "dst_memory": dst_memory, "size_bytes": 4096}
    assert given(ingest_bytes(tmp_path, trace(copy(name))).one("memcpys"), expected) == expected


@pytest.mark.parametrize("name", ["Memcpy", "Memcpy Unknown (Unknown -> Unknown)", "copy"])
def test_direction_of_an_unknown_copy(tmp_path: Path, name: str) -> None:
    assert ingest_bytes(tmp_path, trace(copy(name))).one("memcpys")["direction"] == "unknown"


def test_copy_of_torch_1_9(tmp_path: Path) -> None:
    args = {"device": 0, "context": 1, "stream": 7, "correlation": 57355, "external id": 8419, "bytes": 19267584}
    old = event("Memcpy", "Memcpy HtoD (Pageable -> Device)", pid=0, tid="stream 7", args=args)
    expected = TIMES | {"direction": "HtoD", "size_bytes": 19267584, "stream": 7, "external_id": 8419}
    assert given(ingest_bytes(tmp_path, trace(old)).one("memcpys"), expected) == expected


def test_copy_between_devices(tmp_path: Path) -> None:
    args = {"fromDevice": 1, "inDevice": 0, "toDevice": 3, "context": 1, "stream": 7, "correlation": 5, "bytes": 64}
    peer = event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", pid=0, tid=7, args=args)
    expected = TIMES | {"direction": "PtoP", "device": 0, "src_device": 1, "dst_device": 3, "size_bytes": 64}
    assert given(ingest_bytes(tmp_path, trace(peer)).one("memcpys"), expected) == expected


def test_bandwidth_that_is_no_number_costs_nothing(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(copy(**{"memory bandwidth (GB/s)": "N/A"})))
    assert (lab.one("memcpys")["size_bytes"], lab.counts) == (4096, (1, 1, 0))


def test_copy_without_size_is_of_unknown_size(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(copy(bytes=...)))
    assert given(lab.one("memcpys"), {"size_bytes": 0, "dur_ns": 0}) == {"size_bytes": None, "dur_ns": 10_000}


def test_copy_of_zero_bytes_is_of_known_size(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(copy(bytes=0))).one("memcpys")["size_bytes"] == 0


@pytest.mark.parametrize("size", [4096, "4096"])
@pytest.mark.parametrize("order", [1, -1], ids=["call first", "copy first"])
def test_hip_copy_takes_its_size_from_the_call(tmp_path: Path, size: object, order: int) -> None:
    launch = call("hipMemcpyWithStream", bytes=size, kind="HtoD", src="0x1", dst="0x2", correlation=12)
    rocm = copy("Memcpy HtoD (Host -> Device)", bytes=..., context=..., kind="HtoD")
    other = call("hipMemcpyWithStream", bytes=77, correlation=13)
    expected = {"size_bytes": 4096, "direction": "HtoD"}
    lab = ingest_bytes(tmp_path, trace(*[launch, rocm, other][::order]))
    assert given(lab.one("memcpys"), expected) == expected


@pytest.mark.parametrize("kind", ["HtoD", "DtoH", "DtoD"])
def test_hip_copy_without_a_telling_name_takes_its_direction_from_kind(tmp_path: Path, kind: str) -> None:
    assert ingest_bytes(tmp_path, trace(copy("Memcpy", kind=kind))).one("memcpys")["direction"] == kind


def test_fill(tmp_path: Path) -> None:
    args = {"device": 0, "context": 1, "stream": 7, "correlation": 4, "External id": 6, "bytes": 256}
    fills = [
        event("gpu_memset", "Memset (Device)", pid=0, tid=7, args=args),
        event("Memset", "Memset (Device)", pid=0, tid="stream 7", args=args),
    ]
    expected = TIMES | {"memory": "Device", "size_bytes": 256, "stream": 7, "correlation": 4, "external_id": 6}
    lab = ingest_bytes(tmp_path, trace(*fills))
    assert [given(row, expected) for row in lab.rows("memsets")] == [expected, expected]


# ---------------------------------------------------------------------------------------------------------------- calls


@pytest.mark.parametrize(
    ("cat", "api"), [("cuda_runtime", "runtime"), ("Runtime", "runtime"), ("cuda_driver", "driver")]
)
def test_call(tmp_path: Path, cat: str, api: str) -> None:
    lab = ingest_bytes(tmp_path, trace(call("cudaLaunchKernel", cat, **{"External id": 8})))
    expected = TIMES | {"api": api, "name": "cudaLaunchKernel", "pid": 100, "tid": 101}
    expected |= {"correlation": 11, "external_id": 8}
    assert given(lab.one("api_calls"), expected) == expected


def test_call_of_torch_1_9(tmp_path: Path) -> None:
    args = {"cbid": 135, "correlation": 34436, "external id": 544, "external ts": 1623142623531390}
    old = event("Runtime", "cudaEventRecord", pid=25738, tid="25738", args=args)
    expected = TIMES | {"api": "runtime", "pid": 25738, "tid": 25738, "correlation": 34436, "external_id": 544}
    row = ingest_bytes(tmp_path, trace(old)).one("api_calls")
    assert given(row, expected) == expected
    assert args_of(row) == {"cbid": 135, "external ts": 1623142623531390}


def test_call_of_mtia(tmp_path: Path) -> None:
    args = {"correlation": 1_000_000_001, "device": 17, "stream_id": 108}
    lab = ingest_bytes(tmp_path, trace(event("mtia_runtime", "synchronizeStream", args=args)))
    expected = TIMES | {"name": "synchronizeStream", "correlation": 1_000_000_001, "pid": 100, "tid": 101}
    assert given(lab.one("api_calls"), expected) == expected


def test_one_launch_may_own_many_kernels(tmp_path: Path) -> None:
    lab = ingest_bytes(
        tmp_path, trace(call("cudaGraphLaunch"), kernel("a"), kernel("b", ts=1001), kernel("c", ts=1002))
    )
    assert [row["correlation"] for row in lab.rows("kernels")] == [11, 11, 11]


# ------------------------------------------------------------------------------------------------------------------ ops


@pytest.mark.parametrize(("cat", "tid"), [("cpu_op", 101), ("Operator", "101")])
def test_op(tmp_path: Path, cat: str, tid: object) -> None:
    args = {
        "External id": 7,
        "Sequence number": 88,
        "Fwd thread id": 1,
        "Input Dims": [[2, 3], []],
        "Input type": ["float", "Int"],
        "Ev Idx": 6,
    }
    lab = ingest_bytes(tmp_path, trace(event(cat, "aten::conv2d", tid=tid, args=args)))
    row = lab.one("ops")
    expected = TIMES | {"name": "aten::conv2d", "pid": 100, "tid": 101, "external_id": 7}
    expected |= {"sequence_number": 88, "forward_tid": 1}
    assert given(row, expected) == expected
    assert (json.loads(row["input_shapes"]), json.loads(row["input_types"])) == ([[2, 3], []], ["float", "Int"])
    assert args_of(row) == {"Ev Idx": 6}


def test_op_without_shapes_has_none(tmp_path: Path) -> None:
    expected = {"input_shapes": None, "input_types": None, "sequence_number": None, "forward_tid": None}
    assert given(ingest_bytes(tmp_path, trace(op())).one("ops"), expected) == expected


def test_forward_thread_zero_is_kept(tmp_path: Path) -> None:
    assert ingest_bytes(tmp_path, trace(op(**{"Fwd thread id": 0}))).one("ops")["forward_tid"] == 0


# ------------------------------------------------------------------------------------------ annotations, frames, memory


@pytest.mark.parametrize("cat", ["user_annotation", "User"])
def test_annotation_on_the_cpu(tmp_path: Path, cat: str) -> None:
    lab = ingest_bytes(tmp_path, trace(event(cat, "ProfilerStep#3", args={"External id": 2})))
    expected = TIMES | {"name": "ProfilerStep#3", "scope": "cpu", "pid": 100, "tid": 101, "device": None}
    assert given(lab.one("annotations"), expected) == expected


@pytest.mark.parametrize("cat", ["gpu_user_annotation", "gpu_user_Annotation"])
def test_annotation_on_the_gpu(tmp_path: Path, cat: str) -> None:
    lab = ingest_bytes(tmp_path, trace(op(), event(cat, "forward", pid=1, tid=20, args={"External id": 2})))
    expected = TIMES | {"name": "forward", "scope": "gpu", "device": 1, "stream": 20, "tid": None, "pid": 100}
    assert given(lab.one("annotations"), expected) == expected
    assert lab.kernels == []


def test_python_frame(tmp_path: Path) -> None:
    args = {"Python id": 5, "Python parent id": 4, "Python module id": 9, "Ev Idx": 1}
    lab = ingest_bytes(tmp_path, trace(event("python_function", "train.py(3): main", args=args)))
    expected = TIMES | {"name": "train.py(3): main", "frame": 5, "parent_frame": 4, "module": 9, "pid": 100}
    assert given(lab.one("python_frames"), expected) == expected


def test_outermost_python_frame_has_no_parent(tmp_path: Path) -> None:
    args = {"Python id": 0, "Python parent id": None}
    lab = ingest_bytes(tmp_path, trace(event("python_function", "main", args=args)))
    expected = {"frame": 0, "parent_frame": None, "module": None}
    assert given(lab.one("python_frames"), expected) == expected


MEMORY = {"Addr": 139937678610432, "Bytes": -8192, "Total Allocated": 54, "Total Reserved": 127}


@pytest.mark.parametrize(
    "fields",
    [
        {"cat": "cpu_instant_event", "ph": "i", "s": "t"},
        {"cat": "cpu_instant_event", "ph": "X", "dur": 19163},
        {"ph": "i", "s": "t"},
    ],
    ids=["instant", "complete with a bogus duration", "without category"],
)
def test_memory_event(tmp_path: Path, fields: Row) -> None:
    row = {"name": "[memory]", "pid": 100, "tid": 101, "ts": 1000} | fields
    row["args"] = MEMORY | {"Device Type": 1, "Device Id": 1}
    expected = {
        "time_ns": 1_000_000,
        "pid": 100,
        "tid": 101,
        "device": 1,
        "address": 139937678610432,
        "size_bytes": -8192,
        "allocated_bytes": 54,
        "reserved_bytes": 127,
    }
    stored = ingest_bytes(tmp_path, trace(row)).one("memory_events")
    assert given(stored, expected) == expected
    assert args_of(stored) in (None, {"s": "t"})


@pytest.mark.parametrize("device", [-1, 0])
def test_memory_of_the_host_has_no_device(tmp_path: Path, device: int) -> None:
    row = event("cpu_instant_event", "[memory]", ph="i", args=MEMORY | {"Device Type": 0, "Device Id": device})
    assert ingest_bytes(tmp_path, trace(row)).one("memory_events")["device"] is None


def test_memory_event_of_torch_1_9(tmp_path: Path) -> None:
    row = {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5}
    row["args"] = {"Device Type": 0, "Device Id": -1, "Bytes": 4}
    expected = {"time_ns": 5_000, "size_bytes": 4, "address": None, "allocated_bytes": None, "device": None}
    assert given(ingest_bytes(tmp_path, trace(row)).one("memory_events"), expected) == expected


def test_unsigned_address_beyond_int64_costs_no_event(tmp_path: Path) -> None:
    args = MEMORY | {"Addr": 2**64 - 1, "Device Type": 1, "Device Id": 0}
    row = event("cpu_instant_event", "[memory]", ph="i", args=args)
    assert given(ingest_bytes(tmp_path, trace(row)).one("memory_events"), {"address": 0, "size_bytes": 0}) == {
        "address": None,
        "size_bytes": -8192,
    }


# ---------------------------------------------------------------------------------------------------------------- syncs


def test_stream_sync(tmp_path: Path) -> None:
    args = {
        "External id": 63,
        "cuda_sync_kind": "Stream Sync",
        "stream": 7,
        "correlation": 63,
        "device": 0,
        "context": 1,
    }
    lab = ingest_bytes(tmp_path, trace(event("cuda_sync", "Stream Sync", pid=0, tid=1_000_007, args=args)))
    expected = TIMES | {"kind": "Stream Sync", "stream": 7, "device": 0, "context": 1, "correlation": 63}
    assert given(lab.one("syncs"), expected) == expected


def test_wait_for_an_event(tmp_path: Path) -> None:
    args = {
        "cuda_sync_kind": "Stream Wait Event",
        "wait_on_stream": 22,
        "wait_on_cuda_event_record_corr_id": 5197,
        "wait_on_cuda_event_id": 1,
        "stream": 7,
        "correlation": 5198,
        "device": 0,
    }
    lab = ingest_bytes(tmp_path, trace(event("cuda_sync", "Stream Wait Event", pid=0, tid=7, args=args)))
    expected = {"waits_for_stream": 22, "waits_for_correlation": 5197, "event_id": 1, "stream": 7, "args": None}
    assert given(lab.one("syncs"), expected) == expected


@pytest.mark.parametrize("absent", [-1, 4294967295])
def test_sync_of_the_whole_context_has_no_stream(tmp_path: Path, absent: int) -> None:
    args = {
        "cuda_sync_kind": "Context Sync",
        "stream": absent,
        "wait_on_stream": absent,
        "wait_on_cuda_event_record_corr_id": absent,
        "correlation": 5,
        "device": 0,
    }
    lab = ingest_bytes(tmp_path, trace(event("cuda_sync", "Context Sync", pid=0, tid=-1, args=args)))
    expected = {"kind": "Context Sync", "stream": None, "waits_for_stream": None, "waits_for_correlation": None}
    assert given(lab.one("syncs"), expected) == expected


@pytest.mark.parametrize(("written", "kept"), [(-1, {}), (4294967295, {"stream": 4294967295})])
def test_only_an_unsigned_minus_one_stays_in_the_arguments_of_a_synchronization(
    tmp_path: Path, written: int, kept: Row
) -> None:
    args = {"cuda_sync_kind": "Context Sync", "stream": written, "correlation": 5, "device": 0, "more": 1}
    lab = ingest_bytes(tmp_path, trace(event("cuda_sync", "Context Sync", pid=0, tid=-1, args=args)))
    assert (lab.one("syncs")["stream"], args_of(lab.one("syncs"))) == (None, {"more": 1} | kept)
