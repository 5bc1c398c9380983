"""Which files are Nsight Systems exports: databases, folders of Parquet files, and reports that nsys exports."""

import shutil
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.readers.nsys_small import (
    CALLS,
    COPIES,
    KERNEL_COLUMNS,
    KERNELS,
    SESSION,
    call,
    copy,
    diagnostic_codes,
    export,
    folder_of,
    ingest_export,
    kernel,
    nvtx,
)
from tests.readers.small import ingest_paths


@pytest.mark.parametrize("columns", KERNEL_COLUMNS)
def test_a_folder_of_parquet_files_is_one_source_with_the_same_rows(tmp_path: Path, columns: str) -> None:
    tables = {KERNELS: [kernel(), kernel(1020, 1030)], COPIES: [copy()], CALLS: [call()], "NVTX_EVENTS": [nvtx()]}
    path = export(tmp_path, tables, kernels=columns)
    folder = folder_of(path, tmp_path / "in" / "report_pqtdir")
    both = [ingest_paths(tmp_path / name, [given]) for name, given in (("a", path), ("b", folder))]
    for table in ("kernels", "memcpys", "api_calls", "annotations"):
        left, right = ([row | {"source": ""} for row in lab.rows(table)] for lab in both)
        assert left == right
    size_bytes = sum(file.stat().st_size for file in folder.iterdir())
    assert (both[1].source["size_bytes"], both[1].source["format"]) == (size_bytes, "nsys")


def test_a_folder_is_hashed_by_the_names_and_contents_of_its_files(tmp_path: Path) -> None:
    path = export(tmp_path, {KERNELS: [kernel()]})
    folder = folder_of(path, tmp_path / "in" / "one")
    shutil.copytree(folder, tmp_path / "in" / "two")
    (tmp_path / "in" / "two" / "OSRT_API.parquet").write_bytes((folder / f"{KERNELS}.parquet").read_bytes())
    first, again, other = (
        ingest_paths(tmp_path / name, [given]).source["sha256"]
        for name, given in (("a", folder), ("b", folder), ("c", tmp_path / "in" / "two"))
    )
    assert first == again != other


def test_folders_of_parquet_files_are_found_inside_a_folder(tmp_path: Path) -> None:
    folder_of(export(tmp_path, {KERNELS: [kernel()]}), tmp_path / "all" / "deep" / "report_pqtdir")
    lab = ingest_paths(tmp_path, [tmp_path / "all"])
    assert [file.path.name for file in lab.report.files] == ["report_pqtdir"]


def test_a_report_is_refused_with_how_to_export_it_where_nsys_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "rank0.sqlite"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal")
    lab = ingest_paths(tmp_path, [report])
    assert lab.file.status == "failed"
    assert "nsys export -t sqlite" in lab.file.message


def test_a_report_is_exported_by_nsys_where_it_is_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = export(tmp_path, {KERNELS: [kernel()]})
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text(
        f'#!/bin/sh\nfor a in "$@"; do case "$a" in --output=*) cp "{made}" "${{a#--output=}}";; esac; done\n'
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal")
    lab = ingest_paths(tmp_path, [report])
    assert (lab.kernels, lab.source["size_bytes"]) == (["void gemm<float>(float*)"], report.stat().st_size)


def test_a_report_that_nsys_cannot_export_shows_the_error_of_nsys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "nsys"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho 'the report is from the future' >&2\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    report = tmp_path / "report.nsys-rep"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 1.\n\x0bLocal")
    assert "the report is from the future" in ingest_paths(tmp_path, [report]).file.message


def test_a_database_of_another_tool_is_no_profiler_data(tmp_path: Path) -> None:
    path = tmp_path / "books.sqlite"
    with sqlite3.connect(path) as con:
        con.execute("create table books (title text)")
    con.close()
    lab = ingest_paths(tmp_path, [path])
    assert (lab.file.status, lab.report.exit_code) == ("not_profiler_data", 3)


def test_a_database_without_tables_is_no_profiler_data(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    with sqlite3.connect(path) as con:
        con.execute("create table t (a)")
        con.execute("drop table t")
    con.close()
    assert ingest_paths(tmp_path, [path]).file.status == "not_profiler_data"


def test_an_export_without_events_is_stored_with_a_warning(tmp_path: Path) -> None:
    lab = ingest_export(tmp_path, TARGET_INFO_SESSION_START_TIME=SESSION)
    assert (lab.file.status, lab.counts, diagnostic_codes(lab)) == ("stored", (0, 0, 0), {"no_events"})


def test_a_path_with_signs_that_mean_something_in_a_uri_is_read(tmp_path: Path) -> None:
    assert len(ingest_export(tmp_path, name="100% of #3? é.sqlite", **{KERNELS: [kernel()]}).kernels) == 1


def test_a_write_ahead_log_next_to_the_file_is_reported(tmp_path: Path) -> None:
    path = export(tmp_path, {KERNELS: [kernel()]})
    path.with_name("report.sqlite-wal").write_bytes(b"rows that were written last")
    lab = ingest_paths(tmp_path, [path])
    assert (len(lab.kernels), diagnostic_codes(lab)) == (1, {"log_beside"})


def test_known_warnings_of_nsys_are_reported_with_their_first_line(tmp_path: Path) -> None:
    texts = {1: "Profiling has started.", 2: "No CUDA events collected.\nmore", 3: "Launched train secret"}
    rows = [{"timestamp": 1, "severity": level, "text": text} for level, text in texts.items()]
    lab = ingest_export(tmp_path, **{KERNELS: [kernel()], "DIAGNOSTIC_EVENT": rows})
    messages = {row["code"]: row["message"] for row in lab.rows("diagnostics")}
    assert messages["profiler_warning"] == "nsys reported 1 warning; the first: No CUDA events collected."
    assert messages["profiler_error"] == "nsys reported 1 error; the first: an unknown message of 21 characters."


@pytest.mark.parametrize("name", ["rank0.sqlite", "rank0.qdrep.sqlite", "rank0_pqtdir"])
def test_a_run_is_named_after_the_report(tmp_path: Path, name: str) -> None:
    path = export(tmp_path, {KERNELS: [kernel()]})
    given = tmp_path / "in" / name
    _ = folder_of(path, given) if "pqtdir" in name else shutil.copy(path, given)
    assert ingest_paths(tmp_path, [given], run=None).file.run == "rank0"


def test_an_export_and_a_database_of_nvprof_are_distinguished(tmp_path: Path) -> None:
    other = tmp_path / "in" / "timeline.nvprof"
    given = export(tmp_path, {KERNELS: [kernel()]})
    with sqlite3.connect(other) as con:
        con.execute("create table StringTable (_id_ INTEGER PRIMARY KEY, value TEXT)")
        con.execute("create table CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY, start INT, end INT)")
    con.close()
    lab = ingest_paths(tmp_path, [given, other], run=None)
    assert [(file.path.name, file.format) for file in lab.report.files] == [
        ("report.sqlite", "nsys"),
        ("timeline.nvprof", "nvprof"),
    ]


def test_an_excerpt_without_texts_is_an_export_all_the_same(tmp_path: Path) -> None:
    path = export(tmp_path, {KERNELS: [kernel()]})
    with sqlite3.connect(path) as con:
        con.execute("drop table StringIds")
    con.close()
    lab = ingest_paths(tmp_path, [path])
    assert (lab.kernels, diagnostic_codes(lab)) == ([None], {"string_missing"})


@pytest.mark.parametrize(("column", "name"), [("textId", "step"), ("text", "relu")])
def test_a_column_of_a_folder_without_any_value_is_read(tmp_path: Path, column: str, name: str) -> None:
    folder = folder_of(export(tmp_path, {"NVTX_EVENTS": [nvtx(textId=4)]}), tmp_path / "in" / "r_pqtdir")
    file = folder / "NVTX_EVENTS.parquet"
    rows = pq.read_table(file)
    at = rows.schema.get_field_index(column)
    pq.write_table(rows.set_column(at, column, pa.nulls(1)), file)
    assert ingest_paths(tmp_path, [folder]).one("annotations")["name"] == name
