"""Numbers in the formats of locales: one format per file, detected in several cells; other values stay text."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelab.readers.ncu.locale_numbers import CONTINENTAL, ENGLISH, detect_format, parse_instances


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("5,318,969,728.00", "5318969728.00"),
        ("830,424", "830424"),
        ("0.40", "0.40"),
        (".5", ".5"),
        ("-12", "-12"),
        ("1.5e+06", "1.5e+06"),
        ("12,34,567.00", "1234567.00"),
        ("1 234 567.5", "1234567.5"),
        ("1\u202f234", "1234"),
        ("1'234.5", "1234.5"),
    ],
)
def test_a_number_with_a_decimal_point(text, plain):
    assert ENGLISH.normalize(text) == plain


@pytest.mark.parametrize(
    "text", ["65,77", "1,2345", "n/a", "nan", "inf", "", "-", ",", "0x7f", "1.2.3", "12 MB", "1e99999"]
)
def test_a_text_that_is_not_a_number_with_a_decimal_point(text):
    assert ENGLISH.normalize(text) is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [("27.595.520", "27595520"), ("65,77", "65.77"), ("1.234,5", "1234.5"), ("1\u00a0234,5", "1234.5")],
)
def test_a_number_with_a_decimal_comma(text, plain):
    assert CONTINENTAL.normalize(text) == plain


@pytest.mark.parametrize(
    ("texts", "number_format"),
    [
        (["65,77", "27.595.520", "1.234"], CONTINENTAL),
        (["65,77", "1.234", "12"], ENGLISH),  # one cell is no evidence
        (["65,77", "0,12", "4.70", "0.1", "2.5"], ENGLISH),  # most show the opposite
        (["1.234", "5.678", "830,424"], ENGLISH),  # each may mean two things
        (["n/a", "CachePreferNone", "(1, 2)"], ENGLISH),
        ([], ENGLISH),
    ],
)
def test_the_number_format_is_detected_from_cells_with_one_meaning(texts, number_format):
    assert detect_format(texts) is number_format


@given(st.lists(st.decimals(min_value=0, max_value=10**12, places=2), min_size=2))
def test_two_decimals_are_read_back_in_either_number_format(numbers):
    for number_format in (ENGLISH, CONTINENTAL):
        marks = str.maketrans(",.", number_format.group + number_format.point)
        texts = [f"{number:,}".translate(marks) for number in numbers]
        assert detect_format(texts) is number_format
        assert [Decimal(number_format.normalize(text)) for text in texts] == numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("60 (10; 20; 30)", ("60", [("0", "10"), ("1", "20"), ("2", "30")])),
        ("60 (0x10: 20; 0x20: 40)", ("60", [("0x10", "20"), ("0x20", "40")])),
        ("1,234.5 (FADD: 1,000; FMUL: 234.5)", ("1,234.5", [("FADD", "1,000"), ("FMUL", "234.5")])),
        ("n/a (1; n/a)", ("n/a", [("0", "1"), ("1", "n/a")])),
        ("7 (7)", ("7", [("0", "7")])),
    ],
)
def test_a_value_lists_its_instances_by_name_or_by_place(text, found):
    assert parse_instances(text, ENGLISH) == found


@pytest.mark.parametrize("text", ["Tesla (PCIe)", "60 (a; b)", "60", "60 ()()", "(32, 4, 1)"])
def test_other_brackets_are_no_instances(text):
    assert parse_instances(text, ENGLISH) is None
