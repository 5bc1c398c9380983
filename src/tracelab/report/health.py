"""The health of the data: what the doctor finds, the worst first."""

import itertools

import pyarrow as pa

from tracelab import doctor
from tracelab.report.answers import Asking
from tracelab.report.html import Section, prose, text

_OPEN = ("error", "warning")
_SIGNS = {"error": "✖", "warning": "⚠", "info": "ℹ"}


def health(asking: Asking) -> Section:
    """A list of findings; those that only inform are folded."""
    found = [doctor.examine(asking.con, run) for run in asking.runs or (None,)]
    rows = pa.concat_tables(found).to_pylist()
    rows = [row for row in rows if row["code"] not in doctor.BUILT_IN_CHECKS]
    told = {
        severity: "".join(_findings([row for row in rows if row["severity"] == severity]))
        for severity in doctor.SEVERITIES
    }
    first = "".join(told[severity] for severity in _OPEN)
    body = _counts(asking, rows)
    body += f"<ul class=findings>{first}</ul>" if first else ""
    if told["info"]:
        body += f"<details><summary>What is good to know</summary><ul class=findings>{told['info']}</ul></details>"
    return Section("health", "Health of the data", body)


def _counts(asking: Asking, rows: list[dict[str, object]]) -> str:
    """How many findings there are: of all runs, and of each for when it is picked; alike ones once."""
    places: dict[str, list[str]] = {}
    if asking.several:
        for place, run in enumerate(asking.shown):
            said = _counted([row for row in rows if row["run"] in (run, None)])
            places.setdefault(said, []).append(str(place))
    only = "".join(f'<p data-only="{" ".join(those)}" hidden>{said}</p>' for said, those in places.items())
    return f"<div><p data-all>{_counted(rows)}</p>{only}</div>"


def _counted(rows: list[dict[str, object]]) -> str:
    counts = {severity: sum(row["severity"] == severity for row in rows) for severity in doctor.SEVERITIES}
    said = ", ".join(
        f"{count:,} {name}{'s' * (count != 1 and name != 'info')}" for name, count in counts.items() if count
    )
    return f"{said}." if said else "Every check passed: nothing to say."


def _findings(rows: list[dict[str, object]]) -> list[str]:
    """One item for each kind of finding of a run; what several ranks have in common is told of the first."""
    items = []
    for (severity, code, run), alike in itertools.groupby(rows, lambda row: (row["severity"], row["code"], row["run"])):
        first, *others = alike
        where = " · ".join(
            text(part)
            for part in (run, None if first["rank"] is None else f"rank {first['rank']}", _more(len(others)))
            if part
        )
        fix = f"<br><span class=try>{prose(str(first['how_to_fix']))}</span>" if first["how_to_fix"] else ""
        run_of = f' data-run="{text(run)}"' if run else ""
        items.append(
            f"<li class={severity}{run_of}><b><span aria-hidden=true>{_SIGNS[str(severity)]}</span> {severity}</b> "
            f"<code>{code}</code> {where}<br>{prose(str(first['message']))}{fix}"
        )
    return items


def _more(others: int) -> str:
    return f"and {others:,} more" if others else ""
