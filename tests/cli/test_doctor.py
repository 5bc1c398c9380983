"""`tracelab doctor`: a store, a run or a trace file; what it prints, and how it exits."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.build import build_store
from tests.cli.conftest import HOSTILE
from tests.traces import write_trace
from tracelab.temp_folders import process_folder

Run = Callable[..., Result]

KERNEL = {"name": "volta_sgemm_128x32_nt", "device": 0, "start_ns": 10, "dur_ns": 5}
CUT = {"sources": [{"path": "rank-0.json", "complete": False, "events_skipped": 2, "events_read": 9}]}


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    return build_store(tmp_path / "cut", CUT | {"kernels": [KERNEL, KERNEL | {"rank": 1}, KERNEL | {"rank": 2}]})


def test_an_error_is_found_and_exits_with_1(run: Run, cut: Path) -> None:
    result = run("doctor", "--store", cut, "--check", "source_incomplete", "--format", "json")
    assert (result.exit_code, result.stderr) == (1, "1 error\n")
    assert json.loads(result.stdout) == [
        {
            "severity": "error",
            "code": "source_incomplete",
            "run": "r",
            "rank": None,
            "count": 1,
            "message": "rank-0.json was stored in part: 2 of 9 events could not be read.",
            "how_to_fix": "Copy or export the trace again, giving the process time to write all, and ingest that.",
        }
    ]


def test_people_get_sentences_that_are_not_cut(run: Run, cut: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    result = run("doctor", cut, "--check", "source_incomplete", "--check", "calls_missing", "--format", "table")
    assert result.stdout.splitlines() == [
        "error    source_incomplete  r",
        "         rank-0.json was stored in part: 2 of 9 events could not be",
        "         read.",
        "         → Copy or export the trace again, giving the process time to",
        "         write all, and ingest that.",
        "info     calls_missing  r  rank 0 (and ranks 1, 2)",
        "         1 kernel and no API call: launches are unknown.",
        "         → Record CPU activity too: ProfilerActivity.CPU beside CUDA,",
        "         or nsys with --trace=cuda.",
    ]


def test_without_an_error_it_exits_with_0(run: Run) -> None:
    result = run("doctor", "--check", "device_unknown")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "Every check passed: no findings.\n"


def test_a_warning_fails_only_where_strict_is_requested(run: Run, cut: Path) -> None:
    arguments = ("doctor", cut, "--check", "negative_duration", "--check", "stream_overlap")
    assert run(*arguments).exit_code == 0
    build_store(cut, {"kernels": [KERNEL | {"source": "b", "dur_ns": -1}]})
    assert run(*arguments).exit_code == 0
    assert run(*arguments, "--strict").exit_code == 1


def test_a_run_can_be_named(run: Run, cut: Path) -> None:
    build_store(cut, {"kernels": [KERNEL | {"run": "s", "source": "b"}]})
    rows = json.loads(run("doctor", "--store", cut, "--run", "s", "--format", "json").stdout)
    assert {row["run"] for row in rows} == {"s"}


def test_a_trace_file_is_looked_at_and_nothing_is_left(run: Run, tmp_path: Path) -> None:
    before = list(process_folder().iterdir())
    path = write_trace(tmp_path / "rank-0.json", kernels=9)
    text = path.read_text()
    path.write_text(text[: text.rindex(", {")])
    result = run("doctor", path, "--format", "json")
    codes = {row["code"] for row in json.loads(result.stdout) if row["severity"] == "error"}
    assert (result.exit_code, codes) == (1, {"source_incomplete", "cut_off"})
    assert list(process_folder().iterdir()) == before


def test_files_of_several_ranks_are_one_run(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in (0, 1):
        write_trace(folder / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    rows = json.loads(run("doctor", folder, "--check", "calls_missing", "--format", "json").stdout)
    assert [(row["run"] is not None, row["rank"], row["count"]) for row in rows] == [(True, 0, 3), (True, 1, 4)]


def test_a_file_that_cannot_be_read_beside_one_that_can_is_reported(run: Run, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank-0.json", kernels=3)
    result = run("doctor", path, tmp_path / "none.json")
    assert (result.exit_code, f"{tmp_path / 'none.json'}: no such file" in result.stderr) == (1, True)


def test_a_file_for_people_has_no_colour(run: Run, cut: Path, tmp_path: Path) -> None:
    run("doctor", cut, "--check", "source_incomplete", "-o", tmp_path / "told.txt")
    assert (tmp_path / "told.txt").read_text().splitlines()[0] == "error    source_incomplete  r"


def test_a_hostile_name_prints_no_control_character(run: Run, tmp_path: Path) -> None:
    store = build_store(tmp_path / "hostile", {"kernels": [KERNEL | {"name": HOSTILE}]})
    text = run("doctor", store, "--check", "unclassified", "--format", "table").stdout
    assert ("\x1b" in text, r"\n\x1b[2J" in text) == (False, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--store", "elsewhere"], 3, "the store elsewhere does not exist"),
        (["elsewhere.json"], 1, "elsewhere.json: no such file"),
        (["{tmp}/other.txt"], 3, "other.txt"),
        (["{tmp}/empty"], 3, "empty: no file to read; expected a file that `tracelab collect` wrote"),
        (["{tmp}/other.txt", "--store", "lab"], 2, "--store and a PATH were given"),
        (["--run", "2024-01-06"], 3, "the store has no run '2024-01-06'; nearest: 2024-01-05"),
        (["--check", "graph_hiden"], 2, "did you mean 'graph_hidden'?"),
    ],
)
def test_what_cannot_be_examined_is_reported_in_one_line(
    run: Run, tmp_path: Path, arguments: list[str], code: int, said: str
) -> None:
    (tmp_path / "other.txt").write_text("no trace")
    (tmp_path / "empty").mkdir()
    result = run("doctor", *(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_the_help_lists_the_checks(run: Run) -> None:
    text = run("doctor", "--help").stdout
    assert all(name in text for name in ("stream_overlap", "not_answerable", "Two ranks on one card"))


def test_the_checks_are_shown_as_sql(run: Run) -> None:
    text = run("doctor", "--check", "device_unknown", "--run", "it's", "--show-sql").stdout
    assert text.startswith("-- device_unknown: No device named\n-- GPU activity that names no device.\n")
    assert text.endswith("\n)\nwhere run = 'it''s'\n;\n")


def test_damaged_files_are_findings_and_no_check_blames_the_capture(run: Run, cut: Path) -> None:
    (kernels,) = cut.glob("kernels/run=r/*.parquet")
    kernels.unlink()
    result = run("doctor", cut, "--format", "json")
    finding, note = json.loads(result.stdout)
    assert result.exit_code == 1
    assert (finding["code"], finding["run"], finding["message"]) == ("damaged_file", "r", f"{kernels} is missing.")
    assert finding["how_to_fix"] == f"Ingest its trace again: `tracelab ingest rank-0.json --store {cut}`."
    assert note["message"] == "No other check ran, because each would examine incomplete data."


def test_verify_of_a_healthy_store_exits_with_0(run: Run, cut: Path) -> None:
    """The capture itself may have errors: --verify is about the files of the store."""
    result = run("doctor", cut, "--verify")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Read 2 files of 1 sources, 0.0 MB: all are as ingest wrote them.")


def test_verify_names_each_damaged_file(run: Run, tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL], "ops": [{}], "steps": [{}]})
    altered, missing = (next(store.glob(f"{table}/*/*.parquet")) for table in ("kernels", "ops"))
    content = bytearray(altered.read_bytes())
    content[40] ^= 1
    altered.write_bytes(content)
    missing.unlink()
    result = run("doctor", store, "--verify", "--format", "table", env={"COLUMNS": "400"})
    assert result.exit_code == 1
    assert f"{altered} is altered (its SHA-256 differs from the recorded one)." in result.stdout
    assert f"{missing} is missing." in result.stdout
    assert result.stderr.endswith(": 2 errors\n")


def test_verify_of_one_run_reads_only_that(run: Run, tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL, KERNEL | {"run": "s"}]})
    next(store.glob("kernels/run=s/*.parquet")).unlink()
    assert [run("doctor", store, "--verify", "--run", name).exit_code for name in ("r", "s", "t")] == [0, 1, 3]


def test_the_code_of_verify_reads_the_files(run: Run, cut: Path) -> None:
    result = run("doctor", cut, "--check", "damaged_file")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Read ")


def test_the_sql_of_a_reader_code_has_only_that_code(run: Run, cut: Path) -> None:
    shown = run("doctor", cut, "--check", "ncu_rule", "--show-sql").stdout
    assert shown.splitlines()[-2:] == ["where code in ('ncu_rule')", ";"]
    result = run("doctor", cut, "--check", "not_answerable", "--show-sql")
    assert (result.exit_code, "not_answerable has no SQL" in result.stderr) == (2, True)


def test_verify_runs_no_check(run: Run, cut: Path) -> None:
    result = run("doctor", cut, "--verify", "--check", "device_unknown")
    assert (result.exit_code, "omit --check" in result.stderr) == (2, True)
