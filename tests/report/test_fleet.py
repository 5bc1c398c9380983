"""The report of many runs has the queries over all of them behind its summary."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

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
