"""Whatever happens to a printed result, it is read without failing, and no row that is whole is lost."""

import random
import re
import string
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.properties import examples
from tests.readers.small import STATUSES, ingest_bytes
from tests.readers.test_nvprof_text import CONSOLE_TRACE, GPU_TRACE, LAUNCHES, OLD_SUMMARY, SUMMARY
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nvprof import sniff
from tracelab.readers.nvprof.table_parser import TableParser
from tracelab.readers.text_lines import Block

FORMS = {
    "csv trace": GPU_TRACE,
    "console trace": CONSOLE_TRACE,
    "console summary": SUMMARY,
    "old console summary": OLD_SUMMARY,
    "csv metrics": LAUNCHES,
}
form = pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)


def printed(text: str, *, open_end: bool = False) -> TableParser:
    """The text, read without a store."""
    reader = TableParser(DiagnosticCounts())
    reader.parse_block(Block(text.splitlines(), open_end=open_end))
    return reader


def rows(reader: TableParser) -> list[tuple[str, str]]:
    """All rows, as text that compares."""
    return [(table, repr(row)) for table, listed in sorted(reader.rows.items()) for row in listed]


def last_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(r"\[CUDA|scale|fill|cuda[A-Z]", line)]


@form
def test_cut_after_any_line_keeps_every_row_before_it(text: str) -> None:
    lines = text.splitlines(keepends=True)
    whole = rows(printed(text))
    for at in range(len(lines) + 1):
        reader = printed("".join(lines[:at]))
        assert (set(rows(reader)) <= set(whole), reader.lost) == (True, 0)
        assert reader.kept == len(last_rows("".join(lines[:at])))


@form
def test_cut_anywhere_keeps_every_whole_row(text: str) -> None:
    for at in range(len(text)):
        reader = printed(text[:at], open_end=True)
        before = text[:at].rpartition("\n")[0]
        assert len(last_rows(before)) <= reader.kept <= len(last_rows(text[: at + 1])) + 1
        assert reader.lost <= 1


def test_file_cut_within_a_row_is_salvaged_and_reported(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, GPU_TRACE[: GPU_TRACE.rindex("18,1.5")], "log.csv")
    assert (lab.file.status, lab.counts, "cut_off" in lab.diagnostics()) == ("salvaged", (3, 2, 1), True)


@form
@pytest.mark.parametrize(
    "noise",
    [
        "Epoch: [0][10/100]  Time 0.5 (0.6)  Data 0.1",
        "loss, 0.5, accuracy, 0.9",
        "==99== Warning: something else",
        "======== Warning: something",
        "\x00\x01\x02\x7f\x1b[31mred\x1b[0m",
        '"unclosed, "quotes',
        ",,,,,,,,,,,,",
        "  ",
        "name;with;semicolons\tand\ttabs",
        "0.5",
        "x" * 5000,
    ],
)
def test_output_between_any_lines_costs_no_row(text: str, noise: str) -> None:
    lines = text.splitlines()
    whole = rows(printed(text))
    for at in range(1, len(lines) + 1):
        reader = printed("\n".join([*lines[:at], noise, *lines[at:]]))
        assert (rows(reader), reader.lost) == (whole, 0)


def test_output_within_a_row_costs_that_row_and_is_reported(tmp_path: Path) -> None:
    lab = ingest_bytes(
        tmp_path, GPU_TRACE.replace("10.010000,1.000000,,,", "10.010000,1.000000,,,Epoch 1\n"), "log.csv"
    )
    assert (lab.counts, len(lab.rows("memcpys")), len(lab.rows("kernels"))) == ((3, 2, 1), 1, 1)
    (row,) = [row for row in lab.rows("diagnostics") if row["code"] == "row_lost"]
    assert row["message"].endswith("the first is line 7.")


@pytest.mark.parametrize(
    "name", ["a command: ./train.py --token hunter2", "train --token hunter2", "scale2  hunter2huntt000ms  1.2340us  a"]
)
def test_a_command_line_that_damage_puts_into_a_row_names_nothing(tmp_path: Path, name: str) -> None:
    text = OLD_SUMMARY.replace("scale(float*)", name)
    lab = ingest_bytes(tmp_path, text, "log.txt")
    assert "hunter2" not in lab.texts()
    assert [row["name"] for row in lab.rows("summaries")] == [None, "cudaMalloc"]
    assert "value_unfit" in lab.diagnostics()


def test_bad_number_costs_that_number_only(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, GPU_TRACE.replace("30.250000,8,4", "30.250000,eight,4"), "log.csv")
    row = lab.one("kernels")
    assert (row["grid_x"], row["grid_y"], row["dur_ns"], lab.counts) == (None, 4, 30_250, (3, 3, 0))
    assert "value_unfit" in lab.diagnostics()


def test_output_glued_to_a_row_costs_one_value(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, GPU_TRACE.replace("10.020000,30", "Epoch 1 10.020000,30"), "log.csv")
    assert (lab.one("kernels")["start_ns"], lab.one("kernels")["dur_ns"], lab.counts) == (None, 30_250, (3, 3, 0))


def test_table_without_its_row_of_units_has_no_times(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, GPU_TRACE.replace("ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,\n", ""), "log.csv")
    assert (lab.one("kernels")["start_ns"], lab.one("kernels")["grid_x"], lab.counts) == (None, 8, (3, 3, 0))
    assert "unit_missing" in lab.diagnostics()


def test_numbers_beyond_64_bits_are_null(tmp_path: Path) -> None:
    lab = ingest_bytes(
        tmp_path, GPU_TRACE.replace("10.020000,", f"{10**30},").replace(",13\n", f",{10**25}\n"), "log.csv"
    )
    assert (lab.one("kernels")["start_ns"], lab.one("kernels")["correlation"]) == (None, None)


@pytest.mark.parametrize(
    "number",
    ["1e99999999", "-1e99999999", "1e-99999999", "9" * 5000, "0." + "9" * 5000, "²", "٣", "1.2.3", "1e", "--1", "nan"],
)
def test_no_number_is_too_odd_to_be_read(tmp_path: Path, number: str) -> None:
    text = GPU_TRACE.replace("10.020000,30.250000,8", f"{number},30.250000,{number}") + SUMMARY.replace("75.00", number)
    lab = ingest_bytes(tmp_path, text.replace("1.500000,", f"{number},"), "log.csv")
    assert lab.file.status in ("stored", "salvaged")
    assert [row["dur_ns"] for row in lab.rows("kernels")] == [30_250]


@pytest.mark.parametrize("seed", range(30))
def test_random_damage_is_survived(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray("".join(FORMS.values()).encode())
    for _ in range(chance.randrange(1, 40)):
        at = chance.randrange(len(content))
        content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
    lab = ingest_bytes(tmp_path, bytes(content), "log.txt")
    assert lab.file.status in STATUSES
    assert lab.file.status != "failed"


NAMES = st.text(
    st.sampled_from(string.ascii_letters + string.digits + " _<>:,()*&\"'~[]"), min_size=1, max_size=60
).map(lambda name: f"k{name}".strip())
ROWS = st.lists(
    st.tuples(
        st.integers(0, 10**15),
        st.integers(0, 10**9),
        NAMES,
        st.integers(0, 10**6),
        st.integers(1, 1 << 30),
    ),
    min_size=1,
    max_size=20,
)
HEADER = '"Start","Duration","Grid X","Device","Context","Stream","Name","Correlation_ID"'


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@examples(100, suppress_health_check=[HealthCheck.too_slow])
@given(ROWS, st.sampled_from(["ns", "us", "ms", "s"]))
def test_kernels_come_back_from_csv_as_they_were(kernels: list[tuple[int, int, str, int, int]], unit: str) -> None:
    scale = Decimal(10) ** {"ns": 0, "us": -3, "ms": -6, "s": -9}[unit]
    lines = [
        f'{start * scale:f},{dur * scale:f},{grid},"Tesla X (0)","1","7",{quoted(name)},{correlation}'
        for start, dur, name, correlation, grid in kernels
    ]
    reader = printed("\n".join(["==1== Profiling result:", HEADER, f"{unit},{unit},,,,,,", *lines]))
    stored = [
        (row["start_ns"], row["dur_ns"], row["name"], row["correlation"], row["grid_x"])
        for row in reader.rows["kernels"]
    ]
    assert (stored, reader.kept, reader.lost) == (kernels, len(kernels), 0)


@examples(100, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=400))
def test_any_text_below_a_header_is_survived(text: str) -> None:
    reader = printed(f"==1== Profiling result:\n{HEADER}\ns,ms,,,,,,\n{text}")
    assert reader.kept + reader.lost <= text.count("\n") + len(text.splitlines()) + text.count("\r") + 1


@examples(100)
@given(st.binary(max_size=300))
def test_any_bytes_are_classified(head: bytes) -> None:
    assert sniff(head) in (True, False)
