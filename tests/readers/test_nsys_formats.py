"""What each table of an Nsight Systems export becomes, from small exports of every version."""

import json
from pathlib import Path

import pytest

from tests.readers.nsys_small import (
    CALLS,
    COPIES,
    EVENT_RECORDS,
    FILLS,
    GLOBAL_PID,
    GLOBAL_TID,
    GRAPHS,
    KERNEL_COLUMNS,
    KERNELS,
    PID,
    SESSION,
    START_NS,
    SYNCS,
    TID,
    call,
    copy,
    diagnostic_codes,
    export,
    ingest_export,
    kernel,
    nvtx,
)
from tests.readers.small import ingest_paths


@pytest.mark.parametrize("year", KERNEL_COLUMNS)
def test_a_kernel_of_every_version_has_its_columns(tmp_path: Path, year: str) -> None:
    row = ingest_export(tmp_path, kernels=year, **{KERNELS: [kernel()]}).one("kernels")
    assert {name: value for name, value in row.items() if name not in ("run", "source")} == {
        "rank": 0,
        "pid": PID,
        "device": 0,
        "context": 1,
        "stream": 7,
        "start_ns": 1000,
        "dur_ns": 10,
        "correlation": 11,
        "graph": None,
        "graph_node": None,
        "name": "void gemm<float>(float*)",
        "grid_x": 4,
        "grid_y": 2,
        "grid_z": 1,
        "block_x": 128,
        "block_y": 1,
        "block_z": 1,
        "registers": 32,
        "shared_static_bytes": 16,
        "shared_dynamic_bytes": 0,
        "occupancy_ratio": None,
        "external_id": None,
        "args": None,
    }


def test_arguments_that_no_column_holds_stay_in_args_unless_they_are_0(tmp_path: Path) -> None:
    rows = [kernel(launchType=1, localMemoryTotal=0, clusterX=2), kernel(1020, 1030, correlationId=13)]
    lab = ingest_export(tmp_path, **{KERNELS: rows})
    assert [row["args"] and json.loads(row["args"]) for row in lab.rows("kernels")] == [
        {"launchType": 1, "clusterX": 2},
        None,
    ]


def test_a_kernel_without_a_demangled_name_has_its_short_one(tmp_path: Path) -> None:
    assert ingest_export(tmp_path, **{KERNELS: [kernel(demangledName=None)]}).kernels == ["gemm"]


def test_a_name_that_is_no_text_of_the_export_is_null_and_counted(tmp_path: Path) -> None:
    lab = ingest_export(tmp_path, **{KERNELS: [kernel(demangledName=99), kernel()]})
    assert sorted(map(str, lab.kernels)) == ["None", "void gemm<float>(float*)"]
    assert diagnostic_codes(lab) == {"string_missing"}


@pytest.mark.parametrize("absent", [0, -1, 4294967295])
def test_a_correlation_that_means_none_is_null(tmp_path: Path, absent: int) -> None:
    assert ingest_export(tmp_path, **{KERNELS: [kernel(correlationId=absent)]}).one("kernels")["correlation"] is None


def test_a_device_and_stream_that_mean_none_are_null_and_0_stays(tmp_path: Path) -> None:
    lab = ingest_export(tmp_path, **{KERNELS: [kernel(deviceId=-1, streamId=4294967295, contextId=0)]})
    row = lab.one("kernels")
    assert (row["device"], row["stream"], row["context"]) == (None, None, 0)


def test_times_count_from_1970_where_the_session_start_is_known(tmp_path: Path) -> None:
    details = [{"globalVid": 1, "duration": 5000, "startTime": 77, "stopTime": 5077}]
    lab = ingest_export(
        tmp_path, **{KERNELS: [kernel()], "TARGET_INFO_SESSION_START_TIME": SESSION, "ANALYSIS_DETAILS": details}
    )
    source = lab.source
    assert lab.one("kernels")["start_ns"] == START_NS + 1000
    assert (source["clock"], source["window_start_ns"], source["window_dur_ns"]) == ("unix", START_NS, 5000)


def test_times_count_from_the_session_where_its_start_is_not_known(tmp_path: Path) -> None:
    lab = ingest_export(tmp_path, **{KERNELS: [kernel()]})
    assert (lab.source["clock"], lab.one("kernels")["start_ns"]) == ("session", 1000)
    assert "session_start_unknown" in lab.diagnostics()


def test_events_outside_the_session_are_kept_and_counted(tmp_path: Path) -> None:
    details = [{"globalVid": 1, "duration": 5000}]
    rows = [kernel(-5, 10), kernel(10, 20), kernel(4990, 5001)]
    lab = ingest_export(tmp_path, **{KERNELS: rows, "ANALYSIS_DETAILS": details})
    (diagnostic,) = (row for row in lab.rows("diagnostics") if row["code"] == "outside_session")
    assert (len(lab.kernels), diagnostic["count"]) == (3, 2)


def test_the_version_is_stored_and_names_of_users_and_hosts_are_not(tmp_path: Path) -> None:
    rows = {"EXPORT_PRODUCT_VERSION": "2026.2.1", "EXPORT_SCHEMA_VERSION": "3.28.0", "EXPORT_USER": "ann"}
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        listed = [{"name": name, "value": value} for name, value in rows.items()]
        lab = ingest_export(tmp_path / table, **{KERNELS: [kernel()], table: listed})
        assert lab.source["producer_version"] == "2026.2.1 (schema 3.28.0)"
        assert "ann" not in lab.texts()


def test_a_copy_has_its_direction_and_memories(tmp_path: Path) -> None:
    rows = [
        copy(),
        copy(3000, 3010, copyKind=10, srcKind=2, dstKind=2, srcDeviceId=0, dstDeviceId=1),
        copy(4000, copyKind=99),
    ]
    lab = ingest_export(tmp_path, **{COPIES: rows})
    columns = ("direction", "src_memory", "dst_memory", "src_device", "dst_device", "size_bytes")
    assert [tuple(row[name] for name in columns) for row in lab.rows("memcpys")] == [
        ("HtoD", "Pageable", "Device", None, None, 4096),
        ("PtoP", "Device", "Device", 0, 1, 4096),
        ("unknown", "Pageable", "Device", None, None, 4096),
    ]


@pytest.mark.parametrize(("kind", "direction"), [(11, "UVM HtoD"), (12, "UVM DtoH"), (13, "UVM DtoD")])
def test_a_migration_of_unified_memory_is_a_copy(tmp_path: Path, kind: int, direction: str) -> None:
    migrated = copy(copyKind=kind, srcKind=7, dstKind=7, correlationId=0, migrationCause=2, virtualAddress=1 << 46)
    row = ingest_export(tmp_path, **{COPIES: [migrated]}).one("memcpys")
    assert (row["direction"], row["src_memory"], row["correlation"]) == (direction, None, None)
    assert json.loads(row["args"]) == {"migrationCause": 2, "virtualAddress": 1 << 46}


def test_the_files_own_enumerations_win(tmp_path: Path) -> None:
    oper = [{"id": 1, "name": "CUDA_MEMCPY_KIND_DTOH"}, {"id": 40, "name": "CUDA_MEMCPY_KIND_HTOD"}]
    kinds = [{"id": 5, "name": "CUDA_MEMOPR_MEMORY_KIND_MANAGED_STATIC"}]
    rows = [copy(copyKind=1), copy(copyKind=40, srcKind=5)]
    lab = ingest_export(tmp_path, **{COPIES: rows, "ENUM_CUDA_MEMCPY_OPER": oper, "ENUM_CUDA_MEM_KIND": kinds})
    assert {(row["direction"], row["src_memory"]) for row in lab.rows("memcpys")} == {
        ("DtoH", "Pageable"),
        ("HtoD", "Managed Static"),
    }


def test_a_memset_has_memory_bytes_and_value(tmp_path: Path) -> None:
    fill = {**copy(), "memKind": 2, "value": 255}
    row = ingest_export(
        tmp_path, **{FILLS: [{key: fill[key] for key in fill if key not in ("copyKind", "srcKind", "dstKind")}]}
    )
    assert [(one["memory"], one["size_bytes"], one["value"]) for one in row.rows("memsets")] == [("Device", 4096, 255)]


def test_kernels_of_a_cuda_graph_name_graph_and_node(tmp_path: Path) -> None:
    row = ingest_export(tmp_path, **{KERNELS: [kernel(graphId=3, graphNodeId=(3 << 32) + 5)]}).one("kernels")
    assert (row["graph"], row["graph_node"]) == (3, (3 << 32) + 5)


def test_a_whole_graph_is_a_graph_launch_with_a_warning(tmp_path: Path) -> None:
    whole = {
        "start": 10,
        "end": 90,
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 5,
        "globalPid": GLOBAL_PID,
    }
    lab = ingest_export(tmp_path, **{GRAPHS: [{**whole, "graphId": 4, "graphExecId": 9}]})
    row = lab.one("graph_launches")
    assert (row["pid"], row["start_ns"], row["dur_ns"], row["correlation"], row["graph"]) == (PID, 10, 80, 5, 4)
    assert json.loads(row["args"]) == {"graphExecId": 9}
    assert diagnostic_codes(lab) == {"graph_whole"}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
        ("cuLaunchKernel", "cuLaunchKernel"),
    ],
)
def test_a_call_loses_the_version_of_its_function_table(tmp_path: Path, name: str, shown: str) -> None:
    lab = ingest_export(tmp_path, **{CALLS: [call()], "StringIds": [{"id": 3, "value": name}]})
    assert lab.one("api_calls")["name"] == shown


def test_the_api_of_a_call_follows_its_class_and_else_its_name(tmp_path: Path) -> None:
    texts = [{"id": 3, "value": "cudaFree_v3020"}, {"id": 4, "value": "cuCtxSynchronize"}]
    rows = [call(eventClass=0), call(eventClass=1), call(eventClass=67), call(eventClass=67, nameId=4)]
    rows = [row | {"correlationId": at} for at, row in enumerate(rows)]
    lab = ingest_export(tmp_path, **{CALLS: rows, "StringIds": texts})
    assert [row["api"] for row in lab.rows("api_calls")] == ["runtime", "driver", "runtime", "driver"]


def test_a_launch_and_its_kernel_share_process_and_correlation(tmp_path: Path) -> None:
    other = (1 << 48) | (77 << 24)
    lab = ingest_export(
        tmp_path,
        **{
            KERNELS: [kernel(), kernel(1100, 1110, globalPid=other)],
            CALLS: [call(), call(950, 960, globalTid=other | 78)],
        },
    )
    launches = {(row["pid"], row["correlation"]): row["start_ns"] for row in lab.rows("api_calls")}
    found = {row["start_ns"]: launches[row["pid"], row["correlation"]] for row in lab.rows("kernels")}
    assert found == {1000: 900, 1100: 950}


@pytest.mark.parametrize(
    ("table", "api"),
    [("OSRT_API", "osrt"), ("CUBLAS_EVENTS", "cublas"), ("CUDNN_EVENTS", "cudnn"), ("MPI_P2P_EVENTS", "mpi")],
)
def test_calls_of_libraries_keep_the_librarys_name(tmp_path: Path, table: str, api: str) -> None:
    row = ingest_export(tmp_path, **{table: [call(nameId=4, correlationId=0)]}).one("api_calls")
    assert (row["api"], row["name"], row["pid"], row["tid"], row["dur_ns"]) == (api, "relu", PID, TID, 50)


def test_synchronizations_are_named_as_kineto_names_them(tmp_path: Path) -> None:
    base = {key: value for key, value in copy().items() if key not in ("bytes", "copyKind", "srcKind", "dstKind")}
    rows = [{**base, "start": at, "syncType": at, "eventId": 4294967295} for at in (1, 2, 3, 4)]
    lab = ingest_export(tmp_path, **{SYNCS: rows})
    assert [(row["kind"], row["event_id"]) for row in lab.rows("syncs")] == [
        ("Event Sync", None),
        ("Stream Wait Event", None),
        ("Stream Sync", None),
        ("Context Sync", None),
    ]


def test_a_wait_names_the_record_that_it_waited_for_where_both_are_numbered(tmp_path: Path) -> None:
    base = {key: value for key, value in copy().items() if key not in ("bytes", "copyKind", "srcKind", "dstKind")}
    record = {
        "globalPid": GLOBAL_PID,
        "eventId": 6,
        "eventSyncId": 2,
        "streamId": 13,
        "correlationId": 44,
        "timestamp": 50,
    }
    waits = [{**base, "syncType": 2, "eventId": 6, "eventSyncId": number} for number in (2, 3)]
    lab = ingest_export(tmp_path, **{SYNCS: waits, EVENT_RECORDS: [record]})
    assert {(row["waits_for_stream"], row["waits_for_correlation"]) for row in lab.rows("syncs")} == {
        (13, 44),
        (None, None),
    }
    assert [(row["category"], row["start_ns"]) for row in lab.rows("other_events")] == [(EVENT_RECORDS, 50)]


def test_samples_of_gpu_metrics_are_counters_with_units(tmp_path: Path) -> None:
    names = [{"typeId": 1 << 32, "metricId": 7, "metricName": "SMs Active [Throughput %]"}]
    samples = [{"timestamp": 100, "typeId": 1 << 32, "metricId": metric, "value": 42} for metric in (7, 8)]
    lab = ingest_export(tmp_path, GPU_METRICS=samples, TARGET_INFO_GPU_METRICS=names)
    assert sorted(
        (row["name"], row["unit"], row["value"], row["device"], row["time_ns"]) for row in lab.rows("counters")
    ) == [
        ("SMs Active [Throughput %]", "%", 42.0, 0, 100),
        ("metric 8", None, 42.0, 0, 100),
    ]


def test_allocations_are_memory_events_with_a_sign(tmp_path: Path) -> None:
    rows = [
        {
            "start": at,
            "globalPid": GLOBAL_PID,
            "deviceId": 0,
            "address": 4096,
            "bytes": 512,
            "memoryOperationType": kind,
        }
        for at, kind in ((1, 0), (2, 1))
    ]
    lab = ingest_export(tmp_path, CUDA_GPU_MEMORY_USAGE_EVENTS=rows)
    assert sorted((row["time_ns"], row["size_bytes"], row["address"]) for row in lab.rows("memory_events")) == [
        (1, 512, 4096),
        (2, -512, 4096),
    ]


def test_tables_without_a_canonical_one_are_kept_as_other_events(tmp_path: Path) -> None:
    rows = [{"start": 5, "cpu": 3, "isSchedIn": 0, "globalTid": GLOBAL_TID}]
    row = ingest_export(tmp_path, SCHED_EVENTS=rows).one("other_events")
    assert (row["category"], row["phase"], row["pid"], row["tid"], row["start_ns"]) == (
        "SCHED_EVENTS",
        "i",
        PID,
        TID,
        5,
    )
    assert json.loads(row["args"]) == {"cpu": 3, "isSchedIn": 0}


def test_cards_become_devices_by_the_ordinal_of_the_process(tmp_path: Path) -> None:
    card = {
        "id": 3,
        "cuDevice": 0,
        "name": "A100 ",
        "busLocation": "0000:03:00.0",
        "uuid": "b4c81806-ea7b",
        "l2CacheSize": 40,
        "totalMemory": 80,
        "memoryBandwidth": 1_555_200_000_000,
        "clockRate": 1_410_000_000,
        "smCount": 108,
        "asyncEngines": 5,
        "maxWarpsPerSm": 64,
        "threadsPerWarp": 32,
        "computeMajor": 8,
        "computeMinor": 0,
    }
    seen = [{"gpuId": 3, "cudaId": 1, "pid": PID}]
    lab = ingest_export(
        tmp_path, **{KERNELS: [kernel(deviceId=1)], "TARGET_INFO_GPU": [card], "TARGET_INFO_CUDA_DEVICE": seen}
    )
    row = lab.one("devices")
    assert {name: value for name, value in row.items() if name not in ("run", "source")} == {
        "rank": 0,
        "device": 1,
        "host": None,
        "uuid": "GPU-b4c81806-ea7b",
        "bus_id": "0000:03:00.0",
        "name": "A100",
        "compute_capability": "8.0",
        "sm_count": 108,
        "memory_bytes": 80,
        "l2_bytes": 40,
        "async_engines": 5,
        "max_threads_per_sm": 2048,
        "spec_bandwidth_gb_per_s": 1555.2,
        "spec_clock_hz": 1.41e9,
    }


def test_cards_that_all_claim_ordinal_0_have_none(tmp_path: Path) -> None:
    cards = [{"id": at, "cuDevice": 0, "name": "A100", "uuid": "00000000-0000"} for at in (0, 1)]
    lab = ingest_export(tmp_path, **{KERNELS: [kernel()], "TARGET_INFO_GPU": cards})
    assert [(row["device"], row["uuid"]) for row in lab.rows("devices")] == [(None, None), (None, None)]
    assert diagnostic_codes(lab) == {"device_unknown"}


def test_every_process_that_used_a_gpu_is_a_rank_in_the_order_of_pids(tmp_path: Path) -> None:
    pids = [(1 << 48) | (pid << 24) for pid in (300, 100, 200)]
    lab = ingest_export(
        tmp_path,
        **{
            KERNELS: [kernel(globalPid=pids[0]), kernel(globalPid=pids[1])],
            COPIES: [copy(globalPid=pids[2])],
            CALLS: [call(globalTid=pids[0] | 301), call(globalTid=(1 << 48) | (50 << 24) | 51)],
        },
    )
    ranks = {
        table: {row["pid"]: row["rank"] for row in lab.rows(table)} for table in ("kernels", "memcpys", "api_calls")
    }
    assert ranks == {"kernels": {300: 2, 100: 0}, "memcpys": {200: 1}, "api_calls": {300: 2, 50: 0}}
    assert lab.one("runs")["world_size"] == 3


def test_ranks_are_put_right_where_a_process_had_a_context_and_no_work(tmp_path: Path) -> None:
    streams = [{"streamId": 7, "processId": pid, "contextId": 1} for pid in (100, 200, 300)]
    rows = [kernel(globalPid=(1 << 48) | (pid << 24)) for pid in (200, 300)]
    lab = ingest_export(tmp_path, **{KERNELS: rows, "TARGET_INFO_CUDA_STREAM": streams})
    assert {row["pid"]: row["rank"] for row in lab.rows("kernels")} == {200: 0, 300: 1}


def test_the_only_process_has_the_rank_of_the_files_name(tmp_path: Path) -> None:
    lab = ingest_export(tmp_path, name="rank3.sqlite", **{KERNELS: [kernel()]})
    assert (lab.one("kernels")["rank"], "rank_assumed" in lab.diagnostics()) == (3, False)


def test_the_rank_after_which_mpi_named_the_thread_wins(tmp_path: Path) -> None:
    named = nvtx(eventType=39, end=None, text="MPI Rank 5")
    assert ingest_export(tmp_path, **{KERNELS: [kernel()], "NVTX_EVENTS": [named]}).one("kernels")["rank"] == 5


def test_a_call_that_appears_twice_is_one_call_and_another_event(tmp_path: Path) -> None:
    """As nsys 2022 wrote it on Perlmutter: its own event of class 67 around that of CUPTI."""
    rows = [
        call(900, 950, eventClass=67, correlationId=11),
        call(901, 949, eventClass=0, correlationId=11),
        call(960, 970, eventClass=67, correlationId=12),
        call(961, 980, eventClass=0, correlationId=12),
        call(990, 995, eventClass=67, correlationId=13),
    ]
    lab = ingest_paths(tmp_path, [export(tmp_path, {"CUPTI_ACTIVITY_KIND_RUNTIME": rows})])
    assert [row["start_ns"] for row in lab.rows("api_calls")] == [901, 960, 961, 990]
    assert [(row["start_ns"], row["dur_ns"]) for row in lab.rows("other_events")] == [(900, 50)]
    assert ("call_twice" in lab.diagnostics(), lab.counts) == (True, (5, 5, 0))
