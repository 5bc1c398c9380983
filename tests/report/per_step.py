"""Check that the costs per step of a summary are the shares beside them of the step time that it shows."""

import re

import pytest

from tracelab.report.summary.html import render_summaries
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import summary_lines

_NS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
_STEP = re.compile(r" and of a step of ([\d.,]+) (ns|µs|ms|s)\b")
_COST = re.compile(r"(\d+\.\d) %(?: at most)?(?: by a replay)?(?:,| ·) ([\d.,]+) (ns|µs|ms|s) of a step")
_ROUNDING = {"rel": 1e-3, "abs": 6e-4}
"""Times have four digits, shares one behind the point of a percentage."""


def check_costs_per_step(summary: RunSummary) -> int:
    """Check the data, the text and the HTML of a run; return the number of findings with a cost per step."""
    step_ns = next((each.value for each in summary.figures if each.name == "step time"), None)
    rows = summary_rows([summary]).to_pylist()
    shares = [row for row in rows if row["kind"] != "figure" and row["unit"] == "ratio"]
    assert [row["step_ns"] for row in shares] == [
        None if step_ns is None else round(row["value"] * step_ns) for row in shares
    ], summary.run
    text = " ".join("\n".join(summary_lines([summary], 10_000, most_leads=None)).split())
    html = " ".join(plain_text(render_summaries([summary], named=True)).split())
    for each in (text, html):
        costs = _COST.findall(each)
        assert len(costs) == (len(summary.leads) if step_ns else 0), summary.run
        if not costs:
            continue
        ((shown, unit),) = _STEP.findall(each)
        assert _ns(shown, unit) == pytest.approx(step_ns, rel=1e-3)
        for percent, cost, cost_unit in costs:
            share = _ns(cost, cost_unit) / _ns(shown, unit)
            assert float(percent) / 100 == pytest.approx(share, **_ROUNDING), summary.run
    return len(summary.leads) if step_ns else 0


def _ns(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * _NS[unit]
