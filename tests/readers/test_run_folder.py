"""A run folder becomes rows of one run; damage loses only the damaged rows, and is reported."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.readers.run_folder import FIRST, RUN, lines, step, write
from tests.readers.small import Lab, ingest_bytes, ingest_paths
from tests.traces import write_trace
from tracelab.ingest.pipeline import ingest
from tracelab.readers.run_folder import sniff
from tracelab.store import session


def ingested(tmp_path: Path, content: bytes, name: str = "steps.rank0.jsonl") -> Lab:
    return ingest_bytes(tmp_path, content, name)


def test_every_file_of_a_folder_lands_in_the_run_that_run_json_names(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "somewhere",
        run__json=RUN,
        steps__rank0__jsonl=lines("steps", step(0), step(1), rank=0),
        steps__rank1__jsonl=lines("steps", step(0), rank=1),
        memory_peaks__rank1__jsonl=lines("memory_peaks", {"device": 1, "step": 0, "allocated_bytes": 5}, rank=1),
        host_samples__0__jsonl=lines("host_samples", {"device": 0, "time_ns": FIRST, "util_ratio": 0.5}),
        ceilings__jsonl=lines("ceilings", {"metric": "gemm_fp32", "best": 2.0, "unit": "gflop_per_s", "gpus": 1}),
        ops__rank0__json={"tracelab": "ops/1", "run": RUN["run"], "rank": 0, "kind": "key_averages",
                          "ops": [{"name": "aten::mm", "input_shapes": [[2, 3], [3, 4]], "calls": 7, "flop": 336}]},
    )  # fmt: skip
    write_trace(folder / "rank0.pt.trace.json", kernels=3, rank=0)
    write_trace(folder / "rank1.pt.trace.json", kernels=3, rank=1, first_us=1_800_000_000_000_000)
    lab = ingest_paths(tmp_path, [folder], run=None)
    tables = ("sources", "steps", "kernels", "ceilings")
    assert {row["run"] for table in tables for row in lab.rows(table)} == {"S9-b8-r0"}
    assert sorted((row["rank"], row["step"], row["start_ns"]) for row in lab.rows("steps")) == [
        (0, 0, FIRST),
        (0, 1, FIRST + 2_000_000),
        (1, 0, FIRST),
    ]
    assert lab.one("memory_peaks") | {"rank": 1, "device": 1, "allocated_bytes": 5} == lab.one("memory_peaks")
    assert lab.one("host_samples") | {"rank": 0, "time_ns": FIRST, "util_ratio": 0.5} == lab.one("host_samples")
    assert lab.one("ceilings") | {"metric": "gemm_fp32", "best": 2.0, "gpus": 1} == lab.one("ceilings")
    summary = {
        "kind": "key_averages",
        "name": "aten::mm",
        "input_shapes": "[[2, 3], [3, 4]]",
        "calls": 7,
        "flop": 336.0,
    }
    assert lab.one("summaries") | summary == lab.one("summaries")
    assert {row["format"] for row in lab.rows("sources")} == {"run", "kineto"}


def test_ceilings_recorded_under_the_former_key_keep_their_metric(tmp_path: Path) -> None:
    rows = lines("ceilings", {"what": "gemm_fp32", "best": 2.0, "unit": "gflop_per_s", "gpus": 1})
    lab = ingest_paths(tmp_path, [write(tmp_path / "older", run__json=RUN, ceilings__jsonl=rows)], run=None)
    assert lab.one("ceilings")["metric"] == "gemm_fp32"


def test_run_json_is_a_row_of_runs_and_tags(tmp_path: Path) -> None:
    row = ingested(tmp_path, json.dumps(RUN).encode(), "run.json").one("runs")
    expected = {
        "batch_size": 8,
        "parallelism": "ddp",
        "pin_memory": True,
        "flop_per_sample": 3.6e9,
        "status": "ok",
        "error": None,
        "optimizer": None,
        "started_at": datetime(2026, 1, 2, 2, 4, 5, tzinfo=UTC),
    }
    assert {name: row[name] for name in expected} == expected
    assert dict(row["tags"]) == {
        "rack": "12",
        "compile": "as I say",  # the user's word wins over the option of that name
        "cuda_graphs": "false",
        "set.width": "256",
        "momentum": "0.9",
        "versions.tracelab": "0.1.0",
        "versions.cudnn": "91002",
        "capture.window": "step",
        "ranks.0.note": "short",
        "ranks.1.status": "failed",
        "ranks.1.error": "gone",
        "dataset_size": "50000",
    }


def test_a_run_of_a_sweep_has_the_number_of_runs_in_the_record_next_to_it(tmp_path: Path) -> None:
    write(tmp_path / "in", sweep__json={"tracelab": "sweep/1", "cells": [{"run": "S9-b8-r0"}, {"run": "S9-b16-r0"}]})
    write(tmp_path / "in" / "S9-b8-r0", run__json=RUN)
    lab = ingest_paths(tmp_path, [tmp_path / "in"], run=None)
    assert dict(lab.one("runs")["tags"])["sweep.cells"] == "2"


@pytest.mark.parametrize("record", [{}, {"tracelab": "sweep/1"}, {"tracelab": "other/1", "cells": []}])
def test_a_record_of_a_sweep_that_lists_nothing_is_ignored(tmp_path: Path, record: dict[str, object]) -> None:
    write(tmp_path / "in", sweep__json=record)
    write(tmp_path / "in" / "S9-b8-r0", run__json=RUN)
    assert "sweep.cells" not in dict(ingest_paths(tmp_path, [tmp_path / "in"], run=None).one("runs")["tags"])


def test_missing_files_of_run_json_are_reported(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", run__json=RUN, steps__rank0__jsonl=lines("steps", step(0), rank=0))
    (row,) = ingest_paths(tmp_path, [folder]).rows("diagnostics")
    assert (row["code"], row["count"], "steps.rank1.jsonl" in row["message"]) == ("expected_missing", 1, True)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "\ud800"])
def test_names_that_no_file_can_have_are_missing(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path / "in", run__json=RUN | {"expects": {"files": [name]}})
    lab = ingest_paths(tmp_path, [folder])
    assert (lab.file.status, lab.diagnostics()) == ("stored", {"expected_missing"})


def test_files_without_run_json_still_belong_together(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "in",
        steps__rank0__jsonl=lines("steps", step(0), rank=0),
        memory_peaks__rank0__jsonl=lines("memory_peaks", {"device": 0}, rank=0),
    )
    write_trace(folder / "rank0.pt.trace.json", kernels=1, rank=0)
    lab = ingest_paths(tmp_path, [folder], run=None)
    assert {row["run"] for row in lab.rows("sources")} == {"S9-b8-r0"}


def test_resumed_run_replaces_its_stored_rows(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    files = {
        "steps__rank0__jsonl": lines("steps", step(0), rank=0),
        "run__json": RUN | {"status": "not_run", "error": "e"},
    }
    ingest_paths(tmp_path, [write(folder, **files)], run=None)
    write(folder, steps__rank0__jsonl=lines("steps", step(0), step(1), rank=0), run__json=RUN)
    lab = ingest_paths(tmp_path, [folder], run=None)
    assert [row["step"] for row in lab.rows("steps")] == [0, 1]
    assert len(lab.rows("sources")) == 2
    assert session.connect(lab.store).sql("select status, error from runs").fetchall() == [("ok", None)]


def test_values_of_run_json_win_over_values_of_a_trace(tmp_path: Path) -> None:
    nvprof = "==7== NVPROF is profiling process 7\n==7== Warning: No kernels were profiled.\n==7== Profiling result:\n"
    folder = write(tmp_path / "in", run__json=RUN, rank0__txt=nvprof.encode())
    lab = ingest_paths(tmp_path, [folder], run=None)
    assert len(lab.rows("runs")) == 2
    assert session.connect(lab.store).sql("select status, profiler from runs").fetchall() == [("ok", "kineto")]


def test_times_stay_exact_and_numbers_that_are_whole_fit_columns_of_integers(tmp_path: Path) -> None:
    row = ingested(tmp_path, lines("steps", step(0, dur_ns=5.0, loss=3), rank=0)).one("steps")
    assert (row["start_ns"], row["dur_ns"], row["loss"]) == (1_767_319_445_000_000_001, 5, 3.0)


@pytest.mark.parametrize("value", [b"true", b"1.5", b'"7"', b"NaN", b"[]", b"9223372036854775808", b"1e999"])
def test_value_of_another_type_is_null_and_its_row_stays(tmp_path: Path, value: bytes) -> None:
    lab = ingested(tmp_path, lines("steps", b'{"step": 3, "dur_ns": ' + value + b"}\n", rank=0))
    assert (lab.one("steps")["step"], lab.one("steps")["dur_ns"]) == (3, None)
    assert (lab.counts, lab.diagnostics()) == ((1, 1, 0), {"value_unfit"})


def test_field_without_a_column_is_kept_in_args(tmp_path: Path) -> None:
    lab = ingested(tmp_path, lines("steps", step(0, gradient_norm=1.5, rank=9), rank=2))
    assert (lab.one("steps")["args"], lab.one("steps")["rank"]) == ('{"gradient_norm": 1.5, "rank": 9}', 2)


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_last_line_that_was_cut_is_lost_alone(tmp_path: Path, cut: int) -> None:
    whole = lines("steps", step(0), step(1), rank=0)
    lab = ingested(tmp_path, whole[: -1 - cut])
    assert (lab.file.status, lab.counts, lab.diagnostics()) == ("salvaged", (2, 1, 1), {"cut_off"})


def test_last_line_without_its_end_is_no_loss_where_it_is_whole(tmp_path: Path) -> None:
    lab = ingested(tmp_path, lines("steps", step(0), step(1), rank=0)[:-1])
    assert (lab.file.status, lab.counts) == ("stored", (2, 2, 0))


def test_nul_bytes_of_a_crash_lose_no_other_bytes(tmp_path: Path) -> None:
    lab = ingested(tmp_path, lines("steps", step(0), b"\0" * 4000, step(1), b"\0" * 512, rank=0))
    assert (lab.file.status, [row["step"] for row in lab.rows("steps")]) == ("stored", [0, 1])
    assert lab.diagnostics() == {"nul_bytes"}


@pytest.mark.parametrize(
    "damage", [b'{"step": 1, "dur\n', b"[1, 2]\n", b'{"step": "\xff"}\n', b"[" * 5000 + b"\n", b"x\0y\n"]
)
def test_damaged_line_loses_itself_alone(tmp_path: Path, damage: bytes) -> None:
    lab = ingested(tmp_path, lines("steps", step(0), damage, step(2), rank=0))
    assert [row["step"] for row in lab.rows("steps")] == [0, 2]
    assert (lab.file.status, lab.counts, lab.diagnostics()) == ("salvaged", (3, 2, 1), {"line_lost"})


def test_line_beyond_all_reason_is_left_out(tmp_path: Path) -> None:
    lab = ingested(tmp_path, lines("steps", b"x" * 3_500_000 + b"\n", step(1), rank=0))
    assert ([row["step"] for row in lab.rows("steps")], lab.diagnostics()) == ([1], {"line_too_long"})


def test_half_a_surrogate_pair_is_spelled_out(tmp_path: Path) -> None:
    lab = ingested(tmp_path, lines("steps", b'{"phase": "a\\ud800", "step": 1}\n', rank=0))
    assert lab.one("steps")["phase"] == "a\\ud800"


def test_rank_comes_from_the_header_else_from_the_name_else_is_assumed(tmp_path: Path) -> None:
    def rank(name: str, **header: object) -> object:
        return ingested(tmp_path / name, lines("steps", step(0), **header), name).one("steps")["rank"]

    assert [rank("steps.rank5.jsonl", rank=3), rank("steps.rank5.jsonl_2"), rank("x.jsonl")] == [3, 5, 0]


def test_damaged_run_json_is_refused_with_its_name(tmp_path: Path) -> None:
    result = ingested(tmp_path, json.dumps(RUN).encode()[:-30], "run.json").file
    assert (result.status, "run.json: is damaged" in result.message) == ("failed", True)


def test_file_of_a_newer_tracelab_is_refused(tmp_path: Path) -> None:
    result = ingested(tmp_path, b'{"tracelab": "steps/2", "rank": 0}\n').file
    assert (result.status, "newer tracelab (steps/2)" in result.message) == ("failed", True)


def test_record_of_a_sweep_is_no_profiler_data(tmp_path: Path) -> None:
    result = ingested(tmp_path, b'{"tracelab": "sweep/1", "cells": []}', "sweep.json").file
    assert (result.status, result.message.partition("sweep.json: ")[2]) == (
        "not_profiler_data",
        "is an internal record of tracelab (sweep) without measurements",
    )


@pytest.mark.parametrize(
    "head", [b'{"schemaVersion": 1, "tracelab": "run/1"}', b'[{"tracelab": "run/1"}]', b"tracelab", b""]
)
def test_content_that_only_mentions_tracelab_is_not_sniffed(head: bytes) -> None:
    assert not sniff(head)


def test_same_file_again_is_unchanged(tmp_path: Path) -> None:
    folder = write(tmp_path / "in", run__json=RUN, steps__rank0__jsonl=lines("steps", step(0), rank=0))
    ingest_paths(tmp_path, [folder], run=None)
    report = ingest([folder], store=tmp_path / "lab")
    assert [result.status for result in report.files] == ["unchanged", "unchanged"]


def test_files_of_one_content_are_of_each_run_in_whose_folder_they_lie(tmp_path: Path) -> None:
    folders = [write(tmp_path / "in" / run, run__json=RUN | {"run": run}) for run in ("a", "b")]
    for folder in folders:
        write_trace(folder / "rank0.pt.trace.json", kernels=3, rank=0)
    ingest(folders[:1], store=tmp_path / "lab")
    reports = [ingest(folders, store=tmp_path / "lab") for _ in range(2)]
    assert [[result.status for result in report.files].count("stored") for report in reports] == [2, 0]
    found = session.connect(tmp_path / "lab").sql("select run, count(*) from kernels group by run order by run")
    assert found.fetchall() == [("a", 3), ("b", 3)]
