"""Join the findings of a run by the same rule, and those about one late rank, so that each problem is one finding."""

from collections.abc import Sequence
from dataclasses import replace

from tracelab.query.report_rules import Cost
from tracelab.report.summary.lead import Lead


def join_alike(leads: Sequence[Lead], symptoms: Sequence[Lead], unranked: Sequence[Lead]) -> list[Lead]:
    """Join leads by one rule, some within its threshold, and those of a late rank (`Cost.joins`), to the largest.

    Its details begin with the `symptoms` that it explains (`Cost.opens`): of the largest those of the run, then those
    of its ranks. It has the `unranked` findings about its ranks.
    """
    groups: list[list[Lead]] = []
    for lead in sorted(leads, key=lambda each: -each.rest):
        related = [group for group in groups if any(_is_related(lead, each) for each in group)]
        groups = [group for group in groups if group not in related]
        groups.append([*(each for group in related for each in group), lead])
    groups = [sorted(group, key=lambda each: (each.finding.rule is not None, -each.rest)) for group in groups]
    groups.sort(key=lambda group: -sum(each.rest for each in group))
    first = next((group for group in groups if _cost_of(group[0]).joins), None)
    heads = {id(group[0]): _join(group, symptoms, unranked, is_first=group is first) for group in groups}
    others = {id(each) for group in groups for each in group[1:]}
    return [heads.get(id(lead), lead) for lead in leads if id(lead) not in others]


def _cost_of(lead: Lead) -> Cost:
    if lead.finding.cost is None:
        raise ValueError(f"the finding of {lead.query} has no cost")
    return lead.finding.cost


def _is_of_one_rank(lead: Lead) -> bool:
    return _cost_of(lead).adds is None


def _is_related(lead: Lead, other: Lead) -> bool:
    if lead.query != other.query:
        return False
    is_of_rank = lead.rank == other.rank and _cost_of(lead).joins and _cost_of(other).joins
    return is_of_rank or (lead.finding.text == other.finding.text and _adds_up_to_ranks(lead))


def _adds_up_to_ranks(lead: Lead) -> bool:
    """Return whether all findings by the rule are about the same: not each about a kernel or cause of its own."""
    adds = _cost_of(lead).adds
    return adds is not None and set(adds) <= {"rank"}


def _join(group: Sequence[Lead], symptoms: Sequence[Lead], unranked: Sequence[Lead], *, is_first: bool) -> Lead:
    head, *others = group
    ranks = {each.rank for each in group}
    return replace(
        head,
        included=(*head.included, *others),
        rest=sum(each.rest for each in group),
        symptoms=tuple(
            each
            for each in sorted(symptoms, key=_is_of_one_rank)
            if _cost_of(each).opens == head.query and (each.rank in ranks if _is_of_one_rank(each) else is_first)
        ),
        notes=tuple(each for each in unranked if _cost_of(each).joins and each.rank in ranks),
    )
