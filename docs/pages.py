"""Build the pages of docs/reference and the cookbook, from `--help`, the schema and the headers of queries."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from click.testing import CliRunner

from examples import ROOT, Example, format_answer, study_runs
from tracelab import doctor, schema, table_lookup
from tracelab.cli import COMMANDS, main
from tracelab.cli.collect import COMMANDS as COLLECT_COMMANDS
from tracelab.client import Lab
from tracelab.query import library
from tracelab.query.spec import Query
from tracelab.study import evaluate, session, spec
from tracelab.table_types import ComputedTable, Table

_NOTICE = "<!-- Written by docs/generate.py; change the code, then run `make docs`. -->"
_MACRO = re.compile(r"((?:^--.*\n)*)^create or replace macro (\w+)\(([^)]*)\) as( table)?", re.MULTILINE)
_SUBCOMMANDS = {"collect": tuple(COLLECT_COMMANDS), "study": ("list", "show", "plot", "run")}
_VALUES = """\
`table` is for people. In all other formats, values are exact: whole numbers in full, DECIMAL with all its digits (a
number in JSON; readers that use doubles round it), times in ISO 8601, an INTERVAL as `P14M3DT1.5S`. NaN and infinity
are `null` in JSON, and empty in CSV and Markdown, as NULL is; Parquet keeps them. In queries of the library, a sum that
leaves 64 bits is NULL."""


def build_pages() -> dict[str, str]:
    """Return every page except those of single queries, by its path in docs/reference."""
    return build_definition_pages() | {"studies.md": _build_studies()}


def build_definition_pages() -> dict[str, str]:
    """Return the pages that need no run: those of commands, tables, queries, macros and checks."""
    return {
        "cli.md": _build_cli(),
        "schema.md": _build_schema(),
        "queries.md": _build_queries(),
        "macros.md": _build_macros(),
        "doctor.md": _build_doctor(),
    }


def _build_cli() -> str:
    parts = ["# Command line", _NOTICE, _help_block([])]
    for name in COMMANDS:
        parts += [f"## tracelab {name}", _help_block([name])]
        for command in _SUBCOMMANDS.get(name, ()):
            parts += [f"### tracelab {name} {command}", _help_block([name, command])]
    codes = [
        ("0", "done"),
        ("1", "failed"),
        ("2", "wrong request: an unknown name, a value of a wrong type, a refused statement"),
        ("3", "no data: nothing in the store or the files can answer"),
        ("4", "undecided, for `tracelab compare --strict`"),
        ("5", "`tracelab compare` refuses to compare the runs"),
        ("6", "`tracelab compare` failed, where other commands exit with 1"),
        ("130", "interrupted"),
    ]
    return _join([*parts, "## Values", _VALUES, "## Exit codes", _markdown_table(("code", "meaning"), codes)])


def _build_schema() -> str:
    tables: list[Table | ComputedTable] = [*schema.TABLES, *table_lookup.COMPUTED_TABLES.values()]
    computed = " and ".join(f"`{name}`" for name in table_lookup.COMPUTED_TABLES)
    parts = [
        "# Tables",
        _NOTICE,
        f"Schema {schema.SCHEMA_VERSION}. Absent values are NULL. Names end in their unit: `_ns` whole nanoseconds, "
        "`_bytes`, `_hz`, `_ratio` (0 to 1), `_gb_per_s` and `_gflop_per_s` (1e9 per second). "
        f"Python computes {computed} where a statement names them; all others are stored.",
        _markdown_table(("table", "a row is"), [(f"[{table.name}](#{table.name})", table.row) for table in tables]),
    ]
    for table in tables:
        columns = [(f"`{column.name}`", f"`{column.duckdb}`", column.doc) for column in table.view_columns]
        parts += [f"## {table.name}", f"A row is {table.row}.", _markdown_table(("column", "type", "meaning"), columns)]
    return _join(parts)


def _build_queries() -> str:
    rows = [
        (f"[{name}](queries/{name}.md)", query.title, ", ".join(library.variants().get(name, ())))
        for name, query in library.library().items()
    ]
    introduction = (
        "Each page defines the rows, options and columns of a query, shows its SQL, and runs it on the runs in "
        "[data](../project/data.md). `--like TOOL` computes what that tool computes "
        "([Definitions of other tools](../guides/other-tools.md)); the query's page lists the differences."
    )
    return _join(["# Queries", _NOTICE, introduction, _markdown_table(("query", "title", "--like"), rows)])


def build_query_page(query: Query, example: Example, variants: Mapping[str, tuple[Query, Example]]) -> str:
    """Return the page of one query, queries/<name>.md; `variants` are its definitions of other tools."""
    parts = [f"# {query.name}", _NOTICE, *_definition(query)]
    if variants:
        links = ", ".join(f"[{tool}](#like-{tool})" for tool in variants)
        parts.append(f"Definitions of other tools, with `--like`: {links}.")
    parts += ["## Example", *_example_section(query, example), "## SQL", _sql_block(query)]
    for tool, (variant, variant_example) in variants.items():
        parts.append(f"## Like {tool}")
        if variant.name in library.library():
            parts.append(f"`{query.name} --like {tool}` is [{variant.name}]({variant.name}.md): {variant.title}.")
        else:
            parts += [*_definition(variant), *_example_section(variant, variant_example), _sql_block(variant)]
    return _join(parts)


def build_definitions(query: Query, variants: Collection[Query]) -> list[str]:
    """Return the parts of a query's page that need no run: definitions and SQL of it and its variants."""
    shown = [query, *(variant for variant in variants if variant.name not in library.library())]
    return [part for each in shown for part in (*_definition(each), _sql_block(each)) if part]


def _definition(query: Query) -> list[str]:
    """Return the prose, the needed tables, the options and the columns of a query."""
    needs = " or ".join(f"[{table}](../schema.md#{table})" for table in query.needs)
    parts = [f"**{query.title}.** {query.prose}", f"Needs rows in: {needs}." if needs else ""]
    if query.params:
        rows = [
            (
                f"`--{param.name.replace('_', '-')}`",
                param.type,
                "" if param.default is None else f"`{param.default}`",
                param.about,
            )
            for param in query.params
        ]
        parts.append(_markdown_table(("option", "type", "default", "meaning"), rows))
    columns = [(f"`{column}`", meaning) for column, meaning in query.columns.items()]
    parts.append(_markdown_table(("column", "meaning"), columns))
    if query.show:
        parts.append(f"A table has {', '.join(f'`{name}`' for name in query.show)}; `--all` shows every column.")
    return parts


def _sql_block(query: Query) -> str:
    return f"```sql\n{query.sql.strip()}\n```"


def _example_section(query: Query, example: Example) -> list[str]:
    if example.answer is None:
        return [f"The runs in data cannot answer it: {example.problem}"]
    picture = f"![{query.title}, drawn from the answer above]({query.name}.png)" if example.picture else ""
    origin = (
        f"No run in data has a row for it; the rows are those of the test `{example.case}`." if example.case else ""
    )
    return [origin, f"```console\n$ {example.command}\n{format_answer(example.answer, query.show)}\n```", picture]


def build_cookbook(lab: Lab) -> str:
    """Return the page of recipes: the SQL of docs/cookbook, run on the recorded runs."""
    recipes = [_build_recipe(script, lab) for script in sorted((Path(__file__).parent / "cookbook").glob("*.sql"))]
    links = [f"- [{title}](#{_slug(title)})" for title, _ in recipes]
    introduction = (
        "SQL beyond [the library](../reference/queries.md), over [the tables](../reference/schema.md) and the macros "
        "of `queries/lib`. Each answer comes from the runs in [data](../project/data.md): `tracelab ingest data`, then "
        "`tracelab sql - < FILE`."
    )
    return _join(["# Cookbook", _NOTICE, introduction, "\n".join(links), *(section for _, section in recipes)])


def _build_recipe(script: Path, lab: Lab) -> tuple[str, str]:
    """Return the title, the first line of the script's comment, and the section."""
    lines = script.read_text("utf-8").splitlines()
    title, *prose = [line.removeprefix("--").strip() for line in lines if line.startswith("--")]
    sql = "\n".join(line for line in lines if not line.startswith("--"))
    parts = [
        f"## {title}",
        "\n".join(prose),
        f"```sql\n{sql}\n```",
        f"```text\n{format_answer(lab.sql(sql).arrow())}\n```",
        f"File: [{script.name}](../cookbook/{script.name})",
    ]
    return title, "\n\n".join(parts)


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def _build_macros() -> str:
    """Return the page of the shared macros: the comment above each in queries/lib."""
    parts = [
        "# Macros",
        _NOTICE,
        "Queries share these macros of `queries/lib`; SQL of your own can use them, too. An argument that is a "
        "relation is the name of a table, view or CTE as a text: `busy('kernels')`. Macros that start with a tool's "
        "name compute what that tool computes.",
    ]
    shared = [
        (f"`{path.stem}`", _plain_comment(re.match(r"(-- (?!///).*\n)+", path.read_text("utf-8"))[0], ""))
        for path in sorted((ROOT / "queries" / "shared").glob("*.sql"))
    ]
    parts += [
        "## Shared relations",
        "Queries read the rows of some macros by a name, as a table of all runs. A session computes them once for a "
        "run. `tracelab sql` and `Lab.sql` have them; `tracelab query NAME --show-sql` writes them into the query.",
        _markdown_table(("relation", "description"), shared),
    ]
    for script in sorted((ROOT / "queries" / "lib").glob("*.sql")):
        rows = [
            (f"`{name}({arguments})`", "table" if table else "value", _plain_comment(comment, name))
            for comment, name, arguments, table in _MACRO.findall(script.read_text("utf-8"))
        ]
        if rows:
            parts += [f"## {script.stem[3:]}", _markdown_table(("macro", "returns", "description"), rows)]
    return _join(parts)


def _plain_comment(comment: str, name: str) -> str:
    """Return the comment above a macro on one line, without the signature that it repeats."""
    text = " ".join(line.removeprefix("--").strip() for line in comment.splitlines())
    return re.sub(rf"^{name}\([^)]*\):? ?", "", text)


def _build_doctor() -> str:
    rows = [(f"[{check.code}](#{check.code})", check.severity, check.title) for check in doctor.checks()]
    rows += [(code, "info", title) for code, title in doctor.BUILT_IN_CHECKS.items()]
    parts = [
        "# Checks of the doctor",
        _NOTICE,
        "`tracelab doctor` runs these checks. Each is a file of SQL in `queries/doctor`; "
        "`tracelab doctor --check CODE --show-sql` prints it. `--check` takes every code that a finding has, those of "
        "readers such as `ncu_rule` too.",
        _markdown_table(("check", "severity", "title"), rows),
    ]
    for check in doctor.checks():
        parts += [f"## {check.code}", check.prose, f"To do: {check.how_to_fix}" if check.how_to_fix else ""]
    return _join(parts)


def _build_studies() -> str:
    """Return the page of the studies' rows: subject, formulas, and the runs that answer them."""
    parts = [
        "# Rows of the studies",
        _NOTICE,
        "The rows of `tracelab study`; see [Five studies](../guides/studies.md). *State*: the result of `tracelab "
        "study list` for the examples of all rows together. *Alone*: the published figures suffice for a verdict. "
        "*Example*: runs in [data](../project/data.md) that answer the row.",
    ]
    states = _compute_row_states()
    for study in spec.studies():
        rows = spec.select_rows(study)
        table = [
            (
                f"[{row.id}](#{row.id.lower()})",
                row.title,
                states[row.id],
                "yes" if row.alone else "",
                ", ".join(f"`{name}`" for name in row.example),
            )
            for row in rows
        ]
        heading = ("row", "title", "state", "alone", "example")
        parts += [f"## {study}", f"{session.format_citation(study)}.", _markdown_table(heading, table)]
        for row in rows:
            queries = ", ".join(f"[{each.query}](queries/{each.query}.md)" for each in row.answers.values())
            facts = [
                f"- Study: {row.study}",
                f"- Corrected: {row.corrected}",
                *([f"- Runs that fit: `{row.fits}`"] if row.fits else []),
                f"- To record one: `{row.capture}`",
                *([f"- Queries: {queries}"] if queries else []),
            ]
            parts += [f"### {row.id}", f"**{row.title}.** {row.prose}", "\n".join(facts)]
    return _join(parts)


def _compute_row_states() -> dict[str, str]:
    """Return the state of each row on the runs that ship with tracelab."""
    rows = list(spec.rows().values())
    with study_runs() as store, session.open_session(store, rows) as con:
        return {each.row.id: each.state for each in evaluate.row_states(con, rows)}


def _help_block(arguments: list[str]) -> str:
    result = CliRunner().invoke(
        main, [*arguments, "--help"], prog_name="tracelab", terminal_width=88, max_content_width=88
    )
    if result.exit_code != 0:
        raise SystemExit(result.output)
    return f"```text\n{result.output.rstrip()}\n```"


def _markdown_table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heading, tuple("---" for _ in heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _join(parts: list[str]) -> str:
    return "\n\n".join(part for part in parts if part) + "\n"
