"""Where events end by their brackets: the scan through damaged text."""

import pytest

from tracelab.readers.kineto.event_scan import EventScan

NEXT = ',{"ph":"X"}'

WHOLE = [
    '{"a":1}',
    '{"a":"]}{[,{\\"b\\":1}"}',
    '{"a":[{"ph":1},{"ph":2}]}',
    '{"a":[1,{"ph":1}],"b":{"c":[[],[{}]]}}',
    '{"ph":"X" , "a" : [ { "b" : 1 } , { "b" : 2 } ] }',
]

DAMAGED = {
    '{"name":"a"b","a":[{"ph":1},{"ph":2}]}': 1,
    '{"name":"a,"a":[{"ph":1},{"ph":2}]}': 1,
    '{"name":a","a":[{"ph":1},{"ph":2}]}': 1,
    '{"ph":"X","args":{"a":[1,2},"ts":1}': 1,
    '{"ph":"X","args":{"a":1,"ts":1}': 1,
    '{"ph":"X","args":{"a":1}},"ts":1}': 1,
    '{"ph":"X","a":[{"ph":1}},{"ph":2}],"ts":1}': 3,
    '{"ph":"X","a"x[{"ph":1},{"ph":2}],"ts":1}': 1,
    '{"ph":"X","a":, {"ph":1},"ts":1}': 1,
    '{"ph":"X","traceEvents":[{"ph":1}': 2,
    '{"ph":"X"{{[[': 1,
    '{"ph":"X","a":[1,"ph":"X"}': 2,
    '{"ph":"X","grid":[1,"args":{"a":1}}': 1,
    '{"ph":"X","grid":[1,[2,"args" : {"a":1},"sizes":[{"ph":1},{"ph":2}]}': 1,
    '"ph":"X","args":{"a":1}}': 1,
    '{"ph":"X","a"b":1\\"ph":"X"}': 2,
}
"""Damaged events, and how many of them each text holds."""


@pytest.mark.parametrize("event", WHOLE)
def test_an_undamaged_event_ends_with_the_bracket_that_closes_it(event: str) -> None:
    scan = EventScan(event + NEXT, 0)
    assert (scan.find_end(), scan.is_closed, scan.is_sound, scan.events) == (len(event), True, True, 1)


@pytest.mark.parametrize(("event", "events"), DAMAGED.items())
def test_a_damaged_event_ends_before_the_next_one(event: str, events: int) -> None:
    scan = EventScan(event + NEXT, 0)
    assert (scan.find_border(), scan.events) == (len(event), events)


@pytest.mark.parametrize("event", WHOLE)
def test_a_scan_goes_on_wherever_the_text_is_cut(event: str) -> None:
    for cut in range(1, len(event)):
        first = EventScan(event[:cut], 0)
        assert first.find_border() is None
        opened = first.open_brackets()
        start = cut if opened.endswith('"') else first.position
        start -= opened.endswith('"') and event[:cut].endswith("\\")
        rest = event[start:] + NEXT
        assert EventScan(rest, 0, opened).find_border() == len(rest) - len(NEXT), (event[:cut], opened)


def test_a_list_that_is_known_not_to_end_hides_no_event() -> None:
    text = '{"a":[{"b":1}' + NEXT
    assert EventScan(text, 0).find_border() is None
    assert EventScan(text, 0, endless={text.index(":[")}).find_border() == text.index(",")


@pytest.mark.parametrize(("text", "list_at"), [('{"a":[{"b":1},', 4), ('{"a":1[,{"b":1},', None)])
def test_only_the_value_of_a_key_is_known_to_be_a_list_of_the_event(text: str, list_at: int | None) -> None:
    scan = EventScan(text, 0)
    assert (scan.find_border(), scan.list_at) == (None, list_at)
