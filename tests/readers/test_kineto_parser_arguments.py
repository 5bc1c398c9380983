"""Arguments from the parser: in their columns, left over for each table, or repaired; unfit values are reported."""

import json

import pytest

from tests.readers.parsing import COMMUNICATION, KERNELS, PLAIN, argument, compact, parse, parse_rows
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import COUNTERS, KINDS
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
from tracelab.readers.kineto.parser.python_parser import PythonParser
from tracelab.readers.kineto.parser.types import UnfitValues


def test_arguments_go_into_their_columns_and_what_is_left_over_stays_json() -> None:
    text = """{"ph": "X", "s": "t", "args": {"stream": 7, "device": 4294967295, "grid": [1, 2.0, 3], "x": [1, 2],
               "est. achieved occupancy %": 12.50, "External id": "5", "External Id": 6, "block": null}}"""
    assert parse_rows(text, kind_of=lambda _: KERNELS) == [
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
def test_a_value_that_does_not_fit_is_left_over_and_reported(key: str, value: str, column: object) -> None:
    texts = [f'{{"ph": "X", "args": {{"{key}": {value}}}}}', f'{{"ph": "X", "args": {{"{key}": null}}}}']
    found = parse(",".join(texts * 2), kind_of=lambda _: KERNELS)
    assert found.tables[KERNELS].column("args").to_pylist() == [f'{{"{key}":{compact(value)}}}', None] * 2
    assert found.tables[KERNELS].to_pylist()[0].get(argument(key)) == column
    first = json.loads(value) if value.startswith('"') else compact(value)
    assert found.unfit == [UnfitValues("kernels", key, first, 2)]


def test_a_value_that_does_not_fit_the_second_table_is_reported_for_that_table() -> None:
    text = '{"ph": "X", "args": {"Collective name": "a", "Seq": "soon"}}'
    assert parse(text, kind_of=lambda _: KERNELS).unfit == [UnfitValues("collectives", "Seq", "soon", 1)]


def test_texts_and_json_of_arguments_keep_their_value() -> None:
    text = r"""{"ph": "X", "args": {"Collective name": "all\u0072educe", "dtype": 5, "PG ID": {"a": 1}}},
               {"ph": "X", "args": {"Input Dims": [[1, "\u00e9"], []], "Input type": "a\n"}}"""
    assert parse_rows(text, kind_of=lambda shape: COMMUNICATION) == [
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
    found = parse(text, kind_of=lambda _: KERNELS).tables[KERNELS]
    assert found.column("args").to_pylist() == ['{"Collective name":"a","queued":0,"x":1}', '{"queued":0,"x":1}']
    assert found.column("secondary args").to_pylist() == ['{"x":1}', None]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-9223372036854775808.0", -(2**63)),
        ("9223372036854775807.000000", 2**63 - 1),
        ("1.50", None),
        ("9223372036854775808.0", None),
        ('"5."', None),
        ("0.0", 0),
    ],
)
def test_zeros_behind_a_point_cost_no_digit_of_a_whole_number(text: str, value: int | None) -> None:
    check_whole_number(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"0x0"', 0),
        ('"0xfF"', 255),
        ('"0x7FFFffffFFFFffff"', 2**63 - 1),
        ('"0x8000000000000000"', None),
        ('"0x00000000000000001"', None),
        ('"0x"', None),
        ('"0xg"', None),
        ('"0x-1"', None),
        ('"-0x1"', None),
        ('"0X1"', None),
        ('"0x1 "', None),
        ('"0x@"', None),
        ('"0x`"', None),
    ],
)
def test_handles_are_texts_with_hexadecimal_digits(text: str, value: int | None) -> None:
    check_whole_number(text, value)


def check_whole_number(text: str, value: int | None) -> None:
    line = f'{{"ph": "X", "name": "k", "args": {{"correlation": {text}}}}}'
    name = argument("correlation")
    compiled = parse(line, kind_of=lambda _: KERNELS).tables[KERNELS]
    (in_python,) = PythonParser().parse_repaired([line.encode()], lambda shapes: [KERNELS] * len(shapes))
    for table in (compiled, in_python.tables[KERNELS]):
        assert (table.column(name).to_pylist() if name in table.column_names else [None]) == [value]


def test_an_argument_hides_the_own_key_of_the_same_name() -> None:
    text = '{"ph": "X", "a": 1, "args": {"b": 2, "a": 3, "c": null, "s": 4}, "c": 5, "s": null, "stream": 6}'
    assert parse_rows(text, kind_of=lambda _: KERNELS) == [{"ph": "X", "args": '{"b":2,"a":3,"s":4,"c":5,"stream":6}'}]


def test_an_own_key_stays_where_the_argument_of_its_name_has_a_column() -> None:
    text = '{"ph": "X", "stream": 6, "args": {"stream": 5}}, {"ph": "X", "stream": 6, "args": {"stream": "five"}}'
    assert parse_rows(text, kind_of=lambda _: KERNELS) == [
        {"ph": "X", argument("stream"): 5, "args": '{"stream":6}'},
        {"ph": "X", "args": '{"stream":"five"}'},
    ]


def test_what_does_not_fit_the_first_table_is_not_left_over_for_the_second() -> None:
    text = '{"ph": "X", "args": {"graph id": -2.5, "Seq": "soon", "Collective name": "a", "dtype": "Float"}}'
    (row,) = parse_rows(text, kind_of=lambda _: KERNELS)
    assert row["args"] == '{"graph id":-2.5,"Seq":"soon","Collective name":"a","dtype":"Float"}'
    assert row["secondary args"] == '{"Seq":"soon"}'


def test_counters_keep_their_arguments_whole() -> None:
    text = '{"ph": "C", "id": 1, "args": {"a": null, "bytes": 2}}, {"ph": "C"}'
    assert parse_rows(text, kind_of=lambda _: COUNTERS) == [
        {"ph": "C", "args": '{"a":null,"bytes":2}'},
        {"ph": "C"},
    ]


def test_all_mappings_require_the_same_type_of_an_argument() -> None:
    targets = (*KINDS, mapping.KERNEL_COLLECTIVES, mapping.OP_COLLECTIVES)
    required = {(key, kind) for target in targets for key, kind in mapping.argument_types(target).items()}
    assert sorted(required) == sorted(
        (key, kind) for key, kind in mapping.ARGUMENT_TYPES.items() if kind != mapping.REDUNDANT
    )
    assert len(mapping.ARGUMENT_TYPES) <= 64


def test_repaired_events_have_times_in_ns_and_any_keys() -> None:
    line = b'{"ph": null, "name": "a", "ts": 5, "dur": 9223372036854775807, "\\"": 1, "ID": 2, "args": {"\\n": 3}}'
    (found,) = CompiledParser().parse_repaired(
        [line, b'{"ph": "X", "args": null}'], lambda shapes: [PLAIN] * len(shapes)
    )
    assert found.tables[PLAIN].to_pylist() == [
        {"ph": None, "name": "a", "args": '{"\\n":3,"\\"":1,"ID":2}', "start_ns": 5, "dur_ns": 2**63 - 1},
        {"ph": "X", "name": None, "args": None, "start_ns": None, "dur_ns": None},
    ]


def test_repaired_events_may_have_any_number_of_shapes() -> None:
    lines = [f'{{"ph": "X", "cat": "c{at}"}}'.encode() for at in range(40_000)]
    found = CompiledParser().parse_repaired(lines, lambda shapes: [PLAIN] * len(shapes))
    assert sum(len(parsed.tables[PLAIN]) for parsed in found) == 40_000


def test_an_event_with_more_keys_than_are_compared_is_irregular_and_repaired() -> None:
    event = {"ph": "X", "args": {f"k{at}": at for at in range(100_000)}}
    found = parse(json.dumps(event))
    assert found.irregular == [json.dumps(event, separators=(",", ":")).encode()]
    (mended,) = CompiledParser().parse_repaired(found.irregular, lambda shapes: [PLAIN] * len(shapes))
    assert json.loads(mended.tables[PLAIN].column("args")[0].as_py()) == event["args"]


def test_events_of_too_many_shapes_for_one_chunk_are_irregular() -> None:
    found = parse(",".join(f'{{"ph": "X", "cat": "c{at}"}}' for at in range(40_000)))
    assert (len(found.tables[PLAIN]), len(found.irregular)) == (32_768, 7_232)
