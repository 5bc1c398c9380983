"""Damaged Kineto files: a bad value costs that value, an event is lost only where its own text cannot be delimited."""

import json
from pathlib import Path

import pytest

from tests.readers.damaged import FIRST, LAST, between, swap
from tests.readers.small import ingest_bytes, kernel, trace

# ------------------------------------------------------------------------------ an event whose text cannot be delimited


QUOTES = ('a"b', 'a"', '"b', 'a" {', 'a"}, {"b', 'a", "ph": "b', 'foo"]}', 'a"b\'c"d"e')


@pytest.mark.parametrize("name", QUOTES)
def test_unescaped_quotes_cost_at_most_their_own_event(tmp_path: Path, name: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"middle"', f'"{name}"')))
    read, kept, skipped = lab.counts
    assert {"first", "last"} <= set(lab.kernels)
    assert read == kept + skipped
    assert skipped <= 1 or "{" in name


@pytest.mark.parametrize("name", ['a"b', 'a"', '"b'])
def test_one_unescaped_quote_is_counted_and_reported(tmp_path: Path, name: str) -> None:
    lab = ingest_bytes(tmp_path, between(swap('"middle"', f'"{name}"')))
    assert (lab.counts[0], lab.file.status, lab.source["complete"]) == (3, "salvaged", False)
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("place", [0, 1, 4])
def test_one_unescaped_quote_loses_one_event_wherever_it_is(tmp_path: Path, indent: int | None, place: int) -> None:
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


# ----------------------------------------------------------------------------------------- a bad value costs that value


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
def test_literal_in_place_of_a_column_is_null_and_reported(tmp_path: Path, literal: str) -> None:
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
def test_value_of_a_wrong_type_is_reported(tmp_path: Path, name: str) -> None:
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


def test_negative_duration_is_kept_and_reported(tmp_path: Path) -> None:
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
def test_a_text_of_twenty_megabytes_is_one_event(tmp_path: Path, where: str) -> None:
    huge = "x" * 20_000_000
    text = swap("middle", huge) if where == "name" else swap('"stream": 7', f'"stream": 7, "Call stack": "{huge}"')
    lab = ingest_bytes(tmp_path, between(text))
    rows = lab.rows("kernels")
    assert ([row["start_ns"] for row in rows], lab.counts) == ([1_000_000, 2_000_000, 3_000_000], (3, 3, 0))
    kept = rows[1]["name"] if where == "name" else json.loads(rows[1]["args"])["Call stack"]
    assert len(kept) == len(huge)


# ------------------------------------------------------------------------------------------- elements that are no event


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
