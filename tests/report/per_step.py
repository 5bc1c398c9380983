"""Check that the costs per step of a summary are the shares beside them of the mean step that it shows."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from tracelab.report.summary.html import render_summaries
from tracelab.report.summary.lead import plain_text
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import summary_lines

_NS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}
_STEP = re.compile(r" and of (?:a mean step of|the) ([\d.,]+) (ns|µs|ms|s)\b")
_COST = re.compile(r"(\d+\.\d) %(?: at most)?( by a replay)?(?:,| ·) ([\d.,]+) (ns|µs|ms|s) a step\b")
_HALF_DIGIT_OF_PERCENT = 5.01e-4
_OF_FOUR_DIGITS = 1e-3
"""Shares have one digit behind the point of a percentage, and two times four digits each."""


def check_costs_per_step(summary: RunSummary) -> int:
    """Check the data, the text and the HTML of a run; return the number of findings with a cost per step."""
    step_ns = summary.step_ns
    rows = summary_rows([summary]).to_pylist()
    shares = [row for row in rows if row["kind"] != "figure" and row["unit"] == "ratio"]
    measured_ns = summary.measured_step_ns if step_ns else None
    assert measured_ns is None or measured_ns <= step_ns
    bases = [step_ns if _is_of_whole_steps(summary, row) else measured_ns for row in shares]
    assert [row["step_ns"] for row in shares] == [
        None if base is None else round(row["value"] * base) for row, base in zip(shares, bases, strict=True)
    ], summary.run
    text = " ".join("\n".join(summary_lines([summary], 10_000, most_leads=None)).split())
    html = " ".join(plain_text(render_summaries([summary], named=True)).split())
    for each in (text, html):
        costs = _COST.findall(each)
        assert len(costs) == (len(summary.leads) if step_ns else 0), summary.run
        if not costs:
            continue
        ((shown, unit),) = _STEP.findall(each)
        assert _ns(shown, unit) == pytest.approx(measured_ns, rel=1e-3)
        for percent, replayed, cost, cost_unit in costs:
            share = _ns(cost, cost_unit) / (step_ns if replayed else _ns(shown, unit))
            assert float(percent) / 100 == pytest.approx(share, abs=_HALF_DIGIT_OF_PERCENT + _OF_FOUR_DIGITS * share), (
                summary.run
            )
    return len(summary.leads) if step_ns else 0


def _is_of_whole_steps(summary: RunSummary, row: Mapping[str, Any]) -> bool:
    """Return whether a finding has the share of a replay: the windows may cover less than that."""
    return row["kind"] == "finding" and any(
        lead.is_replayed and (lead.query, plain_text(lead.sentence)) == (row["name"], row["text"])
        for lead in summary.leads
    )


def _ns(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * _NS[unit]
