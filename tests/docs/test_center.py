"""The guide for a center: its nightly script works as it stands, and exits with 1 where someone has to look."""

import csv
import gzip
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.build import build_store

ROOT = Path(__file__).parents[2]
(SCRIPT,) = re.findall(r"```bash\n(.*?)```", (ROOT / "docs" / "guides" / "center.md").read_text("utf-8"), re.DOTALL)


def run_nightly(folder: Path) -> tuple[int, str]:
    """Run the script on a store, traces and reports in a folder; return its exit code and errors."""
    script = folder / "nightly.sh"
    script.write_text(SCRIPT)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", script, folder / "incoming", folder / "reports"],
        env=os.environ | {"TRACELAB_STORE": str(folder / "store"), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def center(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "data" / "generated" / "generated-4rank-ddp", tmp_path / "incoming" / "job-1")
    return tmp_path


def test_the_nightly_script_writes_its_reports(center: Path) -> None:
    assert run_nightly(center) == (0, "")
    reports = {
        path.name: list(csv.DictReader(path.read_text().splitlines())) for path in (center / "reports").glob("*.csv")
    }
    assert sorted(reports) == ["changes.csv", "health.csv", "hosts.csv", "runs.csv"]
    assert [row["run"] for row in reports["runs.csv"]] == ["job-1"]
    assert reports["changes.csv"] == []


def test_the_nightly_script_reports_a_file_that_cannot_be_read_and_stores_the_others(center: Path) -> None:
    (center / "incoming" / "broken.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 4096)
    code, errors = run_nightly(center)
    assert (code, "exit code 1: tracelab ingest" in errors) == (1, True), errors
    assert "job-1" in (center / "reports" / "runs.csv").read_text()


def test_the_nightly_script_reports_a_damaged_file_and_a_missing_rank_once(center: Path) -> None:
    job = center / "incoming" / "job-1"
    (job / "rank3.pt.trace.json.gz").unlink()
    whole = gzip.decompress((job / "rank2.pt.trace.json.gz").read_bytes())
    (job / "rank2.pt.trace.json.gz").unlink()
    (job / "rank2.pt.trace.json").write_bytes(whole[: len(whole) // 2])
    code, errors = run_nightly(center)
    heading, *lines = errors.splitlines()
    assert (code, heading) == (1, "Errors and missing ranks:"), errors
    found = {tuple(row[:3]) for row in csv.reader(lines)}
    assert found >= {("error", "cut_off", "job-1"), ("info", "ranks_missing", "job-1")}
    assert run_nightly(center) == (0, "")


def test_the_nightly_script_reports_a_change_of_speed_once(center: Path) -> None:
    """From the eleventh of twenty runs on a step takes a fifth longer."""
    runs = [f"r{at:02}" for at in range(20)]
    times = [100 + at % 3 + 20 * (at >= 10) for at in range(20)]
    build_store(
        center / "store",
        {
            "runs": [
                {"run": run, "source": run, "model": "gpt", "started_at": datetime(2026, 1, at + 1, tzinfo=UTC)}
                for at, run in enumerate(runs)
            ],
            "steps": [
                {"run": run, "source": run, "rank": 0, "phase": "train", "step": 0, "start_ns": 0, "dur_ns": dur_ns}
                for run, dur_ns in zip(runs, times, strict=True)
            ],
        },
    )
    code, errors = run_nightly(center)
    heading = "Changes of speed (run, series, ns before, ns since, change):"
    assert (code, errors.splitlines()) == (1, [heading, '"r10","gpt",101,121,0.19801980198019803'])
    assert run_nightly(center) == (0, "")
