"""`tracelab study` on the command line: what each command prints, and how it exits."""

import csv
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.build import build_store
from tracelab.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`tracelab study ARGS…` where there is no store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRACELAB_STORE", raising=False)
    return lambda *args: CliRunner().invoke(main, ["study", *map(str, args)])


@pytest.fixture
def concurrent(tmp_path: Path) -> Path:
    kernel = {"name": "gemm", "device": 0, "dur_ns": 100}
    kernels = [kernel | {"start_ns": 0, "stream": 7}, kernel | {"start_ns": 90, "stream": 8}]
    return build_store(tmp_path / "other", {"kernels": kernels})


def test_without_a_store_rows_are_published_or_need_a_capture(run: Run) -> None:
    result = run("list", "--format", "json")
    states = {row["row"]: (row["state"], row["runs"]) for row in json.loads(result.stdout)}
    assert (result.exit_code, len(states)) == (0, 59)
    assert (states["S1-08"], states["S2-03"]) == (("published", 0), ("needs capture", 0))
    assert {state for state, _ in states.values()} == {"published", "needs capture"}


def test_a_store_with_kernels_answers_the_rows_about_kernels(run: Run, concurrent: Path) -> None:
    result = run("list", "S3", "--store", concurrent, "--format", "csv")
    states = {row["row"]: (row["state"], row["runs"]) for row in csv.DictReader(result.stdout.splitlines())}
    assert (states["S3-02"], states["S3-09"][0], len(states)) == (("answered", "1"), "needs capture", 17)
    assert result.stderr.startswith("17 rows: ")


def test_a_row_that_cannot_be_answered_names_what_to_record(run: Run, concurrent: Path) -> None:
    result = run("show", "S2-03", "--store", concurrent)
    assert (result.exit_code, result.stderr) == (
        3,
        "tracelab: S2-03 (FLOPs of an image, forward) has no run that fits; record one with `tracelab collect sweep S2 "
        "--match '*profiler-ncu*'` and ingest its folder, or see `tracelab study show S2-03 --example`\n",
    )


def test_a_row_stands_with_both_formulas_its_cells_and_its_verdict(run: Run, concurrent: Path) -> None:
    text = run("show", "s3-02", "--store", concurrent, "--format", "table").stdout
    lines = [line.split() for line in text.splitlines()]
    assert lines[0] == ["S3-02", "Kernel", "concurrency"]
    assert "  study      time with two kernels on any device / time with one on any device" in text.splitlines()
    assert "  corrected  time with two kernels / time with one, of each device" in text.splitlines()
    (cell,) = (line for line in lines if line[2:3] == ["r"])
    assert " ".join(cell) == "kernel concurrency r rank 0, GPU 0 5.26316 % 5.26316 % 10 of 190 ns"
    assert [line[0] for line in lines if line][-2] == "verdict"


def test_programs_get_exact_cells_with_the_verdict(run: Run, concurrent: Path) -> None:
    rows = json.loads(run("show", "S3-02", "--store", concurrent, "--format", "json").stdout)
    (ours,) = (row for row in rows if row["run"] == "r")
    assert (ours["row"], ours["corrected"], ours["unit"]) == ("S3-02", 10 / 190, "ratio")
    assert {row["verdict"] for row in rows} == {
        "The study's own terms give 0.00546079 %, which it rounds to 0 %; "
        "of 1 devices at hand the most that runs at once is 5.26316 %."
    }


def test_only_the_run_that_is_named_counts(run: Run, concurrent: Path) -> None:
    result = run("show", "S3-16", "--store", concurrent, "--run", "none-such", "--format", "csv")
    assert [row["run"] for row in csv.DictReader(result.stdout.splitlines())] == [""]


def test_the_example_states_that_it_is_one(run: Run) -> None:
    result = run("show", "S2-05", "--example", "--format", "csv")
    rows = {(row["quantity"], row["model"]): row for row in csv.DictReader(result.stdout.splitlines())}
    assert (
        result.stderr
        == "From example data, not from your runs: generated/ncu-forward (generated; no GPU was involved).\n"
    )
    printed = rows["as awk prints it", "resnet18"]
    assert (float(printed["published"]), float(printed["study"])) == (36_347_700, 36_347_700)
    cut = [int(value.split(",")[0]) for value in fadd_of("resnet18")]
    assert float(rows["thousands separators", "resnet18"]["study"]) == float(f"{sum(cut) / 256:.6g}")


def fadd_of(model: str) -> list[str]:
    log = Path(__file__).parents[2] / "data" / "generated" / "ncu-forward" / f"{model}-batch256.txt"
    return [line.split()[2] for line in log.read_text("utf-8").splitlines() if "op_fadd_pred_on.sum" in line]


def test_a_store_and_the_example_are_one_too_many(run: Run, concurrent: Path) -> None:
    result = run("show", "S2-03", "--example", "--store", concurrent)
    assert (result.exit_code, result.stderr) == (
        2,
        "tracelab: --store and --example were given; name one of them\n",
    )


def test_a_figure_is_drawn_and_not_overwritten(run: Run, concurrent: Path, tmp_path: Path) -> None:
    first = run("plot", "S3-02", "--store", concurrent, "-o", "S3-02.png")
    second = run("plot", "S3-02", "--store", concurrent, "-o", "S3-02.png")
    assert (first.exit_code, first.stderr) == (0, "Wrote S3-02.png\n")
    assert (second.exit_code, second.stderr) == (1, "tracelab: S3-02.png exists; add --force to overwrite it\n")
    assert (tmp_path / "S3-02.png").read_bytes()[:4] == b"\x89PNG"


def test_a_row_without_a_figure_reports_it(run: Run, concurrent: Path) -> None:
    result = run("plot", "S3-17", "--store", concurrent)
    assert (result.exit_code, "S3-17 has no figure" in result.stderr) == (2, True)


def test_without_torch_a_run_states_what_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "torch" else found(name))
    result = run("run", "S0", "--smoke")
    assert (result.exit_code, result.stderr) == (
        1,
        "tracelab: S0-smoke needs torch to be recorded; run `pip install 'tracelab[collect]'`, or see "
        "`tracelab study show ROW --example`\n",
    )


def test_a_hostile_run_stays_text(run: Run, tmp_path: Path) -> None:
    kernel = {"name": "gemm", "device": 0, "start_ns": 0, "dur_ns": 1}
    run_row = {"model": "\x1b[2J<script>$x$"}
    store = build_store(tmp_path / "hostile", {"kernels": [kernel], "runs": [run_row]})
    text = run("show", "S3-02", "--store", store, "--format", "table").stdout
    drawn = run("plot", "S3-02", "--store", store, "-o", tmp_path / "x.svg")
    assert ("\x1b" in text, "\\x1b[2J<script>$x$" in text, drawn.exit_code) == (False, True, 0)
