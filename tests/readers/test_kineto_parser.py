"""The parser in C: events as columns, exact, as Python's json and Decimal read them; and what it leaves to `clean`."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelab.readers.kineto import parser as package
from tracelab.readers.kineto.parser import NotHealthyError, Parser, Shape, module

FOLDER = Path(package.__file__).parent
TEXTS = {"ph": "ph", "source_cat": "cat", "name": "name"}
TIMES = {"start_ns": "ts", "dur_ns": "dur"}
_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def parsed(text: str | bytes, *, base_ns: int = 0, kind_of=lambda shape: 0, parser: Parser | None = None) -> list[dict]:
    """The events of a piece, kind after kind, without what they do not have."""
    piece = memoryview(text.encode() if isinstance(text, str) else text)
    tables = (parser or Parser()).events(piece, lambda shapes: [kind_of(shape) for shape in shapes], base_ns=base_ns)
    rows = []
    for _, table in sorted(tables.items()):
        table.validate(full=True)
        rows += [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]
    return rows


def test_an_event_is_a_row_with_the_values_that_it_has() -> None:
    text = """
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": 1712195495519689.047, "dur": 1.5,
       "args": { "device": 0, "grid": [ 1, 2 ], "a b": " c, d " } },
      {"name": "Iteration", "ph": "i", "s": "p", "ts": 2, "pid": 5, "cat": null, "args": {}}
    """
    assert parsed(text, base_ns=1) == [
        {
            "ph": "X",
            "source_cat": "kernel",
            "name": "gemm",
            "pid": 0,
            "tid": "stream 7",
            "start_ns": 1_712_195_495_519_689_048,
            "dur_ns": 1_500,
            "args": '{"device":0,"grid":[1,2],"a b":" c, d "}',
        },
        {"ph": "i", "name": "Iteration", "pid": 5, "start_ns": 2_001, "args": "{}", "extra s": '"p"'},
    ]


@pytest.mark.parametrize(
    ("ids", "columns"),
    [
        (("1", "2"), [1, 2]),
        (("1", '"2"'), [1, 2]),
        (('"007"', "-0"), [7, 0]),
        (("9223372036854775807", "-9223372036854775807"), [2**63 - 1, 1 - 2**63]),
        (("1", '"stream 7"'), ["1", "stream 7"]),
        (("1", "9223372036854775808"), ["1", "9223372036854775808"]),
        (("1", "1.5"), ["1", "1.5"]),
        (("null", "true"), [None, "true"]),
        (("null", "3"), [None, 3]),
    ],
)
def test_ids_are_numbers_where_all_of_a_kind_are_integers(ids: tuple[str, str], columns: list) -> None:
    text = ",".join(f'{{"ph": "X", "tid": {tid}}}' for tid in ids)
    assert [row.get("tid") for row in parsed(text)] == columns


def test_a_kind_keeps_its_number_ids_though_another_has_texts() -> None:
    text = '{"ph": "X", "tid": 7}, {"ph": "M", "tid": "Spans"}, {"ph": "X", "tid": 8}'
    rows = parsed(text, kind_of=lambda shape: 1 if shape.ph == "X" else 2)
    assert rows == [{"ph": "X", "tid": 7}, {"ph": "X", "tid": 8}, {"ph": "M", "tid": "Spans"}]


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [
        ("12.3445", 12_344),
        ("12.3455", 12_346),
        ("-12.3455", -12_346),
        ("12.34450001", 12_345),
        ("0.0005", 0),
        ("0.0015", 2),
        ("1e3", 1_000_000),
        ("1.5E-2", 15),
        ("0e999", 0),
        ('"1.5"', 1_500),
        ("9223372036854775.807", 2**63 - 1),
        ("1000000000000000.000", 10**18),
        ("null", None),
    ],
)
def test_times_are_exact_and_half_a_nanosecond_goes_to_the_even_one(ts: str, start_ns: int | None) -> None:
    assert parsed(f'{{"ph": "X", "ts": {ts}}}')[0].get("start_ns") == start_ns


def test_a_half_is_rounded_after_the_base_is_added() -> None:
    assert [parsed('{"ph": "X", "ts": 0.0005}', base_ns=base)[0]["start_ns"] for base in (0, 1, 2)] == [0, 2, 2]


@pytest.mark.parametrize("word", ["NaN", "nan", "NAN", "Infinity", "-Infinity", "inf", "-iNF"])
def test_bare_words_for_numbers_that_are_none_become_one(word: str) -> None:
    assert parsed(f'{{"ph": "X", "args": {{"a": [{word}, 1]}}}}')[0]["args"] == '{"a":[NaN,1]}'


def test_commas_behind_last_items_are_left_out() -> None:
    assert parsed('{"ph": "X", "args": {"a": [1, 2, ], "b": {"c": 3 , }, }, }')[0]["args"] == '{"a":[1,2],"b":{"c":3}}'


def test_texts_are_unescaped_and_arguments_are_kept_as_they_are_escaped() -> None:
    text = (
        r'{"ph": "X", "name": "\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00\u0000", "args": {"\u00e9\/": "\ud83d\ude00\n"}}'
    )
    (row,) = parsed(text)
    assert row["name"] == '"\\/\b\f\n\r\té€😀\x00'
    assert row["args"] == r'{"\u00e9\/":"\ud83d\ude00\n"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1",
        "[]",
        '{"ph": "X"},',
        '{"ph": "X"} {"ph": "X"}',
        '{"ph": "X", "ph": "Y"}',
        '{"ph": "X", "bp": 1, "bp": 2}',
        '{"ph": "X", "id": 1, "ID": 2}',
        '{"ph": "X", "Name": "a"}',
        '{"p\\u0068": "X"}',
        '{"ph": "X", "a\\"b": 1}',
        '{"ph": "X", "é": 1}',
        '{"ph": "X"',
        '{"ph": "X"}}',
        '{"ph": "X", "name": "a',
        '{"ph": "X", "name": "a\nb"}',
        '{"ph": "X", "name": "\\x41"}',
        '{"ph": "X", "name": "\\ud800"}',
        '{"ph": "X", "name": "\\ude00\\ud83d"}',
        '{"ph": "X", "args": {"a": "\\ud800x"}}',
        '{"ph": "X", "args": {"a": 01}}',
        '{"ph": "X", "args": {"a": .5}}',
        '{"ph": "X", "args": {"a": 5.}}',
        '{"ph": "X", "args": {"a": 5e}}',
        '{"ph": "X", "args": {"a": tru}}',
        '{"ph": "X", "args": {"a" 1}}',
        '{"ph": "X", "args": {a: 1}}',
        '{"ph": "X", "args": {"a": 1]}',
        '{"ph": "X", "args": [,]}',
        '{"ph": "X", "args": [1,,2]}',
        '{"ph": "X", "args": {,}}',
        '{"ph": "X", "ts": true}',
        '{"ph": "X", "ts": "soon"}',
        '{"ph": "X", "ts": "1.5 "}',
        '{"ph": "X", "ts": NaN}',
        '{"ph": "X", "ts": 9223372036854775.808}',
        '{"ph": "X", "ts": 1e30}',
        '{"ph": "X", "ts": 1e-30}',
        '{"ph": "X", "ts": 1.00000000000000000001}',
        b'{"ph": "X", "name": "\xff"}',
        b'{"ph": "X", "args": {"a": "\xc3"}}',
        b'{"ph": "X", "name": "a\x00b"}',
        '{"ph": "X", "args": ' + "[" * 65_537 + "]" * 65_537 + "}",
    ],
)
def test_what_is_not_wholly_healthy_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotHealthyError):
        parsed(text)


def test_a_parser_goes_on_after_a_piece_that_it_refused() -> None:
    parser = Parser()
    with pytest.raises(NotHealthyError):
        parsed('{"ph": "X", "id": 1}, {"ph": "X"', parser=parser)
    assert parsed('{"ph": "Y"}', parser=parser) == [{"ph": "Y"}]


def test_depth_that_is_refused_begins_beyond_65536() -> None:
    nested = "[" * 65_536 + "]" * 65_536
    assert parsed(f'{{"ph": "X", "args": {nested}}}')[0]["args"] == nested


def test_kinds_whose_events_alternate_do_not_write_into_each_other() -> None:
    names = [f"{'abc'[at % 3]}{at}" * (at % 7) for at in range(1_000)]
    text = ",".join(f'{{"ph": "{"XYZ"[at % 3]}", "name": "{name}", "id": {at}}}' for at, name in enumerate(names))
    rows = parsed(text, kind_of=lambda shape: "XYZ".index(shape.ph))
    expected = [(names[at], str(at)) for kind in range(3) for at in range(kind, 1_000, 3)]
    assert [(row["name"], row["extra id"]) for row in rows] == expected


def test_an_event_without_anything_is_a_row() -> None:
    assert parsed("{}, {}, {}") == [{}, {}, {}]


@pytest.mark.parametrize("events", [1, 7, 8, 9, 16, 64])
def test_every_number_of_events_keeps_what_is_null(events: int) -> None:
    fields = ['"name": "a"', '"dur": 1', '"args": {"b": 1}', '"bp": "e"']
    text = ",".join(f'{{"ph": "X", {fields[at % 4]}}}' for at in range(events))
    expected = [{"name": "a"}, {"dur_ns": 1_000}, {"args": '{"b":1}'}, {"extra bp": '"e"'}]
    assert parsed(text) == [{"ph": "X"} | expected[at % 4] for at in range(events)]


def test_more_than_64_keys_that_no_table_has_are_left_to_the_tolerant_path() -> None:
    keys = [f'"k{at}": {at}' for at in range(65)]
    assert parsed(f'{{"ph": "X", {", ".join(keys[:64])}}}')[0]["extra k63"] == "63"
    with pytest.raises(NotHealthyError):
        parsed(f'{{"ph": "X", {", ".join(keys)}}}')


def test_shapes_tell_phase_category_watched_names_and_watched_keys() -> None:
    seen: list[Shape] = []
    text = """{"ph": "X", "cat": "kernel", "name": "a", "args": {"Collective name": "b"}}, {"ph": "X", "cat": ""},
              {"ph": "i", "name": "[memory]", "args": {"x": {"Collective name": 1}}}, {"name": "record_param_comms"},
              {"ph": "X", "cat": "kernel", "name": "c", "args": {"Collective name 2": "b", "d": "Collective name"}},
              {"ph": "X", "cat": "kernel", "name": "other", "args": {"Collective name": 3}}"""
    parsed(text, kind_of=lambda shape: seen.append(shape) or 0)
    assert seen == [
        Shape("X", "kernel", None, keyed=True),
        Shape("X", "", None, keyed=False),
        Shape("i", None, "[memory]", keyed=True),
        Shape(None, None, "record_param_comms", keyed=False),
        Shape("X", "kernel", None, keyed=False),
    ]


def test_mended_events_come_with_their_times_in_ns_and_other_keys_as_one_column() -> None:
    line = b'{"ph": null, "name": "a", "ts": 5, "dur": 9223372036854775807, "extras": {"\\u00e9": 1, "ID": 2}}'
    (tables,) = Parser().mended_events([line, b'{"ph": "X", "extras": null}'], lambda shapes: [0] * len(shapes))
    assert tables[0].to_pylist() == [
        {"ph": None, "name": "a", "extras": '{"\\u00e9":1,"ID":2}', "start_ns": 5, "dur_ns": 2**63 - 1},
        {"ph": "X", "name": None, "extras": None, "start_ns": None, "dur_ns": None},
    ]


def test_mended_events_may_have_any_number_of_shapes() -> None:
    lines = [f'{{"ph": "X", "cat": "c{at}"}}'.encode() for at in range(10_000)]
    tables = Parser().mended_events(lines, lambda shapes: [0] * len(shapes))
    assert sum(len(of_kind[0]) for of_kind in tables) == 10_000


json_texts = st.text(max_size=40).flatmap(
    lambda text: st.sampled_from([json.dumps(text), json.dumps(text, ensure_ascii=False)])
)
numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-(10**20), 10**20).map(lambda digits: f"{Decimal(digits).scaleb(-6):f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
)
spaces = st.text(" \n\r\t", max_size=20)


def listed(brackets: str, items: st.SearchStrategy[list[str]]) -> st.SearchStrategy[str]:
    """Items in brackets, with any space between them."""
    return st.tuples(spaces, items, spaces).map(
        lambda parts: brackets[0] + parts[0] + f"{parts[2]},{parts[0]}".join(parts[1]) + parts[2] + brackets[1]
    )


def members(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return listed(
        "{}", st.lists(st.tuples(json_texts, spaces, values).map(lambda m: f"{m[0]}{m[1]}:{m[1]}{m[2]}"), max_size=4)
    )


values = st.recursive(
    st.one_of(json_texts, numbers, st.sampled_from(["true", "false", "null"])),
    lambda inner: st.one_of(listed("[]", st.lists(inner, max_size=4)), members(inner)),
    max_leaves=12,
)
times = st.tuples(st.integers(-(2**46), 2**46), st.integers(0, 6), st.sampled_from(["", "e0", "E+2", "e-2"])).map(
    lambda parts: f"{Decimal(parts[0]).scaleb(-parts[1]):f}{parts[2]}"
)
events = st.fixed_dictionaries(
    {"ph": st.sampled_from("XYZ").map(json.dumps)},
    optional={
        "cat": json_texts,
        "name": json_texts,
        "pid": st.integers(-(2**63) + 1, 2**63 - 1).map(str),
        "tid": st.integers(0, 10**6).map(lambda tid: f'"{tid}"'),
        "ts": times,
        "dur": times,
        "args": members(values),
        "id": values,
        "bp": values,
    },
)


def expected(event: dict[str, str], base_ns: int) -> dict[str, object]:
    """The same event by Python's json and Decimal; arguments without the space between their strings."""
    texts = {
        key: _STRING_OR_SPACE.sub(r"\1", event[key]) for key in ("args", "id", "bp") if event.get(key, "null") != "null"
    }
    row: dict[str, object] = {key if key == "args" else f"extra {key}": text for key, text in texts.items()}
    row |= {column: json.loads(event[key]) for column, key in TEXTS.items() if key in event}
    row |= {key: int(json.loads(event[key])) for key in ("pid", "tid") if key in event}
    for column, key in TIMES.items():
        if key in event:
            row[column] = round(Decimal(event[key]) * 1_000 + (base_ns if key == "ts" else 0))
    return row


@settings(max_examples=200)
@given(
    pieces=st.lists(st.lists(st.tuples(events, spaces), min_size=1, max_size=12), min_size=1, max_size=2),
    base_ns=st.integers(0, 10**18),
)
def test_any_events_are_read_as_python_reads_them(pieces: list[list[tuple[dict[str, str], str]]], base_ns: int) -> None:
    parser = Parser()
    for piece in pieces:
        texts = (
            f"{space}{{{space}"
            + f",{space}".join(f'"{key}":{space}{value}' for key, value in event.items())
            + f"{space}}}{space}"
            for event, space in piece
        )
        rows = parsed(",".join(texts), base_ns=base_ns, kind_of=lambda shape: "XYZ".index(shape.ph), parser=parser)
        ordered = sorted((event for event, _ in piece), key=lambda event: event["ph"])
        assert rows == [expected(event, base_ns) for event in ordered]


@pytest.mark.skipif(module.resource is None, reason="this system limits no addresses")
def test_where_addresses_are_limited_memory_is_taken_as_it_grows() -> None:
    program = """if True:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        from tracelab.readers.kineto.parser import Parser
        text = ",".join('{"ph": "X", "name": "' + str(at) + '"}' for at in range(500_000)).encode()
        tables = Parser().events(memoryview(text), lambda shapes: [0], base_ns=0)
        print(tables[0].column("name").to_pylist() == [str(at) for at in range(500_000)])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_what_is_run_is_what_the_source_compiles_to(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="needs a C compiler for WebAssembly: pip install ziglang")
    compiler = [sys.executable, "-m", "ziglang", "cc", f"@{FOLDER / 'flags.txt'}"]
    subprocess.run([*compiler, "-o", str(tmp_path / "parser.wasm"), str(FOLDER / "parser.c")], check=True)
    assert (tmp_path / "parser.wasm").read_bytes() == (FOLDER / "parser.wasm").read_bytes(), "run `make parser`"
