"""Render the health section: the doctor's findings, worst first."""

import itertools

import pyarrow as pa

from tracelab import doctor
from tracelab.report.answers import ReportSession
from tracelab.report.html import Section, escape_text, render_prose

_OPEN = ("error", "warning")
_SIGNS = {"error": "✖", "warning": "⚠", "info": "ℹ"}


def render_health(session: ReportSession) -> Section:
    """Render the list of findings; informational ones are folded."""
    tables = [doctor.examine(session.con, run) for run in session.runs or (None,)]
    rows = pa.concat_tables(tables).to_pylist()
    rows = [row for row in rows if row["code"] not in doctor.BUILT_IN_CHECKS]
    items = {
        severity: "".join(_render_items([row for row in rows if row["severity"] == severity]))
        for severity in doctor.SEVERITIES
    }
    first = "".join(items[severity] for severity in _OPEN)
    body = _count_lists(session, rows)
    body += f"<ul class=findings>{first}</ul>" if first else ""
    if items["info"]:
        body += f"<details><summary>What is good to know</summary><ul class=findings>{items['info']}</ul></details>"
    return Section("health", "Health of the data", body)


def _count_lists(session: ReportSession, rows: list[dict[str, object]]) -> str:
    """Count the findings of all runs, and of each for the run selector; equal counts once."""
    positions: dict[str, list[str]] = {}
    if session.several:
        for place, run in enumerate(session.run_names):
            note = _count_note([row for row in rows if row["run"] in (run, None)])
            positions.setdefault(note, []).append(str(place))
    only = "".join(f'<p data-only="{" ".join(places)}" hidden>{note}</p>' for note, places in positions.items())
    return f"<div><p data-all>{_count_note(rows)}</p>{only}</div>"


def _count_note(rows: list[dict[str, object]]) -> str:
    counts = {severity: sum(row["severity"] == severity for row in rows) for severity in doctor.SEVERITIES}
    note = ", ".join(
        f"{count:,} {name}{'s' * (count != 1 and name != 'info')}" for name, count in counts.items() if count
    )
    return f"{note}." if note else "Every check passed: no findings."


def _render_items(rows: list[dict[str, object]]) -> list[str]:
    """Render one item per kind of finding and run; several ranks with the same finding share one."""
    items = []
    for (severity, code, run), group in itertools.groupby(rows, lambda row: (row["severity"], row["code"], row["run"])):
        first, *others = group
        place = " · ".join(
            escape_text(part)
            for part in (
                run,
                None if first["rank"] is None else f"rank {first['rank']}",
                _other_ranks_note(len(others)),
            )
            if part
        )
        fix = f"<br><span class=advice>{render_prose(str(first['how_to_fix']))}</span>" if first["how_to_fix"] else ""
        run_of = f' data-run="{escape_text(run)}"' if run else ""
        items.append(
            f"<li class={severity}{run_of}><b><span aria-hidden=true>{_SIGNS[str(severity)]}</span> {severity}</b> "
            f"<code>{code}</code> {place}<br>{render_prose(str(first['message']))}{fix}"
        )
    return items


def _other_ranks_note(count: int) -> str:
    return f"and {count:,} more" if count else ""
