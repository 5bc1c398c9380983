"""Patterns of the readers take a time in proportion to the text, whatever is repeated in it."""

import time
from collections.abc import Callable

import pytest

from tracelab.readers.kineto import probe, repair
from tracelab.readers.kineto.event_scan import EventScan
from tracelab.readers.ncu import console, metric_names
from tracelab.readers.nsys import counters
from tracelab.readers.nvprof import banners, row_mapping, table_layout, table_parser
from tracelab.readers.run_folder import nccl_tests

NCCL_LINE = "# Rank 1 Group 1 Pid 1 on a device 1 [a] x"


def quote_ranks(text: str) -> object:
    return repair._BARE_RANKS.sub(repair._quote_ranks, text)


def scan(text: str) -> object:
    return EventScan(text, 0).find_border()


def search_process(text: str) -> object:
    return probe._CPU_EVENT.search(text.encode())


REPEATED = [
    (quote_ranks, '"Process Group Ranks":', " "),
    (quote_ranks, '"Process Group Ranks":', " ,"),
    (quote_ranks, "", '"Process Group Ranks":'),
    (repair._BARE_WORD.findall, ":", " "),
    (search_process, "", '"cat":"cpu_op",'),
    (search_process, "", '"cat":"cpu_op","pid":'),
    *((scan, '{"a":', unit) for unit in (" ", '"', '\\"', "[", "]}", ",{", ':["', '"ph":')),
    (console._ADVICE.fullmatch, " INF  a", " "),
    (console._MORE_ADVICE.fullmatch, "        a", " "),
    (metric_names._LABEL_AND_NAME.fullmatch, "a (", "_"),
    (counters._parse_unit, "", "["),
    (banners._OF_DEVICE.fullmatch, 'Device "', '"'),
    (row_mapping._SPECIAL.match, "[CUDA memcpy", " "),
    (table_layout._STARTS_WITH_DEVICE.match, "", " "),
    (table_layout._STARTS_WITH_DEVICE.match, "a ", "(1"),
    (table_parser._TYPED.match, "Open", "A"),
    (nccl_tests._RANK.search, NCCL_LINE, " "),
]


@pytest.mark.parametrize(("function", "prefix", "unit"), REPEATED)
def test_a_repeated_text_is_matched_in_linear_time(function: Callable[[str], object], prefix: str, unit: str) -> None:
    def seconds(count: int) -> float:
        text = prefix + unit * count + "\1"
        before = time.process_time()
        function(text)
        return time.process_time() - before

    seconds(100)
    assert seconds(40_000) < max(16 * seconds(10_000), 0.2) or seconds(40_000) < 0.2


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("SMs Active [Throughput %]", "%"),
        ("PCIe RX [MB/s] ", "MB/s"),
        ("a [b] [c]", "[c"),
        ("a [[b]", "[b"),
        ("a [b c]", "c"),
        ("a b]", None),
        ("a [b ]", None),
        ("a []", None),
        ("a [b] c", None),
        ("", None),
    ],
)
def test_the_unit_of_a_counter_is_the_last_word_in_its_brackets(name: str, unit: str | None) -> None:
    assert counters._parse_unit(name) == unit


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ('"Process Group Ranks": 0, 1 , "a": 1', '"Process Group Ranks": "0, 1","a": 1'),
        ('"Process Group Ranks": [0, 1...] }', '"Process Group Ranks": "[0, 1...]"}'),
        ('"Process Group Ranks": "[0]", "a": 1', '"Process Group Ranks": "[0]", "a": 1'),
        ('"Process Group Ranks": 0 "a": 1', '"Process Group Ranks": 0 "a": 1'),
    ],
)
def test_bare_ranks_are_quoted_up_to_the_next_key(text: str, repaired: str) -> None:
    assert quote_ranks(text) == repaired
