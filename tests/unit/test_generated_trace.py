"""The generated traces and the benchmark's builder: exact times, unique ids, the same bytes each time."""

import gzip
import importlib
import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

from tracelab.client import Lab
from tracelab.ingest import pipeline

ROOT = Path(__file__).parents[2]
GENERATED = ROOT / "data" / "generated"


@pytest.fixture(scope="module")
def generate() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "data")
        yield importlib.import_module("generate")


@pytest.fixture(scope="module")
def files(generate: ModuleType) -> dict[str, bytes]:
    return generate.files()


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("build_trace")


def events_of(path: Path) -> list[dict]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if path.suffix == ".gz" else raw
    trace = json.loads(text, parse_float=Decimal)
    return trace["traceEvents"] if isinstance(trace, dict) else trace


def rank_files() -> list[Path]:
    return sorted(GENERATED.glob("*/rank*.json.gz"))


def test_the_generator_writes_the_committed_files_again(files: dict[str, bytes]) -> None:
    written = {name: gzip.decompress(content) if name.endswith(".gz") else content for name, content in files.items()}
    committed = {
        str(path.relative_to(GENERATED)): gzip.decompress(path.read_bytes())
        if path.suffix == ".gz"
        else path.read_bytes()
        for path in [*rank_files(), GENERATED / "truth.json"]
    }
    assert written == committed
    headers = {content[:10] for name, content in files.items() if name.endswith(".gz")}
    assert {header[4:8] for header in headers} == {bytes(4)}, "the time of compression would change the bytes"


@pytest.mark.parametrize("rank", range(4))
def test_the_truth_counts_what_the_file_holds(rank: int) -> None:
    figures = json.loads((GENERATED / "truth.json").read_text())["ranks"][str(rank)]
    rows = [row for row in events_of(rank_files()[rank]) if row.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    assert figures["gpu_activity_ns"] == sum(row["dur"] for row in rows) * 1_000
    assert figures["kernels"] == sum(row["cat"] == "kernel" for row in rows)
    first, last = min(row["ts"] for row in rows), max(row["ts"] + row["dur"] for row in rows)
    assert figures["window_ns"] == (last - first) * 1_000


@pytest.mark.parametrize("rank", range(4))
def test_the_parts_of_the_truth_fill_the_window(rank: int) -> None:
    figures = json.loads((GENERATED / "truth.json").read_text())["ranks"][str(rank)]
    parts = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns")
    assert sum(figures[part] for part in parts) == figures["window_ns"]


def test_rounded_doubles_misread_the_generated_times() -> None:
    times = [event["ts"] for event in events_of(rank_files()[0])]
    assert sum(round(float(ts) * 1_000) != int(ts * 1_000) for ts in times) > len(times) / 10


def test_kernels_of_one_stream_never_overlap_and_never_start_before_their_launch() -> None:
    events = events_of(rank_files()[2])
    rows = [row for row in events if row.get("cat") == "kernel" and row["args"]["stream"] == 7]
    calls = {row["args"]["correlation"]: row for row in events if row.get("cat") in ("cuda_runtime", "cuda_driver")}
    rows.sort(key=lambda row: row["ts"])
    assert all(row["ts"] + row["dur"] <= after["ts"] for row, after in pairwise(rows))
    assert all(row["ts"] >= calls[row["args"]["correlation"]]["ts"] for row in rows)


def test_queries_find_the_straggler_and_the_clocks_of_the_job_of_eight_ranks(tmp_path: Path) -> None:
    truth = json.loads((GENERATED / "truth.json").read_text())["job"]
    pipeline.ingest([GENERATED / truth["run"]], tmp_path / "lab")
    lab = Lab(tmp_path / "lab")
    for row in lab.query("clock_offsets").to_pylist():
        assert abs(row["offset_ns"] - truth["ranks"][str(row["rank"])]["clock_offset_ns"]) < 1_000
        assert (row["violations"], row["verdict"] != "refused") == (0, True)
    stragglers = lab.query("stragglers").to_pylist()
    assert [row["rank"] for row in stragglers if row["last_ratio"] > 0.5 and row["chance"] < 0.01] == [2]
    for row in stragglers:
        true = truth["ranks"][str(row["rank"])]
        for column in ("wait_ns", "caused_wait_ns", "removable_ns"):
            assert abs(row[column] - true[column]) < 500 * row["collectives"]
        assert (row["collectives"], row["times_last"]) == (true["collectives"], true["times_last"])


@pytest.fixture
def scrub(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "data")
    return importlib.import_module("anonymize")


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ('{\n  "with_stack": 1,\n  "host_name": "node17",\n  "x": 1', '{\n  "with_stack": 1,\n  "x": 1'),
        ('"traceName": "/tmp/tmpab12/trace.json"', '"traceName": "run.json"'),
        ('"name": "/home/me/lab/data/record.py(9): main"', '"name": "data/record.py(9): main"'),
        ('"name": "/home/me/v/lib/python3.11/site-packages/torch/a.py(3): f"', '"name": "torch/a.py(3): f"'),
        ('"name": "/usr/lib/python3.12/json/decoder.py(3): f"', '"name": "json/decoder.py(3): f"'),
        ('"name": "aten::div"', '"name": "aten::div"'),
    ],
)
def test_a_recording_holds_nothing_about_its_machine(scrub: ModuleType, recorded: str, kept: str) -> None:
    assert scrub.scrub(recorded, "run.json", Path("/home/me/lab")) == kept


@pytest.mark.parametrize("path", sorted((ROOT / "data" / "cpu").rglob("*.gz")), ids=lambda path: path.name)
def test_committed_recordings_name_no_host_and_no_absolute_path(path: Path) -> None:
    text = gzip.decompress(path.read_bytes()).decode()
    assert '"host_name"' not in text
    assert '": "/' not in text


INTEGER = [
    '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel \\"ts\\": 5 100%d", "pid": 9, "tid": 9,'
    ' "ts": 1683564901548726, "dur": 11, "args": {"External id": 4, "cbid": 211, "correlation": 7}}',
    '{"ph": "s", "id": 7, "pid": 9, "tid": 9, "ts": 1683564901548726, "cat": "ac2g", "name": "ac2g"}',
    '{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1683564901548740, "dur": 30,'
    ' "args": {"External id": 4, "device": 0, "stream": 7, "correlation": 7}}',
    '{"ph": "X", "cat": "cuda_sync", "name": "Event Sync", "pid": 0, "tid": -1, "ts": 1683564901548750, "dur": 2,'
    ' "args": {"correlation": 4294967295, "wait_on_cuda_event_record_corr_id": -1}}',
    '{"ph": "M", "name": "process_name", "pid": 9, "tid": 0, "ts": 1683564901548000, "args": {"name": "python"}}',
    '{"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 1683564901549000}',
]
ABSOLUTE = [line.replace("1683564901548726", "1683564901548726.017") for line in INTEGER]
RELATIVE = [line.replace("1683564901", "4450000").replace("548740", "548740.999") for line in INTEGER]
TEXTS = {
    "integer": '{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(INTEGER) + '\n], "traceName": "t"}',
    "absolute": '{"schemaVersion": 1, "traceEvents": [\n' + ",\n".join(ABSOLUTE) + '\n], "traceName": "t"}',
    "relative": '{"traceEvents": [\n' + ",\n".join(RELATIVE) + '\n], "baseTimeNanoseconds": 1782967788000000000}',
    "array": "[" + ",".join(INTEGER) + "]",
}


@pytest.mark.parametrize("form", TEXTS)
def test_a_built_trace_repeats_events_at_exact_times(build: ModuleType, tmp_path: Path, form: str) -> None:
    (tmp_path / "source.json").write_text(TEXTS[form])
    built = build.build(tmp_path / "source.json", tmp_path / "target.json", 5_000, gzip=False)
    source, target = events_of(tmp_path / "source.json")[:4], events_of(tmp_path / "target.json")
    assert built.path.stat().st_size == built.text_bytes >= 5_000
    assert len(target) == built.events == built.repetitions * 4 + 2
    for number, event in enumerate(target[:-2]):
        shift_us = Decimal(number // 4 * built.span_ns) / 1_000
        assert event["ts"] == source[number % 4]["ts"] + shift_us
        assert [event[key] for key in ("name", "pid", "tid")] == [
            source[number % 4][key] for key in ("name", "pid", "tid")
        ]


def test_a_built_trace_has_unique_ids_that_still_link(build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "source.json").write_text(TEXTS["relative"])
    built = build.build(tmp_path / "source.json", tmp_path / "target.json.gz", 5_000, gzip=True)
    events = events_of(built.path)
    linked = Counter(event["args"]["correlation"] for event in events if event.get("cat") in ("cuda_runtime", "kernel"))
    assert len(linked) == built.repetitions
    assert set(linked.values()) == {2}
    assert {event["id"] for event in events if event["ph"] == "s"} == set(linked)
    assert all(event["args"]["correlation"] == 2**32 - 1 for event in events if event.get("cat") == "cuda_sync")


def test_a_built_trace_keeps_metadata_once_and_moves_the_window_end(build: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "source.json").write_text(TEXTS["integer"])
    built = build.build(tmp_path / "source.json", tmp_path / "target.json", 5_000, gzip=False)
    process, window_end = events_of(built.path)[-2:]
    assert process["ts"] == 1683564901548000
    assert window_end["ts"] == 1683564901549000 + (built.repetitions - 1) * built.span_ns // 1_000


def test_a_generated_trace_can_be_made_larger(build: ModuleType, tmp_path: Path) -> None:
    built = build.build(rank_files()[0], tmp_path / "large.json", 6_000_000, gzip=False)
    events = events_of(built.path)
    ids = [event["args"]["External id"] for event in events if event.get("cat") in ("cpu_op", "user_annotation")]
    assert len(events) == built.events
    assert len(ids) == len(set(ids))
