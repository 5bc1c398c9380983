"""Parse the rows of the studies from queries/studies; the folder is the registry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

from tracelab.errors import UsageError, suggest_name
from tracelab.query import spec
from tracelab.query.spec import Value
from tracelab.resources import QUERIES

ChartKind = Literal["bars", "line"]

_TEXTS = ("title", "study", "corrected", "capture")
_KEYS = (*_TEXTS, "fits", "alone", "example", "chart", "answers", "as")


@dataclass(frozen=True)
class Chart:
    """Chart of a row: `x` and `by` are columns of the cells, with a panel for each quantity and `by`.

    With `answer` the chart is that of one of the row's library queries.
    """

    kind: ChartKind = "bars"
    x: str = ""
    by: str | None = None
    log: bool = False
    answer: str | None = None


@dataclass(frozen=True)
class QueryCall:
    """A call of a library query, with its parameter values."""

    query: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class Row:
    """One measurement, table or figure of a study, as its file defines it.

    `study` and `corrected` are the two formulas; `fits` is SQL that picks runs, `capture` the command that records one.
    A row that is `alone` has a verdict without runs: the published figures suffice. `sql` selects the cells, then
    the verdict from them.
    """

    id: str
    title: str
    prose: str
    study: str
    corrected: str
    capture: str
    sql: str
    fits: str | None = None
    alone: bool = False
    example: tuple[str, ...] = ()
    chart: Chart | None = None
    answers: Mapping[str, QueryCall] = field(default_factory=dict)

    @property
    def of(self) -> str:
        """Id of the study."""
        return self.id.partition("-")[0]


@cache
def rows() -> dict[str, Row]:
    """Return all rows by id."""
    return {path.stem: parse(path) for path in sorted((QUERIES / "studies").glob("*.sql"))}


@cache
def studies() -> tuple[str, ...]:
    """Return the ids of the studies."""
    return tuple(dict.fromkeys(row.of for row in rows().values()))


def find(name: str) -> Row:
    """Return the row of an id, in any case."""
    if name.upper() not in rows():
        hint = f"; `tracelab study list {name.upper()}` lists its rows" if name.upper() in studies() else ""
        raise UsageError(suggest_name("row", name.upper(), list(rows())) + hint)
    return rows()[name.upper()]


def select_rows(name: str | None) -> list[Row]:
    """Return the rows of a study, or the one row of that id; without a name, all rows."""
    if name is None:
        return list(rows().values())
    if name.upper() in rows():
        return [rows()[name.upper()]]
    if name.upper() not in studies():
        raise UsageError(suggest_name("study", name.upper(), studies()))
    return [row for row in rows().values() if row.of == name.upper()]


def parse(path: Path) -> Row:
    """Parse the file of a row; an invalid header raises UsageError with file and line."""
    parts = spec.split_header(path, "study")
    fields, sql, place = parts.fields, parts.sql, f"{path}:{parts.first_line}"
    if "as" in fields:
        fields, sql = _inherit_header(path, place, fields, sql)
    if wrong := [key for key in fields if key not in _KEYS]:
        raise UsageError(f"{place}: unknown key {wrong[0]!r}; the header of a row has {', '.join(_KEYS)}")
    if lacking := [key for key in _TEXTS if not isinstance(fields.get(key), str)]:
        raise UsageError(f"{place}: the header of a row needs {lacking[0]!r}, a text")
    if "fits" not in fields and fields.get("alone") is not True:
        raise UsageError(f"{place}: a row needs `fits`, SQL that picks its runs, or `alone = true`")
    if not sql:
        raise UsageError(f"{place}: a row needs its two SELECTs, or `as`, the row whose own it takes")
    texts = cast("dict[str, str]", fields)
    return Row(
        id=path.stem,
        prose=parts.prose,
        sql=sql,
        fits=texts.get("fits"),
        alone=fields.get("alone") is True,
        example=tuple(cast("list[str]", fields.get("example", []))),
        chart=_chart(place, fields.get("chart")),
        answers=_answers(place, fields.get("answers", {})),
        **{name: texts[name] for name in _TEXTS},
    )


def _inherit_header(path: Path, place: str, fields: Mapping[str, Any], sql: str) -> tuple[dict[str, Any], str]:
    """Return the header and the SQL of the row named by `as`, with the row's own keys on top."""
    other = path.with_name(f"{fields['as']}.sql")
    if sql or not other.is_file():
        raise UsageError(f"{place}: `as` needs the id of a row beside it, and no SQL of its own")
    model = spec.split_header(other, "study")
    if "as" in model.fields:
        raise UsageError(f"{place}: `as` needs a row with SQL; {fields['as']} is as {model.fields['as']}")
    return {**model.fields, **fields}, model.sql


def _chart(place: str, entry: object) -> Chart | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or set(entry) - set(Chart.__dataclass_fields__):
        raise UsageError(f'{place}: chart needs a table, as {{ kind = "bars", x = "model" }}')
    chart = Chart(**cast("dict[str, Any]", entry))
    if chart.kind not in get_args(ChartKind) or not (chart.x or chart.answer):
        raise UsageError(f"{place}: chart needs x, and a kind that is one of {', '.join(get_args(ChartKind))}")
    return chart


def _answers(place: str, entry: object) -> dict[str, QueryCall]:
    if not isinstance(entry, dict) or not all(isinstance(each, dict) and "query" in each for each in entry.values()):
        raise UsageError(f'{place}: answers needs a table of queries, as shares = {{ query = "nccl_share" }}')
    return {
        name: QueryCall(each["query"], {key: value for key, value in each.items() if key != "query"})
        for name, each in entry.items()
    }
