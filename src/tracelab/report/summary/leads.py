"""Rank the findings of a run by the share of its time that is lost to them, each time counted once."""

import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.output.commands import StoreCommands
from tracelab.output.labels import Quantity, format_scaled
from tracelab.query import library
from tracelab.query.report_rules import LEAST_SHARE, NO_WAITS, Finding, Report
from tracelab.query.spec import Query
from tracelab.report.answers import ReportSession, findings_and_within
from tracelab.report.costs import ADDED, CHECKED_OF_RUN, COST, COST_SHARE, MATCHING, OF, WHOLE, matching_rows_sql
from tracelab.report.sentences import FindingContext, build_context, fill_finding, fill_sentence
from tracelab.report.summary.figures import format_share
from tracelab.store import execution

MOST_EXPLAINED = 0.5
"""A symptom of which causes explain a larger part is not shown beside them."""
_COMPARES_RANKS = frozenset({"rank_balance"})
"""Queries that compare the ranks of a run, so that the row of one rank alone shows little."""
_SAME_SHARE = 0.0005
"""Shares that differ by less look the same."""


@dataclass(frozen=True)
class Ceiling:
    """The largest share that findings of these topics cost together: that of this `time` of the run."""

    topics: frozenset[str]
    share: float
    time: str


@dataclass(frozen=True)
class Lead:
    """A finding about one run with the share of its time that is lost to it.

    `cost_ns` of `added` rows of the query is its `share` of `whole_ns`, the measured time of the run. `unexplained` is
    what no finding with more detail explains of the share, and `rest` what the figures of the run allow of that.
    """

    query: str
    finding: Finding
    cost_ns: float
    whole_ns: float
    added: int
    share: float
    unexplained: float
    rest: float
    rank: int | None
    step: int | None
    sentence: str
    """As HTML; `plain_text` strips it."""
    advice: str
    evidence: str
    next_command: str
    added_rows: str = ""
    """The rows in words that `cost_ns` adds up."""
    what_if_command: str | None = None
    """The replay of the run without the loss, where a change of what_if removes it."""
    is_of_steps: bool = False
    """Whether `whole_ns` is the time of all steps in place of the windows."""
    part_of: tuple[int, ...] = ()
    """Of a finding within the threshold of its rule, the numbers of the findings that include its time."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Return what the time is lost to."""
        return self.finding.cost.topics if self.finding.cost else ()

    @property
    def is_ranked(self) -> bool:
        """Return whether the summary ranks the finding; else it notes it."""
        return self.finding.cost is None or self.finding.cost.ranked

    @property
    def detail(self) -> int:
        """Return the rank among findings of a topic: a cause has more than its symptom."""
        return self.finding.cost.detail if self.finding.cost else 0


@dataclass(frozen=True)
class FoundLeads:
    """The findings about a run in their order, the largest rest first, and the number of those below the least share.

    `unranked` are findings that are noted: their cause is not recorded, or they are no loss to mend.
    """

    leads: tuple[Lead, ...]
    below: int
    unranked: tuple[Lead, ...] = ()


RunLeads = Mapping[str, Sequence[Lead]]
"""The findings of the summaries in their order, by run, and behind them those that are not ranked."""


def plain_text(rendered: str) -> str:
    """Return a rendered sentence without its markup."""
    return html.unescape(re.sub(r"<[^>]+>", "", rendered)).replace("\u00a0", " ")


def find_leads(
    session: ReportSession,
    answers: Mapping[str, tuple[Query, pa.Table]],
    ceilings: Mapping[str, Sequence[Ceiling]],
) -> dict[str, FoundLeads]:
    """Return by run the findings that cost at least the least share, the largest rest first, and count the others.

    `ceilings` bound by run what findings of some topics cost together: waiting that computing hides costs nothing.
    Findings within the thresholds of their rules are among them and change no share of the others; those that are part
    of another finding come last. Runs without any finding are left out.
    """
    ruled: dict[str, list[Lead]] = defaultdict(list)
    within: dict[str, list[Lead]] = defaultdict(list)
    below: Counter[str] = Counter()
    for query, table in answers.values():
        if query.report is None or "run" not in table.column_names:
            continue
        session.con.register("answer", table)
        for finding in findings_and_within(query):
            if finding.cost and finding.cost.leads:
                leads, few = _leads_of(session, query, finding, table)
                for run, each in leads:
                    (ruled if finding.rule is None else within)[run].append(each)
                below += few
        session.con.unregister("answer")
    return {
        run: _rank_leads(ruled[run], within[run], ceilings.get(run, ()), below[run])
        for run in {*ruled, *within, *below}
    }


def _rank_leads(ruled: Sequence[Lead], within: Sequence[Lead], ceilings: Sequence[Ceiling], below: int) -> FoundLeads:
    """Rank the findings of a run, those within the thresholds by what others leave; keep apart what is only noted."""
    ranked = limit(explain(ruled, LEAST_SHARE), ceilings, LEAST_SHARE)
    leads = [lead for lead in ranked if lead.is_ranked]
    unranked = [lead for lead in ranked if not lead.is_ranked]
    others = rank_within(within, leads, unranked, ceilings)
    ordered = sorted([*leads, *(each for each in others if not each.part_of)], key=lambda lead: -lead.rest)
    places = {at: ordered.index(lead) + 1 for at, lead in enumerate(leads, 1)}
    parts = [replace(lead, part_of=tuple(places[at] for at in lead.part_of)) for lead in others if lead.part_of]
    first = derive_shares(ordered, ceilings, unranked)
    last = derive_shares([*ordered, *parts], ceilings, unranked)[len(ordered) :]
    return FoundLeads((*first, *last), below, tuple(derive_shares(unranked, ceilings)))


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


def explain(found: Sequence[Lead], least_share: float, known: Sequence[Lead] = ()) -> list[Lead]:
    """Subtract from each finding what others of its topics with more detail explain, and drop explained symptoms.

    `known` are findings that explain others and are not returned.
    """
    leads: list[Lead] = []
    for detail in sorted({lead.detail for lead in found}, reverse=True):
        explained: dict[str, float] = defaultdict(float)
        for lead in (*known, *leads):
            for topic in lead.topics if lead.detail > detail else ():
                explained[topic] += lead.rest / len(lead.topics)
        for lead in found:
            rest = lead.share - sum(explained[topic] for topic in lead.topics)
            if lead.detail == detail and rest >= max(least_share, (1 - MOST_EXPLAINED) * lead.share):
                leads.append(replace(lead, unexplained=rest, rest=rest))
    return sorted(leads, key=lambda lead: -lead.rest)


def derive_shares(leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead] = ()) -> list[Lead]:
    """Append to the sentence of each finding how its share is made, and which one has what other ranks wait for it."""
    return [
        replace(lead, sentence=" ".join([lead.sentence, *_derivation(lead, leads, ceilings, unranked)]))
        for lead in leads
    ]


def _derivation(
    lead: Lead, leads: Sequence[Lead], ceilings: Sequence[Ceiling], unranked: Sequence[Lead]
) -> Iterator[str]:
    cost, whole = (format_scaled(each, Quantity.DURATION) for each in (lead.cost_ns, lead.whole_ns))
    of = f"{whole} in all steps" if lead.is_of_steps else whole
    if f"{cost} of {whole}" in plain_text(lead.sentence):
        pass
    elif lead.added > 1:
        lose, to = ("lose", "to") if lead.is_ranked else ("spend", "on")
        yield f"In total, {lead.added_rows} {lose} {cost} of {of} {to} this."
    else:
        yield f"{'It costs' if lead.is_ranked else 'That is'} {cost} of {of}."
    numbered = list(enumerate(leads, 1))
    more_detailed = [(at, each) for at, each in numbered if each.detail > lead.detail]
    if lead.share - lead.unexplained >= _SAME_SHARE:
        causes = [at for at, each in more_detailed if set(each.topics) & set(lead.topics)]
        names = [list_findings(causes)] if causes else []
        if any(each.detail > lead.detail and set(each.topics) & set(lead.topics) for each in unranked):
            names.append("what is noted below")
        without = " and ".join(names) or list_findings([])
        yield f"Without {without}, {format_share(lead.unexplained)} of these {format_share(lead.share)} remains."
    if lead.part_of:
        yield f"That is part of {list_findings(lead.part_of)}."
    elif lead.unexplained - lead.rest >= _SAME_SHARE:
        ceiling = _reached(leads, [each for each in ceilings if set(lead.topics) <= each.topics])
        yield (
            f"The run has {format_share(ceiling.share)} of {ceiling.time} in all, which several findings share: of the "
            f"{format_share(lead.unexplained)} of this one {format_share(lead.rest)} counts."
        )
    if lead.added == 1 and lead.rank is not None and "waiting" not in lead.topics:
        late = [at for at, each in more_detailed if each.rank == lead.rank and each.topics == ("waiting",)]
        if late:
            yield f"The other ranks wait for this one: {list_findings(late)}."


def _reached(leads: Sequence[Lead], ceilings: Sequence[Ceiling]) -> Ceiling:
    """Return the first ceiling that the findings exceed together, else the last one."""
    for ceiling in ceilings:
        if sum(lead.unexplained for lead in leads if set(lead.topics) <= ceiling.topics) > ceiling.share:
            return ceiling
    return ceilings[-1]


def list_findings(numbers: Sequence[int]) -> str:
    """Return the numbers of findings in words: finding 1; findings 1, 2 and 4."""
    if len(numbers) < 2:  # noqa: PLR2004
        return f"finding {numbers[0]}" if numbers else "others"
    return f"findings {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _leads_of(
    session: ReportSession, query: Query, finding: Finding, table: pa.Table
) -> tuple[list[tuple[str, Lead]], Counter[str]]:
    """Return the leads of one finding with their runs, and by run the number of those below the least share.

    A lead is for all rows whose costs add up. One statement covers all runs: planning it takes longer than its rows.
    """
    every = replace(finding, most=table.num_rows, each=None)
    rows = execution.fetch_table(
        session.con,
        matching_rows_sql(
            every, "run", table.column_names, least_share=0, by_cost=True, row_key=report_of(query).row_key
        ),
    )
    shares = [share or 0 for share in rows.column(COST_SHARE).to_pylist()]
    runs = map(str, rows.column("run").to_pylist())
    below = Counter(run for run, share in zip(runs, shares, strict=True) if 0 < share < LEAST_SHARE)
    # more than the measured time is no part of it
    costly = rows.filter(pa.array([LEAST_SHARE <= share <= 1 for share in shares], pa.bool_()))
    leads = []
    for run in dict.fromkeys(costly.column("run").to_pylist()):
        own, all_rows = (each.filter(pc.equal(each.column("run"), run)) for each in (costly, table))
        context = build_context(query, all_rows, own, several=False)
        leads += [
            (str(run), _build_lead(session.commands, query, finding, context, at, row))
            for at, row in enumerate(own.to_pylist())
        ]
    return leads, below


def _build_lead(
    commands: StoreCommands,
    query: Query,
    finding: Finding,
    context: FindingContext,
    at: int,
    row: Mapping[str, Any],
) -> Lead:
    """Build the lead of a row, the one `at` a place in its context."""
    run, rank, share, added = str(row["run"]), row.get("rank"), row[COST_SHARE], row[ADDED]
    matching, checked = row[MATCHING], row[CHECKED_OF_RUN]
    is_of_rank = added == 1 or (finding.cost is not None and "rank" in (finding.cost.adds or ()))
    return Lead(
        query=query.name,
        finding=finding,
        cost_ns=row[COST],
        whole_ns=row[WHOLE],
        added=added,
        share=share,
        unexplained=share,
        rest=share,
        rank=rank,
        step=row.get(finding.step),
        sentence=fill_finding(finding, context, at, report_of(query), added, checked),
        advice=fill_sentence(finding.advice, context, at) if finding.advice else "",
        evidence=_evidence(query, finding, matching, checked),
        added_rows=report_of(query).count_rows(added),
        next_command=next_command(commands, finding.next_query or query.name, run, rank if is_of_rank else None),
        what_if_command=what_if_command(commands, finding, run, rank),
        is_of_steps=row[OF] is not None,
    )


def _evidence(query: Query, finding: Finding, matching: int, checked: int) -> str:
    within = "" if finding.rule is None else ", within the threshold of its rule"
    return f"{query.name} finds it in {report_of(query).share_of_rows(matching, checked)}{within}"


def report_of(query: Query) -> Report:
    """Return the report rules of a query that has findings."""
    if query.report is None:
        raise ValueError(f"{query.name} has no findings")
    return query.report


def next_command(commands: StoreCommands, name: str, run: str, rank: int | None) -> str:
    """Return the command that runs a query on the run, and on the rank where it takes one."""
    params = {param.name for param in library.find(name).params}
    values = {"run": run, "rank": None if name in _COMPARES_RANKS else rank}
    return commands.query(name, **{param: value for param, value in values.items() if param in params})


def what_if_command(commands: StoreCommands, finding: Finding, run: str, rank: int | None) -> str | None:
    """Return the command that replays the run without the loss of a finding, None where no change removes it."""
    if finding.what_if is None:
        return None
    of_rank = rank if finding.what_if == NO_WAITS else None
    return commands.query("what_if", run=run, change=finding.what_if, of_rank=of_rank)
