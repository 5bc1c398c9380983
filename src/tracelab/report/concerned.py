"""Which runs an answer is about: those that leave its part on the page when they are picked."""

from tracelab.report.answers import Answer, Asking

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
