"""Kineto files as a whole: every form is read, and other files are refused."""

import gzip
import io
import json
import sqlite3
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from tests.readers.damaged import FIRST, LAST
from tests.readers.small import STORED, ingest_bytes, ingest_paths, kernel, trace
from tracelab.errors import TracelabError
from tracelab.readers.kineto.chunker import Trace, read_head

# ------------------------------------------------------------------------------------------------- the form of the file


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
    assert "no_events" in {diagnostic.code for diagnostic in lab.file.diagnostics}


def test_a_megabyte_of_blanks_between_the_brackets_is_a_trace_without_events(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, gzip.compress(b'{"traceEvents": [' + b" " * (1 << 20) + b"]}"))
    assert (lab.file.status, lab.counts) == ("stored", (0, 0, 0))
    assert "no_events" in {diagnostic.code for diagnostic in lab.file.diagnostics}


@pytest.mark.parametrize("value", ["null", "5", '"x"', "{}"])
def test_events_that_are_no_list_are_no_failure(tmp_path: Path, value: str) -> None:
    text = f'{{"schemaVersion": 1, "deviceProperties": [], "traceEvents": {value}}}'
    assert ingest_bytes(tmp_path, text).file.status in (*STORED, "not_profiler_data")


# ---------------------------------------------------------------------------------------------------------- whole files


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
    "png": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "utf-16 text": "hello".encode("utf-16"),
}


@pytest.mark.parametrize("data", STRANGERS.values(), ids=STRANGERS)
def test_file_of_something_else_is_no_profiler_data(tmp_path: Path, data: bytes) -> None:
    lab = ingest_bytes(tmp_path, data, "trace.json")
    assert (lab.file.status, lab.rows("sources")) == ("not_profiler_data", [])


@pytest.mark.parametrize("name", ["sqlite", "empty", "rubbish", "csv"])
def test_the_error_for_another_file_describes_what_is_wrong(tmp_path: Path, name: str) -> None:
    assert ingest_bytes(tmp_path, STRANGERS[name]).file.message


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_in_utf_16_is_refused_with_the_remedy(tmp_path: Path, encoding: str, packed: bool) -> None:
    data = trace(FIRST, LAST).encode(encoding)
    lab = ingest_bytes(tmp_path, gzip.compress(data) if packed else data)
    assert lab.file.status == "failed"
    assert str(lab.file.message).endswith("is UTF-16 text from its first byte on; re-save it as UTF-8")


def test_strangers_cost_no_other_file(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name, data in STRANGERS.items():
        (folder / f"{name}.json").write_bytes(data)
    (folder / "good.json").write_text(trace(FIRST, LAST))
    lab = ingest_paths(tmp_path, sorted(folder.iterdir()))
    stored = [Path(result.path).name for result in lab.report.files if result.status in STORED]
    assert (stored, lab.kernels) == (["good.json"], ["first", "last"])


def test_every_trace_in_a_directory_is_read(tmp_path: Path) -> None:
    for number, place in enumerate(("a/one.json", "b/c/two.pt.trace.json", "three.json.gz", "four.json.zst")):
        path = tmp_path / "in" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        text = trace(kernel(path.name, ts=number)).encode()
        compress = {".gz": gzip.compress, ".zst": partial(pa.compress, codec="zstd", asbytes=True)}
        path.write_bytes(compress.get(path.suffix, bytes)(text))
    (tmp_path / "in" / "README.md").write_text("# about these traces\n")
    lab = ingest_paths(tmp_path, [tmp_path / "in"])
    assert sorted(lab.kernels) == ["four.json.zst", "one.json", "three.json.gz", "two.pt.trace.json"]


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


def test_a_number_before_the_events_is_read_whole_wherever_the_first_bytes_end() -> None:
    number = "-12.5e+10"
    for at in range(-2, len(number) + 3):
        before = '{"pad": "", "n": '
        pad = "x" * ((1 << 16) - at - len(before))
        text = f'{{"pad": "{pad}", "n": {number}, "traceEvents": ['
        trace = Trace()
        buffer, events_at = read_head(io.BytesIO(text.encode()), trace)
        assert (trace.meta["n"], trace.has_events, buffer[events_at - 1 :]) == (-125e9, True, b"["), at
        assert not trace.diagnostics.counts
