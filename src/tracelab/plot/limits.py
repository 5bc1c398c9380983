"""What a picture has no room for: how tall one may be, how what is missing is counted, and what asks for less."""

from collections.abc import Iterable, Sequence
from typing import Any

from tracelab.plot.labels import IDENTITY, counted, varying
from tracelab.query.spec import Query

Row = dict[str, Any]

MOST_INCHES = 20.0
"""A taller picture is read by nobody: it fills no screen, and no page."""


class NotDrawn(str):
    """A note on what the picture has no room for; whoever draws is told it as well."""

    __slots__ = ()


def not_drawn(shown: int, of: int, noun: str) -> list[str]:
    """The note, where not all are shown."""
    return [NotDrawn(f"{of - shown} of {counted(of, noun)} not drawn")] if shown < of else []


def that_fit(heights: Iterable[float], most: float = MOST_INCHES) -> int:
    """How many of the panels fit below each other, one at least."""
    fit, inches = 0, 0.0
    for height in heights:
        inches += height
        if fit and inches > most:
            break
        fit += 1
    return fit


def narrowing(rows: Sequence[Row], query: Query) -> list[str]:
    """The options of the question that ask for fewer of these rows, in words."""
    chart = query.chart
    named = ("sweep", *IDENTITY, *((chart.by, *chart.panel) if chart else ()))
    params = {param.name: param for param in query.params}
    told = [name for name in varying(rows, [name for name in dict.fromkeys(named) if name]) if name in params]
    options = [f"--{name.replace('_', '-')} {'N' if params[name].type == 'integer' else 'NAME'}" for name in told]
    return [f"{' or '.join(options[:2])} narrows"] if options else []
