"""Render the health section: the doctor's findings, worst first."""

import itertools

import pyarrow as pa

from tracelab import doctor
from tracelab.report.answers import ReportSession
from tracelab.report.html import Section, escape_text, render_prose

_OPEN = ("error", "warning")
_SIGNS = {"error": "✖", "warning": "⚠", "info": "ℹ"}


def render_health(asking: ReportSession) -> Section:
    """Render the list of findings; informational ones are folded."""
    found = [doctor.examine(asking.con, run) for run in asking.runs or (None,)]
    rows = pa.concat_tables(found).to_pylist()
    rows = [row for row in rows if row["code"] not in doctor.BUILT_IN_CHECKS]
    told = {
        severity: "".join(_render_items([row for row in rows if row["severity"] == severity]))
        for severity in doctor.SEVERITIES
    }
    first = "".join(told[severity] for severity in _OPEN)
    body = _count_lists(asking, rows)
    body += f"<ul class=findings>{first}</ul>" if first else ""
    if told["info"]:
        body += f"<details><summary>What is good to know</summary><ul class=findings>{told['info']}</ul></details>"
    return Section("health", "Health of the data", body)


def _count_lists(asking: ReportSession, rows: list[dict[str, object]]) -> str:
    """Count the findings of all runs, and of each for the run selector; equal counts once."""
    places: dict[str, list[str]] = {}
    if asking.several:
        for place, run in enumerate(asking.shown):
            said = _count_note([row for row in rows if row["run"] in (run, None)])
            places.setdefault(said, []).append(str(place))
    only = "".join(f'<p data-only="{" ".join(those)}" hidden>{said}</p>' for said, those in places.items())
    return f"<div><p data-all>{_count_note(rows)}</p>{only}</div>"


def _count_note(rows: list[dict[str, object]]) -> str:
    counts = {severity: sum(row["severity"] == severity for row in rows) for severity in doctor.SEVERITIES}
    said = ", ".join(
        f"{count:,} {name}{'s' * (count != 1 and name != 'info')}" for name, count in counts.items() if count
    )
    return f"{said}." if said else "Every check passed: no findings."


def _render_items(rows: list[dict[str, object]]) -> list[str]:
    """Render one item per kind of finding and run; several ranks with the same finding share one."""
    items = []
    for (severity, code, run), alike in itertools.groupby(rows, lambda row: (row["severity"], row["code"], row["run"])):
        first, *others = alike
        where = " · ".join(
            escape_text(part)
            for part in (run, None if first["rank"] is None else f"rank {first['rank']}", _others_note(len(others)))
            if part
        )
        fix = f"<br><span class=try>{render_prose(str(first['how_to_fix']))}</span>" if first["how_to_fix"] else ""
        run_of = f' data-run="{escape_text(run)}"' if run else ""
        items.append(
            f"<li class={severity}{run_of}><b><span aria-hidden=true>{_SIGNS[str(severity)]}</span> {severity}</b> "
            f"<code>{code}</code> {where}<br>{render_prose(str(first['message']))}{fix}"
        )
    return items


def _others_note(others: int) -> str:
    return f"and {others:,} more" if others else ""
