"""Tables for people: widths, units, shortened names."""

import io

import pyarrow as pa
import pytest
from rich.cells import cell_len

from tracelab.output.labels import Quantity, column_quantity, format_scaled, format_significant, shorten, spell_column
from tracelab.output.writers import write

KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"


def text_of(table: pa.Table, *, width: int | None = None) -> str:
    stream = io.BytesIO()
    write(table, "table", stream, width=width)
    return stream.getvalue().decode()


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0, Quantity.DURATION, "0 ns"),
        (999, Quantity.DURATION, "999 ns"),
        (1_000, Quantity.DURATION, "1.000 µs"),
        (9_940_000, Quantity.DURATION, "9.940 ms"),
        (123_456_789, Quantity.DURATION, "123.5 ms"),
        (90_000_000_000, Quantity.DURATION, "90.00 s"),
        (-1_500, Quantity.DURATION, "-1.500 µs"),
        (512, Quantity.BYTES, "512 B"),
        (2_000_000_000, Quantity.BYTES, "2.000 GB"),
    ],
)
def test_a_value_gets_the_unit_that_fits_it(value: int, kind: Quantity, text: str) -> None:
    assert format_scaled(value, kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_234_567.8, "1,234,568"), (12.345, "12.35"), (0.0012345, "0.001234"), (1.5e-9, "1.500e-09"), (0.0, "0")],
)
def test_four_digits_are_significant(value: float, text: str) -> None:
    assert format_significant(value) == text


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("dur_ns", Quantity.DURATION),
        ("start_ns", Quantity.ID),
        ("window_start_ns", Quantity.ID),
        ("size_bytes", Quantity.BYTES),
        ("of_window_ratio", Quantity.RATIO),
        ("correlation", Quantity.ID),
        ("host_step", Quantity.ID),
        ("last_rank", Quantity.ID),
        ("calls_per_step", Quantity.PLAIN),
        ("kernels", Quantity.PLAIN),
        ("columns", Quantity.PLAIN),
    ],
)
def test_a_column_name_states_what_its_values_are(column: str, kind: Quantity) -> None:
    assert column_quantity(column) is kind


def test_words_leave_the_unit_out() -> None:
    assert spell_column("exposed_comm_ns") == "exposed comm"


def test_a_long_name_keeps_both_ends() -> None:
    assert shorten("abcdefghijklmnop", 10) == "abcdef…nop"


@pytest.mark.parametrize("width", [1, 2, 3, 10, 40])
@pytest.mark.parametrize("text", [KERNEL, "核" * 50, "a核" * 30])
def test_a_shortened_name_is_never_too_wide(text: str, width: int) -> None:
    assert cell_len(shorten(text, width)) <= width


def test_a_table_is_laid_out_line_by_line() -> None:
    table = pa.table(
        {"kernel": ["gemm", None], "calls": [1_234_567, 3], "dur_ns": [1_500, 7], "of_sum_ratio": [0.25, 1.0]}
    )
    assert text_of(table).splitlines() == [
        "kernel      calls    dur_ns  of_sum_ratio",
        "──────  ─────────  ────────  ────────────",
        "gemm    1,234,567  1.500 µs       25.00 %",
        "NULL            3      7 ns       100.0 %",
    ]


def test_headings_break_at_underscores_before_text_is_shortened() -> None:
    table = pa.table({"kernel": [KERNEL] * 2, "of_kernel_sum_ratio": [0.25, 1.0]})
    assert text_of(table, width=40).splitlines()[:4] == [
        "                                     of_",
        "                                 kernel_",
        "                                    sum_",
        "kernel                             ratio",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_many_columns_become_blocks_no_wider_than_the_terminal(width: int) -> None:
    table = pa.table({f"column_number_{index}": [KERNEL, "x"] for index in range(12)})
    lines = text_of(table, width=width).splitlines()
    assert max(map(len, lines)) <= width


def test_one_row_that_does_not_fit_stands_upright() -> None:
    table = pa.table({"kernel": [KERNEL], "dur_ns": [1_500], "size_bytes": [12], "of_sum_ratio": [0.5]})
    assert text_of(table, width=38).splitlines() == [
        "kernel        void at::native:…>>(int)",
        "dur_ns        1.500 µs",
        "size_bytes    12 B",
        "of_sum_ratio  50.00 %",
    ]


@pytest.mark.parametrize("column", ["kernel", "name"])
def test_an_empty_name_is_shown(column: str) -> None:
    assert text_of(pa.table({column: ["", "gemm"], "note": ["", "x"]})).splitlines()[2:] == [
        "(no name)",
        "gemm       x",
    ]


def test_the_key_column_is_repeated_in_each_block() -> None:
    table = pa.table({"rank": [0, 0], "op": ["mm", "add"], **{f"value_{at}": [1_000_000_000, 2] for at in range(4)}})
    lines = text_of(table, width=40).splitlines()
    assert [line.split() for line in lines if "mm" in line] == [
        ["1", "mm", "0", "1,000,000,000"],
        ["1", "mm", "1,000,000,000", "1,000,000,000"],
        ["1", "mm", "1,000,000,000"],
    ]


def test_long_text_that_all_rows_share_follows_the_table_complete() -> None:
    reason = "no link between the ranks is recorded, so that the path stays on the rank that ends last"
    table = pa.table({"op": ["mm", "add"], "reason": [reason] * 2})
    lines = text_of(table, width=60).splitlines()
    assert lines[:5] == ["op", "───", "mm", "add", ""]
    assert " ".join(lines[5:]) == f"reason: {reason}"
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.4709, "47.09 %"), (1.0, "100.0 %"), (0.0, "0 %"), (-0.00001, "-0.001000 %")]
)
def test_shares_are_in_percent(ratio: float, text: str) -> None:
    assert text_of(pa.table({"of_window_ratio": [ratio]})).splitlines()[-1].strip() == text
