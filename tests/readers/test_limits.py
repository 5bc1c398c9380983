"""What no memory should hold: long texts and lines are cut or skipped and counted; and digits that no double holds."""

import io
import json
import sqlite3
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from tests.ncu import HOST, PROCESS, Cell, Kernel, details_csv
from tests.readers import nsys_small, run_folder
from tests.readers import test_nvprof_database as nvprof_database
from tests.readers.small import ingest_bytes, ingest_paths
from tracelab.readers import text_lines
from tracelab.readers.diagnostics import DiagnosticCounts, describe_value
from tracelab.readers.ncu import csv_columns
from tracelab.readers.nsys import coerce, nccl, parquet_export
from tracelab.readers.run_folder.coerce import loads


@pytest.mark.parametrize(
    ("content", "lines", "skipped"),
    [
        (b"ab\ncd\n", ["ab", "cd"], 0),
        (b"ab\n" + b"x" * 30 + b"\ncd", ["ab", "cd"], 1),
        (b"x" * 30 + b"\n" + b"y" * 40, [], 2),
        (b"x" * 10 + b"\n" + b"y" * 10, ["x" * 10, "y" * 10], 0),
        ("ab\n".encode("utf-16") + ("x" * 30 + "\ncd").encode("utf-16-le"), ["ab", "cd"], 1),
    ],
)
def test_lines_beyond_the_limit_are_counted_once(
    monkeypatch: pytest.MonkeyPatch, content: bytes, lines: list[str], skipped: int
) -> None:
    monkeypatch.setattr(text_lines, "_LONGEST_BYTES", 10)
    monkeypatch.setattr(text_lines, "_BLOCK_BYTES", 8)
    diagnostics = DiagnosticCounts()
    assert list(text_lines.iter_lines(io.BytesIO(content), diagnostics)) == lines  # type: ignore[arg-type]
    assert (diagnostics.counts["line_too_long"], diagnostics.samples) == (
        skipped,
        {"line_too_long": ""} if skipped else {},
    )


def test_a_long_cell_is_split_with_little_memory() -> None:
    cell = "1" * 3_000_000
    assert csv_columns.split_fields(f'"0","{cell}","a""b"', ",") == ["0", cell, 'a"b']


def test_a_number_of_a_million_digits_is_a_text(tmp_path: Path) -> None:
    page = details_csv(((Kernel("axpy"), Cell("Duration", "ns", "1" * 1_000_000, "S")),))
    row = ingest_bytes(tmp_path, page, "details.csv").one("kernel_metrics")
    assert (row["value"], len(str(row["text"]))) == (None, 1_000_000)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_long_text_of_nsys_is_cut_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, parquet: bool
) -> None:
    monkeypatch.setattr(coerce, "LONGEST_TEXT", 9)
    monkeypatch.setattr("tracelab.readers.nsys.adbc_scan.LONGEST_TEXT", 9)
    path = nsys_small.export(tmp_path, {"NVTX_EVENTS": [nsys_small.nvtx(text="12345678ü0")]})
    if parquet:
        path = nsys_small.folder_of(path, tmp_path / "in" / "report_pqtdir")
    lab = ingest_paths(tmp_path, [path])
    assert lab.one("annotations")["name"] == "12345678"
    assert "text_cut" in lab.diagnostics()


def test_a_missing_name_beside_a_long_one_needs_no_copies_of_it(tmp_path: Path) -> None:
    kernels = [nsys_small.kernel(start=1 + at, end=2 + at, demangledName=1 if at else 99) for at in range(3000)]
    strings = [{"id": 1, "value": "k" * 500_000}, {"id": 2, "value": "gemm"}]
    lab = ingest_paths(
        tmp_path, [nsys_small.export(tmp_path, {"CUPTI_ACTIVITY_KIND_KERNEL": kernels, "StringIds": strings})]
    )
    assert lab.source["events_kept"] == 3000
    assert next(lab.store.glob("kernels/*/*.parquet")).stat().st_size < 1_000_000


def test_a_text_column_that_is_declared_as_a_number_is_read(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [nsys_small.export(tmp_path, {"NVTX_EVENTS": [nsys_small.nvtx(text=None, textId=4)]})])
    assert lab.one("annotations")["name"] == "relu"


def test_a_database_of_many_tables_is_refused(tmp_path: Path) -> None:
    path = nsys_small.export(tmp_path, {"CUPTI_ACTIVITY_KIND_KERNEL": [nsys_small.kernel()]})
    with sqlite3.connect(path) as con:
        for number in range(500):
            con.execute(f"create table t{number} (start int)")
    con.close()
    lab = ingest_paths(tmp_path, [path])
    assert lab.file.message == f"{path}: has 502 tables, where an export of Nsight Systems has about 100"


def test_a_long_text_of_nvprof_is_cut_and_counted(tmp_path: Path) -> None:
    path = nvprof_database.write(
        tmp_path / "in" / "a.nvprof", {"KERNEL": [nvprof_database.KERNEL]}, ("./a", "k" * 20_000, "Tesla X")
    )
    lab = ingest_paths(tmp_path, [path])
    assert (len(str(lab.one("kernels")["name"])), lab.diagnostics()) == (16_384, {"text_cut"})


def test_a_run_json_beyond_the_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["tracelab.readers.run_folder.read"], "_LARGEST_BYTES", 1 << 20)
    folder = run_folder.write(tmp_path / "in", run__json={**run_folder.RUN, "x": "x" * (1 << 20)})
    assert ingest_paths(tmp_path, [folder / "run.json"]).file.message.endswith("is larger than 1 MiB; split it")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", 0.1),
        ("579362117301462414.0", Decimal("579362117301462414.0")),
        ("0.1234567890123456", 0.1234567890123456),
        ("0.123456789012345678", Decimal("0.123456789012345678")),
        ("1e999", "1e999"),
        ("1.0000000000000000e-99999", "1.0000000000000000e-99999"),
        ("NaN", "NaN"),
    ],
)
def test_fractions_of_json_keep_their_digits(text: str, value: object) -> None:
    assert loads(text) == value
    assert type(loads(text)) is type(value)


def test_whole_numbers_with_a_fraction_of_zero_are_exact_in_a_run_folder(tmp_path: Path) -> None:
    line = json.dumps(run_folder.step(0)).replace(str(run_folder.FIRST), f"{run_folder.FIRST}.0").encode() + b"\n"
    folder = run_folder.write(tmp_path / "in", steps__rank0__jsonl=run_folder.lines("steps", line, rank=0))
    assert ingest_paths(tmp_path, [folder / "steps.rank0.jsonl"]).one("steps")["start_ns"] == run_folder.FIRST


def test_sizes_in_payloads_of_nccl_are_exact_and_deep_payloads_are_no_crash() -> None:
    fields = nccl._flatten_payload('{"bytes": 579362117301462414.0, "root": 1e99}')
    assert (nccl._find_number(fields, "bytes"), nccl._find_number(fields, "root")) == (579362117301462414, None)
    assert nccl._flatten_payload("[" * 100_000) == {}


@pytest.mark.parametrize(
    ("value", "description"),
    [
        ("1,5x", "a text of 4 characters"),
        (b"TOKEN=x", "a text of 7 characters"),
        ("1.234,5", "'1.234,5'"),
        (None, "None"),
        ([1], "an array"),
        ({"a": 1}, "an object"),
        (Decimal("0.5"), "0.5"),
    ],
)
def test_a_value_that_is_not_stored_is_described_without_its_text(value: object, description: str) -> None:
    assert describe_value(value) == description


def test_copies_of_a_long_text_are_cut_beside_texts_of_their_own(tmp_path: Path) -> None:
    strings = [{"id": 4, "value": "r" * 20_000}]
    rows = [nsys_small.nvtx(start=1, end=2), *[nsys_small.nvtx(start=3 + at, text=None, textId=4) for at in range(3)]]
    lab = ingest_paths(tmp_path, [nsys_small.export(tmp_path, {"NVTX_EVENTS": rows, "StringIds": strings})])
    names = [str(row["name"]) for row in lab.rows("annotations")]
    assert [len(name) for name in names] == [4, 16_384, 16_384, 16_384]
    assert "text_cut" in lab.diagnostics()


def test_a_dictionary_of_long_texts_is_read_in_small_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_export, "_BATCH_BYTES", 100)
    rows = [nsys_small.nvtx(start=1 + at, end=2 + at, text="t" * 30) for at in range(10)]
    path = nsys_small.export(tmp_path / "sqlite", {"NVTX_EVENTS": rows})
    folder = nsys_small.folder_of(path, tmp_path / "in" / "report_pqtdir")
    part = parquet_export.open_folder(folder).parts("NVTX_EVENTS")[0]
    batches = parquet_export.open_folder(folder).batches(
        part, {"start": "int", "text": "text"}, DiagnosticCounts(), "lost"
    )
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
    assert len(ingest_paths(tmp_path, [folder]).rows("annotations")) == 10


def test_a_damaged_heading_of_a_private_column_is_no_metric(tmp_path: Path) -> None:
    page = details_csv(((Kernel("axpy"), Cell("Duration", "ns", "7", "S")),))
    damaged = page.replace("Host Name", "Hosd Name").replace("Process Name", "Process,Name")
    args = ingest_bytes(tmp_path, damaged, "details.csv").one("kernel_metrics")["args"]
    assert (HOST in str(args), PROCESS in str(args)) == (False, False)
