"""Recovery from damage: by structure, in linear time and bounded memory, with true counts of what is skipped."""

import gzip
import json
import time
from pathlib import Path

import pytest

from tests import corpus
from tests.peak_memory import in_mb, run_measured
from tests.readers.recovery_work import count_work
from tests.readers.small import STORED, Lab, ingest_bytes, ingest_paths, kernel, op, trace
from tracelab.readers.kineto import chunk_search, chunker, recovery, repair

HOSTILE = corpus.ROOT / "hostile"
QUOTED = '{"ph":"X","cat":"cpu_op","name":"a"b","pid":1,"tid":1,"ts":1}'
GOOD = QUOTED.replace('a"b', "ab")


def document(*events: str) -> str:
    return f'{{"traceEvents":[{",".join(events)}]}}'


@pytest.fixture
def chunks_of_a_tenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide the limits of chunks and events by ten, so that files of a tenth of the size exceed them."""
    for name in ("CHUNK_BYTES", "MAX_EVENT_BYTES", "_BUFFER_BYTES"):
        monkeypatch.setattr(chunker, name, getattr(chunker, name) // 10)
    monkeypatch.setattr(recovery, "MAX_EVENT_BYTES", recovery.MAX_EVENT_BYTES // 10)
    for name in ("_MAX_PYTHON_BYTES", "_MAX_PYTHON_VALUES"):
        monkeypatch.setattr(repair, name, getattr(repair, name) // 10)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut files into chunks of 2 kB, and take events of more than 20 kB for too large."""
    monkeypatch.setattr(chunker, "CHUNK_BYTES", 2_000)
    monkeypatch.setattr(chunker, "MAX_EVENT_BYTES", 20_000)
    monkeypatch.setattr(recovery, "MAX_EVENT_BYTES", 20_000)
    monkeypatch.setattr(chunker, "read_head", _read_short_head)


def _read_short_head(stream, trace):
    """Read only the head of a small file, so that its events are read as chunks."""
    head = bytearray(stream.read(len('{"traceEvents":[')))
    trace.has_events = True
    return head, len(head)


def codes(lab: Lab) -> dict[str, int]:
    return {str(row["code"]): int(str(row["count"])) for row in lab.rows("diagnostics")} | {}


def message(lab: Lab, code: str) -> str:
    (row,) = [row for row in lab.rows("diagnostics") if row["code"] == code]
    return f"{row['message']} {row['how_to_fix']}"


# ---------------------------------------------------------------------------------------------------------- structure


@pytest.mark.parametrize("first_key", ["cname", "sf", "id2", "a key of many words"])
def test_events_behind_damage_are_found_by_structure_whatever_their_first_key(tmp_path: Path, first_key: str) -> None:
    events = [json.dumps({first_key: 0} | op(f"op{index}", ts=index)) for index in range(40)]
    events[7] = events[7].replace("op7", 'op"7')
    lab = ingest_bytes(tmp_path, document(*events))
    assert (len(lab.rows("ops")), lab.counts) == (39, (40, 39, 1))


def test_each_of_several_damaged_events_in_a_row_is_counted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, *[QUOTED] * 5, GOOD))
    assert lab.counts == (7, 2, 5)


def test_events_that_are_lost_in_a_gap_are_counted_by_their_phases(tmp_path: Path) -> None:
    text = document(GOOD, '{"name: {"ph": 1 {"ph": 2 }} {{"ph": 3', GOOD)
    assert ingest_bytes(tmp_path, text).counts == (5, 2, 3)


def test_objects_inside_a_damaged_event_are_not_taken_for_events(tmp_path: Path) -> None:
    kids = json.dumps([{"ph": "X", "ts": at, "name": "kid"} for at in range(50)])
    damaged = f'{{"ph":"X","cat":"cpu_op","name":"a"b","args":{{"kids":{kids},"more":1}},"ts":1}}'
    lab = ingest_bytes(tmp_path, document(GOOD, damaged, GOOD, GOOD))
    assert (len(lab.rows("ops")), lab.rows("other_events")) == (3, [])
    assert lab.counts[1] == 3


def test_a_list_without_end_hides_no_events_behind_it(tmp_path: Path) -> None:
    damaged = '{"ph":"X","cat":"cpu_op","name":"a","ts":1"grid":[1, 1,"name":"b","args":{"device":0}}'
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":[{GOOD},{damaged},{GOOD},{GOOD},{{"ph"')
    assert (len(lab.rows("ops")), lab.counts) == (3, (5, 3, 2))


@pytest.mark.parametrize(
    ("head", "counts"),
    [
        ('ents":[', (4, 2, 2)),  # the key of the events, a second time
        ('{"ph":"X","name"vents":[', (5, 2, 3)),
        ('{"ph":"X","name":"a"b","args":{"kids":[', (2, 1, 1)),
        ('{"ph":"X","name":"a","vents":[', (4, 1, 3)),
        ('{"ph":"X","name":"a","ph":"X","args":{"kids":[', (3, 1, 2)),
        ('{"ph":"X" "a" 1,"args":{"sizes":[1,{"b":1}}\n,', (4, 1, 3)),
    ],
)
def test_a_list_that_is_cut_off_belongs_to_an_event_if_its_key_is_undamaged(
    tmp_path: Path, head: str, counts: tuple[int, int, int]
) -> None:
    assert ingest_bytes(tmp_path, f'{{"traceEvents":[{GOOD},{head}{GOOD},{GOOD},{{"ts"').counts == counts


def test_events_in_a_list_of_a_damaged_last_event_are_counted(tmp_path: Path) -> None:
    damaged = f'"{{"ph":"X","cat{{"other":[,{GOOD},{GOOD[:-1]}'
    assert ingest_bytes(tmp_path, f'{{"traceEvents":[{GOOD},{damaged}').counts == (4, 1, 3)


def test_an_event_that_damage_joins_with_another_one_is_counted(tmp_path: Path) -> None:
    joined = '{"ph":"X","cat":"cpu_op","name":"a\\4","ts":1,"ph":"X","cat":"cpu_op","name":"b","ts":2}'
    lab = ingest_bytes(tmp_path, document(GOOD, joined))
    assert ([row["name"] for row in lab.rows("ops")], lab.counts) == (["ab", "b"], (3, 2, 1))


def test_objects_in_the_last_event_are_no_events_where_its_first_bracket_is_lost(tmp_path: Path) -> None:
    kids = '"kids":[{"ph":"X","name":"kid","ts":1},1,{"ph":"X","name":"kid","ts":1}]'
    lab = ingest_bytes(tmp_path, f'[{GOOD},{{"ph":"X","name":"a","ts":"1{{ id":1,{kids}}}}}  ]')
    assert (len(lab.rows("ops")), lab.rows("other_events")) == (1, [])


def test_events_in_front_of_a_second_key_of_the_events_are_counted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f'{{"traceEvents"{{:[{GOOD},{GOOD},"traceEvents":[{GOOD}]}}')
    assert (lab.counts, codes(lab)["events_in_header"]) == ((3, 1, 2), 2)
    assert message(lab, "events_in_header").startswith("2 events in front of the event array were not read")


def test_events_that_damage_joins_are_counted_where_much_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_search, "_WASTE_FACTOR", 0)
    joined = '{"ph":"X","name":"a"b"}\n"ph":"X","name":"c"}'
    nested = '{"ph":"X","name":"a"b","args":{"deep":{"ph":"X"}}}'
    assert ingest_bytes(tmp_path, document(GOOD, joined, nested, GOOD)).counts == (5, 2, 3)


def test_empty_objects_are_parsed_many_at_once() -> None:
    damage = "},{" * 40_000
    work, rows = count_work(f"{GOOD},{damage},{GOOD}]}}")
    assert rows.events_kept == 40_001
    assert work < 3 * len(damage)


def test_a_second_array_of_events_is_read_too(tmp_path: Path) -> None:
    first, second = (json.dumps([kernel(name)]) for name in ("one", "two"))
    lab = ingest_bytes(tmp_path, first + "\n" + second)
    assert (sorted(lab.kernels), lab.counts, lab.diagnostics()) == (["one", "two"], (2, 2, 0), {"stray_bracket"})


def test_a_second_document_behind_the_first_is_counted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(kernel("one")) + trace(kernel("two"), kernel("three")))
    assert (lab.kernels, lab.counts, lab.source["complete"]) == (["one"], (3, 1, 2), False)
    assert lab.diagnostics() == {"header_damaged", "events_behind_end"}
    assert message(lab, "events_behind_end").startswith("2 events behind the end of the event array were not read.")


@pytest.mark.usefixtures("small_chunks")
def test_a_large_second_document_behind_the_first_is_counted(tmp_path: Path) -> None:
    events = ",".join([GOOD] * 1_000)
    lab = ingest_bytes(tmp_path, document(GOOD) + document(events))
    assert lab.counts == (1_001, 1, 1_000)
    assert message(lab, "events_behind_end").startswith("1,000 events")


def test_a_second_list_of_events_in_one_document_is_counted(tmp_path: Path) -> None:
    events = [json.dumps([kernel(name)]) for name in ("one", "two")]
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":{events[0]},"traceEvents":{events[1]}}}')
    assert (lab.kernels, lab.counts, lab.diagnostics()) == (["one"], (2, 1, 1), {"events_twice"})


CLOSINGS = ["]}", "] }\n", "]}]", '],"a":1', '],"a":[{"b":1},{"b":2}]']


@pytest.mark.parametrize("closing", CLOSINGS)
@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("is_array", [False, True], ids=["", "array"])
def test_events_behind_what_seems_to_close_their_array_are_kept(
    tmp_path: Path, closing: str, count: int, *, is_array: bool
) -> None:
    events = ",".join([GOOD] * 100)
    text = f"{GOOD}{closing * count},{events}]"
    lab = ingest_bytes(tmp_path, f"[{text}" if is_array else f'{{"traceEvents":[{text},"traceName":"x"}}')
    assert len(lab.rows("ops")) == 101
    assert lab.diagnostics() >= {"stray_bracket"}


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("closing", CLOSINGS)
@pytest.mark.parametrize("count", [1, 3])
def test_events_of_later_chunks_are_kept_behind_what_seems_to_close_their_array(
    tmp_path: Path, closing: str, count: int
) -> None:
    events = ",".join([GOOD] * 1_000)
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":[{events}{closing * count},{events}],"traceName":"x"}}')
    assert len(lab.rows("ops")) == 2_000
    assert lab.diagnostics() >= {"stray_bracket"}


@pytest.mark.parametrize("keys", ['"a":[{"ph":1},{"ph":2}]', '"a":{"ph":1}', '"a":1'])
def test_keys_behind_the_events_are_no_events(tmp_path: Path, keys: str) -> None:
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":[{GOOD},{QUOTED},{GOOD}],{keys}}}')
    assert (lab.counts, lab.diagnostics()) == ((3, 2, 1), {"event_lost"})


def write_large_event(kids: int, name: str = '"large"') -> str:
    """Write an event whose arguments hold objects that look like events, of 62 bytes each."""
    listed = ",".join([f'{{"ph":"X","name":"kid","ts":1,"note":"]}}{"x" * 20}"}}'] * kids)
    return f'{{"ph":"X","cat":"cpu_op","name":{name},"args":{{"a":[{listed}]}},"ts":1}}'


@pytest.mark.parametrize(
    ("damaged", "code"),
    [("none", None), ("at its end", "event_lost"), ("nan", "event_lost"), ('"a"b"', "event_too_large")],
)
@pytest.mark.usefixtures("chunks_of_a_tenth")
def test_objects_inside_a_large_event_are_not_taken_for_events(tmp_path: Path, damaged: str, code: str | None) -> None:
    large = write_large_event(30_000, damaged if damaged in ("nan", '"a"b"') else '"large"')
    lab = ingest_bytes(tmp_path, document(GOOD, large[:-1] + ',"dur":nan}' if damaged == "at its end" else large, GOOD))
    assert lab.counts == ((3, 2, 1) if code else (3, 3, 0))
    assert lab.rows("other_events") == []
    assert lab.diagnostics() == ({code} if code else set())


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kids", [100, 1_000], ids=["over chunks", "too large"])
@pytest.mark.parametrize("name", ['"large"', "nan", '"a"b"'])
@pytest.mark.parametrize("is_cut", [False, True], ids=["", "cut off"])
def test_objects_inside_an_event_over_many_chunks_are_not_taken_for_events(
    tmp_path: Path, kids: int, name: str, *, is_cut: bool
) -> None:
    large = write_large_event(kids, name)
    text = document(GOOD, GOOD, large)[:-100] if is_cut else document(GOOD, GOOD, large, GOOD)
    lab = ingest_bytes(tmp_path, text)
    assert lab.rows("other_events") == []
    is_kept = kids == 100 and name != '"a"b"' and not is_cut
    assert lab.counts == ((3, 2, 1) if is_cut else (4, 4, 0) if is_kept else (4, 3, 1))


def test_a_damaged_event_is_one_whatever_objects_it_holds(tmp_path: Path) -> None:
    damaged = QUOTED[:-1] + ',"args":{"kids":[{"ph":"X","ts":1},{"ph":"X","ts":2}],"inner":{"ph":"X"}}}'
    lab = ingest_bytes(tmp_path, document(GOOD, *[damaged] * 500, GOOD))
    assert lab.counts == (502, 2, 500)


def test_events_joined_by_damage_are_each_counted(tmp_path: Path) -> None:
    joined = [
        '{"ph":"X","name":"a,{"ph":"X","name":"b"}',
        '{"ph":"X","args":{"a":1,"ph":"X","name":"b"}',
        '{"ph":"X","pid": {"ph":"X","name":"b"}',
    ]
    assert ingest_bytes(tmp_path, document(GOOD, *joined, GOOD)).counts == (8, 3, 5)


def test_no_bracket_is_added_that_makes_an_event_part_of_a_damaged_one(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, f'{{"name":"a","args":{{"id":{GOOD}', GOOD))
    assert (lab.counts, lab.rows("other_events")) == ((3, 2, 1), [])


def test_a_million_open_brackets_are_skipped_at_once(tmp_path: Path) -> None:
    before = time.process_time()
    lab = ingest_bytes(tmp_path, document(GOOD, "[" * 1_000_000 + GOOD, GOOD))
    assert time.process_time() - before < 5
    assert lab.counts[1] >= 1


def test_stray_brackets_are_no_events(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, "[" * 10_000, "}" * 1_000, GOOD))
    assert (lab.counts, codes(lab)["stray_bracket"]) == ((2, 2, 0), 11_000)


def test_the_events_of_a_deep_nest_are_all_counted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, '{"ph":' * 20_000, GOOD))
    assert lab.counts == (20_002, 2, 20_000)


def test_a_stray_bracket_that_opens_a_list_of_events_costs_none(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":[{GOOD},[{GOOD},{GOOD}],"traceName":"x"}}')
    assert (lab.counts, lab.diagnostics()) == ((3, 3, 0), {"stray_bracket"})


@pytest.mark.parametrize(
    ("before", "between", "behind", "commas"), [("", ",,", "", 1), ("", "," * 1_000, "", 999), ("", ",", ",,,", 2)]
)
def test_stray_commas_are_counted(tmp_path: Path, before: str, between: str, behind: str, commas: int) -> None:
    lab = ingest_bytes(tmp_path, f'{{"traceEvents":[{before}{GOOD}{between}{GOOD}{behind}]}}')
    assert (lab.counts, lab.diagnostics(), codes(lab)["stray_comma"]) == ((2, 2, 0), {"stray_comma"}, commas)


@pytest.mark.usefixtures("small_chunks")
def test_stray_commas_at_the_border_of_chunks_are_counted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(*[GOOD] * 60, *[GOOD + ","] * 60, *[GOOD] * 60))
    assert (lab.counts, codes(lab)["stray_comma"]) == ((180, 180, 0), 60)


# ------------------------------------------------------------------------------------------------- borders of chunks


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("kids", [3, 30, 100])
def test_a_border_inside_an_event_makes_no_rows_of_the_objects_in_it(tmp_path: Path, kids: int) -> None:
    inner = [{"ph": "X", "ts": at, "name": "kid"} for at in range(kids)]
    events = [op(f"op{at}", ts=at, kids=inner, after=at) for at in range(30)]
    lab = ingest_bytes(tmp_path, json.dumps({"traceEvents": events}, separators=(",", ":")))
    assert (len(lab.rows("ops")), lab.rows("other_events"), lab.counts) == (30, [], (30, 30, 0))
    assert lab.diagnostics() == set()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("place", range(0, 200, 17))
def test_damage_near_a_border_costs_one_event(tmp_path: Path, place: int) -> None:
    events = [json.dumps(kernel(f"k{at}", ts=at)) for at in range(200)]
    events[place] = events[place].replace(f"k{place}", f'k"{place}')
    lab = ingest_bytes(tmp_path, document(*events))
    assert (set(lab.kernels), lab.counts) == ({f"k{at}" for at in range(200)} - {f"k{place}"}, (200, 199, 1))


@pytest.mark.usefixtures("small_chunks")
def test_an_event_that_is_too_large_is_skipped_and_counted(tmp_path: Path) -> None:
    large = op("large", note="x" * 50_000)
    lab = ingest_bytes(tmp_path, document(GOOD, json.dumps(large), GOOD, GOOD))
    assert (lab.counts, lab.diagnostics()) == ((4, 3, 1), {"event_too_large"})


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("damaged", ['{"ph":"X","a":[{"b":1}', '{"ph":"X","a":"b"c","a":[{"b":1}'])
def test_all_events_behind_a_list_that_never_ends_are_counted(tmp_path: Path, damaged: str) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, damaged, *[GOOD] * 2_000))
    assert lab.counts[0] == 2_002


@pytest.mark.usefixtures("small_chunks")
def test_the_keys_behind_the_events_may_be_larger_than_a_chunk(tmp_path: Path) -> None:
    devices = [{"id": number, "name": "card"} for number in range(200)]
    content = {"traceEvents": [kernel("k", ts=at) for at in range(30)], "deviceProperties": devices, "schemaVersion": 1}
    lab = ingest_bytes(tmp_path, json.dumps(content, separators=(",", ":")))
    assert (len(lab.kernels), len(lab.rows("devices")), lab.source["complete"]) == (30, 200, True)


# -------------------------------------------------------------------------------------------------------- messages


def test_a_cut_is_described_as_a_cut_and_nothing_else(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, GOOD)[:-20])
    assert (lab.counts, lab.diagnostics()) == ((2, 1, 1), {"cut_off"})
    assert "torch" not in message(lab, "cut_off")


def test_a_lost_event_is_described_by_position_phase_and_category(tmp_path: Path) -> None:
    text = message(ingest_bytes(tmp_path, document(GOOD, QUOTED, GOOD)), "event_lost")
    position = f"byte {len(document(GOOD)) - 1}, phase X, category cpu_op, {len(QUOTED)} bytes"
    assert text.startswith(f"1 event could not be parsed; the first: {position} ")
    assert "delimiter" not in text
    assert "torch" not in text


LABELS = '{"ph":"M","cat":"s3cret","name":"process_labels","pid":1,"tid":0,"args":{"labels":"train.py --key s3cret"'


@pytest.mark.parametrize(
    "damaged",
    [
        LABELS + ',"a":"b"c"}}',
        LABELS + ',"a":nan,}}',
        LABELS + ',"a":1}',
        LABELS + ',"labels":1,"a":' + "[" * 9_999 + "]" * 9_999 + "}}",
        LABELS.replace('{"labels"', '["labels"').replace('":"train', '","train') + "]}",
        LABELS + '},"ts":"s3cret"}',
        '"s3cret"',
        '["s3cret"',
        '{"ph":"M","name":"s3cret","args":"s3cret"}',
    ],
)
def test_no_diagnostic_quotes_a_damaged_event(tmp_path: Path, damaged: str) -> None:
    lab = ingest_bytes(tmp_path, document(GOOD, damaged, GOOD))
    assert not any("s3cret" in f"{row['message']}{row['how_to_fix']}" for row in lab.rows("diagnostics"))
    assert lab.diagnostics() != set()


@pytest.mark.parametrize("tail", ['"a":"b"c"}', '"a":1'])
def test_damaged_keys_are_located_in_a_whole_sentence(tmp_path: Path, tail: str) -> None:
    text = f'{{"traceEvents":[{GOOD}],{tail.replace("1", "x}")}'
    assert "keys at the end of the file could" in message(ingest_bytes(tmp_path, text), "header_damaged")


def test_a_head_that_is_too_long_is_not_called_a_file_without_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunker, "_MAX_HEAD_BYTES", 1 << 20)
    lab = ingest_bytes(tmp_path, f'{{"schemaVersion":1,"note":"{"x" * (5 << 20)}","traceEvents":[{GOOD}]}}')
    assert lab.file.status not in STORED
    assert "no key traceEvents in its first 64 MB" in str(lab.file.message)


def test_damaged_keys_before_the_events_are_located_and_not_quoted(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f'{{"username":"secret"x,"traceEvents":[{GOOD}]}}')
    assert "at byte 20 of the file" in message(lab, "header_damaged")
    assert "secret" not in lab.texts()


# ------------------------------------------------------------------------------------------------- time and memory


def seconds(folder: Path, text: str) -> float:
    """Return the processor time of an ingest."""
    before = time.process_time()
    ingest_bytes(folder, text)
    return time.process_time() - before


@pytest.mark.parametrize(
    "damaged",
    [
        QUOTED,
        f"{QUOTED},{GOOD}",
        '{"a":[1,{"a":[1,{"a":[1',
        '{"ph":"X","name":"a}',
        "[[[[[[",
        "}}}}]]]]",
        '"a,{"a":1',
        '{"ph":"X","args":{"kids":[{"ph":"X"},{"ph":"X"},{"ph":"X"}',
    ],
    ids=["quotes", "every other", "nested", "open string", "brackets", "closing", "inverted", "open list"],
)
def test_time_grows_with_the_damage_and_not_with_its_square(tmp_path: Path, damaged: str) -> None:
    ingest_bytes(tmp_path / "warm", document(GOOD))
    count = 20_000 // len(damaged)
    small = seconds(tmp_path / "small", document(*[damaged] * count))
    large = seconds(tmp_path / "large", document(*[damaged] * (count * 8)))
    assert large < max(24 * small, 1)


@pytest.mark.parametrize(
    "damaged",
    [
        '"',
        "[1,",
        '{"ph":"X","args":{"kids":[{"ph":"X"},{"ph":"X"},{"ph":"X"},',
        "}]",
        '\\"',
        "[{",
        ",{",
        "1,",
        "}",
        "},",
        '{"a":[}',
    ],
)
def test_a_megabyte_of_any_token_takes_at_most_a_second(tmp_path: Path, damaged: str) -> None:
    ingest_bytes(tmp_path / "warm", document(GOOD))
    assert seconds(tmp_path, document(GOOD, damaged * (1_000_000 // len(damaged)) + GOOD, GOOD)) < 1.25


def test_200_000_keys_before_the_events_cost_little(tmp_path: Path) -> None:
    text = "{" + ",".join(f'"k{number}":{number}' for number in range(200_000)) + f',"traceEvents":[{GOOD}]}}'
    before = time.process_time()
    lab = ingest_bytes(tmp_path, text)
    assert time.process_time() - before < 1
    assert (lab.counts, lab.diagnostics()) == ((1, 1, 0), {"keys_unread"})
    assert "More than 10,000 top-level keys" in message(lab, "keys_unread")
    assert "xport" not in message(lab, "keys_unread")


SMALL_READER_MB = 105
"""What a file may take besides a small one: chunks of 2 MB take 80, and chunks as large as the file 125 and more."""

MEASURED = """
import os, resource, sys
from pathlib import Path
from tracelab.ingest.pipeline import ingest
from tracelab.readers.kineto import chunker, recovery
chunker.CHUNK_BYTES, chunker._BUFFER_BYTES = 2_000_000, 2_100_000
chunker.MAX_EVENT_BYTES = recovery.MAX_EVENT_BYTES = 8_000_000

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

for path in map(Path, sys.argv[2:]):
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    ingest([Path(sys.argv[1])], store=path.with_suffix(".small"), run="r")
    before = peak()
    (file,) = ingest([path], store=path.with_suffix(".lab"), run="r").files
    print(path.name, file.events_read, file.events_skipped, peak() - before, flush=True)
    os._exit(0)
"""

LARGE = {
    "one_string": ('{"ph":"X","name":"', b"x", '"},', GOOD + "]}", "3 1"),
    "zeros": ("", b"\0", "", f",{GOOD}]}}", "3 1"),
    "spaces": ("", b" ", "", f"{GOOD}]}}", "2 0"),
    "spaces_behind_the_end": (f"{GOOD}]}}", b" ", "", "", "2 0"),
}
"""What is before, in, and behind 40 MB between or behind events, and how many events are read and skipped."""


def test_memory_is_bounded_whatever_is_in_the_file(tmp_path: Path) -> None:
    """Each file is read by a fork of a process that has imported the reader, which takes longer than to read it."""
    for name, (before, filler, behind, end, _) in LARGE.items():
        with gzip.open(tmp_path / name, "wb", 1) as file:
            file.write(f'{{"traceEvents":[{GOOD},{before}'.encode())
            for _ in range(40):
                file.write(filler * 1_000_000)
            file.write(f"{behind}{end}".encode())
    (tmp_path / "small.json").write_text(document(GOOD))
    printed, _ = run_measured("-c", MEASURED, tmp_path / "small.json", *(tmp_path / name for name in LARGE))
    read = {
        name: (f"{events} {skipped}", int(peak)) for name, events, skipped, peak in map(str.split, printed.splitlines())
    }
    assert {name: counts for name, (counts, _) in read.items()} == {
        name: counts for name, (*_, counts) in LARGE.items()
    }
    assert max(in_mb(peak) for _, peak in read.values()) < SMALL_READER_MB, read


# ---------------------------------------------------------------------------------------------------- the files found


@pytest.mark.traces
@pytest.mark.skipif(not HOSTILE.is_dir(), reason="the shared corpus of traces is not beside this checkout")
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("swallow.json", (2001, 2000, 1)),
        ("swallow2.json", (502, 501, 1)),
        ("kids.json.gz", (400, 400, 0)),
        ("gzflip.json.gz", None),
        ("rflip1.json.gz", None),
    ],
)
def test_hostile_files_are_read_quickly_and_counted_truly(
    tmp_path: Path, name: str, counts: tuple[int, int, int] | None
) -> None:
    before = time.process_time()
    lab = ingest_paths(tmp_path, [HOSTILE / name])
    assert time.process_time() - before < 10
    read, kept, skipped = lab.counts
    assert lab.counts == counts if counts else read == kept + skipped > 140_000
    assert name != "kids.json.gz" or (len(lab.rows("ops")), lab.rows("other_events")) == (400, [])
