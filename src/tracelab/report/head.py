"""The head of the report: how much was recorded, and the control that restricts the page to one run."""

from tracelab import __version__
from tracelab.report.answers import Asking
from tracelab.report.prose import text

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
