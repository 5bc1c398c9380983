"""Assemble the report: head, run selector, sections, styles and scripts in one file without network access."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from tracelab import __version__
from tracelab.errors import TracelabError
from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.answers import Answer, ReportSession
from tracelab.report.html import Section, escape_text

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("echarts.js", "report.js", "tables.js", "limits.js", "drawings.js", "pairs.js", "charts.js")
"""Scripts of every page, in order; those of sections follow."""


class Page(str):
    """The HTML of a report, a text that prints as one line; `html` is a plain one.

    A notebook shows it in a frame of its own.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        size = format_scaled(len(self.encode()), Quantity.BYTES)
        return f"<tracelab report, {size} of HTML; .save(PATH) writes it>"

    __str__ = __repr__

    @property
    def html(self) -> str:
        """Return the whole document."""
        return self[:]

    def save(self, path: str | Path) -> None:
        """Write the page to a file. Raises TracelabError if the file exists."""
        try:
            with Path(path).open("x", encoding="utf-8") as stream:
                stream.write(self)
        except FileExistsError as error:
            raise TracelabError(f"{path} exists; delete it, or choose another name") from error

    def _repr_html_(self) -> str:
        return (
            f'<iframe title="tracelab report" style="width: 100%; height: 45rem; border: 1px solid" '
            f'srcdoc="{escape(self)}"></iframe>'
        )


def render_page(title: str, head: str, sections: Sequence[Section]) -> str:
    """Render the whole document."""
    names = list(dict.fromkeys([*SCRIPTS, *(name for section in sections for name in section.scripts)]))
    scripts = [_load_script(name) for name in names]
    links = "".join(f'<li><a href="#section-{each.anchor}">{escape(each.title)}</a>' for each in sections)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_security_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><meta name="generator" content="tracelab">',
            f"<title>{escape(title)}</title>",
            f"<style>{(ASSETS / 'report.css').read_text('utf-8')}</style></head>",
            '<body><a class="skip" href="#main">To the report</a>',
            head,
            '<button type="button" id="unfold">Show all charts and tables</button>',
            f'<nav aria-label="Parts of the report"><ul>{links}</ul></nav>',
            '<main id="main">',
            *(_render_section(each) for each in sections),
            "</main>",
            *(_json_block(name, value) for each in sections for name, value in each.data.items()),
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def json_in_html(value: object) -> str:
    """Serialize JSON for a script element: `<` is escaped, so that a name cannot close the element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _render_section(section: Section) -> str:
    anchor = section.anchor
    return (
        f'<section id="section-{anchor}" aria-labelledby="{anchor}-title">'
        f'<h2 id="{anchor}-title">{escape(section.title)}</h2>'
        f"\n{section.body}\n</section>"
    )


def _json_block(name: str, value: object) -> str:
    return f'<script type="application/json" id="json-{escape(name)}">{json_in_html(value)}</script>'


def _load_script(name: str) -> str:
    """Return the text of a script; a text that would close the element is a programming error."""
    script = (ASSETS / name).read_text("utf-8")
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError(f"{name} has text that ends a script element")
    return script


def _security_policy(scripts: Iterable[str]) -> str:
    """Return the content security policy: no network, and exactly these scripts."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


_ABSENT = "<div id=absent aria-live=polite></div>"
"""Place for the script's note on sections without data of the selected run."""

_HEAD = """select
    run, list_distinct(list(coalesce(producer, format))) as producers,
    sum(events_kept)::bigint as events, count(*) as files
from sources
where len($runs) = 0 or list_contains($runs, run)
group by run
order by run"""


def render_head(session: ReportSession) -> str:
    """Render title, runs and run selector."""
    rows = session.con.sql(_HEAD, params={"runs": list(session.runs)}).fetchall()
    runs = [str(run) for run, *_ in rows]
    options = "".join(f'<option value="{escape_text(run)}">{escape_text(run)}' for run in runs)
    title = runs[0] if len(runs) == 1 else f"{len(runs):,} runs"
    files, events = sum(row[3] for row in rows), [row[2] for row in rows]
    events_text = "" if None in events else f"{sum(events):,} events of "
    picker = (
        f'<label>Show <select id=run data-command="{escape_text(session.commands.report())}">'
        f"<option value=''>all runs{options}</select></label>{_ABSENT}"
        if len(runs) > 1
        else ""
    )
    aligned = "".join(f"<p>{escape_text(note)}</p>" for note in session.notes)
    return (
        f"<header><p class=brand>tracelab {escape_text(__version__)} report</p><h1>{escape_text(title)}</h1>"
        f"<p>{events_text}{files:,} file{'s' * (files != 1)}. Point at a figure, or tap a bar of a chart, for the "
        "exact value.</p>"
        f"{aligned}{picker}</header>"
    )


_NAMING = ("this_run", "base_run", "before", "after")
"""Columns that name runs in rows about several."""


def runs_attribute(session: ReportSession, answer: Answer) -> str:
    """Return an attribute with the runs' positions in the selector; empty for all runs or an unknown set."""
    table = answer.table
    if table is None or not session.several:
        return ""
    columns = ["run"] if "run" in table.column_names else [name for name in _NAMING if name in table.column_names]
    if not columns and "sweep" not in table.column_names:
        return ""
    condition = answer.query.report.show_if if answer.query.report else None
    names_sql = " union ".join(f"select {name} as run from answer where {condition or 'true'}" for name in columns)
    session.con.register("answer", table)
    rows = session.con.sql(
        names_sql or "select run from runs where sweep in (select sweep from answer where sweep is not null)"
    ).fetchall()
    session.con.unregister("answer")
    names = {run for (run,) in rows}
    positions = [str(place) for place, run in enumerate(session.run_names) if run in names]
    return f' data-runs="{" ".join(positions)}"' if len(positions) < len(session.run_names) else ""
