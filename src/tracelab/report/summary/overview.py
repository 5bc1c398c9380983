"""Order many runs by what matters: the findings that cost most, and step times unlike those of comparable runs."""

import statistics
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.summary.lead import Lead, largest_leads
from tracelab.report.summary.settings import LEAST_COMPARABLE
from tracelab.report.summary.summarize import RunSummary

_LEAST_DEVIATION = 0.1
_DEVIATIONS = 5
"""A step time is unlike others that differs from their median by this many median deviations, and by the least one."""


@dataclass(frozen=True)
class SharedLead:
    """The findings by one rule that are among the largest of their runs, each with its run, the largest share first."""

    members: tuple[tuple[RunSummary, Lead], ...]

    @property
    def first(self) -> RunSummary:
        """The run that loses the largest share to it."""
        return self.members[0][0]

    @property
    def lead(self) -> Lead:
        """The finding of that run."""
        return self.members[0][1]


@dataclass(frozen=True)
class Outlier:
    """A run whose step time is unlike that of the runs with the same settings."""

    summary: RunSummary
    step_ns: float
    median_ns: float
    others: tuple[float, ...]
    """The step times of the other runs."""
    typical: str
    """The run whose step time is nearest to the median."""

    @property
    def sentence(self) -> str:
        """The deviation in words."""
        low, high = (_time(bound(self.others)) for bound in (min, max))
        return (
            f"a step takes {_time(self.step_ns)}, {self.step_ns / self.median_ns:.2f} times the median of the "
            f"{len(self.others) + 1:,} runs with its settings; the others take {low} to {high}."
        )

    @property
    def command(self) -> str:
        """The comparison with a run of the median step time."""
        return self.summary.commands.compare(self.typical, self.summary.run)


def order_runs(summaries: Sequence[RunSummary]) -> list[RunSummary]:
    """Return the runs that lose the largest share of their time to one finding first, the others in their order."""
    return sorted(summaries, key=lambda each: -each.leads[0].recoverable if each.leads else 0)


def group_by_lead(summaries: Sequence[RunSummary]) -> list[SharedLead]:
    """Group the largest findings of the runs by their rules, the largest share first; a run is once in each group.

    Those above and within the threshold of a rule are one group.
    """
    pairs = [(each, lead) for each in summaries for lead in largest_leads(each.leads)]
    groups: dict[Hashable, dict[str, tuple[RunSummary, Lead]]] = {}
    for each, lead in sorted(pairs, key=lambda pair: -pair[1].recoverable):
        groups.setdefault((lead.query, lead.finding.text), {}).setdefault(each.run, (each, lead))
    return [SharedLead(tuple(members.values())) for members in groups.values()]


def find_outliers(summaries: Sequence[RunSummary]) -> list[Outlier]:
    """Return the runs whose step time is unlike that of the others with the same settings, the largest ratio first."""
    groups: dict[Hashable, list[tuple[float, RunSummary]]] = {}
    for each in summaries:
        step_ns = next((figure.value for figure in each.figures if figure.name == "step time"), None)
        if step_ns and each.settings is not None:
            groups.setdefault(each.settings, []).append((step_ns, each))
    outliers = [outlier for group in groups.values() for outlier in _outliers_of(group)]
    return sorted(outliers, key=lambda each: -max(each.step_ns / each.median_ns, each.median_ns / each.step_ns))


def _outliers_of(group: Sequence[tuple[float, RunSummary]]) -> list[Outlier]:
    if len(group) < LEAST_COMPARABLE:
        return []
    median_ns = statistics.median(step_ns for step_ns, _ in group)
    spread = statistics.median(abs(step_ns - median_ns) for step_ns, _ in group)
    least = max(_LEAST_DEVIATION * median_ns, _DEVIATIONS * spread)
    typical = min(group, key=lambda each: abs(each[0] - median_ns))[1].run
    return [
        Outlier(summary, step_ns, median_ns, tuple(other for other, each in group if each is not summary), typical)
        for step_ns, summary in group
        if abs(step_ns - median_ns) > least
    ]


def _time(ns: float) -> str:
    return format_scaled(ns, Quantity.DURATION)
