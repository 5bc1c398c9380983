"""Rank the findings of a run by the share of its time that is lost to them, each time counted once."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from tracelab.paths.gains import Change
from tracelab.query.report_rules import LEAST_SHARE
from tracelab.report.summary.alike import join_alike
from tracelab.report.summary.derivation import derive_shares
from tracelab.report.summary.lead import Ceiling, FoundLeads, Lead
from tracelab.report.summary.replays import change_of

MOST_EXPLAINED = 0.5
"""A symptom of which causes explain a larger part is not shown beside them."""
LARGE_REST = 0.1
"""What is left of a finding that is itself a cause is shown if it is this share of the run or more, or if it costs as
much as another finding."""
MOST_SMALL = 8
"""Of findings that cost less than the least share, so many are replayed, the most expensive first."""


def rank_leads(
    ruled: Sequence[Lead],
    within: Sequence[Lead],
    ceilings: Sequence[Ceiling],
    below: int,
    replay: Callable[[Sequence[Lead]], list[Lead]] = list,
    small: Sequence[Lead] = (),
) -> FoundLeads:
    """Rank the findings of a run, those within the thresholds by what others leave; keep apart what is only noted.

    `replay` adds what the run gains without each: by that they come in order, else by the share that is lost. What is
    below the least share is counted. `small` findings cost less than that, and are ranked where a replay gains more.
    """
    first = _rank_single(explain(ruled, LEAST_SHARE), within, ceilings)
    smallest = min((lead.rest for lead in (*first.leads, *first.others) if not lead.part_of), default=LARGE_REST)
    explained = explain(ruled, LEAST_SHARE, large_rest=min(LARGE_REST, smallest))
    leads, unranked, others = _rank_single(explained, within, ceilings)
    symptoms = [lead for lead in ruled if not any(_is_same(lead, each) for each in explained)]
    single = [*leads, *(each for each in others if not each.part_of)]
    joined = join_alike(add_consequences(single), symptoms, unranked)
    added = _choose_small(small, joined)
    replayed = replay([*joined, *added])
    listed = [lead for lead in replayed if lead.recoverable >= LEAST_SHARE]
    below += len(joined) - sum(lead.rest >= LEAST_SHARE for lead in listed)
    below -= sum(1 + len(lead.included) for lead in listed if lead.rest < LEAST_SHARE)
    parts = [
        lead
        for lead in others
        if lead.part_of and any(_has(each, leads[at - 1]) for at in lead.part_of for each in listed)
    ]
    below += sum(bool(lead.part_of) for lead in others) - len(parts)
    ordered = _number_parts(*_add_parts(listed, parts), leads)
    return FoundLeads(
        tuple(derive_shares(ordered, ceilings, unranked)), below, tuple(derive_shares(unranked, ceilings))
    )


class _Ranked(NamedTuple):
    """Findings above the threshold of their rules, those of them that are only noted, and those within a threshold."""

    leads: list[Lead]
    unranked: list[Lead]
    others: list[Lead]


def _rank_single(explained: Sequence[Lead], within: Sequence[Lead], ceilings: Sequence[Ceiling]) -> _Ranked:
    """Rank the findings of a run one by one."""
    ranked = limit(explained, ceilings, LEAST_SHARE)
    leads = [lead for lead in ranked if lead.is_ranked]
    unranked = [lead for lead in ranked if not lead.is_ranked]
    return _Ranked(leads, unranked, rank_within(within, leads, unranked, ceilings))


def _choose_small(small: Sequence[Lead], leads: Sequence[Lead]) -> list[Lead]:
    """Return the findings to replay though they cost little: of each change that no lead has the most expensive one."""
    known = {change_of(each.finding, each.rank) for lead in leads for each in (lead, *lead.included)}
    chosen: dict[Change, Lead] = {}
    for lead in sorted(join_alike(small, (), ()), key=lambda each: -each.rest):
        change = change_of(lead.finding, lead.rank)
        if change is not None and change not in known:
            chosen.setdefault(change, lead)
    return list(chosen.values())[:MOST_SMALL]


def _add_parts(leads: Sequence[Lead], parts: Sequence[Lead]) -> tuple[list[Lead], list[Lead]]:
    """Return the leads, each with the parts of others that its change removes, too, and the remaining parts."""
    of_change: dict[Change, list[Lead]] = defaultdict(list)
    changes = {change_of(lead.finding, lead.rank) for lead in leads}
    rest = []
    for part in parts:
        change = change_of(part.finding, part.rank)
        if change is not None and change in changes:
            of_change[change].append(part)
        else:
            rest.append(part)
    with_parts = []
    for lead in leads:  # the first lead of a change has them
        change = change_of(lead.finding, lead.rank)
        also = of_change.pop(change, []) if change is not None else []
        with_parts.append(replace(lead, also=tuple(also)))
    return with_parts, rest


def _number_parts(leads: Sequence[Lead], parts: Sequence[Lead], wholes: Sequence[Lead]) -> list[Lead]:
    """Order leads and parts by their shares, and number by that the findings that include a part."""
    ordered = sorted([*leads, *parts], key=lambda lead: -lead.recoverable)
    places = {
        at: place
        for at, whole in enumerate(wholes, 1)
        for place, each in enumerate(ordered, 1)
        if not each.part_of and _has(each, whole)
    }

    def number(part: Lead) -> Lead:
        return replace(part, part_of=tuple(sorted(places[at] for at in part.part_of if at in places)))

    return [replace(number(lead), also=tuple(map(number, lead.also))) for lead in ordered]


def _is_same(lead: Lead, other: Lead) -> bool:
    return (lead.query, lead.finding, lead.sentence) == (other.query, other.finding, other.sentence)


def _has(lead: Lead, other: Lead) -> bool:
    """Return whether a lead is another one, or has it among its consequences."""
    return any(_is_same(other, one) for one in (lead, *lead.included))


def add_consequences(leads: Sequence[Lead]) -> list[Lead]:
    """Add what other ranks lose to a cause to the finding that is the cause, where one of the leads is.

    So a stalled data loader leads with the time of its own rank and with the waiting of the others, and this is no
    finding beside it.
    """
    causes = {lead.query: lead for lead in reversed(leads)}
    of_cause: dict[str, list[Lead]] = defaultdict(list)
    for lead in leads:
        if lead.finding.cost and lead.finding.cost.adds_to in causes:
            of_cause[lead.finding.cost.adds_to].append(lead)
    added = [each for consequences in of_cause.values() for each in consequences]
    return [
        replace(
            lead,
            included=tuple(of_cause[lead.query]),
            rest=lead.rest + sum(each.rest for each in of_cause[lead.query]),
        )
        if lead is causes[lead.query] and of_cause[lead.query]
        else lead
        for lead in leads
        if lead not in added
    ]


def rank_within(
    within: Sequence[Lead], leads: Sequence[Lead], unranked: Sequence[Lead], ceilings: Sequence[Ceiling]
) -> list[Lead]:
    """Rank findings within the thresholds of their rules behind the leads, by what these leave of their shares.

    One with more detail than a lead about the same time is part of that; others share what the ceilings leave.
    """
    rests = explain(within, LEAST_SHARE, [*leads, *unranked])
    parts, others = [], []
    for lead in rests:
        whole = {
            at: each.rest
            for at, each in enumerate(leads, 1)
            if each.detail < lead.detail and set(each.topics) & set(lead.topics)
        }
        if whole:
            parts.append(replace(lead, part_of=tuple(whole), rest=min(lead.rest, sum(whole.values()))))
        else:
            others.append(lead)
    taken = [*leads, *unranked]
    rooms = [
        replace(each, share=max(0, each.share - sum(lead.rest for lead in taken if set(lead.topics) <= each.topics)))
        for each in ceilings
    ]
    return sorted([*parts, *limit(others, rooms, LEAST_SHARE)], key=lambda lead: -lead.rest)


def limit(leads: Sequence[Lead], ceilings: Sequence[Ceiling], least_share: float) -> list[Lead]:
    """Scale down findings that together cost more than the figure that they are part of."""
    limited = list(leads)
    for ceiling in ceilings:
        inside = [lead for lead in limited if set(lead.topics) <= ceiling.topics]
        total = sum(lead.rest for lead in inside)
        if total > ceiling.share:
            limited = [
                replace(lead, rest=lead.rest * ceiling.share / total) if lead in inside else lead for lead in limited
            ]
    return sorted((lead for lead in limited if lead.rest >= least_share), key=lambda lead: -lead.rest)


def explain(
    found: Sequence[Lead], least_share: float, known: Sequence[Lead] = (), *, large_rest: float = LARGE_REST
) -> list[Lead]:
    """Subtract from each finding what others of its topics with more detail explain, and drop explained symptoms.

    `known` are findings that explain others and are not returned. Of a cause, a rest of `large_rest` is not dropped.
    """
    leads: list[Lead] = []
    for detail in sorted({lead.detail for lead in found}, reverse=True):
        explained: dict[str, float] = defaultdict(float)
        for lead in (*known, *leads):
            for topic in lead.topics if lead.detail > detail else ():
                explained[topic] += lead.rest / len(lead.topics)
        for lead in found:
            rest = lead.share - sum(explained[topic] for topic in lead.topics)
            needed = (1 - MOST_EXPLAINED) * lead.share
            if lead.detail > 0 and "waiting" not in lead.topics:  # idle time and waiting for other ranks name no cause
                needed = min(large_rest, needed)
            if lead.detail == detail and rest >= max(least_share, needed):
                leads.append(replace(lead, unexplained=rest, rest=rest))
    return sorted(leads, key=lambda lead: -lead.rest)
