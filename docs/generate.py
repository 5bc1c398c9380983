"""Writes docs/reference/*.md from the code: what `--help`, the schema and the queries' headers say, and nothing else.

python docs/generate.py           write the pages
python docs/generate.py --check   fail when a page is not what it would write
"""

import sys
from pathlib import Path

from click.testing import CliRunner

from tracelab import doctor, query, schema
from tracelab.cli import main
from tracelab.cli.group import VERBS
from tracelab.header import Query

REFERENCE = Path(__file__).parent / "reference"


_VALUES = """\
In every format but `table`, which is for people, values are exact: whole numbers in full, DECIMAL with all its digits
(in JSON a number; a reader that makes doubles of numbers rounds it), times in ISO 8601, an INTERVAL as `P14M3DT1.5S`.
NaN and infinity are `null` in JSON and empty in CSV and Markdown, as NULL is; Parquet keeps them. In a question of the
library a sum that leaves 64 bits is NULL."""


def pages() -> dict[str, str]:
    """Every page by its file name."""
    return {"cli.md": _cli(), "schema.md": _schema(), "queries.md": _queries(), "doctor.md": _doctor()}


def _cli() -> str:
    parts = ["# Command line", _generated(), _help([])]
    for verb in VERBS:
        parts += [f"## tracelab {verb}", _help([verb])]
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
    library = query.library()
    listed = [(f"[{name}](#{name})", each.title) for name, each in library.items()]
    parts = ["# Queries", _generated(), _table(("query", "title"), listed)]
    for name, each in library.items():
        parts += [f"## {name}", *_query(each)]
    return _joined(parts)


def _query(each: Query) -> list[str]:
    needs = " or ".join(f"[{table}](schema.md#{table})" for table in each.needs)
    parts = [each.prose, f"Needs rows in: {needs}." if needs else ""]
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
    parts.append(_table(("column", "meaning"), [(f"`{column}`", meaning) for column, meaning in each.columns.items()]))
    return parts


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


def stale() -> list[str]:
    """The pages that are not what the code says now."""
    written = {path.name: path.read_text("utf-8") for path in REFERENCE.glob("*.md")}
    return [name for name, text in pages().items() if written.get(name) != text]


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        if wrong := stale():
            sys.exit(f"docs/reference: {', '.join(wrong)} not current; run: make docs")
    else:
        REFERENCE.mkdir(exist_ok=True)
        for page, text in pages().items():
            (REFERENCE / page).write_text(text, "utf-8")
