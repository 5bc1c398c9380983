"""Relate findings to those of the summary: the same one, a symptom of some, or a cost of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracelab.query.report_rules import Finding
from tracelab.report.summary.lead import Lead, list_findings

MOST_EXPLAINED = 0.5
"""A finding of which leads explain a larger part is their symptom."""


@dataclass(frozen=True)
class Relation:
    """How a finding relates to the leads of its run: it is number `is_lead`, or `numbers` explain a share.

    With `has_unranked`, a part of that is noted without a number. A lead that includes others is this finding for a
    `part` of its share.
    """

    is_lead: int | None
    numbers: tuple[int, ...]
    explained: float
    has_unranked: bool = False
    part: float | None = None

    @property
    def causes(self) -> str:
        """Return in words what explains the share; empty if nothing does."""
        known = f"{list_findings(self.numbers)} of the summary" if self.numbers else ""
        return " and ".join(each for each in (known, "what the summary notes" * self.has_unranked) if each)

    def is_symptom(self, share: float) -> bool:
        """Return whether the leads explain most of a cost, so that it is not one of its own."""
        return bool(self.causes) and self.explained >= MOST_EXPLAINED * share


def relate(leads: Sequence[Lead], query: str, finding: Finding, rank: int | None) -> Relation:
    """Relate a finding of a query, about a rank where its row has one, to the leads of its run in their order."""
    cost = finding.cost
    if cost is None:
        return Relation(None, (), 0.0)
    for number, lead in enumerate(leads, 1):
        for each in (lead, *lead.included):
            if each.query == query and each.finding == finding and (cost.adds == () or each.rank == rank):
                return Relation(number, (), 0.0, part=each.own_rest if lead.included else None)
    causes = [
        (number, lead)
        for number, lead in enumerate(leads, 1)
        if set(lead.topics) & set(cost.topics) and lead.is_counted and _may_explain(lead, finding, rank)
    ]
    return Relation(
        None,
        tuple(number for number, lead in causes if lead.is_ranked),
        sum(lead.rest_of(cost.topics) for _, lead in causes),
        any(not lead.is_ranked for _, lead in causes),
    )


def _may_explain(lead: Lead, finding: Finding, rank: int | None) -> bool:
    """Return whether a lead can be a cause: waiting has its cause on another rank, other losses on the same one."""
    if finding.cost is not None and finding.cost.leads and lead.detail < finding.cost.detail:
        return False
    elsewhere = lead.added == 1 and None not in (lead.rank, rank) and lead.rank != rank
    return not elsewhere or "waiting" in lead.topics
