"""The compiled parser: exact columns of events, chunks that it refuses, events that it leaves to `repair`."""

import re

import pytest

from tests.readers.parsing import PLAIN, SEVERAL, compact, parse, parse_rows
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
from tracelab.readers.kineto.parser.types import RefusedChunkError, Shape

WORDS = re.compile(rb"-?\b(?:inf(?:inity)?|nan)\b", re.IGNORECASE)


def test_an_event_is_a_row_with_the_values_that_it_has() -> None:
    text = """
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": 1712195495519689.047, "dur": 1.5,
       "args": { "device": 0, "grid": [ 1, 2 ], "a b": " c, d " } },
      {"name": "Iteration", "ph": "i", "s": "p", "ts": 2, "pid": 5, "cat": null, "args": {}}
    """
    assert parse_rows(text, base_ns=1) == [
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
        {"ph": "i", "name": "Iteration", "pid": 5, "start_ns": 2_001, "args": '{"s":"p"}'},
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
    assert [row.get("tid") for row in parse_rows(text)] == columns


def test_a_kind_keeps_its_number_ids_though_another_has_texts() -> None:
    text = '{"ph": "X", "tid": 7}, {"ph": "M", "tid": "Spans"}, {"ph": "X", "tid": 8}'
    found = parse_rows(text, kind_of=lambda shape: SEVERAL[shape.ph == "M"])
    assert found == [{"ph": "X", "tid": 7}, {"ph": "X", "tid": 8}, {"ph": "M", "tid": "Spans"}]


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
        ("0.12", 120),
        ("17.040", 17_040),
        ("12345678", 12_345_678_000),
        ("1234567890123456", 1_234_567_890_123_456_000),
        ("1712195497031477.782", 1_712_195_497_031_477_782),
        ("0.12345678901234567", 123),
        ("9223372036854775.807", 2**63 - 1),
        ("1000000000000000.000", 10**18),
        ("null", None),
    ],
)
def test_times_are_exact_and_half_a_nanosecond_goes_to_the_even_one(ts: str, start_ns: int | None) -> None:
    assert parse_rows(f'{{"ph": "X", "ts": {ts}}}')[0].get("start_ns") == start_ns


def test_a_half_is_rounded_after_the_base_is_added() -> None:
    assert [parse_rows('{"ph": "X", "ts": 0.0005}', base_ns=base)[0]["start_ns"] for base in (0, 1, 2)] == [0, 2, 2]


def test_commas_behind_last_items_are_left_out() -> None:
    (row,) = parse_rows('{"ph": "X", "args": {"a": [1, 2, ], "b": {"c": 3 , }, }, }')
    assert row["args"] == '{"a":[1,2],"b":{"c":3}}'


def test_texts_are_unescaped_and_arguments_are_escaped_only_where_they_must_be() -> None:
    text = r'{"ph": "X", "name": "\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00\u0000", "args": {"a": "\ud83d\ude00\n"}}'
    (row,) = parse_rows(text)
    assert row["name"] == '"\\/\b\f\n\r\té€😀\x00'
    assert row["args"] == r'{"a":"😀\n"}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1",
        "[]",
        '{"ph": "X"},',
        '{"ph": "X"} {"ph": "X"}',
        '{"ph": "X"',
        '{"ph": "X"}}',
        '{"ph": "X", "name": "a',
        '{"ph": "X", "name": "a\nb"}',
        '{"ph": "X", "name": "\\x41"}',
        '{"ph": "X", "name": "\\ud800"}',
        '{"ph": "X", "name": "\\ude00\\ud83d"}',
        '{"ph": "X", "args": {"a": "\\ud800x"}}',
        '{"ph": "X", "ts": 012345678.5}',
        '{"ph": "X", "ts": 12345678.}',
        '{"ph": "X", "args": {"a": 01}}',
        '{"ph": "X", "args": {"a": .5}}',
        '{"ph": "X", "args": {"a": 5.}}',
        '{"ph": "X", "args": {"a": 5e}}',
        '{"ph": "X", "args": {"a": tru}}',
        '{"ph": "X", "args": {"a": nul}}',
        '{"ph": "X", "args": {"a" 1}}',
        '{"ph": "X", "args": {a: 1}}',
        '{"ph": "X", "args": {"a": 1]}',
        '{"ph": "X", "args": [,]}',
        '{"ph": "X", "args": [1,,2]}',
        '{"ph": "X", "args": {,}}',
        b'{"ph": "X", "name": "\xff"}',
        b'{"ph": "X", "args": {"a": "\xc3"}}',
        b'{"ph": "X", "name": "a\x00b"}',
        '{"ph": "X", "args": {"a": ' + "[" * 65_537 + "]" * 65_537 + "}}",
    ],
)
def test_invalid_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(RefusedChunkError):
        parse(text)


@pytest.mark.parametrize(
    "event",
    [
        '{"ph": "X", "ph": "Y"}',
        '{"ph": "X", "bp": 1, "bp": 2}',
        '{"p\\u0068": "X"}',
        '{"ph": "X", "args": {"a": 1, "a": 2}}',
        '{"ph": "X", "args": {"stream": 1, "b": 0, "stream": null}}',
        '{"ph": "X", "args": {"stream": 1, "str\\u0065am": 2}}',
        '{"ph": "X", "args": [1, 2]}',
        '{"ph": "X", "args": "text"}',
        '{"ph": "X", "args": {"a": NaN}}',
        '{"ph": "X", "args": {"a": [1, -Infinity]}}',
        '{"ph": "X", "id": iNF}',
        '{"ph": "X", "ts": true}',
        '{"ph": "X", "ts": "soon"}',
        '{"ph": "X", "ts": "1.5 "}',
        '{"ph": "X", "dur": NaN}',
        '{"ph": "X", "ts": 9223372036854775.808}',
        '{"ph": "X", "ts": 18446744073709551616}',
        '{"ph": "X", "ts": 1844674407370955.1616}',
        '{"ph": "X", "ts": 36893488147419103232.5}',
        '{"ph": "X", "ts": 1e30}',
        '{"ph": "X", "ts": 1e-30}',
        '{"ph": "X", "ts": 1.00000000000000000001}',
    ],
)
def test_only_the_irregular_event_is_left_to_the_tolerant_path(event: str) -> None:
    result = parse(f'{{"ph": "a"}}, {event}, {{"ph": "b"}}')
    assert result.irregular == [WORDS.sub(b"NaN", compact(event).encode())]
    assert result.tables[PLAIN].column("ph").to_pylist() == ["a", "b"]


def test_a_parser_continues_after_a_chunk_that_it_refused() -> None:
    parser = CompiledParser()
    with pytest.raises(RefusedChunkError):
        parse('{"ph": "X", "id": 1}, {"ph": "X"', parser=parser)
    assert parse_rows('{"ph": "Y"}', parser=parser) == [{"ph": "Y"}]


def test_nesting_of_65536_levels_is_accepted() -> None:
    nested = "[" * 65_536 + "]" * 65_536
    assert parse_rows(f'{{"ph": "X", "args": {{"a": {nested}}}}}')[0]["args"] == f'{{"a":{nested}}}'


def test_kinds_whose_events_alternate_do_not_write_into_each_other() -> None:
    names = [f"{'abc'[at % 3]}{at}" * (at % 7) for at in range(1_000)]
    text = ",".join(f'{{"ph": "{"XYZ"[at % 3]}", "name": "{name}", "id": {at}}}' for at, name in enumerate(names))
    found = parse_rows(text, kind_of=lambda shape: SEVERAL["XYZ".index(shape.ph)])
    expected = [(names[at], f'{{"id":{at}}}') for kind in range(3) for at in range(kind, 1_000, 3)]
    assert [(row["name"], row["args"]) for row in found] == expected


def test_an_event_without_anything_is_a_row() -> None:
    assert parse_rows("{}, {}, {}") == [{}, {}, {}]


@pytest.mark.parametrize("events", [1, 7, 8, 9, 16, 64])
def test_every_number_of_events_keeps_what_is_null(events: int) -> None:
    fields = ['"name": "a"', '"dur": 1', '"args": {"b": 1}', '"bp": "e"']
    text = ",".join(f'{{"ph": "X", {fields[at % 4]}}}' for at in range(events))
    expected = [{"name": "a"}, {"dur_ns": 1_000}, {"args": '{"b":1}'}, {"args": '{"bp":"e"}'}]
    assert parse_rows(text) == [{"ph": "X"} | expected[at % 4] for at in range(events)]


def test_shapes_hold_phase_category_watched_name_and_watched_key() -> None:
    seen: list[Shape] = []
    text = """{"ph": "X", "cat": "kernel", "name": "a", "args": {"Collective name": "b"}}, {"ph": "X", "cat": ""},
              {"ph": "i", "name": "[memory]", "args": {"x": 1, "Collective name": null}},
              {"name": "record_param_comms"},
              {"ph": "X", "cat": "kernel", "args": {"Collective name 2": 0, "d": {"Collective name": 1}}},
              {"ph": "X", "cat": "kernel", "name": "other", "args": {"Collective name": 3}}"""
    parse(text, kind_of=lambda shape: seen.append(shape) or PLAIN)
    assert seen == [
        Shape("X", "kernel", None, has_watched_key=True),
        Shape("X", "", None, has_watched_key=False),
        Shape("i", None, "[memory]", has_watched_key=True),
        Shape(None, None, "record_param_comms", has_watched_key=False),
        Shape("X", "kernel", None, has_watched_key=False),
    ]
