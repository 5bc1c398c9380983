"""The report of many runs has the queries over all of them behind its summary."""

import re
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.build import build_store
from tests.report.few_queries import report_of
from tracelab.report import document as report
from tracelab.report.answers import ReportSession


@pytest.mark.parametrize(("runs", "second"), [(19, "health"), (20, "fleet")])
def test_a_report_of_many_runs_has_the_fleet_behind_its_summary(runs: int, second: str) -> None:
    con: Any = duckdb
    session = ReportSession(con, Path("lab"), (), tuple(f"run{at}" for at in range(runs)))
    sections = [name for name, _ in report._ordered_sections(session)]
    assert sections[:2] == ["summary", second]
    named = {each.name for each in report._report_queries(sections) if each.report and each.report.section == "fleet"}
    assert named == ({"fleet_summary", "run_history", "slow_hosts"} if second == "fleet" else set())


def test_what_a_list_of_findings_leaves_out_is_counted_with_the_command_that_has_it(tmp_path: Path) -> None:
    """Of 20 runs each idles for half of its window; the finding lists three."""
    kernel = {"name": "gemm", "device": 0, "stream": 7, "dur_ns": 25}
    kernels = [
        kernel | {"run": run, "source": run, "start_ns": start_ns}
        for run in (f"run{at:02}" for at in range(20))
        for start_ns in (0, 75)
    ]
    store = build_store(tmp_path / "lab", {"kernels": kernels})
    page = report_of(("fleet_summary",), store)
    further = re.findall(r"<p class=further>(.*?)<code>(.*?)</code>", page)
    assert further == [("… and 17 runs more. All: ", f"tracelab query fleet_summary --store {store}")]
    assert page.index("In bold: the share of its time") < page.index("<table class=runs>")
