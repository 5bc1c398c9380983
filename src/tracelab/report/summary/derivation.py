"""State what each finding costs, and how that is made where it is less than what the finding measured."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.summary.lead import Ceiling, Gain, Lead, list_findings, list_single, plain_text

_MOST_EXPLAINED = 0.5
_SAME_SHARE = 0.0005
"""Shares that differ by less look the same."""


def derive_shares(leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead] = ()) -> list[Lead]:
    """Complete each finding: its text with what it costs, its details with what it explains and how that is made."""
    return [
        replace(
            lead,
            sentence=" ".join(_head(lead, leads, ceilings, unranked)),
            details=" ".join(_details(lead, leads, ceilings, unranked)),
            notes=tuple(derive_shares(lead.notes, ceilings)),
        )
        for lead in leads
    ]


def _joined(lead: Lead) -> list[Lead]:
    """Return the findings of the same query that are joined to one."""
    return [each for each in lead.included if each.query == lead.query]


def _consequences(lead: Lead) -> list[Lead]:
    """Return what others lose to the cause that a finding is about."""
    return [each for each in lead.included if each.query != lead.query]


def _head(lead: Lead, leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead]) -> Iterator[str]:
    """Yield the cause that costs most of a finding, what it costs, and which finding has its other costs."""
    yield lead.brief if lead.brief and lead.unexplained < _MOST_EXPLAINED * lead.share else lead.sentence
    joined = _joined(lead)
    if joined:
        yield _joined_cost(lead, joined)
    else:
        less = [*_hidden([lead]), *_explained([lead], leads, unranked), *_shared([lead], leads, ceilings)]
        yield from _cost(lead, less, is_consequence=lead not in leads)
    if lead.gain is not None and lead.is_replayed:
        yield describe_gain(lead, lead.gain)
    if lead.caveat:
        yield lead.caveat
    if lead.part_of:
        yield f"That is part of {list_findings(lead.part_of)}."
    if lead.added == 1 and lead.rank is not None and "waiting" not in lead.topics:
        late = [
            at
            for at, each in enumerate(leads, 1)
            if each.is_counted and each.detail > lead.detail and each.rank == lead.rank and each.topics == ("waiting",)
        ]
        if late:
            yield f"The other ranks wait for this one: {list_findings(late)}."


def _details(lead: Lead, leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead]) -> Iterator[str]:
    """Yield the symptoms of a finding, its lesser causes, why they cost less together, and its consequences."""
    yield from (each.sentence for each in lead.symptoms)
    if lead.gain is not None and not lead.is_replayed:
        yield describe_gain(lead, lead.gain)
    if joined := _joined(lead):
        yield from _describe_joined(lead, joined)
        parts = [lead, *joined]
        if less := [*_hidden(parts), *_explained(parts, leads, unranked), *_shared(parts, leads, ceilings)]:
            alone = format_scaled(sum(each.cost_ns for each in parts), Quantity.DURATION)
            yield f"Measured together: {alone}, minus {', minus '.join(less)}."
    for each in lead.also:
        cost = f"The same costs {_time(each, each.rest)} {_place_of(each)}"
        yield f"{cost}, which {list_findings(each.part_of)} include{'s' * (len(each.part_of) < 2)}."  # noqa: PLR2004
    for each in _consequences(lead):
        yield from _head(each, leads, ceilings, unranked)
        yield from _details(each, leads, ceilings, unranked)


def _joined_cost(lead: Lead, joined: Sequence[Lead]) -> str:
    """Return what the largest cause of a finding costs, and what with those that are joined to it."""
    alike = [each for each in joined if each.finding.text == lead.finding.text]
    ranks = [str(each.rank) for each in alike if each.added == 1 and each.rank is not None]
    places = [f"on {_list_ranks(ranks)}"] if ranks else []
    places += [f"in {each.added_rows}" for each in alike if each.added > 1 or each.rank is None]
    others = len(joined) - len(alike)
    parts = [f"the same {' and '.join(places)}"] if places else []
    parts += [f"{others} lesser cause{'s' * (others > 1)}"] if others else []
    whole = format_scaled(lead.whole_ns, Quantity.DURATION)
    total = _time(lead, sum(each.own_rest for each in (lead, *joined)))
    own = f"{_time(lead, lead.own_rest)} of {whole}"
    joined_to = f"and {total} with {' and '.join(parts)}"
    return f"GPUs lose {own} to it, {joined_to}." if lead.is_replayed else f"It costs {own}, {joined_to}."


def describe_gain(lead: Lead, gain: Gain) -> str:
    """Return how much shorter the run is without a loss."""
    without = lead.finding.what_if.without.format(rank=lead.rank) if lead.finding.what_if else "Without it"
    gained, window = (format_scaled(each, Quantity.DURATION) for each in (gain.gain_ns, gain.window_ns))
    less = f"{without}, a replay of the run takes {gained} of {window} less"
    if lead.is_understated:
        more = "recording slows the CPU side, so that the run may gain more without the profiler"
        return f"{less}; {more}{f', up to {lead.unrecorded}' * bool(lead.unrecorded)}."
    if lead.is_bounded and gain.share - lead.rest >= _SAME_SHARE:
        less += ", more than is lost to this, because it leaves out other time, too"
    if not lead.is_bounded or gain.bound - gain.share < _SAME_SHARE:
        return f"{less}."
    unknown = format_scaled(gain.open_ns, Quantity.DURATION)
    return f"{less}, and for {unknown} of the rest it waits for what is not recorded."


def _list_ranks(ranks: Sequence[str]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(ranks[:-1])} and {ranks[-1]}"


def _describe_joined(lead: Lead, joined: Sequence[Lead]) -> Iterator[str]:
    """Yield where the same rule has others and what they cost, then the findings of other rules."""
    named = [lead]
    for each in joined:
        if each.finding.text in {one.finding.text for one in named}:
            continue
        named.append(each)
    for first in named:
        if first is not lead:
            yield f"{first.sentence} That is {_time(first, first.rest)}."
        alike = [each for each in joined if each is not first and each.finding.text == first.finding.text]
        if alike:
            costs = [f"{_time(each, each.own_rest)} {_place_of(each)}" for each in alike]
            listed = f"{', '.join(costs[:-1])} and {costs[-1]}" if len(costs) > 1 else costs[0]
            within = ", within the threshold of the rule" * (
                first.finding.rule is None and all(each.finding.rule for each in alike)
            )
            yield f"The same costs {listed}{within}."


def _place_of(lead: Lead) -> str:
    return f"on rank {lead.rank}" if lead.added == 1 and lead.rank is not None else f"in {lead.added_rows}"


def _cost(lead: Lead, less: Sequence[str], *, is_consequence: bool) -> Iterator[str]:
    """Yield what a finding and its consequences cost, of which measured time, unless its sentence does.

    `less` is what others explain or share of it.
    """
    measured, whole = (format_scaled(each, Quantity.DURATION) for each in (lead.cost_ns, lead.whole_ns))
    consequences = sum(each.rest for each in _consequences(lead))
    if not less and not consequences and f"{measured} of {whole}" in plain_text(lead.sentence):
        return
    at_most = "at most " * (lead.finding.cost is not None and lead.finding.cost.is_bound)
    counted = at_most + (_time(lead, lead.own_rest) if less else measured)
    of = f"{whole} in all steps" if lead.is_of_steps else whole
    if lead.added > 1 and not is_consequence:
        lose, to = ("lose", "to") if lead.is_ranked else ("spend", "on")
        cost = f"In total, {lead.added_rows} {lose} {counted} of {of} {to} this"
    else:
        is_part = is_consequence or not lead.is_ranked
        cost = f"{'That is' if is_part else 'GPUs lose' if lead.is_replayed else 'It costs'} {counted} of {of}"
        cost += " to it" * (not is_part and lead.is_replayed)
    if consequences:
        cost += f", and ranks that wait for it {_time(lead, consequences)}"
    yield f"{cost} ({measured} measured, minus {', minus '.join(less)})." if less else f"{cost}."


def _hidden(parts: Sequence[Lead]) -> Iterator[str]:
    """Yield how much of the parts the device would spend waiting for the CPU side in their place."""
    hidden = sum(each.hidden for each in parts)
    if hidden >= _SAME_SHARE:
        yield f"{_time(parts[0], hidden)} in which the GPU would wait for the CPU side anyway"


def _explained(parts: Sequence[Lead], leads: Sequence[Lead], unranked: Sequence[Lead]) -> Iterator[str]:
    """Yield how much of the parts findings with more detail explain, and which."""
    lead = parts[0]
    explained = sum(each.share - each.unexplained for each in parts)
    if explained < _SAME_SHARE:
        return
    causes = [
        at
        for at, each in enumerate(leads, 1)
        if each.detail > lead.detail and set(each.topics) & set(lead.topics) and (each.is_counted or lead.part_of)
    ]
    names = [list_findings(causes)] if causes else []
    if any(each.detail > lead.detail and set(each.topics) & set(lead.topics) for each in unranked):
        names.append("what is noted below")
    yield f"{_time(lead, explained)} counted in {' and '.join(names) or list_findings([])}"


def _shared(parts: Sequence[Lead], leads: Sequence[Lead], ceilings: Sequence[Ceiling]) -> Iterator[str]:
    """Yield how much less the parts cost because the run has no more time of their kind."""
    lead = parts[0]
    shared = sum(each.unexplained - each.own_rest for each in parts)
    if shared < _SAME_SHARE:
        return
    if lead.part_of:
        yield f"{_time(lead, shared)} that {list_findings(lead.part_of)} does not have"
        return
    own = lead.finding.cost.topics if lead.finding.cost else ()
    ceiling = _reached(leads, [each for each in ceilings if set(own) <= each.topics])
    yield (
        f"{_time(lead, shared)} as several findings share the {_time(lead, ceiling.share)} of {ceiling.time} of the run"
    )


def _time(lead: Lead, share: float) -> str:
    return format_scaled(round(share * lead.whole_ns), Quantity.DURATION)


def _reached(leads: Sequence[Lead], ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the first ceiling that the findings exceed together, else the last one."""
    counted = [each for each in leads if each.is_counted]
    for ceiling in ceilings:
        if sum(each.unexplained for each in list_single(counted) if set(each.topics) <= ceiling.topics) > ceiling.share:
            return ceiling
    return ceilings[-1]
