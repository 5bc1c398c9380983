"""Write summaries for people: a screen for one run, a line each for many."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

from tracelab.foreign_text import escape_controls
from tracelab.output.labels import Quantity, format_scaled
from tracelab.output.result import Result
from tracelab.report.summary.figures import NO_GPU, format_share
from tracelab.report.summary.lead import Lead, largest_leads, order_with_losses, plain_text
from tracelab.report.summary.overview import Outlier, SharedLead, find_outliers, group_by_lead, order_runs
from tracelab.report.summary.summarize import RunSummary

MOST_WHOLE = 3
"""With more runs, each has a few lines."""
_NARROWEST_NOTE = 24
MOST_LISTED = 12
"""With more runs, those that matter are listed."""
MOST_SHARED = 5
MOST_OUTLIERS = 5
MOST_NAMED = 3
"""Findings, outliers, and further runs of a finding that are listed of many runs."""
MOST_LEADS = 3
"""Findings of a run that are listed unless all are requested."""


class Summaries(tuple[RunSummary, ...]):
    """The summaries of some runs: prints as text, and as HTML in a notebook; `rows` has them as data."""

    @property
    def rows(self) -> Result:
        """Return a row for each figure and finding."""
        from tracelab.report.summary.rows import summary_rows

        return Result(summary_rows(self), "What costs most")

    def __repr__(self) -> str:
        return "\n".join(summary_lines(self, shutil.get_terminal_size((100, 24)).columns))

    def _repr_html_(self) -> str:
        from tracelab.report.summary.html import render_summaries

        return render_summaries(self, named=True, on_page=False)


def summary_lines(
    summaries: Sequence[RunSummary],
    width: int,
    *,
    most_leads: int | None = MOST_LEADS,
    all_runs: bool = False,
    is_whole: bool = False,
) -> Iterator[str]:
    """Yield the lines of the summaries, wrapped to a width; `most_leads` None lists all findings.

    Few runs are whole, more have a few lines each, and of many the runs that matter are listed, unless `all_runs`; with
    `is_whole` all are whole. Each command has a line of its own, however long, to be copied whole.
    """
    if len(summaries) > MOST_LISTED and not (all_runs or is_whole):
        yield from _overview_lines(summaries, width)
    elif len(summaries) > MOST_WHOLE and not is_whole:
        ordered = order_runs(summaries)
        for each in ordered:
            yield from _short_lines(each, width)
        yield ""
        yield from _wrap(explain_short(summaries), width, "")
        yield from _wrap(describe_starts(summaries), width, "")
        yield f"One run whole: {ordered[0].commands.summary('--run', ordered[0].run)}"
    else:
        for at, each in enumerate(summaries):
            if at:
                yield ""
            yield from _run_lines(each, width, most_leads)


def _overview_lines(summaries: Sequence[RunSummary], width: int) -> Iterator[str]:
    """Yield the runs that matter of many: by the finding that costs most, and by step times unlike those of others."""
    yield describe_runs(summaries)
    shared, outliers = group_by_lead(summaries), find_outliers(summaries)
    if shared:
        yield ""
        yield from _wrap(
            "What costs most, each with the run that loses the largest share of its time to it:",
            width,
            "",
        )
    for number, group in enumerate(shared[:MOST_SHARED], 1):
        first, lead = group.first, group.lead
        yield ""
        text = f"{number}. {first.run}: {format_short(lead)} of its time. {plain_text(lead.sentence)}"
        yield from _wrap(text, width, "  ", "     ")
        if others := describe_others(group):
            yield from _wrap(others, width, "     ")
        yield f"     Next: {first.commands.summary('--run', first.run)}"
    if outliers:
        yield ""
        yield from _wrap("Step times unlike those of the runs with the same settings:", width, "")
    for outlier in outliers[:MOST_OUTLIERS]:
        yield ""
        yield from _wrap(f"- {outlier.summary.run}: {outlier.sentence}", width, "  ", "    ")
        yield f"    Next: {outlier.command}"
    yield ""
    yield from _wrap(describe_rest(summaries, shared, outliers), width, "")
    yield from _wrap(explain_short(summaries), width, "")
    yield from _wrap(describe_starts(summaries), width, "")
    yield f"All runs: {summaries[0].commands.summary('--all-runs')}"


def describe_runs(summaries: Sequence[RunSummary]) -> str:
    """Return how many runs there are, and what was recorded of them."""
    on_gpu = sum(bool(each.figures) and each.has_gpu for each in summaries)
    unrecorded = sum(each.has_unrecorded_gpu for each in summaries)
    without = sum(not each.figures for each in summaries)
    kinds = {
        "with GPU activity": on_gpu,
        "on a GPU that was not recorded": unrecorded,
        "on the CPU": len(summaries) - on_gpu - unrecorded - without,
        "without a timeline": without,
    }
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
    return f"{len(summaries):,} runs: {counts}."


def describe_others(group: SharedLead) -> str:
    """Return the other runs that lose most to what the first one loses most to, with their shares."""
    others = group.members[1:]
    if not others:
        return ""
    names = [f"{each.run} {format_short(lead)}" for each, lead in others[:MOST_NAMED]]
    more = f", and {len(others) - MOST_NAMED:,} more" if len(others) > MOST_NAMED else ""
    runs = "Another run loses" if len(others) == 1 else f"{len(others):,} other runs lose"
    return f"{runs} time to it, too: {', '.join(names)}{more}."


def describe_rest(summaries: Sequence[RunSummary], shared: Sequence[SharedLead], outliers: Sequence[Outlier]) -> str:
    """Return what the list leaves out: further findings and outliers, and the runs without any."""
    sentences = []
    if further := shared[MOST_SHARED:]:
        runs = len({each.run for group in further for each, _ in group.members})
        sentences.append(
            f"{_count(len(further), 'more finding')} of at most {format_share(further[0].lead.recoverable)} "
            f"{'is' if len(further) == 1 else 'are'} among the largest of {_count(runs, 'run')}."
        )
    if len(outliers) > MOST_OUTLIERS:
        sentences.append(f"{_count(len(outliers) - MOST_OUTLIERS, 'more run')} differ in step time.")
    if unknown := sum(each.lacks_timeline for each in summaries):
        sentences.append(f"Of {_count(unknown, 'run')} no timeline is recorded, so findings are not known.")
    if without := sum(not each.leads and not each.lacks_timeline for each in summaries):
        sentences.append(f"{_count(without, 'run')} {'has' if without == 1 else 'have'} no finding of 1 % or more.")
    return " ".join(sentences)


def describe_starts(summaries: Sequence[RunSummary]) -> str:
    """Return how many runs lack the start of their program; empty for none."""
    runs = sum(each.lacks_start for each in summaries)
    return f"The figures of {_count(runs, 'run')} leave out the program's start; --whole includes it." if runs else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def _note_lines(summary: RunSummary, width: int, indent: str) -> Iterator[str]:
    yield from _wrap(escape_controls(summary.note), width, indent)
    for command in summary.next_commands:
        yield f"{indent}Next: {command}"


def _short_lines(summary: RunSummary, width: int) -> Iterator[str]:
    figures = [each.text if each.text == NO_GPU else f"{each.name} {each.text}" for each in summary.figures[:2]]
    yield f"{escape_controls(summary.run)}: {', '.join(figures)}".removesuffix(": ")
    if summary.ended:
        yield from _wrap(escape_controls(" · ".join(summary.ended)), width, "  ")
    for lead in largest_leads(summary.leads):
        yield from _wrap(f"{format_short(lead)}  {plain_text(lead.sentence)}", width, "  ")
    if not summary.leads:
        yield from _note_lines(summary, width, "  ")


def _run_lines(summary: RunSummary, width: int, most_leads: int | None) -> Iterator[str]:
    yield escape_controls(summary.run)
    yield from _wrap(escape_controls(summary.description), width, "")
    yield ""
    name_width = max((len(each.name) for each in summary.figures), default=0)
    text_width = max((len(each.text) for each in summary.figures), default=0)
    for each in summary.figures:
        head = f"  {each.name:<{name_width}}  {each.text:>{text_width}}  "
        yield from textwrap.wrap(
            each.note,
            max(width, len(head) + _NARROWEST_NOTE),
            initial_indent=head,
            subsequent_indent=" " * len(head),
            break_on_hyphens=False,
            break_long_words=False,
        )
    if summary.work:
        yield from _wrap(escape_controls(summary.work), width, "  ", "    ")
    if summary.figures:
        yield ""
    if summary.start:
        yield from _wrap(summary.start, width, "")
        yield ""
    if not summary.leads:
        yield from _unranked_lines(summary.unranked, width)
        yield from _wrap(summary.balance, width, "")
        yield from _note_lines(summary, width, "")
        return
    yield from _finding_lines(summary, width, most_leads)


def _finding_lines(summary: RunSummary, width: int, most_leads: int | None) -> Iterator[str]:
    """Yield the first findings with the notes among them, other notes, and what is left out."""
    listed = summary.leads[:most_leads]
    placed, notes = order_with_losses(listed, summary.unranked)
    if placed:
        yield from _wrap(f"{describe_shares(summary, [*listed, *summary.unranked])}:", width, "")
    for number, lead in placed:
        if number is None:
            yield ""
            yield from _wrap(_describe_unranked(lead), width, "  - ", "     ")
        else:
            yield from _lead_lines(number, lead, summary, width)
    if placed:
        yield ""
    yield from _unranked_lines(notes, width)
    yield from _wrap(summary.balance, width, "")
    if more := len(summary.leads) - len(listed):
        command = summary.commands.summary("--run", summary.run, "--all-findings")
        yield f"{more} more of 1 % or more {'is' if more == 1 else 'are'} not listed: {command}"


def _unranked_lines(leads: Sequence[Lead], width: int) -> Iterator[str]:
    for lead in leads:
        yield from _wrap(_describe_unranked(lead), width, "")


def _describe_unranked(lead: Lead) -> str:
    return f"Not ranked, {format_recoverable(lead)}: {plain_text(lead.sentence)} {plain_text(lead.advice)}".strip()


def describe_shares(summary: RunSummary, listed: Sequence[Lead]) -> str:
    """Return what the shares of the listed findings are: of which time, and whether they are of replays, or bounds."""
    is_bound = any(lead.is_at_most and not lead.is_replayed for lead in listed)
    meaning = '. "At most" marks an upper bound of what is lost' * is_bound
    loss = ', or with "at most" a bound of that' * is_bound
    if any(lead.is_replayed for lead in listed):
        bound = ', "at most" where the replay leaves out more than that' * any(lead.has_bound for lead in listed)
        meaning = (
            f'. "By a replay" is how much shorter the run gets without the cause{bound}. Other shares are the GPU time '
            f"that is lost to it{loss}; the run may gain less"
        )
    return f"What costs most, as shares of {describe_measured_time(summary)}{meaning}"


def describe_measured_time(summary: RunSummary) -> str:
    """Return what the shares of findings are shares of."""
    parts = "GPUs of the run" if summary.has_gpu else "ranks of the run on the CPU"
    length = f"{format_scaled(summary.window_ns, Quantity.DURATION)}, " if summary.window_ns else ""
    return f"{length}the windows (first to last activity) of all {parts} added up{_describe_step(summary)}"


def _describe_step(summary: RunSummary) -> str:
    """Return of which time costs per step are shares: of a step, or of the part of one that the windows cover."""
    if not summary.step_ns or not summary.measured_step_ns:
        return ""
    step, measured = (_time(each) for each in (summary.step_ns, summary.measured_step_ns))
    if measured == step:
        return f", and of a mean step of {step}"
    whole = f" (by a replay, of all {step})" if any(lead.is_of_whole_steps for lead in summary.leads) else ""
    return f", and of the {measured} of a mean step that the windows cover{whole}"


def _time(ns: float) -> str:
    return format_scaled(round(ns), Quantity.DURATION)


def format_recoverable(lead: Lead) -> str:
    """Return the share of a finding, whether it is a bound, and whether a replay has it."""
    return f"{format_share(lead.recoverable)}{' at most' * lead.is_at_most}{' by a replay' * lead.is_replayed}"


def format_short(lead: Lead) -> str:
    """Return the share of a finding in a list of several runs, with ≤ before a bound."""
    return f"{'≤ ' * lead.is_at_most}{format_share(lead.recoverable)}"


def explain_short(summaries: Sequence[RunSummary]) -> str:
    """Return what shares of findings of several runs are; empty where no replay has one."""
    leads = [lead for each in summaries for lead in largest_leads(each.leads)]
    shown = [lead for lead in leads if lead.is_replayed or lead.is_at_most]
    if not shown:
        return ""
    bound = (
        '"≤" marks what a run gains or loses at most, such as by a replay that leaves out more than the cause. '
        * any(lead.is_at_most for lead in leads)
    )
    kinds = "Other shares are" if bound else "Shares are"
    return (
        f"{bound}{kinds} what a replay without the cause gains, where the sentence has one, else the GPU time that is "
        "lost to it."
    )


def format_per_step(lead: Lead, summary: RunSummary) -> str:
    """Return what a finding costs per step; empty without steps."""
    cost_ns = summary.cost_per_step_ns(lead.recoverable, is_of_whole_steps=lead.is_of_whole_steps)
    return "" if cost_ns is None else f"{_time(cost_ns)} a step"


def _lead_lines(number: int, lead: Lead, summary: RunSummary, width: int) -> Iterator[str]:
    yield ""
    amount = ", ".join(filter(None, (format_recoverable(lead), format_per_step(lead, summary))))
    yield from _wrap(
        f"{number}. {amount}: {plain_text(lead.sentence)}",
        width,
        "  ",
        "     ",
    )
    for note in lead.notes:
        yield from _wrap(_describe_unranked(note), width, "     ")
    if lead.advice:
        yield from _wrap(plain_text(lead.advice), width, "     ")
    yield from _wrap(f"Evidence: {lead.evidence}. {plain_text(lead.details)}".rstrip(), width, "     ")
    if lead.figures_command != lead.next_command:
        yield f"     Figures: {lead.figures_command}"
    yield f"     Next: {lead.next_command}"
    if lead.what_if_command:
        yield f"     Without it: {lead.what_if_command}"


def _wrap(text: str, width: int, indent: str, later: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )
