"""Summaries as rows: a row for each figure and for each finding."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from tracelab.report.summary.lead import Lead, plain_text
from tracelab.report.summary.summarize import RunSummary

_FIELDS: list[tuple[str, pa.DataType]] = [
    ("run", pa.string()),
    ("kind", pa.string()),
    ("name", pa.string()),
    ("value", pa.float64()),
    ("unit", pa.string()),
    ("step_ns", pa.int64()),
    ("rank", pa.int32()),
    ("step", pa.int64()),
    ("text", pa.string()),
    ("note", pa.string()),
    ("next", pa.string()),
    ("what_if", pa.string()),
    ("details", pa.string()),
    ("figures", pa.string()),
    ("lost_ratio", pa.float64()),
    ("gain_ns", pa.int64()),
    ("is_bound", pa.bool_()),
]


def summary_rows(summaries: Sequence[RunSummary]) -> pa.Table:
    """Return the summaries as a table, run by run.

    `kind` is figure, finding, part, or note, such as a finding that is not ranked. A part is what the finding before it
    includes, such as other late ranks and lesser causes: `lost_ratio` of the finding has its own, too. The note
    `recording` has a status other than ok, or how a recording differs from what was requested. `unit` is that of the
    `value`: ns or ratio. Of a figure a value of NULL is unknown, and `note` states what to record. Of a finding, `name`
    is the query, `lost_ratio` the share of the run's measured time that is lost to it, `gain_ns` how much shorter a
    replay of the run is without it, `value` that gain as a share of the recording, without a replay `lost_ratio`, of a
    replay that removes more than the finding (`WhatIf.is_bound`) the smaller of both, with `is_bound` where that is the
    gain, or where the cost is a bound itself, `step_ns` what that is per step, `text` the sentence, `note` the advice,
    `next` the command that shows more, and `what_if` the one that replays the run without the loss, where there is one;
    `details` are what the finding explains and its lesser causes, and `figures` the command that shows the figures of
    `text`. The note `program_start` has the length of the recorded start of a program as `value`, and whether the
    figures include it as `text`.
    """
    rows: list[dict[str, object]] = []
    for each in summaries:
        rows += [
            {
                "run": each.run,
                "kind": "figure",
                "name": f.name,
                "value": f.value,
                "unit": f.unit,
                "text": f.text,
                "note": f.note,
            }
            for f in each.figures
        ]
        rows += [{"run": each.run, "kind": "note", "name": "recording", "text": text} for text in each.ended]
        if each.start:
            rows.append(
                {
                    "run": each.run,
                    "kind": "note",
                    "name": "program_start",
                    "value": float(each.start_ns or 0),
                    "unit": "ns",
                    "text": each.start,
                }
            )
        rows += [
            {
                "run": each.run,
                "kind": kind,
                "name": lead.query,
                "value": value,
                "unit": "ratio",
                "step_ns": each.cost_per_step_ns(
                    value, is_of_whole_steps=lead.is_of_whole_steps if kind == "finding" else lead.is_of_steps
                ),
                "rank": lead.rank,
                "step": lead.step,
                "text": plain_text(lead.sentence),
                "note": plain_text(lead.advice) or None,
                "next": lead.next_command,
                "what_if": lead.what_if_command,
                "details": plain_text(lead.details) or None,
                "figures": lead.figures_command,
                "lost_ratio": lead.own_rest if kind == "part" else lead.rest,
                "gain_ns": lead.gain.gain_ns if lead.gain and kind == "finding" else None,
                "is_bound": lead.is_at_most if kind in ("finding", "note") else None,
            }
            for kind, value, lead in _list_leads(each)
        ]
    return pa.Table.from_pylist(rows, pa.schema(_FIELDS))


def _list_leads(summary: RunSummary) -> Iterator[tuple[str, float, Lead]]:
    """Yield the findings of a run with their kinds and shares, each with its parts behind it, and last the notes."""
    for lead in summary.leads:
        yield "finding", lead.recoverable, lead
        if lead.included:
            yield from (("part", each.own_rest, each) for each in (replace(lead, details=""), *lead.included))
    yield from (("note", lead.rest, lead) for lead in summary.unranked)
