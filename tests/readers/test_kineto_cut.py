"""Kineto files that are cut off, plain or compressed: every whole event is kept, and the cut is reported."""

import gzip
import json
from pathlib import Path

import pytest

from tests.readers.damaged import FIRST, LAST
from tests.readers.small import STORED, Lab, ingest_bytes, ingest_paths, kernel, trace

CUT_EVENTS = (
    {"ph": "X", "cat": "kernel", "name": "one", "pid": 0, "tid": 7, "ts": 12, "dur": 34},
    {"ph": "X", "cat": "cpu_op", "name": "two", "ts": 15},
    {"ph": "X", "cat": "kernel", "name": 'three {]"', "ts": 56, "args": {"stream": 78}},
)
CUT_TEXT = trace(*CUT_EVENTS).encode()
CUT_ENDS = [CUT_TEXT.index(text) + len(text) for text in (json.dumps(row).encode() for row in CUT_EVENTS)]


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[object, Path]]:
    """Results of ingesting the small file cut off after every byte, and the store, by length."""
    folder = tmp_path_factory.mktemp("cuts")
    for length in range(1, len(CUT_TEXT)):
        (folder / f"{length}.json").write_bytes(CUT_TEXT[:length])
    lab = ingest_paths(folder, sorted(folder.glob("*.json")))
    return {int(Path(result.path).stem): (result, lab.store) for result in lab.report.files}


def whole_events(length: int) -> int:
    return sum(end <= length for end in CUT_ENDS)


def rows_of(result: object, store: Path, table: str) -> list[dict[str, object]]:
    """Rows of one of many sources in a store."""
    return [row for row in Lab(store, None).rows(table) if row["source"] == result.source]


def test_cut_at_any_byte_never_fails(cuts: dict[int, tuple[object, Path]]) -> None:
    assert {result.status for result, _ in cuts.values()} <= {*STORED, "not_profiler_data"}


def test_cut_at_any_byte_keeps_every_whole_event(cuts: dict[int, tuple[object, Path]]) -> None:
    kept = {length: result.events_kept for length, (result, _) in cuts.items() if whole_events(length)}
    assert kept == {length: whole_events(length) for length in kept}


def test_cut_at_any_byte_counts_at_most_the_cut_event_as_skipped(cuts: dict[int, tuple[object, Path]]) -> None:
    odd = {
        length: (result.events_read, result.events_kept, result.events_skipped)
        for length, (result, _) in cuts.items()
        if whole_events(length)
        and (result.events_skipped > 1 or result.events_read != result.events_kept + result.events_skipped)
    }
    assert odd == {}


def test_cut_inside_an_event_counts_that_event_as_skipped(cuts: dict[int, tuple[object, Path]]) -> None:
    inside = [end - 1 for end in CUT_ENDS[1:]]
    assert {length: cuts[length][0].events_skipped for length in inside} == dict.fromkeys(inside, 1)


def test_cut_at_any_byte_is_reported(cuts: dict[int, tuple[object, Path]]) -> None:
    store = next(iter(cuts.values()))[1]
    sources = {row["source"]: row["complete"] for row in Lab(store, None).rows("sources")}
    noticed = {row["source"] for row in Lab(store, None).rows("diagnostics") if row["code"] != "rank_assumed"}
    last = len(CUT_TEXT.rstrip())
    outcomes = {
        length: (result.status, sources[result.source], result.source in noticed)
        for length, (result, _) in cuts.items()
        if whole_events(length) and length < last
    }
    assert outcomes == dict.fromkeys(outcomes, ("salvaged", False, True))


def test_cut_at_any_byte_keeps_the_names(cuts: dict[int, tuple[object, Path]]) -> None:
    store = next(iter(cuts.values()))[1]
    names: dict[object, list[object]] = {}
    for row in Lab(store, None).rows("kernels"):
        names.setdefault(row["source"], []).append(row["name"])
    expected = {0: [], 1: ["one"], 2: ["one"], 3: ["one", 'three {]"']}
    found = {length: names.get(result.source, []) for length, (result, _) in cuts.items()}
    assert found == {length: expected[whole_events(length)] for length in found}


@pytest.mark.parametrize(
    "end",
    ['"ts": 17', '"ts": 1712, "dur": 3', '"ts": 1712, "dur": 34', '"ts": 1712, "dur": 34, "args": {"correlation": 5'],
)
def test_number_that_was_cut_is_not_taken_for_a_number(tmp_path: Path, end: str) -> None:
    text = trace(FIRST, LAST).removesuffix("\n]\n}\n") + ',\n{"ph": "X", "cat": "kernel", "name": "cut", ' + end
    assert ingest_bytes(tmp_path, text).kernels == ["first", "last"]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_cut_gzip_keeps_what_could_be_decompressed(tmp_path: Path, share: float) -> None:
    names = [f"kernel {index}" for index in range(3_000)]
    data = gzip.compress(trace(*(kernel(name, ts=index) for index, name in enumerate(names))).encode())
    lab = ingest_bytes(tmp_path, data[: int(len(data) * share)], "trace.json.gz")
    kept = len(lab.kernels)
    assert lab.kernels == names[:kept]
    assert kept > len(names) * share * 0.5
    assert (lab.file.status, lab.source["complete"]) == ("salvaged", False)


@pytest.mark.parametrize(("end", "problem"), [(0, "is cut off before"), (400, "is damaged before")])
def test_gzip_that_ends_or_breaks_before_its_first_event_is_no_file_of_another_kind(
    tmp_path: Path, end: int, problem: str
) -> None:
    devices = [{"id": number, "name": f"card {number * 7919 % 1000}"} for number in range(2000)]
    data = gzip.compress(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": [FIRST]}).encode())
    assert len(data) > 8000
    lab = ingest_bytes(tmp_path, data[:4000] + b"\xff" * end, "trace.json.gz")
    assert (lab.file.status, lab.report.exit_code, problem in lab.file.message) == ("failed", 1, True)


def test_gzip_of_several_members_is_one_file(tmp_path: Path) -> None:
    text = trace(*(kernel(str(index), ts=index) for index in range(30))).encode()
    members = [text[start : start + 500] for start in range(0, len(text), 500)]
    lab = ingest_bytes(tmp_path, b"".join(gzip.compress(member) for member in members), "trace.json.gz")
    assert (lab.file.status, lab.counts) == ("stored", (30, 30, 0))


def test_gzip_with_an_empty_member_is_one_file(tmp_path: Path) -> None:
    text = trace(FIRST, LAST).encode()
    data = gzip.compress(text[:100]) + gzip.compress(b"") + gzip.compress(text[100:])
    assert ingest_bytes(tmp_path, data, "trace.json.gz").kernels == ["first", "last"]


def test_corrupt_middle_member_loses_at_most_what_follows(tmp_path: Path) -> None:
    names = [f"kernel {index}" for index in range(3_000)]
    text = trace(*(kernel(name, ts=index) for index, name in enumerate(names))).encode()
    third = len(text) // 3
    first, middle, last = (gzip.compress(part) for part in (text[:third], text[third : 2 * third], text[2 * third :]))
    broken = middle[:60] + bytes(255 - byte for byte in middle[60:160]) + middle[160:]
    lab = ingest_bytes(tmp_path, first + broken + last, "trace.json.gz")
    assert set(names[:990]) <= set(lab.kernels)
    assert (lab.file.status, lab.source["complete"]) == ("salvaged", False)


def test_gzip_with_a_wrong_checksum_keeps_its_events_and_is_reported(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(trace(FIRST, LAST).encode()))
    data[-8] ^= 0xFF
    lab = ingest_bytes(tmp_path, bytes(data), "trace.json.gz")
    assert lab.kernels == ["first", "last"]
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("rest", [b"\0" * 512, b"rubbish behind the member"], ids=["zeros", "rubbish"])
def test_bytes_behind_the_last_member_cost_no_event(tmp_path: Path, rest: bytes) -> None:
    lab = ingest_bytes(tmp_path, gzip.compress(trace(FIRST, LAST).encode()) + rest, "trace.json.gz")
    assert lab.kernels == ["first", "last"]


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.txt", "trace"])
@pytest.mark.parametrize("packed", [False, True])
def test_content_decides_and_not_the_suffix(tmp_path: Path, name: str, packed: bool) -> None:
    text = trace(FIRST, LAST).encode()
    lab = ingest_bytes(tmp_path, gzip.compress(text) if packed else text, name)
    assert (lab.file.status, lab.kernels) == ("stored", ["first", "last"])
