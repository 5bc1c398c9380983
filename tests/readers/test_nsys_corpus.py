"""Every real Nsight Systems export of the corpus reads as plain sqlite3 reads it."""

import sqlite3
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import pytest

import tracelab
from tests import corpus
from tests.readers.nsys_small import folder_of
from tests.readers.oracle import busy
from tests.readers.small import Lab, ingest_paths

pytestmark = corpus.needs_traces

FILES = sorted((corpus.ROOT / "nsys").rglob("*.sqlite"))
MFU = corpus.ROOT / "nsys" / "nsys-ai" / "mfu_2gpu_before.sqlite"
SMALL = [path for path in FILES if path.stat().st_size < 3_000_000]
KINDS = {0: "unknown", 1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP", 11: "UVM HtoD", 12: "UVM DtoH", 13: "UVM DtoD"}
MEMORIES = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device Static", 6: "Managed Static"}
PREFIX = "CUPTI_ACTIVITY_KIND_"


class Raw:
    """The export through sqlite3 alone."""

    def __init__(self, path: Path) -> None:
        self.con = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        self.con.text_factory = lambda text: text.decode(errors="replace")
        self.tables = {name for (name,) in self.con.execute("select name from sqlite_master where type = 'table'")}

    def rows(self, table: str, columns: str) -> list[tuple]:
        return self.con.execute(f"select {columns} from {table}").fetchall() if table in self.tables else []

    @cached_property
    def shift_ns(self) -> int:
        return next((start for (start,) in self.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")), 0)

    @cached_property
    def ranks(self) -> dict[int, int]:
        pids = {
            pid
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
            for (pid,) in self.rows(PREFIX + kind, "globalPid >> 24 & 0xffffff")
        }
        return {pid: rank for rank, pid in enumerate(sorted(pids))}


def same(left: Counter, right: Counter) -> bool:
    """Whether both hold the same rows; a few of those that differ are shown, for a full difference takes minutes."""
    if left != right:
        pytest.fail(f"stored only: {list(left - right)[:3]}; in the file only: {list(right - left)[:3]}", pytrace=False)
    return True


def named(path: Path) -> str:
    return f"{path.parent.name}-{path.name[:18]}"


@pytest.fixture(params=FILES, ids=named)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def raw(path: Path) -> Raw:
    return Raw(path)


class Labs:
    """One store of all files, each a run of its own, so that one query answers for all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._labs: dict[Path, Lab] = {}
        self._answers: dict[str, dict[object, list[dict[str, object]]]] = {}

    def lab(self, path: Path) -> Lab:
        if path not in self._labs:
            run = f"r{FILES.index(path)}"
            self._labs[path] = replace(ingest_paths(self.folder, [path], run), run=run)
        return self._labs[path]

    def answer(self, query: str, lab: Lab) -> list[dict[str, object]]:
        """The rows of a query that are about one file."""
        if query not in self._answers:
            for path in FILES:
                self.lab(path)
            self._answers[query] = defaultdict(list)
            for row in tracelab.open(lab.store).query(query).to_pylist():
                self._answers[query][row["run"]].append(row)
        return self._answers[query][lab.run]


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Labs:
    return Labs(tmp_path_factory.mktemp("nsys"))


@pytest.fixture
def lab(path: Path, labs: Labs) -> Lab:
    return labs.lab(path)


def test_kernels_are_those_of_the_file(lab: Lab, raw: Raw) -> None:
    names = dict(raw.rows("StringIds", "id, value"))
    shape = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers")
    kept = Counter(
        (
            *(
                row[name]
                for name in ("rank", "pid", "device", "context", "stream", "start_ns", "dur_ns", "correlation")
            ),
            *(row[name] for name in ("name", *shape, "shared_static_bytes", "shared_dynamic_bytes")),
        )
        for row in lab.rows("kernels")
    )
    shift, ranks = raw.shift_ns, raw.ranks
    expected = Counter(
        (ranks[g >> 24 & 0xFFFFFF], g >> 24 & 0xFFFFFF, d, c, s, t + shift, e - t, corr, names[n], *rest)
        for g, d, c, s, t, e, corr, n, *rest in raw.rows(
            PREFIX + "KERNEL",
            "globalPid, deviceId, contextId, streamId, start, end, correlationId, demangledName, gridX, gridY, gridZ, "
            "blockX, blockY, blockZ, registersPerThread, staticSharedMemory, dynamicSharedMemory",
        )
    )
    assert same(kept, expected)


def test_copies_are_those_of_the_file(lab: Lab, raw: Raw) -> None:
    ends = ("direction", "src_memory", "dst_memory", "correlation")
    kept = Counter(
        tuple(row[name] for name in ("pid", "device", "start_ns", "dur_ns", "size_bytes", *ends))
        for row in lab.rows("memcpys")
    )
    shift = raw.shift_ns
    expected = Counter(
        (g >> 24 & 0xFFFFFF, d, t + shift, e - t, b, KINDS[k], MEMORIES.get(src), MEMORIES.get(dst), corr or None)
        for g, d, t, e, b, k, src, dst, corr in raw.rows(
            PREFIX + "MEMCPY", "globalPid, deviceId, start, end, bytes, copyKind, srcKind, dstKind, correlationId"
        )
    )
    assert same(kept, expected)


def test_memsets_and_synchronizations_match_the_file(lab: Lab, raw: Raw) -> None:
    shift = raw.shift_ns
    memsets = Counter((row["start_ns"], row["dur_ns"], row["size_bytes"], row["value"]) for row in lab.rows("memsets"))
    rows = raw.rows(PREFIX + "MEMSET", "start, end, bytes, value")
    assert same(memsets, Counter((t + shift, e - t, b, v) for t, e, b, v in rows))
    kinds = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
    stored = Counter(
        (row["start_ns"], row["dur_ns"], row["kind"], row["stream"], row["event_id"]) for row in lab.rows("syncs")
    )
    absent = (4294967295, -1)
    expected = Counter(
        (t + shift, e - t, kinds[k], None if s in absent else s, None if event in absent else event)
        for t, e, k, s, event in raw.rows(PREFIX + "SYNCHRONIZATION", "start, end, syncType, streamId, eventId")
    )
    assert same(stored, expected)


def test_calls_are_those_of_the_file(lab: Lab, raw: Raw) -> None:
    names = dict(raw.rows("StringIds", "id, value"))
    shift = raw.shift_ns
    rows = lab.rows("api_calls")
    kept = [row for row in rows if row["api"] in ("runtime", "driver")]
    stored = Counter(
        (row["pid"], row["tid"], row["start_ns"], row["dur_ns"], row["correlation"], row["return_value"])
        for row in kept
    )
    columns = "globalTid, start, end, correlationId, returnValue, nameId, eventClass"
    every = raw.rows(PREFIX + "RUNTIME", columns)
    cupti = {(call[0], call[3]) for call in every if call[6] in (0, 1)}
    calls = [call for call in every if call[6] in (0, 1) or (call[0], call[3]) not in cupti]
    expected = Counter(
        (g >> 24 & 0xFFFFFF, g & 0xFFFFFF, t + shift, e - t, corr or None, value) for g, t, e, corr, value, *_ in calls
    )
    assert same(stored, expected)
    cut = {name.rsplit("_v", 1)[0] if name[-4:].isdigit() else name for name in (names[call[5]] for call in calls)}
    assert {row["name"] for row in kept} == cut
    assert sum(row["api"] == "osrt" for row in rows) == len(raw.rows("OSRT_API", "start"))


def test_annotations_are_the_ranges_of_the_file(lab: Lab, raw: Raw) -> None:
    names = dict(raw.rows("StringIds", "id, value"))
    created = raw.rows("NVTX_EVENTS", "eventType, domainId, text")
    domains = {domain: text for kind, domain, text in created if kind == 75}
    shift = raw.shift_ns
    stored = Counter(
        (row["name"], row["domain"], row["pid"], row["tid"], row["start_ns"], row["dur_ns"])
        for row in lab.rows("annotations")
    )
    ranges = raw.rows("NVTX_EVENTS", "eventType, text, textId, domainId, globalTid, start, end")
    expected = Counter(
        (
            *(names[key] if text is None else text, domains.get(d) or (str(d) if d else None)),
            *(g >> 24 & 0xFFFFFF, g & 0xFFFFFF, t + shift, None if e is None else e - t),
        )
        for kind, text, key, d, g, t, e in ranges
        if kind in (34, 59, 60)
    )
    assert same(stored, expected)


def test_every_row_of_an_event_is_somewhere(lab: Lab, raw: Raw) -> None:
    tables = [
        table
        for table in raw.tables
        if {"start", "timestamp"} & {row[1] for row in raw.con.execute(f"pragma table_info({table})")}
        and table not in ("DIAGNOSTIC_EVENT",)
    ] + [PREFIX + "CUDA_EVENT"] * (PREFIX + "CUDA_EVENT" in raw.tables)
    held = sum(len(raw.rows(table, "1")) for table in set(tables))
    assert lab.counts == (held, held, 0)
    assert lab.source["complete"]


def test_kernel_concurrency_is_that_of_a_plain_sweep(lab: Lab, raw: Raw, labs: Labs) -> None:
    answer = labs.answer("kernel_concurrency", lab)
    found = {(row["rank"], row["device"]): (row["kernels"], row["busy_ns"], row["concurrent_ns"]) for row in answer}
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for g, device, start, end in raw.rows(PREFIX + "KERNEL", "globalPid, deviceId, start, end"):
        lanes[raw.ranks[g >> 24 & 0xFFFFFF], device].append((start, end))
    assert found == {lane: (len(rows), busy(rows), busy(rows, 2)) for lane, rows in lanes.items()}


def test_memcpy_throughput_has_the_files_bytes_and_times(lab: Lab, raw: Raw, labs: Labs) -> None:
    answer = labs.answer("memcpy_throughput", lab)
    columns = ("rank", "device", "direction", "src_memory", "dst_memory", "copies", "size_bytes", "dur_ns", "busy_ns")
    lanes: dict[tuple, list[tuple[int, int, int]]] = defaultdict(list)
    for g, device, kind, src, dst, *row in raw.rows(
        PREFIX + "MEMCPY", "globalPid, deviceId, copyKind, srcKind, dstKind, start, end, bytes"
    ):
        lane = (raw.ranks[g >> 24 & 0xFFFFFF], device, KINDS[kind], MEMORIES.get(src), MEMORIES.get(dst))
        lanes[lane].append(tuple(row))
    assert {tuple(row[name] for name in columns) for row in answer} == {
        (*lane, len(rows), sum(b for _, _, b in rows), sum(e - s for s, e, _ in rows), busy((s, e) for s, e, _ in rows))
        for lane, rows in lanes.items()
    }


def test_gpu_breakdown_adds_up_to_the_files_window(lab: Lab, raw: Raw, labs: Labs) -> None:
    answer = labs.answer("gpu_breakdown", lab)
    spans: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for kind in ("KERNEL", "MEMCPY", "MEMSET"):
        for g, device, start, end in raw.rows(PREFIX + kind, "globalPid, deviceId, start, end"):
            spans[raw.ranks[g >> 24 & 0xFFFFFF], device].append((start, end))
    windows = {lane: max(e for _, e in rows) - min(s for s, _ in rows) for lane, rows in spans.items()}
    assert {(row["rank"], row["device"]): row["window_ns"] for row in answer} == windows
    for row in answer:
        lane = (row["rank"], row["device"])
        parts = row["compute_ns"] + row["exposed_comm_ns"] + row["exposed_memory_ns"]
        assert (parts, row["idle_ns"]) == (busy(spans[lane]), windows[lane] - busy(spans[lane]))


@pytest.mark.parametrize("path", SMALL, indirect=True, ids=named)
def test_a_folder_of_parquet_files_has_the_same_rows(lab: Lab, path: Path, tmp_path: Path) -> None:
    other = ingest_paths(tmp_path, [folder_of(path, tmp_path / "in" / "report_pqtdir")])
    assert other.source["sha256"] != lab.source["sha256"]
    for table in (
        "kernels",
        "memcpys",
        "memsets",
        "syncs",
        "api_calls",
        "annotations",
        "other_events",
        "devices",
        "runs",
    ):
        left, right = (Counter(str(row | {"source": "", "run": ""}) for row in one.rows(table)) for one in (lab, other))
        assert same(left, right), table


def test_nothing_of_the_environment_is_stored(lab: Lab, raw: Raw) -> None:
    secrets = {value for (value,) in raw.rows("TARGET_INFO_SYSTEM_ENV", "value") if value and len(value) > 12}
    secrets |= {value for (value,) in raw.rows("META_DATA_CAPTURE", "value") if value and len(value) > 24}
    public_texts = {
        *(text for (text,) in raw.rows("StringIds", "value")),
        *(str(gpu) for (gpu,) in raw.rows("TARGET_INFO_GPU", "name")),
    }
    texts = lab.texts()
    assert not {secret for secret in secrets if secret in texts and not any(secret in text for text in public_texts)}


def test_nccl_shares_of_mfu_2gpu_before_are_the_known_ones(labs: Labs) -> None:
    lab = labs.lab(MFU)
    rows = tracelab.open(lab.store).query("nccl_share", run=lab.run).to_pylist()
    assert {
        (row["rank"], row["device"]): (
            row["kernels"],
            row["dur_ns"],
            *(
                round(100 * row[f"of_{what}_ratio"], 4)
                for what in ("gpu_activity", "kernel_sum", "kernel_busy", "window")
            ),
        )
        for row in rows
        if row["collective"] == "all"
    } == {
        (0, 0): (33, 17_172_652, 6.2713, 6.3397, 6.3400, 5.7271),
        (1, 1): (33, 8_229_100, 3.0789, 3.1133, 3.1133, 2.7553),
    }
    assert {row["collective"] for row in rows} == {"all", "send_recv"}
