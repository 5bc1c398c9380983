"""Render the health section: the doctor's findings, worst first."""

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
        severity: "".join(render_checks([row for row in rows if row["severity"] == severity]))
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


def render_checks(rows: list[dict[str, object]]) -> list[str]:
    """Render one item per check: what it found of several runs is folded, with one line each."""
    by_check: dict[tuple[str, str], dict[str | None, list[dict[str, object]]]] = {}
    for row in rows:
        run = None if row["run"] is None else str(row["run"])
        by_check.setdefault((str(row["severity"]), str(row["code"])), {}).setdefault(run, []).append(row)
    return [_render_check(severity, code, of_runs) for (severity, code), of_runs in by_check.items()]


def _render_check(severity: str, code: str, of_runs: dict[str | None, list[dict[str, object]]]) -> str:
    """Render the findings of a check; several ranks of a run share one line."""
    head = f"<b><span aria-hidden=true>{_SIGNS[severity]}</span> {severity}</b> <code>{code}</code>"
    lines = {run: f"{_place(run, found)}<br>{render_prose(str(found[0]['message']))}" for run, found in of_runs.items()}
    fixes = list(dict.fromkeys(str(found[0]["how_to_fix"] or "") for found in of_runs.values()))
    advice = "".join(f"<br><span class=advice>{render_prose(fix)}</span>" for fix in fixes if fix)
    if len(lines) == 1:
        ((run, line),) = lines.items()
        return f"<li class={severity}{_run_attribute(run)}>{head} {line}{advice}"
    each = "".join(f"<li{_run_attribute(run)}>{line}" for run, line in lines.items())
    example = render_prose(str(next(iter(of_runs.values()))[0]["message"]))
    return (
        f'<li class="{severity} check">{head} <span data-all>{len(lines):,} runs, such as: {example}</span>{advice}'
        f"<details><summary>Each run</summary><ul>{each}</ul></details>"
    )


def _place(run: str | None, found: list[dict[str, object]]) -> str:
    rank = None if found[0]["rank"] is None else f"rank {found[0]['rank']}"
    more = f"and {len(found) - 1:,} more" if len(found) > 1 else None
    return " · ".join(escape_text(part) for part in (run, rank, more) if part)


def _run_attribute(run: str | None) -> str:
    return f' data-run="{escape_text(run)}"' if run else ""
