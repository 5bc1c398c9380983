"""Findings about one run, each with the share of its time that is lost to it."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from tracelab.query import library
from tracelab.query.report_rules import COMPUTING_TOPICS, LEAST_SHARE, Finding, Report
from tracelab.query.spec import Query


@dataclass(frozen=True)
class Ceiling:
    """The largest share that findings of these topics cost together: that of this `time` of the run, if recoverable."""

    topics: frozenset[str]
    share: float
    time: str


@dataclass(frozen=True)
class Gain:
    """How much shorter a replay of a run is without a loss, of its `window_ns`.

    For `open_ns` it waits for what is not recorded: the run may gain these, too.
    """

    gain_ns: int
    window_ns: int
    open_ns: int = 0

    @property
    def share(self) -> float:
        """Return the gain as a share of the window, as what_if does."""
        return self.gain_ns / self.window_ns

    @property
    def bound(self) -> float:
        """Return the largest share by which the run can get shorter without the loss."""
        return (self.gain_ns + self.open_ns) / self.window_ns


@dataclass(frozen=True)
class Lead:
    """A finding about one run with the share of its time that is lost to it.

    `cost_ns` of `added` rows of the query is its `share` of `whole_ns`, the measured time of the run, and the `hidden`
    share, after which the device would wait for the CPU side all the same. `unexplained` is what no finding with more
    detail explains of the share, and `rest` what the figures of the run allow of that.
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
    """The cause and what it costs, as HTML; `plain_text` strips it."""
    advice: str
    matching: int
    """The rows that have the finding, of those that were `checked`."""
    checked: int
    next_command: str
    added_rows: str = ""
    """The rows in words that `cost_ns` adds up."""
    figures_command: str = ""
    """The query of the finding with the columns of its rule and its sentence; `next_command` where that is of it."""
    what_if_command: str | None = None
    """The replay of the run without the loss, where a change of what_if removes it."""
    is_of_steps: bool = False
    """Whether `whole_ns` is the time of all steps in place of the windows."""
    part_of: tuple[int, ...] = ()
    """Of a finding within the threshold of its rule, the numbers of the findings that include its time."""
    included: tuple["Lead", ...] = ()
    """What other ranks lose to the same cause, or late ranks of the same cause: `rest` has their shares, too; the other
    figures are without them."""
    also: tuple["Lead", ...] = ()
    """Parts of other findings that the same change of what_if removes: `rest` does not have their shares."""
    symptoms: tuple["Lead", ...] = ()
    """Findings that this one explains: its details begin with them."""
    hidden: float = 0.0
    details: str = ""
    """What it explains, its lesser causes, and how its cost is made, as HTML."""
    gain: Gain | None = None
    """What a replay without the loss gains; None where none answers."""
    brief: str = ""
    """The sentence without details, which are about all of `cost_ns`: for where other findings explain most of that."""
    caveat: str = ""
    """A sentence about what the time that is lost includes, such as what recording costs."""
    is_slowed: bool = False
    """Whether recording slows the CPU side of the run, as its run folder shows."""
    unrecorded: str = ""
    """What it costs of a step that is not recorded, where recording slows steps."""
    notes: tuple["Lead", ...] = ()
    """Findings about its rank that are not ranked: its text has them."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Return what the time is lost to."""
        own = self.finding.cost.topics if self.finding.cost else ()
        return tuple(dict.fromkeys([*own, *(topic for each in self.included for topic in each.topics)]))

    @property
    def recoverable(self) -> float:
        """Return by which share the run gets shorter without the loss, by a replay; without one, `rest`.

        A replay that removes more than the loss bounds `rest`.
        """
        if self.gain is None or self.is_understated:
            return self.rest
        return min(self.rest, self.gain.bound) if self.is_bounded else self.gain.share

    @property
    def is_bounded(self) -> bool:
        """Return whether a replay removes more than the loss, so that its gain is a bound."""
        return self.gain is not None and self.finding.what_if is not None and self.finding.what_if.is_bound

    @property
    def is_replayed(self) -> bool:
        """Return whether `recoverable` is from a replay."""
        is_smaller = self.is_bounded and self.gain is not None and self.rest <= self.gain.bound
        return self.gain is not None and not (is_smaller or self.is_understated)

    @property
    def is_understated(self) -> bool:
        """Return whether kernels may cost more than a replay gains: it has the CPU side as a profiler slows it."""
        return self.is_bounded and self.is_slowed and set(self.topics) <= COMPUTING_TOPICS

    @property
    def has_bound(self) -> bool:
        """Return whether `recoverable` is the bound of a replay."""
        return self.is_replayed and self.is_bounded

    @property
    def is_at_most(self) -> bool:
        """Return whether `recoverable` is an upper bound: of a replay, or of the time that is lost."""
        return self.has_bound or (not self.is_replayed and self.finding.cost is not None and self.finding.cost.is_bound)

    @property
    def is_of_whole_steps(self) -> bool:
        """Return whether `recoverable` is a share of whole steps, and not of what the windows cover of them."""
        return self.is_replayed or self.is_of_steps

    @property
    def is_counted(self) -> bool:
        """Return whether its time counts beside that of others: it is no part of one, nor below the least share."""
        return not self.part_of and self.rest >= LEAST_SHARE

    @property
    def own_rest(self) -> float:
        """Return `rest` without the consequences."""
        return self.rest - sum(each.rest for each in self.included)

    def rest_of(self, topics: Sequence[str]) -> float:
        """Return the part of `rest` that is lost to any of the topics."""
        own = self.finding.cost.topics if self.finding.cost else ()
        parts = [(own, self.own_rest), *((each.topics, each.rest) for each in self.included)]
        return sum(rest for names, rest in parts if set(names) & set(topics))

    @property
    def evidence(self) -> str:
        """Return in how many rows which query has the finding, and what is included."""
        counts: dict[str, tuple[Lead, int]] = {}
        for each in (self, *self.included):
            first, matching = counts.get(each.query, (each, 0))
            counts[each.query] = (first, matching + each.matching)
        return "; ".join(first._describe_evidence(matching) for first, matching in counts.values())

    def _describe_evidence(self, matching: int) -> str:
        within = "" if self.finding.rule is None else ", within the threshold of its rule"
        rows = report_of(library.find(self.query)).share_of_rows(matching, self.checked)
        return f"{self.query} finds it in {rows}{within}"

    @property
    def is_ranked(self) -> bool:
        """Return whether the summary ranks the finding; else it notes it."""
        return self.finding.cost is None or self.finding.cost.ranked

    @property
    def detail(self) -> int:
        """Return the rank among findings of a topic: a cause has more than its symptom."""
        return max([self.finding.cost.detail if self.finding.cost else 0, *(each.detail for each in self.included)])


@dataclass(frozen=True)
class FoundLeads:
    """The findings about a run in their order, the largest rest first, and the number of those below the least share.

    `unranked` are findings that are noted: their cause is not recorded, or they are no loss to mend.
    """

    leads: tuple[Lead, ...]
    below: int
    unranked: tuple[Lead, ...] = ()


LARGE_LOSS = 0.05
"""Where several runs are listed, a finding behind the first is among those of a run that costs this share or more."""


def largest_leads(leads: Sequence[Lead]) -> list[Lead]:
    """Return the first finding, and the second where it costs much."""
    return [lead for at, lead in enumerate(leads[:2]) if at == 0 or lead.recoverable >= LARGE_LOSS]


def order_with_losses(
    leads: Sequence[Lead], unranked: Sequence[Lead]
) -> tuple[list[tuple[int | None, Lead]], list[Lead]]:
    """Return the leads with their numbers, each larger loss without one among them; and other notes.

    Without a number are losses of unknown cause, such as a late start that no recording explains, and time in which
    kernels compute where its cost is a bound of a loss. Notes of the leads are in none.
    """
    stated = {(note.query, note.finding, note.rank) for lead in leads for note in lead.notes}
    unranked = [each for each in unranked if (each.query, each.finding, each.rank) not in stated]
    losses = [each for each in unranked if each.is_at_most or not COMPUTING_TOPICS & set(each.topics)]
    placed: list[tuple[int | None, Lead]] = []
    for number, lead in enumerate(leads, 1):
        while losses and losses[0].rest > lead.recoverable:
            placed.append((None, losses.pop(0)))
        placed.append((number, lead))
    above = [lead for number, lead in placed if number is None]
    return placed, [each for each in unranked if each not in above]


def report_of(query: Query) -> Report:
    """Return the report rules of a query that has findings."""
    if query.report is None:
        raise ValueError(f"{query.name} has no findings")
    return query.report


RunLeads = Mapping[str, Sequence[Lead]]
"""The findings of the summaries in their order, by run, and behind them those that are not ranked."""


def plain_text(rendered: str) -> str:
    """Return a rendered sentence without its markup."""
    return html.unescape(re.sub(r"<[^>]+>", "", rendered)).replace("\u00a0", " ")


def list_single(leads: Sequence[Lead]) -> Iterator[Lead]:
    """Yield the leads one by one, each without its consequences, and these behind it."""
    for lead in leads:
        yield replace(lead, included=(), rest=lead.own_rest)
        yield from lead.included


def list_findings(numbers: Sequence[int]) -> str:
    """Return the numbers of findings, in their order, in words: finding 1; findings 1, 2 and 4; findings 1 to 3."""
    if len(numbers) < 2:  # noqa: PLR2004
        return f"finding {numbers[0]}" if numbers else "others"
    parts: list[str] = []
    for _, group in groupby(enumerate(numbers), lambda each: each[1] - each[0]):
        first, *others = (number for _, number in group)
        parts += [f"{first} to {others[-1]}"] if len(others) > 1 else map(str, (first, *others))
    return f"findings {' and '.join(filter(None, (', '.join(parts[:-1]), parts[-1])))}"
