"""Assemble the report: head, run selector, sections, styles and scripts in one file without network access."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from tracelab import __version__
from tracelab.report.answers import Answer, Asking
from tracelab.report.html import Section, text

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("echarts.js", "report.js", "tables.js", "limits.js", "drawings.js", "pairs.js", "charts.js")
"""The scripts that every page has, in their order; those of sections come behind them."""


def page(title: str, head: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    names = list(dict.fromkeys([*SCRIPTS, *(name for section in sections for name in section.scripts)]))
    scripts = [_script(name) for name in names]
    links = "".join(f'<li><a href="#{each.anchor}">{escape(each.title)}</a>' for each in sections)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><meta name="generator" content="tracelab">',
            f"<title>{escape(title)}</title>",
            f"<style>{(ASSETS / 'report.css').read_text('utf-8')}</style></head>",
            '<body><a class="skip" href="#main">To the report</a>',
            head,
            f'<nav aria-label="Parts of the report"><ul>{links}</ul></nav>',
            '<main id="main">',
            *(_section(each) for each in sections),
            "</main>",
            *(_block(name, value) for each in sections for name, value in each.data.items()),
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def json_in_html(value: object) -> str:
    """JSON that no HTML ends: `<` is spelled out, so that a name cannot close the script element."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return written.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _section(section: Section) -> str:
    anchor = section.anchor
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">{escape(section.title)}</h2>'
        f"\n{section.body}\n</section>"
    )


def _block(name: str, value: object) -> str:
    return f'<script type="application/json" id="json-{escape(name)}">{json_in_html(value)}</script>'


def _script(name: str) -> str:
    """A script as it stands between its tags; a text that would end the element is a mistake of ours."""
    script = (ASSETS / name).read_text("utf-8")
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError(f"{name} has text that ends a script element")
    return script


def _policy(scripts: Iterable[str]) -> str:
    """No network at all, and of scripts exactly ours."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


_ABSENT = "<div id=absent aria-live=polite></div>"
"""Where a script says what the page has nothing to show of, of the run that was picked."""

_HEAD = """select
    run, list_distinct(list(coalesce(producer, format))) as producers,
    sum(events_kept)::bigint as events, count(*) as files
from sources
where len($runs) = 0 or list_contains($runs, run)
group by run
order by run"""


def head(asking: Asking) -> str:
    """The title, the runs, and the control that restricts the page to one of them."""
    rows = asking.con.sql(_HEAD, params={"runs": list(asking.runs)}).fetchall()
    runs = [str(run) for run, *_ in rows]
    options = "".join(f'<option value="{text(run)}">{text(run)}' for run in runs)
    title = runs[0] if len(runs) == 1 else f"{len(runs):,} runs"
    files, events = sum(row[3] for row in rows), [row[2] for row in rows]
    counted = "" if None in events else f"{sum(events):,} events of "
    picker = (
        f"<label>Show <select id=run><option value=''>all runs{options}</select></label>{_ABSENT}"
        if len(runs) > 1
        else ""
    )
    return (
        f"<header><p class=brand>tracelab {text(__version__)} report</p><h1>{text(title)}</h1>"
        f"<p>{counted}{files:,} file{'s' * (files != 1)}. Hover a figure for its exact value.</p>"
        f"{picker}</header>"
    )


_NAMING = ("this_run", "base_run", "before", "after")
"""Columns that name runs in rows that are of several."""


def runs_of(asking: Asking, answer: Answer) -> str:
    """An attribute with their places in the control; none where it is all of them, or the answer does not tell."""
    table = answer.table
    if table is None or not asking.several:
        return ""
    naming = ["run"] if "run" in table.column_names else [name for name in _NAMING if name in table.column_names]
    if not naming and "sweep" not in table.column_names:
        return ""
    worth = answer.query.report.show_if if answer.query.report else None
    named = " union ".join(f"select {name} as run from answer where {worth or 'true'}" for name in naming)
    asking.con.register("answer", table)
    rows = asking.con.sql(
        named or "select run from runs where sweep in (select sweep from answer where sweep is not null)"
    ).fetchall()
    asking.con.unregister("answer")
    found = {run for (run,) in rows}
    places = [str(place) for place, run in enumerate(asking.shown) if run in found]
    return f' data-runs="{" ".join(places)}"' if len(places) < len(asking.shown) else ""
