"""Leads as literals, for tests of what a summary makes of them."""

from dataclasses import replace

from tracelab.query.report_rules import Cost, Finding, WhatIf
from tracelab.report.summary.lead import Lead

LEAST = 0.01


def lead(name: str, share: float, detail: int, *topics: str) -> Lead:
    cost = Cost("1", None, adds=None, topics=topics, detail=detail)
    finding = Finding("true", "1", name, None, 1, None, cost)
    return Lead(
        query="advice",
        finding=finding,
        cost_ns=1_000_000 * share,
        whole_ns=1_000_000,
        added=1,
        share=share,
        unexplained=share,
        rest=share,
        rank=None,
        step=None,
        sentence=name,
        advice="",
        matching=1,
        checked=1,
        next_command="",
        figures_command="",
    )


def replayable(name: str, share: float, detail: int, topic: str, change: str = "no_data_waits") -> Lead:
    found = lead(name, share, detail, topic)
    return replace(found, finding=replace(found.finding, what_if=WhatIf((("change", change),), "Without it")))
