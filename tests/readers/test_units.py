"""Units as NVIDIA's tools print them: each has one base unit, and the conversion loses no digit."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelab.readers.units import to_base_unit

SAME = [
    ("4.70", "us", "4700", "ns"),
    ("10.72", "usecond", "10720", "ns"),
    ("10.72", "µs", "10720", "ns"),
    ("1.5", "msecond", "1500000", "ns"),
    ("0.000000001", "second", "1", "ns"),
    ("7", "nsecond", "7", "ns"),
    ("32.77", "Kbyte", "32770", "byte"),
    ("1.2", "Tbyte", "1200000000000", "byte"),
    ("3", "Kibyte", "3072", "byte"),
    ("13.55", "Ghz", "13550000000", "Hz"),
    ("1.31", "cycle/nsecond", "1310000000", "Hz"),
    ("764999989.86", "cycle/second", "764999989.86", "Hz"),
    ("705", "MHz", "705000000", "Hz"),
    ("76.44", "Gbyte/second", "76440000000", "byte/s"),
    ("2", "byte/ns", "2000000000", "byte/s"),
    ("0.5", "sector/nsecond", "500000000", "sector/s"),
    ("3", "1/ns", "3000000000", "1/s"),
    ("1.5", "Kbyte/cycle", "1500", "byte/cycle"),
    ("16.38", "Kbyte/block", "16380", "byte/block"),
    ("2", "us/request", "2000", "ns/request"),
    ("8", "byte/Kbyte", "0.008", "byte/byte"),
    ("1.25", "Minst", "1250000", "inst"),
    ("0.14", "inst/cycle", "0.14", "inst/cycle"),
    ("57", "register/thread", "57", "register/thread"),
    ("49.19", "%", "49.19", "%"),
    ("5", "SM", "5", "SM"),
    ("5", "furlong/fortnight", "5", "furlong/fortnight"),
]


@pytest.mark.parametrize(("value", "unit", "expected", "base"), SAME)
def test_a_quantity_is_the_same_in_its_base_unit(value, unit, expected, base):
    assert to_base_unit(Decimal(value), unit) == (Decimal(expected), base)


def test_a_number_without_unit_has_none():
    assert to_base_unit(Decimal("0.97"), "") == (Decimal("0.97"), None)


@pytest.mark.parametrize(
    ("value", "unit", "expected", "base"),
    [
        ("1", "KB", "1024", "byte"),
        ("2.5", "MB", "2621440", "byte"),
        ("1", "GB/s", "1073741824", "byte/s"),
        ("7", "B", "7", "byte"),
        ("1", "KHz", "1000", "Hz"),
        ("1", "ms", "1000000", "ns"),
    ],
)
def test_only_bytes_are_counted_in_1024(value, unit, expected, base):
    assert to_base_unit(Decimal(value), unit, kilo=1024) == (Decimal(expected), base)


def test_a_divisor_that_has_no_last_digit_leaves_the_unit_alone():
    assert to_base_unit(Decimal(3), "byte/3B") == (Decimal(3), "byte/3B")


def test_megahertz_are_no_millihertz_and_milliseconds_no_megaseconds():
    assert to_base_unit(Decimal(1), "mhz") == (Decimal(10**6), "Hz")
    assert to_base_unit(Decimal(1), "Ms") == (Decimal(1), "Ms")


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20),
    st.sampled_from([("us", 3), ("Gbyte", 9), ("byte/us", 6), ("Tbyte/s", 12), ("cycle/nsecond", 9), ("inst", 0)]),
)
def test_scaling_loses_no_digit(value, unit):
    name, exponent = unit
    assert Fraction(to_base_unit(value, name)[0]) == Fraction(value) * 10**exponent
