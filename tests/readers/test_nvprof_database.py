"""Small databases as nvprof writes them, table by table, and the rows they make."""

import gzip
import json
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.readers.small import Lab, Row, ingest_paths

BEGIN = 1_543_505_607_000_000_000
PREFIX = "CUPTI_ACTIVITY_KIND_"

KERNEL = {"start": BEGIN, "end": BEGIN + 100, "deviceId": 1, "contextId": 2, "streamId": 13, "correlationId": 40}
KERNEL |= {"gridX": 8, "gridY": 4, "gridZ": 2, "blockX": 64, "blockY": 2, "blockZ": 1, "registersPerThread": 18}
KERNEL |= {"staticSharedMemory": 1024, "dynamicSharedMemory": 16, "name": 2}
COPY = {"copyKind": 1, "srcKind": 1, "dstKind": 3, "bytes": 4096, "start": BEGIN, "end": BEGIN + 50}
COPY |= {"deviceId": 1, "contextId": 2, "streamId": 13, "correlationId": 41}
CALL = {"cbid": 31, "start": BEGIN, "end": BEGIN + 7, "processId": 77, "threadId": 78, "correlationId": 41}
CALL |= {"returnValue": 0}
TEXTS = ("./secret --token abc", "scale(float*)", "Tesla X", "forward", "layers")


def write(path: Path, tables: Mapping[str, Sequence[Mapping[str, object]]], texts: Sequence[str] = TEXTS) -> Path:
    """A database with these rows; the string table has the texts from id 1 on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("create table StringTable (_id_ integer primary key autoincrement, value text not null unique)")
        con.executemany("insert into StringTable values (?, ?)", enumerate(("-- null --", *texts)))
        for kind, rows in tables.items():
            columns = list(rows[0])
            kinds = ["BLOB" if isinstance(rows[0][name], bytes) else "INT" for name in columns]
            listed = ", ".join(f'"{name}" {kind} NOT NULL' for name, kind in zip(columns, kinds, strict=True))
            con.execute(f"create table {PREFIX}{kind} (_id_ integer primary key autoincrement, {listed})")
            marks = ", ".join("?" for _ in columns)
            names = ", ".join(f'"{name}"' for name in columns)
            con.executemany(f"insert into {PREFIX}{kind} ({names}) values ({marks})", [tuple(r.values()) for r in rows])
    return path


def read(folder: Path, **tables: Sequence[Mapping[str, object]]) -> Lab:
    return ingest_paths(folder, [write(folder / "in" / "run.nvprof", tables)])


def part(row: Row, *columns: str) -> tuple[object, ...]:
    return tuple(row[column] for column in columns)


def process(pid: int = 77, tid: int = 78) -> bytes:
    return struct.pack("<III", pid, tid, 0)


# --------------------------------------------------------------------------------------------------------- events


@pytest.mark.parametrize("kind", ["CONCURRENT_KERNEL", "KERNEL", "CDP_KERNEL"])
def test_kernel(tmp_path: Path, kind: str) -> None:
    row = read(tmp_path, **{kind: [KERNEL], "RUNTIME": [CALL]}).one("kernels")
    expected = {
        "pid": 77,
        "device": 1,
        "context": 2,
        "stream": 13,
        "start_ns": BEGIN,
        "dur_ns": 100,
        "correlation": 40,
        "name": "scale(float*)",
        "grid_x": 8,
        "grid_y": 4,
        "grid_z": 2,
        "block_x": 64,
        "block_y": 2,
        "block_z": 1,
        "registers": 18,
        "shared_static_bytes": 1024,
        "shared_dynamic_bytes": 16,
        "args": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_values_without_a_column_are_kept_and_zeros_are_not(tmp_path: Path) -> None:
    row = KERNEL | {
        "localMemoryTotal": 512,
        "queued": 0,
        "cacheConfig": b"\2",
        "launchType": 0,
        "completed": BEGIN + 100,
    }
    stored = read(tmp_path, CONCURRENT_KERNEL=[row]).one("kernels")
    assert json.loads(stored["args"]) == {"localMemoryTotal": 512, "cacheConfig": "02"}


@pytest.mark.parametrize(
    ("kind", "direction"),
    [(1, "HtoD"), (2, "DtoH"), (8, "DtoD"), (9, "HtoH"), (10, "PtoP"), (0, "unknown"), (99, "unknown")],
)
def test_copy(tmp_path: Path, kind: int, direction: str) -> None:
    row = read(tmp_path, MEMCPY=[COPY | {"copyKind": kind}]).one("memcpys")
    columns = ("direction", "src_memory", "dst_memory", "size_bytes", "start_ns", "dur_ns", "stream", "correlation")
    assert part(row, *columns) == (direction, "Pageable", "Device", 4096, BEGIN, 50, 13, 41)


def test_copy_between_devices(tmp_path: Path) -> None:
    row = COPY | {"copyKind": 10, "srcDeviceId": 0, "dstDeviceId": 3}
    assert part(read(tmp_path, MEMCPY2=[row]).one("memcpys"), "direction", "src_device", "dst_device") == ("PtoP", 0, 3)


def test_memset(tmp_path: Path) -> None:
    row = {
        **{key: COPY[key] for key in ("start", "end", "deviceId", "contextId", "streamId", "correlationId", "bytes")}
    }
    stored = read(tmp_path, MEMSET=[row | {"value": 255, "memoryKind": 5}]).one("memsets")
    assert part(stored, "memory", "size_bytes", "value", "dur_ns") == ("Managed", 4096, 255, 50)


def test_names_of_calls_come_from_their_numbers(tmp_path: Path) -> None:
    runtime = [CALL, CALL | {"cbid": 211}, CALL | {"cbid": 99_999}]
    driver = [CALL | {"cbid": 307}, CALL | {"cbid": 1}]
    rows = read(tmp_path, RUNTIME=runtime, DRIVER=driver).rows("api_calls")
    assert {part(row, "api", "name") for row in rows} == {
        ("runtime", "cudaMemcpy"),
        ("runtime", "cudaLaunchKernel"),
        ("runtime", "cbid 99999"),
        ("driver", "cuLaunchKernel"),
        ("driver", "cuInit"),
    }


def test_call(tmp_path: Path) -> None:
    row = read(tmp_path, RUNTIME=[CALL | {"returnValue": 2}]).one("api_calls")
    columns = ("pid", "tid", "start_ns", "dur_ns", "correlation", "return_value", "args")
    assert part(row, *columns) == (77, 78, BEGIN, 7, 41, 2, None)


def test_synchronization_has_the_device_of_its_context(tmp_path: Path) -> None:
    sync = {
        "type": 3,
        "start": BEGIN,
        "end": BEGIN + 5,
        "correlationId": 9,
        "contextId": 2,
        "streamId": 13,
        "cudaEventId": -1,
    }
    lab = read(
        tmp_path,
        SYNCHRONIZATION=[sync, sync | {"type": 2, "cudaEventId": 4}],
        CONTEXT=[{"contextId": 2, "deviceId": 6}],
    )
    rows = [part(row, "kind", "device", "stream", "event_id", "dur_ns") for row in lab.rows("syncs")]
    assert sorted(rows, key=str) == [("Stream Sync", 6, 13, None, 5), ("Stream Wait Event", 6, 13, 4, 5)]


@pytest.mark.parametrize(("kind", "direction", "device"), [(1, "UVM HtoD", 3), (2, "UVM DtoH", 2), (8, "UVM DtoD", 2)])
def test_migrations_of_unified_memory_are_copies(tmp_path: Path, kind: int, direction: str, device: int) -> None:
    row = {
        "counterKind": kind,
        "value": 65_536,
        "start": BEGIN,
        "end": BEGIN + 9,
        "address": 4096,
        "srcId": 2,
        "dstId": 3,
    }
    stored = read(tmp_path, UNIFIED_MEMORY_COUNTER=[row | {"streamId": 0, "processId": 77}]).one("memcpys")
    columns = ("direction", "device", "size_bytes", "dur_ns", "pid", "stream")
    assert part(stored, *columns) == (direction, device, 65_536, 9, 77, None)


def test_page_faults_are_counters(tmp_path: Path) -> None:
    row = {"counterKind": 4, "value": 12, "start": BEGIN, "end": BEGIN + 9, "address": 4096, "srcId": 2, "dstId": 3}
    stored = read(tmp_path, UNIFIED_MEMORY_COUNTER=[row | {"processId": 77}]).one("counters")
    assert part(stored, "name", "value", "device", "time_ns") == ("unified_memory_gpu_page_faults", 12.0, 2, BEGIN)


def test_old_counters_of_unified_memory_have_one_time(tmp_path: Path) -> None:
    row = {"counterKind": 1, "scope": 1, "deviceId": 2, "value": 4096, "timestamp": BEGIN, "processId": 77}
    stored = read(tmp_path, UNIFIED_MEMORY_COUNTER=[row]).one("counters")
    columns = ("name", "value", "unit", "device", "time_ns")
    assert part(stored, *columns) == ("unified_memory_bytes_transfer_htod", 4096.0, "byte", 2, BEGIN)


def test_overhead_is_kept_with_the_thread_it_delayed(tmp_path: Path) -> None:
    row = {"overheadKind": 65_536, "objectKind": 2, "objectId": process(), "start": BEGIN, "end": BEGIN + 3}
    stored = read(tmp_path, OVERHEAD=[row]).one("other_events")
    columns = ("category", "name", "pid", "tid", "dur_ns")
    assert part(stored, *columns) == ("overhead", "CUPTI buffer flush", 77, 78, 3)


def test_samples_of_the_environment_are_counters(tmp_path: Path) -> None:
    def sample(kind: int, *numbers: int) -> Row:
        data = struct.pack("<IIIII", *numbers, *[0] * (5 - len(numbers)))
        return {"deviceId": 1, "timestamp": BEGIN, "environmentKind": kind, "data": data}

    rows = [sample(1, 1455, 850), sample(2, 61), sample(3, 123_456), sample(4, 40)]
    stored = {part(row, "name", "value", "unit") for row in read(tmp_path, ENVIRONMENT=rows).rows("counters")}
    assert stored == {
        ("sm_clock", 1.455e9, "Hz"),
        ("memory_clock", 8.5e8, "Hz"),
        ("temperature", 61.0, "°C"),
        ("power", 123.456, "W"),
        ("fan_speed", 40.0, "%"),
    }


def test_unknown_tables_become_other_events(tmp_path: Path) -> None:
    row = {"start": BEGIN, "end": BEGIN + 8, "processId": 77, "threadId": 78, "name": 4, "lines": 12}
    stored = read(tmp_path, OPENACC_LAUNCH=[row]).one("other_events")
    columns = ("category", "name", "pid", "tid", "start_ns", "dur_ns", "args")
    assert part(stored, *columns) == ("openacc_launch", "forward", 77, 78, BEGIN, 8, '{"lines":12}')


# -------------------------------------------------------------------------------------------------------- ranges


def marker(flags: int, at: int, number: int, name: int = 4, domain: int = 0) -> Row:
    row = {"flags": flags, "timestamp": BEGIN + at, "id": number, "objectKind": 2, "objectId": process()}
    return row | {"name": name, "domain": domain}


def test_range_is_a_begin_and_the_end_of_its_id(tmp_path: Path) -> None:
    rows = [marker(2, 10, 1, domain=5), marker(2, 20, 2), marker(4, 30, 2, 0), marker(4, 50, 1, 0)]
    stored = read(tmp_path, MARKER=rows).rows("annotations")
    columns = ("name", "domain", "scope", "pid", "tid", "start_ns", "dur_ns", "args")
    assert [part(row, *columns) for row in stored] == [
        ("forward", "layers", "cpu", 77, 78, BEGIN + 10, 40, None),
        ("forward", None, "cpu", 77, 78, BEGIN + 20, 10, None),
    ]


def test_mark_and_range_that_never_ended_have_no_duration(tmp_path: Path) -> None:
    stored = read(tmp_path, MARKER=[marker(1, 10, 1), marker(2, 20, 2)]).rows("annotations")
    assert [part(row, "name", "dur_ns") for row in stored] == [("forward", None), ("forward", None)]


def test_end_without_a_begin_is_kept_and_reported(tmp_path: Path) -> None:
    lab = read(tmp_path, MARKER=[marker(4, 30, 2, 0)])
    assert (lab.rows("annotations"), lab.one("other_events")["start_ns"]) == ([], BEGIN + 30)


def test_data_of_a_marker_is_its_category_and_payload(tmp_path: Path) -> None:
    data = {"flags": 2, "id": 1, "payloadKind": 1, "payload": struct.pack("<Q", 5), "color": 0, "category": 3}
    row = read(tmp_path, MARKER=[marker(1, 10, 1)], MARKER_DATA=[data]).one("annotations")
    assert (row["category"], json.loads(row["payload"])) == ("3", {"kind": 1, "value": 5.0})


# ------------------------------------------------------------------------------------------------------- metrics


@pytest.mark.parametrize(
    ("packed", "value"),
    [
        (struct.pack("<d", 0.9375), 0.9375),
        (struct.pack("<d", -12.75), -12.75),
        (struct.pack("<d", 1e300), 1e300),
        (struct.pack("<d", 0.1), 0.1),
        (struct.pack("<Q", 4_096), 4_096.0),
        (struct.pack("<Q", 0), 0.0),
        (struct.pack("<q", -7), -7.0),
    ],
)
def test_metric_of_a_launch_is_a_double_or_a_whole_number(tmp_path: Path, packed: bytes, value: float) -> None:
    metric = {"id": 19_923_062, "value": packed, "correlationId": 40, "flags": 0}
    row = read(tmp_path, CONCURRENT_KERNEL=[KERNEL], METRIC=[metric]).one("kernel_metrics")
    columns = ("metric", "value", "kernel", "launch", "device", "stream", "grid_x", "block_z")
    assert part(row, *columns) == ("metric 19923062", value, "scale(float*)", 40, 1, 13, 8, 1)


def test_events_of_instances(tmp_path: Path) -> None:
    rows = [{"id": 5, "domain": 1, "instance": at, "value": 10 + at, "correlationId": 40} for at in (0, 1)]
    stored = read(tmp_path, KERNEL=[KERNEL], EVENT_INSTANCE=rows).rows("kernel_metrics")
    assert [part(row, "metric", "instance", "value") for row in stored] == [
        ("event 5", "0", 10.0),
        ("event 5", "1", 11.0),
    ]


def test_metric_without_its_kernel_is_kept(tmp_path: Path) -> None:
    metric = {"id": 5, "value": struct.pack("<Q", 3), "correlationId": 99, "flags": 0}
    row = read(tmp_path, KERNEL=[KERNEL], METRIC=[metric]).one("kernel_metrics")
    assert part(row, "value", "kernel", "launch") == (3.0, None, 99)


# ------------------------------------------------------------------------------------------------- the whole file


def test_device(tmp_path: Path) -> None:
    device = {"id": 1, "name": 3, "uuid": bytes(range(16)), "computeCapabilityMajor": 6, "computeCapabilityMinor": 1}
    device |= {"globalMemoryBandwidth": 345_600_000, "coreClockRate": 1_531_000, "numMultiprocessors": 30}
    row = read(tmp_path, DEVICE=[device], KERNEL=[KERNEL]).one("devices")
    columns = ("device", "name", "uuid", "compute_capability", "spec_bandwidth_gb_per_s", "spec_clock_hz", "sm_count")
    assert part(row, *columns) == (1, "Tesla X", "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f", "6.1", 345.6, 1.531e9, 30)


@pytest.mark.parametrize(("first", "clock"), [(BEGIN, "unix"), (5_000_000_000, "session")])
def test_clock_is_decided_by_the_times(tmp_path: Path, first: int, clock: str) -> None:
    assert read(tmp_path, KERNEL=[KERNEL | {"start": first, "end": first + 5}]).source["clock"] == clock


def test_times_that_could_not_be_taken_are_null(tmp_path: Path) -> None:
    row = read(tmp_path, KERNEL=[KERNEL | {"start": 0, "end": 0}]).one("kernels")
    assert part(row, "start_ns", "dur_ns") == (None, None)


def test_event_that_ends_before_it_begins_is_kept_and_reported(tmp_path: Path) -> None:
    lab = read(tmp_path, KERNEL=[KERNEL | {"end": BEGIN - 4}])
    assert (lab.one("kernels")["dur_ns"], lab.diagnostics()) == (-4, {"negative_duration"})


def test_absent_ids_are_null(tmp_path: Path) -> None:
    row = read(tmp_path, KERNEL=[KERNEL | {"deviceId": -1, "streamId": 4_294_967_295}]).one("kernels")
    assert part(row, "device", "stream") == (None, None)


def test_process_of_gpu_rows_is_that_of_the_file_s_name_where_there_are_no_calls(tmp_path: Path) -> None:
    name = {"objectKind": 1, "objectId": process(55, 0), "name": 1}
    assert read(tmp_path, KERNEL=[KERNEL], NAME=[name]).one("kernels")["pid"] == 55


def test_process_of_gpu_rows_is_null_where_there_are_two(tmp_path: Path) -> None:
    assert read(tmp_path, KERNEL=[KERNEL], RUNTIME=[CALL, CALL | {"processId": 99}]).one("kernels")["pid"] is None


def test_command_line_is_not_stored_and_names_of_threads_are(tmp_path: Path) -> None:
    rows = [{"objectKind": 1, "objectId": process(), "name": 1}, {"objectKind": 2, "objectId": process(), "name": 4}]
    lab = read(tmp_path, NAME=rows, KERNEL=[KERNEL])
    assert ("secret" in lab.texts(), lab.one("other_events")["name"]) == (False, "forward")


def test_folders_of_source_files_are_not_stored(tmp_path: Path) -> None:
    path = write(
        tmp_path / "in" / "run.nvprof",
        {"SOURCE_LOCATOR": [{"id": 1, "lineNumber": 12, "fileName": 1}]},
        texts=("/home/me/train.cu",),
    )
    lab = ingest_paths(tmp_path, [path])
    assert (json.loads(lab.one("other_events")["args"])["fileName"], "home/me" in lab.texts()) == ("train.cu", False)


def test_long_blobs_are_stored_as_their_size(tmp_path: Path) -> None:
    row = {"contextId": 1, "id": 2, "cubin": b"\1" * 1000}
    assert json.loads(read(tmp_path, MODULE=[row]).one("other_events")["args"])["cubin"] == "1000 bytes"


def test_value_of_another_kind_costs_that_value_only(tmp_path: Path) -> None:
    rows = [KERNEL, KERNEL | {"gridX": "eight", "start": BEGIN + 1}, KERNEL | {"start": BEGIN + 2}]
    lab = read(tmp_path, CONCURRENT_KERNEL=rows)
    assert [part(row, "start_ns", "grid_x") for row in lab.rows("kernels")] == [
        (BEGIN, 8),
        (BEGIN + 1, None),
        (BEGIN + 2, 8),
    ]
    assert (lab.diagnostics(), lab.counts) == ({"value_unfit"}, (3, 3, 0))


def test_numbers_beyond_their_column_are_null(tmp_path: Path) -> None:
    assert read(tmp_path, CONCURRENT_KERNEL=[KERNEL | {"gridX": 1 << 40}]).one("kernels")["grid_x"] is None


def test_table_larger_than_a_batch_is_read_whole(tmp_path: Path) -> None:
    rows = [KERNEL | {"start": BEGIN + 200 * at, "end": BEGIN + 200 * at + 100} for at in range(70_000)]
    lab = read(tmp_path, CONCURRENT_KERNEL=rows)
    assert (lab.counts, sum(row["dur_ns"] for row in lab.rows("kernels"))) == ((70_000, 70_000, 0), 7_000_000)


def test_packed_database_is_unpacked(tmp_path: Path) -> None:
    path = write(tmp_path / "run.nvprof", {"CONCURRENT_KERNEL": [KERNEL]})
    packed = tmp_path / "in" / "run.nvprof.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert ingest_paths(tmp_path, [packed]).counts == (1, 1, 0)


def test_names_that_need_care_in_addresses_are_opened(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "50%? #1.nvprof", {"CONCURRENT_KERNEL": [KERNEL]})
    assert ingest_paths(tmp_path, [path]).counts == (1, 1, 0)


def test_another_tool_s_database_is_no_profiler_data(tmp_path: Path) -> None:
    path = tmp_path / "in.sqlite"
    with closing(sqlite3.connect(path)) as con, con:
        con.execute("create table bookmarks (url text)")
    lab = ingest_paths(tmp_path, [path])
    assert (lab.file.status, lab.report.exit_code) == ("not_profiler_data", 3)


def test_database_is_not_changed(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "run.nvprof", {"CONCURRENT_KERNEL": [KERNEL]})
    before = path.read_bytes()
    ingest_paths(tmp_path, [path])
    assert (path.read_bytes(), [item.name for item in path.parent.iterdir()]) == (before, ["run.nvprof"])


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.8, 0.95])
def test_cut_database_keeps_all_readable_rows_and_is_incomplete(tmp_path: Path, kept: float) -> None:
    rows = [KERNEL | {"start": BEGIN + 200 * at, "end": BEGIN + 200 * at + 100} for at in range(20_000)]
    path = write(tmp_path / "in" / "run.nvprof", {"CONCURRENT_KERNEL": rows})
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * kept)])
    lab = ingest_paths(tmp_path, [path])
    stored = lab.rows("kernels")
    assert (lab.file.status, lab.diagnostics()) == ("salvaged", {"database_cut", "table_broken"})
    assert {row["start_ns"] for row in stored} <= {row["start"] for row in rows}
    assert len(stored) > 20_000 * (kept - 0.1)
