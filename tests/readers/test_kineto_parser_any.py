"""Any event through the parser, of three kinds, as Python's json and Decimal read it."""

import json
import re
from decimal import Decimal

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.parsing import SEVERAL, argument, compact, normalize, parse
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

TEXTS = {"ph": "ph", "source_cat": "cat", "name": "name"}
TIMES = {"start_ns": "ts", "dur_ns": "dur"}
_NUMBER = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d+)?)(?:[eE][-+]?\d+)?")

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
known = [key for key, kind in mapping.ARGUMENT_TYPES.items() if kind != "INTEGER[3]"]
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


def event_text(event: dict, space: str) -> str:
    """Return an event as JSON, with this space wherever there may be any."""
    values = {key: written(value, space) if key == "args" else value for key, value in event.items()}
    return written([(f'"{key}"', value) for key, value in values.items()], space)


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
    limit = 2**31 if kind in ("INTEGER", mapping.ID32) else 2**63
    if len(digits) > 19 or whole != whole.to_integral_value():
        return None
    plain = -limit <= whole < limit and (whole > -(2**63) or "." not in text)
    return int(whole) if plain or (kind == mapping.ID32 and whole == 2**32 - 1) else None


def expected(event: dict, kind: int, base_ns: int) -> dict[str, object]:
    """The same event by Python's json and Decimal; arguments without the space between their strings."""
    row: dict[str, object] = {column: json.loads(event[key]) for column, key in TEXTS.items() if key in event}
    row |= {key: int(json.loads(event[key])) for key in ("pid", "tid") if key in event}
    for column, key in TIMES.items():
        if key in event:
            row[column] = round(Decimal(event[key]) * 1_000 + (base_ns if key == "ts" else 0))
    plan = mapping.plan_arguments(kind)
    given = [(json.loads(key), value) for key, value in event.get("args", []) if value != "null"]
    for key, value in given:
        if key in plan.columns and (fits := fitting(value, mapping.ARGUMENT_TYPES[key])) is not None:
            row[argument(key)] = fits
    beside = any(json.loads(key) in mapping.COLLECTIVE_KEYS for key, _ in event.get("args", []))
    rests = (("args", plan.omitted, plan.columns), ("secondary args", plan.secondary_omitted, plan.secondary_columns))
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
            row[rest] = f"{{{','.join(f'{normalize(json.dumps(key))}:{compact(value)}' for key, value in all_left)}}}"
    return row


@examples(150, suppress_health_check=[HealthCheck.too_slow])
@given(
    pieces=st.lists(st.lists(st.tuples(events, spaces), min_size=1, max_size=12), min_size=1, max_size=2),
    base_ns=st.integers(0, 10**18),
)
def test_any_events_are_read_as_python_reads_them(pieces: list[list[tuple[dict, str]]], base_ns: int) -> None:
    parser, kinds = CompiledParser(), dict(zip("XYZ", SEVERAL, strict=True))
    for piece in pieces:
        texts = [event_text(event, space) for event, space in piece]
        found = parse(",".join(texts), base_ns=base_ns, kind_of=lambda shape: kinds[shape.ph], parser=parser)
        odd = [text for text, (event, _) in zip(texts, piece, strict=True) if is_odd(event)]
        assert found.irregular == [compact(text).encode() for text in odd]
        for ph, kind in kinds.items():
            events = [event for event, _ in piece if json.loads(event["ph"]) == ph and not is_odd(event)]
            rows = found.tables[kind].to_pylist() if kind in found.tables else []
            present = [{key: value for key, value in row.items() if value is not None} for row in rows]
            assert present == [expected(event, kind, base_ns) for event in events]
