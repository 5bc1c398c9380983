"""What readers say about what they noticed: one sentence a code, in the number that fits."""

import re
from collections import Counter

import pytest

from tracelab.readers.diagnostics import COMMON_MESSAGES, DiagnosticCounts, Messages, build_diagnostics
from tracelab.readers.kineto.diagnostics import MESSAGES as KINETO
from tracelab.readers.ncu.diagnostics import MESSAGES as NCU
from tracelab.readers.nsys.diagnostics import MESSAGES as NSYS
from tracelab.readers.nvprof.diagnostics import MESSAGES as NVPROF
from tracelab.readers.run_folder.diagnostics import MESSAGES as RUN

ALL = [(sentences, code) for sentences in (COMMON_MESSAGES, KINETO, NCU, NSYS, NVPROF, RUN) for code in sentences]

SAMPLE = "[a|b] {n}"


def told(sentences: Messages, code: str, count: int) -> str:
    (row,) = build_diagnostics(DiagnosticCounts(Counter({code: count}), {code: SAMPLE}), sentences)
    return row.message


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "1 event ends before it begins; it counts as a call and has no measure."),
        (2, "2 events end before they begin; they count as calls and have no measure."),
        (1_000, "1,000 events end before they begin; they count as calls and have no measure."),
    ],
)
def test_one_is_told_in_the_singular(count: int, said: str) -> None:
    assert told(COMMON_MESSAGES, "negative_duration", count) == said


@pytest.mark.parametrize(("sentences", "code"), ALL, ids=[code for _, code in ALL])
def test_what_is_counted_has_words_for_one(sentences: Messages, code: str) -> None:
    counted = re.findall(r"{n} ((?:\w+ )*)(.)", sentences[code][1])
    assert [words for words, then in counted if then != "[" and not words.startswith("of its ")] == []


@pytest.mark.parametrize(("sentences", "code"), ALL, ids=[code for _, code in ALL])
def test_of_words_for_one_and_several_only_those_that_fit_are_left(sentences: Messages, code: str) -> None:
    assert re.findall(r"[\[|\]]", "".join(told(sentences, code, count).replace(SAMPLE, "") for count in (1, 2))) == []


def test_a_sample_stands_as_it_is() -> None:
    assert told(KINETO, "event_lost", 3) == "3 events could not be read; the first: [a|b] {n}"
