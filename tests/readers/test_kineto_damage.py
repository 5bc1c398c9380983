"""Damaged Kineto files: a bad value costs that value, an event is lost only where its own text cannot be delimited."""

import gzip
import json
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.readers.small import STATUSES, STORED, Lab, event, ingest_bytes, ingest_paths, kernel, trace
from tracelab.errors import TracelabError

pytest.importorskip("tracelab.ingest")

FIRST, LAST = kernel("first", ts=1000), kernel("last", ts=3000)


def between(text: str) -> str:
    """A file with an undamaged kernel before and behind the text."""
    return trace(FIRST, text, LAST)


def swap(old: str, new: str) -> str:
    """The text of a kernel in the middle, with a piece of it replaced."""
    text = json.dumps(kernel("middle", ts=2000))
    assert old in text
    return text.replace(old, new)


# ---------------------------------------------------------------------------------------------- cut-off files

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


def test_cut_at_any_byte_is_told(cuts: dict[int, tuple[object, Path]]) -> None:
    store = next(iter(cuts.values()))[1]
    sources = {row["source"]: row["complete"] for row in Lab(store, None).rows("sources")}
    noticed = {row["source"] for row in Lab(store, None).rows("diagnostics") if row["code"] != "rank_assumed"}
    last = len(CUT_TEXT.rstrip())
    told = {
        length: (result.status, sources[result.source], result.source in noticed)
        for length, (result, _) in cuts.items()
        if whole_events(length) and length < last
    }
    assert told == dict.fromkeys(told, ("salvaged", False, True))


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
def test_cut_gzip_keeps_what_could_be_unpacked(tmp_path: Path, share: float) -> None:
    names = [f"kernel {index}" for index in range(3_000)]
    data = gzip.compress(trace(*(kernel(name, ts=index) for index, name in enumerate(names))).encode())
    lab = ingest_bytes(tmp_path, data[: int(len(data) * share)], "trace.json.gz")
    kept = len(lab.kernels)
    assert lab.kernels == names[:kept]
    assert kept > len(names) * share * 0.5
    assert (lab.file.status, lab.source["complete"]) == ("salvaged", False)


@pytest.mark.parametrize(("end", "said"), [(0, "is cut off before"), (400, "is damaged before")])
def test_gzip_that_ends_or_breaks_before_its_first_event_is_no_file_of_another_kind(
    tmp_path: Path, end: int, said: str
) -> None:
    devices = [{"id": number, "name": f"card {number * 7919 % 1000}"} for number in range(2000)]
    data = gzip.compress(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": [FIRST]}).encode())
    assert len(data) > 8000
    lab = ingest_bytes(tmp_path, data[:4000] + b"\xff" * end, "trace.json.gz")
    assert (lab.file.status, lab.report.exit_code, said in lab.file.message) == ("failed", 1, True)


def test_gzip_of_several_members_is_one_file(tmp_path: Path) -> None:
    text = trace(*(kernel(str(index), ts=index) for index in range(30))).encode()
    members = [text[start : start + 500] for start in range(0, len(text), 500)]
    lab = ingest_bytes(tmp_path, b"".join(gzip.compress(member) for member in members), "trace.json.gz")
    assert (lab.file.status, lab.counts) == ("stored", (30, 30, 0))


def test_gzip_with_an_empty_member_is_one_file(tmp_path: Path) -> None:
    text = trace(FIRST, LAST).encode()
    data = gzip.compress(text[:100]) + gzip.compress(b"") + gzip.compress(text[100:])
    assert ingest_bytes(tmp_path, data, "trace.json.gz").kernels == ["first", "last"]


def test_broken_middle_member_costs_at_most_what_lies_behind(tmp_path: Path) -> None:
    names = [f"kernel {index}" for index in range(3_000)]
    text = trace(*(kernel(name, ts=index) for index, name in enumerate(names))).encode()
    third = len(text) // 3
    first, middle, last = (gzip.compress(part) for part in (text[:third], text[third : 2 * third], text[2 * third :]))
    broken = middle[:60] + bytes(255 - byte for byte in middle[60:160]) + middle[160:]
    lab = ingest_bytes(tmp_path, first + broken + last, "trace.json.gz")
    assert set(names[:990]) <= set(lab.kernels)
    assert (lab.file.status, lab.source["complete"]) == ("salvaged", False)


def test_gzip_with_a_wrong_checksum_keeps_its_events_and_says_so(tmp_path: Path) -> None:
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


# ------------------------------------------------------------------- an event whose text cannot be delimited

QUOTES = ('a"b', 'a"', '"b', 'a" {', 'a"}, {"b', 'a", "ph": "b', 'foo"]}', 'a"b\'c"d"e')


@pytest.mark.parametrize("name", QUOTES)
def test_unescaped_quotes_cost_at_most_their_own_event(tmp_path: Path, name: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"middle"', f'"{name}"')))
    read, kept, skipped = lab.counts
    assert {"first", "last"} <= set(lab.kernels)
    assert read == kept + skipped
    assert skipped <= 1 or "{" in name


@pytest.mark.parametrize("name", ['a"b', 'a"', '"b'])
def test_one_unescaped_quote_is_counted_and_told(tmp_path: Path, name: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"middle"', f'"{name}"')))
    assert (lab.counts[0], lab.file.status, lab.source["complete"]) == (3, "salvaged", False)
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("place", [0, 1, 4])
def test_one_unescaped_quote_costs_one_event_wherever_it_stands(tmp_path: Path, indent: int | None, place: int) -> None:
    events = [json.dumps(kernel(f"k{index}", ts=index), indent=indent) for index in range(5)]
    events[place] = events[place].replace(f"k{place}", f'k"{place}')
    lab = ingest_bytes(tmp_path, '{"traceEvents":[' + ",".join(events) + '],"schemaVersion":1}')
    assert set(lab.kernels) >= {f"k{index}" for index in range(5)} - {f"k{place}"}
    assert (lab.counts[0], lab.source["complete"]) == (5, False)


def test_unescaped_quotes_in_neighbouring_events_cost_those_two(tmp_path: Path) -> None:
    quoted = swap('"middle"', '"mid"dle"')
    lab = ingest_bytes(tmp_path, trace(FIRST, quoted, quoted, LAST))
    assert set(lab.kernels) >= {"first", "last"}
    assert lab.counts[0] == 4


def test_unescaped_quotes_across_a_large_file_cost_only_their_events(tmp_path: Path) -> None:
    damaged = set(range(0, 60_000, 7_001))
    events = [json.dumps(kernel(f"k{index}", ts=index)) for index in range(60_000)]
    for index in damaged:
        events[index] = events[index].replace(f"k{index}", f'k"{index}')
    lab = ingest_bytes(tmp_path, trace(*events))
    assert set(lab.kernels) >= {f"k{index}" for index in range(60_000)} - {f"k{index}" for index in damaged}
    assert lab.counts[0] == 60_000


def test_unescaped_quote_costs_no_base_that_follows(tmp_path: Path) -> None:
    events = ",".join([json.dumps(FIRST), swap('"middle"', '"mid"dle"'), json.dumps(LAST)])
    lab = ingest_bytes(tmp_path, f'{{"traceEvents": [{events}], "baseTimeNanoseconds": 1000000007}}')
    starts = {row["name"]: row["start_ns"] for row in lab.rows("kernels")}
    assert (starts["first"], starts["last"]) == (1_001_000_007, 1_003_000_007)


RUBBISH = {
    "zeros": b"\0" * 64,
    "high bytes": bytes(range(128, 256)),
    "braces": b"}}]]{{[[",
    "a quote": b'\x01\x02"\x03',
    "an open event": b'{"ph": "X", "cat": "kernel", "name": "half',
    "text": b"Traceback (most recent call last): ...",
}


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
def test_rubbish_between_events_costs_no_event_beside_it(tmp_path: Path, rubbish: bytes) -> None:
    events = [json.dumps(kernel(f"k{index}", ts=index)).encode() for index in range(6)]
    text = b'{"traceEvents": [\n' + b",\n".join([*events[:3], rubbish, *events[3:]]) + b"\n]}"
    lab = ingest_bytes(tmp_path, text)
    assert set(lab.kernels) >= {f"k{index}" for index in range(6)}
    assert (lab.file.status, lab.source["complete"]) == ("salvaged", False)
    assert lab.diagnostics() != set()


def test_missing_comma_costs_no_event(tmp_path: Path) -> None:
    text = '{"traceEvents": [' + json.dumps(FIRST) + "\n" + json.dumps(LAST) + "]}"
    assert ingest_bytes(tmp_path, text).kernels == ["first", "last"]


# ------------------------------------------------------------------------------- a bad value costs that value

BAD_TEXTS = {
    "invalid escape": swap("middle", r"mid\qdle"),
    "half a unicode escape": swap("middle", r"mid\u12dle"),
    "lone surrogate": swap("middle", r"mid\ud800dle"),
    "raw newline": swap("middle", "mid\ndle"),
    "raw tab and control": swap("middle", "mid\t\x01\x1fdle"),
    "nul": swap("middle", "mid\0dle"),
}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
def test_bad_text_in_a_name_costs_no_event(tmp_path: Path, text: str) -> None:
    lab = ingest_bytes(tmp_path, between(text))
    assert [(row["start_ns"], row["stream"]) for row in lab.rows("kernels")] == [
        (1_000_000, 7),
        (2_000_000, 7),
        (3_000_000, 7),
    ]
    assert lab.counts == (3, 3, 0)


@pytest.mark.parametrize("bad", [b"\xff", b"caf\xe9", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82"])
def test_invalid_utf_8_in_a_name_costs_no_event(tmp_path: Path, bad: bytes) -> None:
    lab = ingest_bytes(tmp_path, between(swap("middle", "MIDDLE")).encode().replace(b"MIDDLE", bad))
    assert [row["start_ns"] for row in lab.rows("kernels")] == [1_000_000, 2_000_000, 3_000_000]
    assert lab.counts == (3, 3, 0)


def test_text_beyond_ascii_is_kept(tmp_path: Path) -> None:
    name = 'é 漢字 😀 \u2028 "quoted" \\ / \t'
    raw = json.dumps(kernel(name), ensure_ascii=False)
    assert ingest_bytes(tmp_path, trace(raw, kernel(name))).kernels == [name, name]


@pytest.mark.parametrize("literal", ["NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "-nan", "None", "undefined"])
def test_literal_that_is_no_json_costs_its_value_only(tmp_path: Path, literal: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"stream": 7', f'"stream": 7, "blocks per SM": {literal}')))
    assert lab.kernels == ["first", "middle", "last"]
    assert [row["stream"] for row in lab.rows("kernels")] == [7, 7, 7]


@pytest.mark.parametrize("literal", ["NaN", "inf"])
def test_literal_in_a_columns_place_is_null_and_told(tmp_path: Path, literal: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"context": 1', f'"context": {literal}')))
    assert [row["context"] for row in lab.rows("kernels")] == [1, None, 1]
    assert lab.counts == (3, 3, 0)
    assert lab.diagnostics() != set()


OP = {"cat": "cpu_op", "ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": 1}

WRONG = {
    "device is a word": ('"device": 0', '"device": "abc"', {"start_ns": 2_000_000, "stream": 7}),
    "stream is a list": ('"stream": 7', '"stream": [7]', {"device": 0, "correlation": 11}),
    "correlation is a word": ('"correlation": 11', '"correlation": "x"', {"correlation": None, "stream": 7}),
    "correlation is a fraction": ('"correlation": 11', '"correlation": 1.5', {"correlation": None}),
    "correlation is true": ('"correlation": 11', '"correlation": true', {"correlation": None}),
    "device is true": ('"device": 0', '"device": true', {"stream": 7}),
    "grid is a fraction": ('"grid": [1, 1, 1]', '"grid": [1.5, 2, 3]', {"grid_x": None, "grid_y": 2}),
    "grid has four": ('"grid": [1, 1, 1]', '"grid": [1, 2, 3, 4]', {"grid_x": 1, "grid_z": 3}),
    "correlation is beyond int64": ('"correlation": 11', '"correlation": 18446744073709551615', {"correlation": None}),
    "context is beyond int64": ('"context": 1', '"context": 1e30', {"context": None, "device": 0}),
    "device is beyond int32": ('"device": 0', '"device": 99999999999', {"stream": 7}),
    "grid is a text": ('"grid": [1, 1, 1]', '"grid": "1,1,1"', {"grid_x": None, "block_x": 32}),
    "grid is a number": ('"grid": [1, 1, 1]', '"grid": 5', {"grid_y": None, "block_x": 32}),
    "grid is short": ('"grid": [1, 1, 1]', '"grid": [4]', {"grid_x": 4, "grid_y": None}),
    "grid has a word": ('"grid": [1, 1, 1]', '"grid": [2, "a", 3]', {"grid_x": 2, "grid_y": None, "grid_z": 3}),
    "grid is beyond int32": ('"grid": [1, 1, 1]', '"grid": [3000000000, 1, 1]', {"grid_x": None, "grid_y": 1}),
    "grid is empty": ('"grid": [1, 1, 1]', '"grid": []', {"grid_x": None, "grid_z": None}),
    "grid is null": ('"grid": [1, 1, 1]', '"grid": null', {"grid_x": None, "block_x": 32}),
    "pid is a list": ('"pid": 0', '"pid": [1]', {"device": 0, "name": "middle"}),
    "pid is an object": ('"pid": 0', '"pid": {"a": 1}', {"device": 0, "name": "middle"}),
    "tid is true": ('"tid": 7', '"tid": true', {"stream": 7}),
    "name is null": ('"middle"', "null", {"name": None, "stream": 7}),
    "dur is a list": ('"dur": 10', '"dur": [10]', {"dur_ns": None, "start_ns": 2_000_000}),
}


@pytest.mark.parametrize(("old", "new", "expected"), WRONG.values(), ids=WRONG)
def test_value_of_a_wrong_type_costs_that_value_only(
    tmp_path: Path, old: str, new: str, expected: dict[str, object]
) -> None:
    lab = ingest_bytes(tmp_path, between(swap(old, new)))
    row = lab.rows("kernels")[1]
    assert {key: row[key] for key in expected} == expected
    assert lab.counts == (3, 3, 0)


TOLD = [name for name in WRONG if name.startswith(("correlation", "context", "grid is a", "grid has", "dur", "device"))]


@pytest.mark.parametrize("name", TOLD)
def test_value_of_a_wrong_type_is_told(tmp_path: Path, name: str) -> None:
    old, new, _ = WRONG[name]
    lab = ingest_bytes(tmp_path, between(swap(old, new)))
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("args", ["[1, 2]", '"text"', "5", "null", "true", "[]"])
def test_arguments_that_are_no_object_cost_no_event(tmp_path: Path, args: str) -> None:
    odd = f'{{"ph": "X", "cat": "kernel", "name": "middle", "pid": 0, "tid": 7, "ts": 2000, "dur": 10, "args": {args}}}'
    lab = ingest_bytes(tmp_path, between(odd))
    assert [(row["name"], row["start_ns"], row["device"], row["stream"]) for row in lab.rows("kernels")] == [
        ("first", 1_000_000, 0, 7),
        ("middle", 2_000_000, 0, 7),
        ("last", 3_000_000, 0, 7),
    ]


def test_name_that_is_a_number_costs_no_event(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"middle"', "5")))
    assert [row["start_ns"] for row in lab.rows("kernels")] == [1_000_000, 2_000_000, 3_000_000]
    assert lab.kernels[1] in ("5", None)


@pytest.mark.parametrize("cat", ["5", "null", "[]", "{}", '""'])
def test_category_that_is_none_leaves_the_event_among_the_others(tmp_path: Path, cat: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"kernel"', cat)))
    assert (lab.kernels, lab.one("other_events")["name"]) == (["first", "last"], "middle")


def test_event_without_category_is_kept_among_the_others(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"cat": "kernel", ', "")))
    assert (lab.one("other_events")["name"], lab.counts) == ("middle", (3, 3, 0))


DUPLICATES = {
    "in args": swap('"stream": 7', '"stream": 7, "stream": 7'),
    "in args, different": swap('"stream": 7', '"dtype": "Float", "stream": 7, "dtype": "Half"'),
    "in args, another case": swap('"stream": 7', '"Bytes": 5, "bytes": 6, "stream": 7'),
    "of the event": swap('"dur": 10', '"dur": 10, "dur": 10'),
    "args twice": swap('"ph": "X"', '"ph": "X", "args": {"device": 0, "stream": 7}'),
}


@pytest.mark.parametrize("text", DUPLICATES.values(), ids=DUPLICATES)
def test_duplicate_keys_cost_nothing_else(tmp_path: Path, text: str) -> None:
    lab = ingest_bytes(tmp_path, between(text))
    row = lab.rows("kernels")[1]
    assert (row["name"], row["start_ns"], row["dur_ns"], row["device"], row["stream"]) == (
        "middle",
        2_000_000,
        10_000,
        0,
        7,
    )
    assert lab.counts == (3, 3, 0)


@pytest.mark.parametrize("ranks", ["[0, 1, 2, ..., 7]", "[0, 1...]", "[0 1]", "[0, 1,]", "rank 0"])
def test_unquoted_ranks_that_are_no_json_cost_no_event(tmp_path: Path, ranks: str) -> None:
    message = '"Collective name": "allreduce", "In msg nelems": 4, "Out msg nelems": 4, "dtype": "Float"'
    text = swap('"stream": 7', f'"stream": 7, {message}, "Process Group Ranks": {ranks}')
    lab = ingest_bytes(tmp_path, between(text))
    assert lab.kernels == ["first", "middle", "last"]
    assert lab.counts == (3, 3, 0)


def test_negative_duration_is_kept_and_told(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"dur": 10', '"dur": -5')))
    assert [row["dur_ns"] for row in lab.rows("kernels")] == [10_000, -5_000, 10_000]
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("depth", [50, 400, 20_000])
def test_deep_nesting_costs_no_event_beside_it(tmp_path: Path, depth: int) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"stream": 7', f'"stream": 7, "deep": {"[" * depth}{"]" * depth}')))
    assert {"first", "last"} <= set(lab.kernels)
    assert (lab.counts[0], lab.counts[2] <= 1) == (3, True)


def test_moderately_deep_nesting_costs_nothing(tmp_path: Path) -> None:
    nested = "[" * 50 + "]" * 50
    lab = ingest_bytes(tmp_path, between(swap('"stream": 7', f'"stream": 7, "deep": {nested}')))
    assert json.loads(lab.rows("kernels")[1]["args"]) == {"deep": json.loads(nested)}


@pytest.mark.parametrize("where", ["name", "args"])
def test_a_text_of_fifty_megabytes_is_one_event(tmp_path: Path, where: str) -> None:
    huge = "x" * 50_000_000
    text = swap("middle", huge) if where == "name" else swap('"stream": 7', f'"stream": 7, "Call stack": "{huge}"')
    lab = ingest_bytes(tmp_path, between(text))
    rows = lab.rows("kernels")
    assert ([row["start_ns"] for row in rows], lab.counts) == ([1_000_000, 2_000_000, 3_000_000], (3, 3, 0))
    kept = rows[1]["name"] if where == "name" else json.loads(rows[1]["args"])["Call stack"]
    assert len(kept) == len(huge)


# ------------------------------------------------------------------------------------ elements that are no event


@pytest.mark.parametrize("element", ["null", "5", '"x"', "[1]", "true", "-1.5e3", "[[{}]]", '"{"', '"}, {"'])
def test_element_that_is_no_object_is_counted_and_costs_nothing(tmp_path: Path, element: str) -> None:
    lab = ingest_bytes(tmp_path, between(element))
    read, kept, skipped = lab.counts
    assert lab.kernels == ["first", "last"]
    assert (read, kept + skipped) == (3, 3)
    assert lab.diagnostics() != set()


def test_event_inside_a_list_is_not_taken_for_an_element(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, between(f"[{json.dumps(kernel('inner'))}]"))
    assert (lab.counts[0], lab.kernels) == (3, ["first", "last"])


@pytest.mark.parametrize("events", [1, 2, 5, 200])
def test_objects_inside_arguments_are_not_taken_for_events(tmp_path: Path, events: int) -> None:
    rows = [{"name": f"op{at}", **OP, "args": {"layers": [{"name": "conv"}, {"name": "relu"}]}} for at in range(events)]
    lab = ingest_bytes(tmp_path, json.dumps({"traceEvents": rows}))
    assert (lab.counts, len(lab.rows("ops")), lab.source["complete"]) == ((events, events, 0), events, True)


def test_empty_event_is_no_damage(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, between("{}"))
    assert (lab.counts, lab.source["complete"], len(lab.rows("other_events"))) == ((3, 3, 0), True, 1)


# ------------------------------------------------------------------------------------------ the form of the file

ONE_TWO = json.dumps(FIRST), json.dumps(LAST)
FORMS = {
    "array": f"[{', '.join(ONE_TWO)}]",
    "array with an empty event last": f"[{', '.join(ONE_TWO)}, {{}}]",
    "trailing comma in the object": f'{{"traceEvents": [{", ".join(ONE_TWO)},\n]}}',
    "trailing comma in the array": f"[{', '.join(ONE_TWO)},]",
    "events first": f'{{"traceEvents": [{", ".join(ONE_TWO)}], "schemaVersion": 1}}',
    "compact": json.dumps({"schemaVersion": 1, "traceEvents": [FIRST, LAST]}, separators=(",", ":")),
    "indented": json.dumps({"schemaVersion": 1, "traceEvents": [FIRST, LAST]}, indent=4),
    "tabs": json.dumps({"schemaVersion": 1, "traceEvents": [FIRST, LAST]}, indent="\t"),
    "crlf": trace(FIRST, LAST).replace("\n", "\r\n"),
    "byte order mark": "\ufeff" + trace(FIRST, LAST),
    "white space around": " \n\t" + trace(FIRST, LAST) + "\n\n  \n",
    "space before the colon": trace(FIRST, LAST).replace('"traceEvents":', '"traceEvents" \n : \n'),
    "the key in a text": trace(FIRST, LAST, note='say "traceEvents": [{"ph": "X"}], and go on'),
    "the key in an object": trace(FIRST, LAST, metadata={"traceEvents": [1, 2, {"ph": "X"}]}),
    "the key in an event": trace(FIRST | {"args": {"traceEvents": [{"a": 1}], "device": 0, "stream": 7}}, LAST),
    "brackets in texts": trace(FIRST, LAST, note="}]}]{[{"),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_every_form_of_the_file_is_read(tmp_path: Path, text: str) -> None:
    lab = ingest_bytes(tmp_path, text)
    assert (lab.kernels, lab.file.status, lab.file.events_skipped) == (["first", "last"], "stored", 0)


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n"])
def test_array_without_its_bracket_is_read_to_the_last_whole_event(tmp_path: Path, end: str) -> None:
    lab = ingest_bytes(tmp_path, f"[{', '.join(ONE_TWO)}{end}")
    assert (lab.kernels, lab.counts) == (["first", "last"], (2, 2, 0))


def test_array_cut_inside_an_event_loses_that_event(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f"[{', '.join(ONE_TWO)}"[:-5])
    assert (lab.kernels, lab.counts, lab.source["complete"]) == (["first"], (2, 1, 1), False)


def test_keys_behind_the_events_are_read(tmp_path: Path) -> None:
    tail = '"distributedInfo": {"rank": 5}, "deviceProperties": [{"id": 2, "name": "GPU"}]'
    lab = ingest_bytes(tmp_path, f'{{"traceEvents": [{json.dumps(FIRST)}], {tail}}}')
    assert (lab.one("kernels")["rank"], lab.one("devices")["device"]) == (5, 2)


TOPS = {
    "base is a word": {"baseTimeNanoseconds": "soon"},
    "base is a list": {"baseTimeNanoseconds": [1]},
    "base is null": {"baseTimeNanoseconds": None},
    "devices are a number": {"deviceProperties": 5},
    "devices are words": {"deviceProperties": ["a", None, 3]},
    "device without id": {"deviceProperties": [{"name": "GPU"}]},
    "device of wrong types": {"deviceProperties": [{"id": "x", "name": 5, "totalGlobalMem": "much", "numSms": []}]},
    "job is null": {"distributedInfo": None},
    "job is a list": {"distributedInfo": [1]},
    "rank is a word": {"distributedInfo": {"rank": "first", "world_size": "all"}},
    "groups are a number": {"distributedInfo": {"rank": 0, "pg_config": 7}},
    "version is a word": {"schemaVersion": "one"},
}


@pytest.mark.parametrize("top", TOPS.values(), ids=TOPS)
def test_wrong_types_around_the_events_cost_no_event(tmp_path: Path, top: dict[str, object]) -> None:
    lab = ingest_bytes(tmp_path, trace(FIRST, LAST, **top))
    assert [row["start_ns"] for row in lab.rows("kernels")] == [1_000_000, 3_000_000]
    assert lab.counts == (2, 2, 0)


@pytest.mark.parametrize("damage", ['"note": "a"b", ', '"note": NaN, ', '"note": ..., ', '"note" "x", '])
def test_damage_in_front_of_the_events_costs_no_event(tmp_path: Path, damage: str) -> None:
    lab = ingest_bytes(tmp_path, trace(FIRST, LAST).replace("{", "{" + damage, 1))
    assert lab.kernels == ["first", "last"]


def test_empty_list_of_events_is_a_trace(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace())
    assert (lab.file.status, lab.counts) == ("stored", (0, 0, 0))


@pytest.mark.parametrize("value", ["null", "5", '"x"', "{}"])
def test_events_that_are_no_list_are_no_failure(tmp_path: Path, value: str) -> None:
    text = f'{{"schemaVersion": 1, "deviceProperties": [], "traceEvents": {value}}}'
    assert ingest_bytes(tmp_path, text).file.status in (*STORED, "not_profiler_data")


# ------------------------------------------------------------------------------------------- phases of other tools


def test_phases_of_other_tools_are_kept_among_the_others(tmp_path: Path) -> None:
    phases = ("B", "E", "b", "n", "e", "s", "t", "f", "i", "I", "M", "N", "D", "P", "v", "R", "O")
    events = [event("tool", f"event {phase}", ph=phase, ts=index) for index, phase in enumerate(phases)]
    lab = ingest_bytes(tmp_path, trace(*events))
    assert [(row["phase"], row["name"]) for row in lab.rows("other_events")] == [
        (phase, f"event {phase}") for phase in phases
    ]


def test_counter_events_are_kept(tmp_path: Path) -> None:
    sample = event("hw", "occupied slots", ph="C", args={"value": 42.5})
    lab = ingest_bytes(tmp_path, trace(FIRST, sample, LAST))
    kept = [*lab.rows("counters"), *lab.rows("other_events")]
    assert (lab.counts, len(kept)) == ((3, 3, 0), 1)
    assert "42.5" in lab.texts()
    assert "occupied slots" in lab.texts()


def test_flow_ids_are_kept(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(event("tool", "arrow", ph="s", id=987_654)))
    assert "987654" in str(lab.one("other_events")["args"])


def test_kernel_category_on_another_phase_is_no_kernel(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(FIRST, kernel("arrow") | {"ph": "s"}, kernel("name") | {"ph": "M"}))
    assert (lab.kernels, len(lab.rows("other_events"))) == (["first"], 2)


# ------------------------------------------------------------------------------------------------- whole files


def sqlite_bytes() -> bytes:
    database = sqlite3.connect(":memory:")
    database.execute("create table things (id integer, name text)")
    database.execute("insert into things values (1, 'traceEvents')")
    database.commit()
    return database.serialize()


STRANGERS = {
    "empty": b"",
    "white space": b" \n\t \n",
    "rubbish": bytes((index * 7919 + 13) % 256 for index in range(5_000)),
    "zeros": b"\0" * 5_000,
    "json object": b'{"name": "tool", "values": [1, 2, 3], "nested": {"a": null}}',
    "json number": b"42",
    "json text": b'"traceEvents"',
    "json list of numbers": b"[1, 2, 3]",
    "json list of records": b'[{"id": 1, "label": "a"}, {"id": 2, "label": "b"}]',
    "empty json object": b"{}",
    "csv": b"name,start,duration\nkernel,1,2\ntraceEvents,3,4\n",
    "python": b"import torch\n\nprint('traceEvents')\n",
    "sqlite": sqlite_bytes(),
    "empty gzip": gzip.compress(b""),
    "gzip of text": gzip.compress(b"hello, traceEvents\n" * 50),
    "half a gzip header": gzip.compress(b"x")[:6],
    "zip": b"PK\x03\x04" + b"\0" * 100,
    "png": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "utf-16 text": "hello".encode("utf-16"),
}


@pytest.mark.parametrize("data", STRANGERS.values(), ids=STRANGERS)
def test_file_of_something_else_is_no_profiler_data(tmp_path: Path, data: bytes) -> None:
    lab = ingest_bytes(tmp_path, data, "trace.json")
    assert (lab.file.status, lab.rows("sources")) == ("not_profiler_data", [])


@pytest.mark.parametrize("name", ["sqlite", "empty", "rubbish", "csv"])
def test_file_of_something_else_says_what_is_wrong(tmp_path: Path, name: str) -> None:
    assert ingest_bytes(tmp_path, STRANGERS[name]).file.message


def test_utf_16_is_read_or_refused(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(FIRST, LAST).encode("utf-16"))
    assert (lab.file.status, lab.kernels) in [("stored", ["first", "last"]), ("not_profiler_data", [])]


def test_strangers_cost_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, data in STRANGERS.items():
        (folder / f"{name}.json").write_bytes(data)
    (folder / "good.json").write_text(trace(FIRST, LAST))
    lab = ingest_paths(tmp_path, sorted(folder.iterdir()))
    stored = [Path(result.path).name for result in lab.report.files if result.status in STORED]
    assert (stored, lab.kernels) == (["good.json"], ["first", "last"])


def test_directory_gives_every_trace_inside(tmp_path: Path) -> None:
    for number, place in enumerate(("a/one.json", "b/c/two.pt.trace.json", "three.json.gz")):
        path = tmp_path / "in" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = trace(kernel(path.name, ts=number)).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    (tmp_path / "in" / "README.md").write_text("# about these traces\n")
    lab = ingest_paths(tmp_path, [tmp_path / "in"])
    assert sorted(lab.kernels) == ["one.json", "three.json.gz", "two.pt.trace.json"]


def test_empty_directory_is_no_crash(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    try:
        lab = ingest_paths(tmp_path, [tmp_path / "in"])
    except TracelabError:
        return
    assert [result for result in lab.report.files if result.status in STORED] == []


def test_missing_file_fails_and_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(trace(FIRST))
    try:
        lab = ingest_paths(tmp_path, [tmp_path / "missing.json", tmp_path / "good.json"])
    except TracelabError as error:
        assert "missing.json" in str(error)
        return
    assert {Path(result.path).name: result.status for result in lab.report.files} == {
        "missing.json": "failed",
        "good.json": "stored",
    }


def test_hostile_names_are_only_text(tmp_path: Path) -> None:
    name = "'); drop table kernels; -- ${HOME} `id` ../../../etc/passwd <script>alert(1)</script> %s {0} $1"
    assert ingest_bytes(tmp_path, trace(kernel(name), FIRST), "it's; a [trace]*?.json").kernels == [name, "first"]


def test_private_keys_are_not_stored(tmp_path: Path) -> None:
    keys = ("username", "tw_user", "tw_job", "tw_task_id", "mast_job_name", "mast_job_environment")
    lab = ingest_bytes(tmp_path, trace(FIRST, **{key: f"secret {key}" for key in keys}))
    assert "secret" not in lab.texts()


# ------------------------------------------------------------------------------------------------ any damage

WHOLE = [kernel(f"k{index}", ts=index, note=[1, {"a": "}"}]) for index in range(8)]
WHOLE_TEXT = trace(*WHOLE).encode()
ENDS = [WHOLE_TEXT.index(text) + len(text) for text in (json.dumps(row).encode() for row in WHOLE)]
STARTS = [end - len(json.dumps(row)) for end, row in zip(ENDS, WHOLE, strict=True)]


def damaged(position: int, change: str, byte: int) -> bytes:
    head, rest = WHOLE_TEXT[:position], WHOLE_TEXT[position:]
    if change == "insert":
        return head + bytes([byte]) + rest
    return head + (b"" if change == "delete" else bytes([byte])) + rest[1:]


BYTES = st.one_of(st.sampled_from(list(b'{}[]",:\\\0\xff \n0-')), st.integers(0, 255))
CHANGES = st.tuples(st.integers(ENDS[0], ENDS[-1]), st.sampled_from(["flip", "delete", "insert"]), BYTES)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(change=CHANGES)
def test_one_damaged_byte_costs_no_event_but_its_own_and_the_next(change: tuple[int, str, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), damaged(*change))
        status, names, counts = lab.file.status, set(lab.kernels), lab.counts
    position = change[0]
    untouched = {
        f"k{index}" for index in range(8) if ENDS[index] <= position or (index > 0 and STARTS[index - 1] > position)
    }
    assert status in STORED
    assert names >= untouched
    assert counts[0] == counts[1] + counts[2]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_any_damage_never_crashes_and_keeps_what_stands_before_it(data: st.DataObject) -> None:
    content = bytearray(WHOLE_TEXT)
    first = data.draw(st.integers(0, len(content)))
    for _ in range(data.draw(st.integers(1, 12))):
        position = data.draw(st.integers(first, len(content)))
        length = data.draw(st.integers(0, 40))
        content[position : position + length] = data.draw(st.binary(max_size=20))
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), bytes(content))
        result, names = lab.file, set(lab.kernels)
    whole = {f"k{index}" for index in range(8) if ENDS[index] <= first}
    assert result.status in STATUSES
    assert names >= whole
    assert result.events_read == result.events_kept + result.events_skipped


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.binary(max_size=300))
def test_any_bytes_are_no_crash(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert ingest_bytes(Path(folder), data).file.status in STATUSES


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    key=st.sampled_from(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp", "s", "new"]),
)
def test_any_json_in_any_field_costs_no_other_event(value: object, key: str) -> None:
    odd = kernel("middle", ts=2000) | {key: value}
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), trace(FIRST, odd, LAST))
        names, counts = set(lab.kernels), lab.counts
    assert names >= {"first", "last"}
    assert counts == (3, 3, 0)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    key=st.sampled_from(["device", "context", "stream", "correlation", "grid", "block", "External id", "bytes", "kind"])
    | st.sampled_from(["registers per thread", "est. achieved occupancy %", "Collective name", "Process Group Ranks"])
    | st.text(),
    value=st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers() | st.text()),
    cat=st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "cuda_sync", "overhead"]),
)
def test_any_argument_of_any_value_costs_no_event(key: str, value: object, cat: str) -> None:
    odd = kernel("middle", ts=2000, **{key: value}) | {"cat": cat}
    with tempfile.TemporaryDirectory() as folder:
        lab = ingest_bytes(Path(folder), trace(FIRST, odd, LAST))
        starts = [
            row["start_ns"]
            for table in ("kernels", "memcpys", "memsets", "api_calls", "ops", "syncs", "other_events")
            for row in lab.rows(table)
        ]
        counts = lab.counts
    assert sorted(starts) == [1_000_000, 2_000_000, 3_000_000]
    assert counts == (3, 3, 0)
