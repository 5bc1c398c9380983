"""State how the share of a finding is made."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.summary.figures import format_share
from tracelab.report.summary.lead import Ceiling, Lead, list_findings, list_single, plain_text

_SAME_SHARE = 0.0005
"""Shares that differ by less look the same."""


def derive_shares(leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead] = ()) -> list[Lead]:
    """Append to the sentence of each finding how its share is made, and which one has what other ranks wait for it."""
    return [
        replace(lead, sentence=" ".join([lead.sentence, *_derivation(lead, leads, ceilings, unranked)]))
        for lead in leads
    ]


def _derivation(
    lead: Lead, leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead]
) -> Iterator[str]:
    yield from _cost(lead, is_consequence=lead not in leads)
    numbered = list(enumerate(leads, 1))
    more_detailed = [(at, each) for at, each in numbered if each.detail > lead.detail]
    if lead.share - lead.unexplained >= _SAME_SHARE:
        causes = [at for at, each in more_detailed if set(each.topics) & set(lead.topics)]
        without = _list_causes(lead, causes, unranked)
        yield f"Without {without}, {format_share(lead.unexplained)} of these {format_share(lead.share)} remains."
    if lead.part_of:
        yield f"That is part of {list_findings(lead.part_of)}."
    elif lead.unexplained - lead.own_rest >= _SAME_SHARE:
        own = lead.finding.cost.topics if lead.finding.cost else ()
        ceiling = _reached(leads, [each for each in ceilings if set(own) <= each.topics])
        yield (
            f"The run has {format_share(ceiling.share)} of {ceiling.time} in all, which several findings share: of the "
            f"{format_share(lead.unexplained)} of this one {format_share(lead.own_rest)} counts."
        )
    if lead.added == 1 and lead.rank is not None and "waiting" not in lead.topics:
        late = [at for at, each in more_detailed if each.rank == lead.rank and each.topics == ("waiting",)]
        if late:
            yield f"The other ranks wait for this one: {list_findings(late)}."
    for each in lead.consequences:
        yield each.sentence
        yield from _derivation(each, leads, ceilings, unranked)


def _cost(lead: Lead, *, is_consequence: bool) -> Iterator[str]:
    """Yield the cost and the measured time, unless the sentence has them."""
    cost, whole = (format_scaled(each, Quantity.DURATION) for each in (lead.cost_ns, lead.whole_ns))
    of = f"{whole} in all steps" if lead.is_of_steps else whole
    if f"{cost} of {whole}" in plain_text(lead.sentence):
        return
    if lead.added > 1 and not is_consequence:
        lose, to = ("lose", "to") if lead.is_ranked else ("spend", "on")
        yield f"In total, {lead.added_rows} {lose} {cost} of {of} {to} this."
    else:
        yield f"{'That is' if is_consequence or not lead.is_ranked else 'It costs'} {cost} of {of}."


def _list_causes(lead: Lead, causes: Sequence[int], unranked: Sequence[Lead]) -> str:
    """Return the findings that explain a part of the lead, by their numbers, and those that are only noted."""
    names = [list_findings(causes)] if causes else []
    if any(each.detail > lead.detail and set(each.topics) & set(lead.topics) for each in unranked):
        names.append("what is noted below")
    return " and ".join(names) or list_findings([])


def _reached(leads: Sequence[Lead], ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the first ceiling that the findings exceed together, else the last one."""
    for ceiling in ceilings:
        if sum(each.unexplained for each in list_single(leads) if set(each.topics) <= ceiling.topics) > ceiling.share:
            return ceiling
    return ceilings[-1]
