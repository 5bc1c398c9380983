"""The texts of docs/reference: what `--help`, the schema and the queries' headers say, and nothing else."""

import re
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from examples import Example, printed
from tracelab import doctor, schema
from tracelab.cli import main
from tracelab.cli.collect import COMMANDS
from tracelab.cli.group import VERBS
from tracelab.client import Lab
from tracelab.query import library
from tracelab.query.spec import Query
from tracelab.study import evaluate, example, session, spec

_BELOW = {"collect": tuple(COMMANDS), "study": ("list", "show", "plot", "run")}
"""Commands of verbs that have some."""
_VALUES = """\
In every format but `table`, which is for people, values are exact: whole numbers in full, DECIMAL with all its digits
(in JSON a number; a reader that makes doubles of numbers rounds it), times in ISO 8601, an INTERVAL as `P14M3DT1.5S`.
NaN and infinity are `null` in JSON and empty in CSV and Markdown, as NULL is; Parquet keeps them. In a question of the
library a sum that leaves 64 bits is NULL."""


def pages() -> dict[str, str]:
    """Every page but those of single queries, by its path in docs/reference."""
    return {
        "cli.md": _cli(),
        "schema.md": _schema(),
        "queries.md": _queries(),
        "doctor.md": _doctor(),
        "studies.md": _studies(),
    }


def _cli() -> str:
    parts = ["# Command line", _generated(), _help([])]
    for verb in VERBS:
        parts += [f"## tracelab {verb}", _help([verb])]
        for command in _BELOW.get(verb, ()):
            parts += [f"### tracelab {verb} {command}", _help([verb, command])]
    codes = [
        ("0", "done"),
        ("1", "failed"),
        ("2", "the request is wrong: a misspelt name, a value of a wrong type, a statement that is refused"),
        ("3", "nothing in the store, or in the files given, can answer"),
        ("130", "interrupted"),
    ]
    return _joined([*parts, "## Values", _VALUES, "## Exit codes", _table(("code", "meaning"), codes)])


def _schema() -> str:
    parts = [
        "# Tables",
        _generated(),
        f"Schema {schema.SCHEMA_VERSION}. Absent is NULL. Units stand in names: `_ns` nanoseconds (whole), `_bytes`, "
        "`_hz`, `_ratio` (0 to 1), `_gb_per_s` and `_gflop_per_s` (1e9 a second).",
        _table(("table", "a row is"), [(f"[{table.name}](#{table.name})", table.row) for table in schema.TABLES]),
    ]
    for table in schema.TABLES:
        columns = [(f"`{column.name}`", f"`{column.duckdb}`", column.doc) for column in table.view_columns]
        parts += [f"## {table.name}", f"A row is {table.row}.", _table(("column", "type", "meaning"), columns)]
    return _joined(parts)


def _queries() -> str:
    listed = [
        (f"[{name}](queries/{name}.md)", each.title, ", ".join(library.variants().get(name, ())))
        for name, each in library.library().items()
    ]
    told = (
        "Each page says what a row means and what every option and column is, shows the SQL, and asks the question of "
        "the recorded runs in [data](../project/data.md). With `--like TOOL` a question is asked in that tool's "
        "definition; its page says what differs."
    )
    return _joined(["# Queries", _generated(), told, _table(("query", "title", "--like"), listed)])


def query_page(each: Query, example: Example, others: Mapping[str, tuple[Query, Example]]) -> str:
    """The page of one query, for the file queries/<name>.md; `others` are its definitions by other tools."""
    parts = [f"# {each.name}", _generated(), *_defined(each)]
    if others:
        links = ", ".join(f"[{tool}](#like-{tool})" for tool in others)
        parts.append(f"In the definition of another tool, with `--like`: {links}.")
    parts += ["## Example", *_shown(each, example), "## SQL", _sql(each)]
    for tool, (other, asked) in others.items():
        parts.append(f"## Like {tool}")
        if other.name in library.library():
            parts.append(f"`{each.name} --like {tool}` is [{other.name}]({other.name}.md): {other.title}.")
        else:
            parts += [*_defined(other), *_shown(other, asked), _sql(other)]
    return _joined(parts)


def _defined(each: Query) -> list[str]:
    """What a query answers, what it needs, its options and its columns."""
    needs = " or ".join(f"[{table}](../schema.md#{table})" for table in each.needs)
    parts = [f"**{each.title}.** {each.prose}", f"Needs rows in: {needs}." if needs else ""]
    if each.params:
        rows = [
            (
                f"`--{param.name.replace('_', '-')}`",
                param.type,
                "" if param.default is None else f"`{param.default}`",
                param.about,
            )
            for param in each.params
        ]
        parts.append(_table(("option", "type", "default", "meaning"), rows))
    columns = [(f"`{column}`", meaning) for column, meaning in each.columns.items()]
    return [*parts, _table(("column", "meaning"), columns)]


def _sql(each: Query) -> str:
    return f"```sql\n{each.sql.strip()}\n```"


def cookbook(lab: Lab) -> str:
    """The page of recipes: SQL of docs/cookbook, run over the recorded runs."""
    scripts = sorted((Path(__file__).parent / "cookbook").glob("*.sql"))
    recipes = [_recipe(script, lab) for script in scripts]
    listed = [f"- [{title}](#{_anchor(title)})" for title, _ in recipes]
    told = (
        "Questions that are not in [the library](../reference/queries.md), in SQL over [the tables](../reference/"
        "schema.md) and the macros of `queries/lib`. Every one is run here over the recorded runs in "
        "[data](../project/data.md): `tracelab ingest data`, then `tracelab sql - < FILE`."
    )
    return _joined(["# Cookbook", _generated(), told, "\n".join(listed), *(text for _, text in recipes)])


def _recipe(script: Path, lab: Lab) -> tuple[str, str]:
    """Title and section: of the comments above the SQL the first line is the title, the others the prose."""
    lines = script.read_text("utf-8").splitlines()
    prose = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    sql = "\n".join(line for line in lines if not line.startswith("--"))
    answer = f"```text\n{printed(lab.sql(sql))}\n```"
    parts = [
        f"## {prose[0]}",
        "\n".join(prose[1:]),
        f"```sql\n{sql}\n```",
        answer,
        f"File: [{script.name}](../cookbook/{script.name})",
    ]
    return prose[0], "\n\n".join(parts)


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def _shown(each: Query, example: Example) -> list[str]:
    if example.answer is None:
        return [f"The recorded runs cannot answer it: {example.none}"]
    drawn = f"![{each.title}, drawn from the answer above]({each.name}.png)" if example.picture else ""
    told = f"No recorded run has a row for it; these are the rows of the test `{example.case}`."
    shown = f"```console\n$ {example.command}\n{printed(example.answer)}\n```"
    return [*([told] if example.case else []), shown, drawn]


def _doctor() -> str:
    listed = [(f"[{check.code}](#{check.code})", check.severity, check.title) for check in doctor.checks()]
    listed += [(code, "info", title) for code, title in doctor.NOT_FILES.items()]
    parts = [
        "# Checks of the doctor",
        _generated(),
        "What `tracelab doctor` looks for. Each check is a file of SQL in `queries/doctor`; "
        "`tracelab doctor --check NAME --show-sql` prints it.",
        _table(("check", "severity", "title"), listed),
    ]
    for check in doctor.checks():
        parts += [f"## {check.code}", check.prose, f"To do: {check.how_to_fix}" if check.how_to_fix else ""]
    return _joined(parts)


def _studies() -> str:
    """The rows of the studies: what, by which formulas, from which runs."""
    parts = [
        "# Rows of the studies",
        _generated(),
        "What `tracelab study` knows; see [Five studies](../guides/studies.md). *State*: what `tracelab study list` "
        "says of the examples of all rows together. *Alone*: the published figures suffice for a verdict. *Example*: "
        "runs in [data](../project/data.md) that answer it.",
    ]
    shipped = _states()
    for study in spec.studies():
        found = spec.of_study(study)
        listed = [
            (f"[{row.id}](#{row.id.lower()})", row.title, shipped[row.id], "yes" if row.alone else "", _runs_of(row))
            for row in found
        ]
        parts += [
            f"## {study}",
            f"{session.cited(study)}.",
            _table(("row", "title", "state", "alone", "example"), listed),
        ]
        for row in found:
            facts = [
                f"- Study: {row.study}",
                f"- Corrected: {row.corrected}",
                *([f"- Runs that fit: `{row.fits}`"] if row.fits else []),
                f"- To record one: `{row.capture}`",
                *(
                    [f"- Questions: {', '.join(_question(each.query) for each in row.answers.values())}"]
                    if row.answers
                    else []
                ),
            ]
            parts += [f"### {row.id}", f"**{row.title}.** {row.prose}", "\n".join(facts)]
    return _joined(parts)


def _states() -> dict[str, str]:
    """How far each row is on the runs that ship with tracelab."""
    every = list(spec.rows().values())
    with example.store_of(every) as store, session.opened(store) as con:
        return {each.row.id: each.state for each in evaluate.states(con, every)}


def _runs_of(row: spec.Row) -> str:
    return ", ".join(f"`{name}`" for name in row.example)


def _question(name: str) -> str:
    return f"[{name}](queries/{name}.md)"


def _generated() -> str:
    return "<!-- Written by docs/generate.py; change the code, then run `make docs`. -->"


def _help(arguments: list[str]) -> str:
    result = CliRunner().invoke(
        main, [*arguments, "--help"], prog_name="tracelab", terminal_width=88, max_content_width=88
    )
    if result.exit_code != 0:
        raise SystemExit(result.output)
    return f"```text\n{result.output.rstrip()}\n```"


def _table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _joined(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
