"""The report of many runs opens with the queries over all of them."""

from pathlib import Path
from typing import Any

import duckdb
import pytest

from tracelab.report import document as report
from tracelab.report.answers import ReportSession


@pytest.mark.parametrize(("runs", "first"), [(19, "summary"), (20, "fleet")])
def test_a_report_of_many_runs_opens_with_the_fleet(runs: int, first: str) -> None:
    con: Any = duckdb
    session = ReportSession(con, Path("lab"), (), tuple(f"run{at}" for at in range(runs)))
    sections = [name for name, _ in report._ordered_sections(session)]
    assert sections[0] == first
    named = {each.name for each in report._report_queries(sections) if each.report and each.report.section == "fleet"}
    assert named == ({"fleet_summary", "run_history", "slow_hosts"} if first == "fleet" else set())
