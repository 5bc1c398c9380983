"""Arguments that only a late event has: the keys are learnt from the first few thousand events of a kind."""

import json
from pathlib import Path

import pytest

from tests.readers.small import Row, args_of, ingest_bytes, kernel, op, trace

LEARNT_FROM = 5_000
FEW = [op(ts=at, **{"Ev Idx": at}) for at in range(3)]
MANY = [op(ts=at, **{"Ev Idx": at}) for at in range(LEARNT_FROM + 1)]

LATE: dict[str, tuple[str, object, object, object]] = {
    # the arguments of the last event as text, its external_id, its sequence_number, its args
    "a new key": ('{"External id": 7, "New": 1}', 7, None, {"New": 1}),
    "a new key that has a column": ('{"External id": 7, "Sequence number": 8}', 7, 8, None),
    "a new key of nothing": ('{"External id": 7, "New": {}}', 7, None, {"New": {}}),
    "a new name for an old key": ('{"external id": 7, "Ev Idx": 1}', 7, None, {"Ev Idx": 1}),
    "no keys": ("{}", None, None, None),
    "an old key twice": ('{"External id": 6, "Ev Idx": 1, "External id": 7}', 7, None, {"Ev Idx": 1}),
    "an old key that is null": ('{"External id": null, "Ev Idx": 1}', None, None, {"Ev Idx": 1}),
    "an old key that is null beside a new one": ('{"External id": null, "New": 1}', None, None, {"New": 1}),
    "an old key twice, the last one null": ('{"External id": 7, "Ev Idx": 5, "Ev Idx": null}', 7, None, None),
    "an integer twice, the last one null": (
        '{"External id": 7, "External id": null, "Ev Idx": 1}',
        None,
        None,
        {"Ev Idx": 1},
    ),
    "an old key that is true": ('{"External id": 7, "Ev Idx": true}', 7, None, {"Ev Idx": True}),
    "a text that looks like a null": (
        '{"External id": 7, "Ev Idx": "\\":null", "New": 1}',
        7,
        None,
        {"Ev Idx": '":null', "New": 1},
    ),
    "a text that looks like false": ('{"External id": 7, "Ev Idx": ":false"}', 7, None, {"Ev Idx": ":false"}),
    "nothing inside a key": (
        '{"External id": 7, "Ev Idx": {"a": null, "b": true}}',
        7,
        None,
        {"Ev Idx": {"a": None, "b": True}},
    ),
    "an integer that is a fraction": (
        '{"External id": 1.5, "Ev Idx": 1}',
        None,
        None,
        {"External id": 1.5, "Ev Idx": 1},
    ),
    "an integer that is nearly 0": (
        '{"External id": 1e-7, "Ev Idx": 1}',
        None,
        None,
        {"External id": 1e-7, "Ev Idx": 1},
    ),
    "an integer that is true": ('{"External id": true, "Ev Idx": 1}', None, None, {"External id": True, "Ev Idx": 1}),
    "an integer that is true beside a key that is": (
        '{"External id": true, "Ev Idx": false}',
        None,
        None,
        {"External id": True, "Ev Idx": False},
    ),
    "an integer that is a word": ('{"External id": "x", "Ev Idx": 1}', None, None, {"External id": "x", "Ev Idx": 1}),
    "an integer that is a list": ('{"External id": [7], "Ev Idx": 1}', None, None, {"External id": [7], "Ev Idx": 1}),
    "an integer beyond a double": (
        '{"External id": 9007199254740993, "Ev Idx": 1}',
        9007199254740993,
        None,
        {"Ev Idx": 1},
    ),
    "an integer with a point": ('{"External id": 7.0, "Ev Idx": 1}', 7, None, {"Ev Idx": 1}),
    "a text that looks like a key": ('{"External id": 7, "Ev Idx": "\\":"}', 7, None, {"Ev Idx": '":'}),
    "a text that hides a key": ('{"External id": "\\":", "New": 1}', None, None, {"External id": '":', "New": 1}),
    "a key inside a key": ('{"External id": 7, "Ev Idx": {"External id": 8}}', 7, None, {"Ev Idx": {"External id": 8}}),
    "a value that is NaN": ('{"External id": 7, "Ev Idx": NaN}', 7, None, None),
    "a value that is infinite": ('{"External id": 7, "Ev Idx": [-Infinity]}', 7, None, {"Ev Idx": [None]}),
    "a list": ("[7]", None, None, {"args": [7]}),
    "a text": ('"External id"', None, None, {"args": "External id"}),
    "absent": ("null", None, None, None),
}


@pytest.mark.parametrize("before", [FEW, MANY], ids=["early", "late"])
@pytest.mark.parametrize(("args", "external_id", "sequence_number", "left"), LATE.values(), ids=LATE)
def test_arguments_are_kept_whatever_other_events_have(
    tmp_path: Path, before: list[Row], args: str, external_id: object, sequence_number: object, left: object
) -> None:
    odd = json.dumps(op("odd", ts=9_999, marked=0)).replace('{"External id": 3, "marked": 0}', args)
    lab = ingest_bytes(tmp_path, trace(*before, odd))
    row = lab.rows("ops")[-1]
    kept = None if row["args"] is None else json.loads(str(row["args"]))
    assert (row["name"], row["external_id"], row["sequence_number"], kept) == (
        "odd",
        external_id,
        sequence_number,
        left,
    )
    assert lab.counts == (len(before) + 1, len(before) + 1, 0)


@pytest.mark.parametrize("name", [name for name in LATE if name.startswith("an integer that")])
def test_a_late_value_that_does_not_fit_is_reported(tmp_path: Path, name: str) -> None:
    odd = json.dumps(op("odd", ts=9_999, marked=0)).replace('{"External id": 3, "marked": 0}', LATE[name][0])
    (reported,) = (
        row for row in ingest_bytes(tmp_path, trace(*MANY, odd)).rows("diagnostics") if row["code"] == "value_unfit"
    )
    assert reported["count"] == 1


def test_rows_beside_an_odd_one_are_as_without_it(tmp_path: Path) -> None:
    odd = op("odd", ts=9_999, New=1)
    rows = ingest_bytes(tmp_path, trace(*MANY, odd)).rows("ops")[:-1]
    assert [(row["external_id"], row["args"]) for row in rows] == [
        (3, f'{{"Ev Idx":{at}}}') for at in range(LEARNT_FROM + 1)
    ]


def test_a_number_of_registers_that_does_not_fit_is_kept_among_the_arguments_and_reported(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(kernel(**{"registers per thread": 4294967295})))
    row = lab.one("kernels")
    assert (row["registers"], args_of(row)) == (None, {"registers per thread": 4294967295})
    assert lab.diagnostics() == {"value_unfit"}
