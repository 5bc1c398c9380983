"""The messages of diagnostics: one a code, in the singular or plural that fits."""

import re
from collections import Counter

import pytest

from tracelab.readers.diagnostics import COMMON_MESSAGES, DiagnosticCounts, Messages, build_diagnostics
from tracelab.readers.kineto.diagnostics import MESSAGES as KINETO
from tracelab.readers.ncu.diagnostics import MESSAGES as NCU
from tracelab.readers.nsys.diagnostics import MESSAGES as NSYS
from tracelab.readers.nvprof.diagnostics import MESSAGES as NVPROF
from tracelab.readers.run_folder.diagnostics import MESSAGES as RUN

ALL = [(messages, code) for messages in (COMMON_MESSAGES, KINETO, NCU, NSYS, NVPROF, RUN) for code in messages]

SAMPLE = "[a|b] {n}"


def message_of(messages: Messages, code: str, count: int) -> str:
    (row,) = build_diagnostics(DiagnosticCounts(Counter({code: count}), {code: SAMPLE}), messages)
    return row.message


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (1, "1 event ends before it begins; it counts as a call and has no measure."),
        (2, "2 events end before they begin; they count as calls and have no measure."),
        (1_000, "1,000 events end before they begin; they count as calls and have no measure."),
    ],
)
def test_a_count_of_one_is_singular(count: int, expected: str) -> None:
    assert message_of(COMMON_MESSAGES, "negative_duration", count) == expected


@pytest.mark.parametrize(("messages", "code"), ALL, ids=[code for _, code in ALL])
def test_every_counted_noun_has_a_singular(messages: Messages, code: str) -> None:
    counted = re.findall(r"{n} ((?:\w+ )*)(.)", messages[code][1])
    assert [words for words, then in counted if then != "[" and not words.startswith("of its ")] == []


@pytest.mark.parametrize(("messages", "code"), ALL, ids=[code for _, code in ALL])
def test_only_the_forms_that_fit_are_left(messages: Messages, code: str) -> None:
    assert (
        re.findall(r"[\[|\]]", "".join(message_of(messages, code, count).replace(SAMPLE, "") for count in (1, 2))) == []
    )


def test_a_sample_is_inserted_as_it_is() -> None:
    assert message_of(KINETO, "event_lost", 3) == "3 events could not be parsed; the first: [a|b] {n}"
