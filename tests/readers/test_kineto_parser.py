"""The parser in C: events as columns, exact, as Python's json and Decimal read them; and what it leaves to `clean`."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracelab.readers.kineto import arguments, mapping
from tracelab.readers.kineto import parser as package
from tracelab.readers.kineto.mapping import COUNTERS, KINDS, MAPPINGS
from tracelab.readers.kineto.parser import NotHealthyError, Parsed, Parser, Shape, Unfit, module

PLAIN = len(MAPPINGS)
"""The kind of events of whose arguments all are left over."""
KERNELS, COMMUNICATION = MAPPINGS.index(mapping.KERNELS), MAPPINGS.index(mapping.COMMUNICATION_OPS)
ALIKE = (COMMUNICATION, KERNELS, PLAIN)

FOLDER = Path(package.__file__).parent
TEXTS = {"ph": "ph", "source_cat": "cat", "name": "name"}
TIMES = {"start_ns": "ts", "dur_ns": "dur"}
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d+)?)(?:[eE][-+]?\d+)?")
_STRING_OR_SPACE = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


argument = arguments.column
WORDS = re.compile(rb"-?\b(?:inf(?:inity)?|nan)\b", re.IGNORECASE)


def parsed(text: str | bytes, *, base_ns: int = 0, kind_of=lambda shape: PLAIN, parser: Parser | None = None) -> Parsed:
    """A piece; its tables are valid, and have no more odd events than the test says."""
    piece = memoryview(text.encode() if isinstance(text, str) else text)
    found = (parser or Parser()).events(piece, lambda shapes: [kind_of(shape) for shape in shapes], base_ns=base_ns)
    for table in found.tables.values():
        table.validate(full=True)
    return found


def rows(text: str | bytes, **how) -> list[dict]:
    """The events of a piece, kind after kind, without what they do not have; none of them is odd."""
    found = parsed(text, **how)
    assert not found.odd
    return [
        {key: value for key, value in row.items() if value is not None}
        for _, table in sorted(found.tables.items())
        for row in table.to_pylist()
    ]


def test_an_event_is_a_row_with_the_values_that_it_has() -> None:
    text = """
      {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": "stream 7", "ts": 1712195495519689.047, "dur": 1.5,
       "args": { "device": 0, "grid": [ 1, 2 ], "a b": " c, d " } },
      {"name": "Iteration", "ph": "i", "s": "p", "ts": 2, "pid": 5, "cat": null, "args": {}}
    """
    assert rows(text, base_ns=1) == [
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
    assert [row.get("tid") for row in rows(text)] == columns


def test_a_kind_keeps_its_number_ids_though_another_has_texts() -> None:
    text = '{"ph": "X", "tid": 7}, {"ph": "M", "tid": "Spans"}, {"ph": "X", "tid": 8}'
    found = rows(text, kind_of=lambda shape: ALIKE[shape.ph == "M"])
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
        ("9223372036854775.807", 2**63 - 1),
        ("1000000000000000.000", 10**18),
        ("null", None),
    ],
)
def test_times_are_exact_and_half_a_nanosecond_goes_to_the_even_one(ts: str, start_ns: int | None) -> None:
    assert rows(f'{{"ph": "X", "ts": {ts}}}')[0].get("start_ns") == start_ns


def test_a_half_is_rounded_after_the_base_is_added() -> None:
    assert [rows('{"ph": "X", "ts": 0.0005}', base_ns=base)[0]["start_ns"] for base in (0, 1, 2)] == [0, 2, 2]


def test_commas_behind_last_items_are_left_out() -> None:
    assert rows('{"ph": "X", "args": {"a": [1, 2, ], "b": {"c": 3 , }, }, }')[0]["args"] == '{"a":[1,2],"b":{"c":3}}'


def test_texts_are_unescaped_and_arguments_are_escaped_only_where_they_must_be() -> None:
    text = r'{"ph": "X", "name": "\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00\u0000", "args": {"a": "\ud83d\ude00\n"}}'
    (row,) = rows(text)
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
def test_what_is_no_clean_json_of_events_is_refused(text: str | bytes) -> None:
    with pytest.raises(NotHealthyError):
        parsed(text)


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
        '{"ph": "X", "ts": 1e30}',
        '{"ph": "X", "ts": 1e-30}',
        '{"ph": "X", "ts": 1.00000000000000000001}',
    ],
)
def test_an_odd_event_is_left_to_the_tolerant_path_and_no_other_one(event: str) -> None:
    found = parsed(f'{{"ph": "a"}}, {event}, {{"ph": "b"}}')
    assert found.odd == [WORDS.sub(b"NaN", compact(event).encode())]
    assert found.tables[PLAIN].column("ph").to_pylist() == ["a", "b"]


def test_a_parser_goes_on_after_a_piece_that_it_refused() -> None:
    parser = Parser()
    with pytest.raises(NotHealthyError):
        parsed('{"ph": "X", "id": 1}, {"ph": "X"', parser=parser)
    assert rows('{"ph": "Y"}', parser=parser) == [{"ph": "Y"}]


def test_depth_that_is_refused_begins_beyond_65536() -> None:
    nested = "[" * 65_536 + "]" * 65_536
    assert rows(f'{{"ph": "X", "args": {{"a": {nested}}}}}')[0]["args"] == f'{{"a":{nested}}}'


def test_kinds_whose_events_alternate_do_not_write_into_each_other() -> None:
    names = [f"{'abc'[at % 3]}{at}" * (at % 7) for at in range(1_000)]
    text = ",".join(f'{{"ph": "{"XYZ"[at % 3]}", "name": "{name}", "id": {at}}}' for at, name in enumerate(names))
    found = rows(text, kind_of=lambda shape: ALIKE["XYZ".index(shape.ph)])
    expected = [(names[at], f'{{"id":{at}}}') for kind in range(3) for at in range(kind, 1_000, 3)]
    assert [(row["name"], row["args"]) for row in found] == expected


def test_an_event_without_anything_is_a_row() -> None:
    assert rows("{}, {}, {}") == [{}, {}, {}]


@pytest.mark.parametrize("events", [1, 7, 8, 9, 16, 64])
def test_every_number_of_events_keeps_what_is_null(events: int) -> None:
    fields = ['"name": "a"', '"dur": 1', '"args": {"b": 1}', '"bp": "e"']
    text = ",".join(f'{{"ph": "X", {fields[at % 4]}}}' for at in range(events))
    expected = [{"name": "a"}, {"dur_ns": 1_000}, {"args": '{"b":1}'}, {"args": '{"bp":"e"}'}]
    assert rows(text) == [{"ph": "X"} | expected[at % 4] for at in range(events)]


def test_shapes_tell_phase_category_watched_names_and_watched_keys() -> None:
    seen: list[Shape] = []
    text = """{"ph": "X", "cat": "kernel", "name": "a", "args": {"Collective name": "b"}}, {"ph": "X", "cat": ""},
              {"ph": "i", "name": "[memory]", "args": {"x": 1, "Collective name": null}},
              {"name": "record_param_comms"},
              {"ph": "X", "cat": "kernel", "args": {"Collective name 2": 0, "d": {"Collective name": 1}}},
              {"ph": "X", "cat": "kernel", "name": "other", "args": {"Collective name": 3}}"""
    parsed(text, kind_of=lambda shape: seen.append(shape) or PLAIN)
    assert seen == [
        Shape("X", "kernel", None, keyed=True),
        Shape("X", "", None, keyed=False),
        Shape("i", None, "[memory]", keyed=True),
        Shape(None, None, "record_param_comms", keyed=False),
        Shape("X", "kernel", None, keyed=False),
    ]


def test_arguments_go_into_their_columns_and_what_is_left_over_stays_json() -> None:
    text = """{"ph": "X", "s": "t", "args": {"stream": 7, "device": 4294967295, "grid": [1, 2.0, 3], "x": [1, 2],
               "est. achieved occupancy %": 12.50, "External id": "5", "External Id": 6, "block": null}}"""
    assert rows(text, kind_of=lambda _: KERNELS) == [
        {
            "ph": "X",
            argument("stream"): 7,
            argument("device"): 4_294_967_295,
            argument("grid"): [1, 2, 3],
            argument("est. achieved occupancy %"): "12.50",
            argument("External id"): 5,
            "args": '{"x":[1,2],"External Id":6,"s":"t"}',
        }
    ]


@pytest.mark.parametrize(
    ("key", "value", "column"),
    [
        ("stream", "5.5", None),
        ("stream", "true", None),
        ("stream", '"five"', None),
        ("stream", '""', None),
        ("stream", "[5]", None),
        ("stream", "9223372036854775808", None),
        ("stream", "18446744073709551616.0", None),
        ("stream", "-9223372036854775809", None),
        ("device", "2147483648", None),
        ("device", "-2147483649", None),
        ("est. achieved occupancy %", '"much"', None),
        ("est. achieved occupancy %", "[1]", None),
        ("grid", "5", None),
        ("grid", "[]", [None, None, None]),
        ("grid", "[4]", [4, None, None]),
        ("grid", '[1, "]", 3]', [1, None, 3]),
        ("grid", '[{"a": [1, "\\"]"]}, 2, 3]', [None, 2, 3]),
        ("grid", "[1, 2.5, 2147483648]", [1, None, None]),
        ("grid", "[1, 2, 3, 4]", [1, 2, 3]),
    ],
)
def test_a_value_that_does_not_fit_is_left_over_and_told(key: str, value: str, column: object) -> None:
    texts = [f'{{"ph": "X", "args": {{"{key}": {value}}}}}', f'{{"ph": "X", "args": {{"{key}": null}}}}']
    found = parsed(",".join(texts * 2), kind_of=lambda _: KERNELS)
    assert found.tables[KERNELS].column("args").to_pylist() == [f'{{"{key}":{compact(value)}}}', None] * 2
    assert found.tables[KERNELS].to_pylist()[0].get(argument(key)) == column
    said = json.loads(value) if value.startswith('"') else compact(value)
    assert found.unfit == [Unfit("kernels", key, said, 2)]


def test_a_value_that_does_not_fit_the_second_table_is_told_of_that_one() -> None:
    text = '{"ph": "X", "args": {"Collective name": "a", "Seq": "soon"}}'
    assert parsed(text, kind_of=lambda _: KERNELS).unfit == [Unfit("collectives", "Seq", "soon", 1)]


def test_texts_and_json_of_arguments_keep_what_they_say() -> None:
    text = r"""{"ph": "X", "args": {"Collective name": "all\u0072educe", "dtype": 5, "PG ID": {"a": 1}}},
               {"ph": "X", "args": {"Input Dims": [[1, "\u00e9"], []], "Input type": "a\n"}}"""
    assert rows(text, kind_of=lambda shape: COMMUNICATION) == [
        {
            "ph": "X",
            argument("Collective name"): "allreduce",
            argument("dtype"): "5",
            argument("PG ID"): '{"a":1}',
            "args": r'{"Collective name":"allreduce","dtype":5,"PG ID":{"a":1}}',
        },
        {
            "ph": "X",
            argument("Input Dims"): '[[1,"é"],[]]',
            argument("Input type"): r'"a\n"',
        },
    ]


def test_the_second_table_of_an_event_has_arguments_of_its_own_left_over() -> None:
    text = """{"ph": "X", "args": {"Collective name": "a", "queued": 0, "x": 1}},
              {"ph": "X", "args": {"queued": 0, "x": 1}}"""
    found = parsed(text, kind_of=lambda _: KERNELS).tables[KERNELS]
    assert found.column("args").to_pylist() == ['{"Collective name":"a","queued":0,"x":1}', '{"queued":0,"x":1}']
    assert found.column("args beside").to_pylist() == ['{"x":1}', None]


def test_of_a_key_beside_and_among_the_arguments_the_argument_is_kept() -> None:
    text = '{"ph": "X", "a": 1, "args": {"b": 2, "a": 3, "c": null, "s": 4}, "c": 5, "s": null, "stream": 6}'
    assert rows(text, kind_of=lambda _: KERNELS) == [{"ph": "X", "args": '{"b":2,"a":3,"s":4,"c":5,"stream":6}'}]


def test_an_own_key_stays_where_the_argument_of_its_name_has_a_column() -> None:
    text = '{"ph": "X", "stream": 6, "args": {"stream": 5}}, {"ph": "X", "stream": 6, "args": {"stream": "five"}}'
    assert rows(text, kind_of=lambda _: KERNELS) == [
        {"ph": "X", argument("stream"): 5, "args": '{"stream":6}'},
        {"ph": "X", "args": '{"stream":"five"}'},
    ]


def test_what_does_not_fit_the_first_table_is_not_left_over_for_the_second() -> None:
    text = '{"ph": "X", "args": {"graph id": -2.5, "Seq": "soon", "Collective name": "a", "dtype": "Float"}}'
    (row,) = rows(text, kind_of=lambda _: KERNELS)
    assert row["args"] == '{"graph id":-2.5,"Seq":"soon","Collective name":"a","dtype":"Float"}'
    assert row["args beside"] == '{"Seq":"soon"}'


def test_counters_keep_their_arguments_whole() -> None:
    assert rows('{"ph": "C", "id": 1, "args": {"a": null, "bytes": 2}}, {"ph": "C"}', kind_of=lambda _: COUNTERS) == [
        {"ph": "C", "args": '{"a":null,"bytes":2}'},
        {"ph": "C"},
    ]


def test_all_mappings_ask_the_same_type_of_an_argument() -> None:
    targets = (*KINDS, mapping.KERNEL_COLLECTIVES, mapping.OP_COLLECTIVES)
    asked = {(key, kind) for target in targets for key, kind in arguments.typed(target).items()}
    assert sorted(asked) == sorted((key, kind) for key, kind in arguments.TYPES.items() if kind != arguments.HELD)
    assert len(arguments.TYPES) <= 64


def test_mended_events_come_with_their_times_in_ns_and_any_keys() -> None:
    line = b'{"ph": null, "name": "a", "ts": 5, "dur": 9223372036854775807, "\\"": 1, "ID": 2, "args": {"\\n": 3}}'
    (found,) = Parser().mended_events([line, b'{"ph": "X", "args": null}'], lambda shapes: [PLAIN] * len(shapes))
    assert found.tables[PLAIN].to_pylist() == [
        {"ph": None, "name": "a", "args": '{"\\n":3,"\\"":1,"ID":2}', "start_ns": 5, "dur_ns": 2**63 - 1},
        {"ph": "X", "name": None, "args": None, "start_ns": None, "dur_ns": None},
    ]


def test_mended_events_may_have_any_number_of_shapes() -> None:
    lines = [f'{{"ph": "X", "cat": "c{at}"}}'.encode() for at in range(40_000)]
    found = Parser().mended_events(lines, lambda shapes: [PLAIN] * len(shapes))
    assert sum(len(parsed.tables[PLAIN]) for parsed in found) == 40_000


def test_an_event_of_more_keys_than_are_compared_is_odd_and_mended_whole() -> None:
    event = {"ph": "X", "args": {f"k{at}": at for at in range(100_000)}}
    found = parsed(json.dumps(event))
    assert found.odd == [json.dumps(event, separators=(",", ":")).encode()]
    (mended,) = Parser().mended_events(found.odd, lambda shapes: [PLAIN] * len(shapes))
    assert json.loads(mended.tables[PLAIN].column("args")[0].as_py()) == event["args"]


def test_events_of_too_many_shapes_for_one_piece_are_odd() -> None:
    found = parsed(",".join(f'{{"ph": "X", "cat": "c{at}"}}' for at in range(40_000)))
    assert (len(found.tables[PLAIN]), len(found.odd)) == (32_768, 7_232)


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


def members(keys: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[list[tuple[str, str]]]:
    return st.lists(st.tuples(keys, values), max_size=5)


def written(items: list[tuple[str, str]], space: str) -> str:
    """An object, with this space wherever there may be any."""
    return f"{{{space}{f'{space},{space}'.join(f'{key}{space}:{space}{value}' for key, value in items)}{space}}}"


values = st.recursive(
    st.one_of(json_texts, numbers, st.sampled_from(["true", "false", "null", '"7"', '"1.5"', "4294967295"])),
    lambda inner: st.one_of(
        listed("[]", st.lists(inner, max_size=4)),
        st.tuples(members(json_texts, inner), spaces).map(lambda parts: written(*parts)),
    ),
    max_leaves=12,
)
known = [key for key, kind in arguments.TYPES.items() if kind != "INTEGER[3]"]
keys = st.one_of(json_texts, st.sampled_from([*known, "id", "bp"]).map(json.dumps))
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
        "args": members(keys, values),
        "id": values,
        "bp": values,
    },
)


def compact(value: str) -> str:
    """The same JSON without space, and with no more escapes than there must be."""
    return _STRING_OR_SPACE.sub(lambda found: one_way(found[1]) if found[1] else "", value)


def one_way(text: str) -> str:
    """A string of JSON as the parser writes it."""
    return json.dumps(json.loads(text), ensure_ascii=False)


def is_odd(event: dict) -> bool:
    """Whether a key is twice among its arguments."""
    keys = [json.loads(key) for key, _ in event.get("args", [])]
    return len(set(keys)) < len(keys)


def fitting(value: str, kind: str) -> object:
    """What an argument's column gets of a value; None where it does not fit."""
    if kind == "VARCHAR":
        return json.loads(value) if value.startswith('"') else compact(value)
    if kind == "JSON":
        return compact(value)
    text = value[1:-1] if value.startswith('"') else value
    number = _NUMBER.fullmatch(text)
    if kind == "DOUBLE" or not number:
        return text if number else None
    digits = "".join(re.findall(r"\d", number[1])).lstrip("0")
    whole = Decimal(text)
    limit = 2**31 if kind == "INTEGER" else 2**63
    if len(digits) > 19 or whole != whole.to_integral_value():
        return None
    plain = -limit <= whole < limit and (whole > -(2**63) or "." not in text)
    return int(whole) if plain or (kind == "INTEGER" and whole == 2**32 - 1) else None


def expected(event: dict, kind: int, base_ns: int) -> dict[str, object]:
    """The same event by Python's json and Decimal; arguments without the space between their strings."""
    row: dict[str, object] = {column: json.loads(event[key]) for column, key in TEXTS.items() if key in event}
    row |= {key: int(json.loads(event[key])) for key in ("pid", "tid") if key in event}
    for column, key in TIMES.items():
        if key in event:
            row[column] = round(Decimal(event[key]) * 1_000 + (base_ns if key == "ts" else 0))
    plan = arguments.plan(kind)
    given = [(json.loads(key), value) for key, value in event.get("args", []) if value != "null"]
    for key, value in given:
        if key in plan.columns and (fits := fitting(value, arguments.TYPES[key])) is not None:
            row[argument(key)] = fits
    beside = any(json.loads(key) in mapping.COLLECTIVE_KEYS for key, _ in event.get("args", []))
    rests = (("args", plan.held, plan.columns), ("args beside", plan.held_beside, plan.columns_beside))
    for rest, held, columns in rests:
        unfit = {key for key in columns if argument(key) not in row}
        left = [(key, value) for key, value in given if key not in held or key in unfit]
        own = {
            key: [(key, event[key])]
            for key in ("id", "bp")
            if key in event and key not in dict(given) and event[key] != "null"
        }
        all_left = [*left, *(item for key in event for item in own.get(key, []))]
        if all_left and (rest == "args" or (beside and held)):
            row[rest] = f"{{{','.join(f'{one_way(json.dumps(key))}:{compact(value)}' for key, value in all_left)}}}"
    return row


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    pieces=st.lists(st.lists(st.tuples(events, spaces), min_size=1, max_size=12), min_size=1, max_size=2),
    base_ns=st.integers(0, 10**18),
)
def test_any_events_are_read_as_python_reads_them(pieces: list[list[tuple[dict, str]]], base_ns: int) -> None:
    parser, kinds = Parser(), dict(zip("XYZ", ALIKE, strict=True))
    for piece in pieces:
        texts = [
            written(
                [(f'"{key}"', written(value, space) if key == "args" else value) for key, value in event.items()], space
            )
            for event, space in piece
        ]
        found = parsed(",".join(texts), base_ns=base_ns, kind_of=lambda shape: kinds[shape.ph], parser=parser)
        odd = [text for text, (event, _) in zip(texts, piece, strict=True) if is_odd(event)]
        assert found.odd == [compact(text).encode() for text in odd]
        for ph, kind in kinds.items():
            events = [event for event, _ in piece if json.loads(event["ph"]) == ph and not is_odd(event)]
            rows = found.tables[kind].to_pylist() if kind in found.tables else []
            said = [{key: value for key, value in row.items() if value is not None} for row in rows]
            assert said == [expected(event, kind, base_ns) for event in events]


@pytest.mark.skipif(module.resource is None, reason="this system limits no addresses")
def test_where_addresses_are_limited_memory_is_taken_as_it_grows() -> None:
    program = """if True:
        import resource
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
        from tracelab.readers.kineto.parser import Parser
        text = ",".join('{"ph": "X", "name": "' + str(at) + '"}' for at in range(500_000)).encode()
        tables = Parser().events(memoryview(text), lambda shapes: [0], base_ns=0).tables
        print(tables[0].column("name").to_pylist() == [str(at) for at in range(500_000)])
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


def test_what_is_run_is_what_the_source_compiles_to(tmp_path: Path) -> None:
    pytest.importorskip("ziglang", reason="needs a C compiler for WebAssembly: pip install ziglang")
    compiler = [sys.executable, "-m", "ziglang", "cc", f"@{FOLDER / 'flags.txt'}"]
    subprocess.run([*compiler, "-o", str(tmp_path / "parser.wasm"), str(FOLDER / "parser.c")], check=True)
    assert (tmp_path / "parser.wasm").read_bytes() == (FOLDER / "parser.wasm").read_bytes(), "run `make parser`"
