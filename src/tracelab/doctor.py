"""Check a store for errors and gaps in its data; each check is a file in queries/doctor."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from tracelab import schema
from tracelab.errors import UsageError, suggest_name
from tracelab.query import execute, library, spec
from tracelab.readers.base import diagnostic_codes
from tracelab.resources import QUERIES
from tracelab.store import commit_log, execution, integrity, session
from tracelab.store.files import LocalFiles
from tracelab.store.verification import DamagedStoreError, FileProblem, describe_lost, verify_parts

SEVERITIES = ("error", "warning", "info")
BUILT_IN_CHECKS = {
    "not_answerable": "Queries without data",
    "damaged_file": "Missing, truncated or altered files of the store",
}
"""The checks without a file, since they cover the query library and the store's files: code and title."""

FILE_CHECKS = frozenset(("damaged_file",))
"""The check that `verify` runs."""

NOTED = "reader_note"
"""The check whose findings have codes of their own: those of the readers' diagnostics."""

_MOST_NAMES = 3
_FIELDS = ("title", "severity", "how_to_fix")
_COLUMNS: dict[str, pa.DataType] = {
    "severity": pa.string(),
    "code": pa.string(),
    "run": pa.string(),
    "rank": pa.int32(),
    "count": pa.int64(),
    "message": pa.string(),
    "how_to_fix": pa.string(),
}


@dataclass(frozen=True)
class Check:
    """A check of the store, as its file defines it.

    Its SQL returns run, rank, count and message; further columns severity, code and how_to_fix override the check's.
    """

    code: str
    title: str
    prose: str
    severity: str
    how_to_fix: str
    sql: str


@dataclass(frozen=True)
class Verified:
    """How much `verify` read."""

    sources: int
    files: int
    size_bytes: int


@cache
def checks() -> tuple[Check, ...]:
    """Return all checks, ordered by name."""
    return tuple(parse_check(path) for path in sorted((QUERIES / "doctor").glob("*.sql")))


def find_checks(codes: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks whose findings can have these codes. Raises UsageError for an unknown code."""
    known = {check.code: check for check in checks()}
    others = {code for code in codes if code not in known and code not in BUILT_IN_CHECKS}
    for code in sorted(others - diagnostic_codes() if others else ()):
        raise UsageError(suggest_name("check", code, [*known, *BUILT_IN_CHECKS, *sorted(diagnostic_codes())]))
    names = [code if code in known else NOTED for code in codes if code not in BUILT_IN_CHECKS]
    return tuple(known[name] for name in dict.fromkeys(names))


def examine(con: duckdb.DuckDBPyConnection, run: str | None, codes: Sequence[str] = ()) -> pa.Table:
    """Run the checks on a store, or one run of it; return findings, worst first. `codes`: only these."""
    if run is not None:
        execute.check_run(execute.stored_runs(con), run)
    selected = dict.fromkeys((*find_checks(codes), *find_checks([NOTED]))) if codes else checks()
    findings = [
        finding
        for check in selected
        for finding in _findings(con, check, run)
        if not codes or check.code in codes or finding["code"] in codes
    ]
    if not codes or "not_answerable" in codes:
        findings.extend(_unanswerable_queries(con, run))
    findings.sort(key=lambda row: (SEVERITIES.index(str(row["severity"])), row["run"] is not None, str(row["run"])))
    return pa.Table.from_pylist(findings, schema=pa.schema(_COLUMNS))


def _referenced_sql() -> str:
    """Return all names that `examine` needs in a session: every table, and what the checks use."""
    return "\n".join((*schema.BY_NAME, *(check.sql for check in checks())))


def examine_store(
    store: Path,
    run: str | None,
    codes: Sequence[str] = (),
    *,
    memory_limit: str | None = None,
    deadline: execution.Deadline | None = None,
) -> pa.Table:
    """Open a store and examine it. Where its files are missing or damaged, return only findings on these."""
    try:
        with (
            session.connect(store, referenced=_referenced_sql()) as con,
            integrity.explain_read_errors(store),
            execution.translate_errors(),
        ):
            con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
            execution.limit_memory(con, memory_limit)
            return execution.run_interruptible(con, lambda: examine(con, run, codes), deadline)
    except DamagedStoreError as error:
        findings = _describe_problems(store, error.problems)
        findings.append(
            {
                "severity": "info",
                "code": "damaged_file",
                "count": len(findings),
                "message": "No other check ran, because each would examine incomplete data.",
            }
        )
        return pa.Table.from_pylist(findings, schema=pa.schema(_COLUMNS))


def verify(store: Path, run: str | None, codes: Sequence[str] = ()) -> tuple[pa.Table, Verified]:
    """Read and hash all files of a store, or of one run; return findings, of `codes` only, and how much was read."""
    snapshot = commit_log.check_not_empty(store, commit_log.open_snapshot(store, LocalFiles(store)))
    if run is not None:
        execute.check_run(sorted(snapshot.runs), run)
    parts = [part for part in snapshot.parts.values() if run in (None, part.run)]
    outcomes = verify_parts(store, snapshot, parts)
    problems = [*describe_lost(store, snapshot), *(problem for each in outcomes for problem in each.problems)]
    findings = _describe_problems(store, problems)
    if codes:
        findings = [finding for finding in findings if finding["code"] in codes]
    totals = (sum(getattr(each, name) for each in outcomes) for name in ("sources", "files", "size_bytes"))
    return pa.Table.from_pylist(findings, schema=pa.schema(_COLUMNS)), Verified(*totals)


def _describe_problems(store: Path, problems: Sequence[FileProblem]) -> list[dict[str, object]]:
    return [
        {
            "severity": "error",
            "code": "damaged_file",
            "run": problem.run,
            "count": 1,
            "message": f"{problem.sentence}.",
            "how_to_fix": f"Ingest its trace again: `{problem.repair_command(store)}`.",
        }
        for problem in problems
    ]


def render_sql(check: Check, run: str | None, codes: Sequence[str] = ()) -> str:
    """Render a check as SQL for a DuckDB shell that has read `tracelab sql --init`; of reader notes only `codes`."""
    prose = "".join(f"-- {line}".rstrip() + "\n" for line in check.prose.splitlines())
    conditions = [] if run is None else ["run = '" + run.replace("'", "''") + "'"]
    if codes and check.code not in codes:
        conditions.append(f"code in ({', '.join(repr(code) for code in codes if code in diagnostic_codes())})")
    where = f"where {' and '.join(conditions)}\n" if conditions else ""
    return f"-- {check.code}: {check.title}\n{prose}from (\n{check.sql}\n)\n".removesuffix("\n") + f"\n{where};\n"


def parse_check(path: Path) -> Check:
    """Parse the file of a check. Raises UsageError with file and line for an invalid header."""
    header = spec.split_header(path, "check")
    texts = {name: header.fields.get(name) for name in _FIELDS}
    if set(header.fields) != set(_FIELDS) or not all(isinstance(text, str) for text in texts.values()):
        raise UsageError(f"{path}:{header.first_line}: the header of a check has {', '.join(_FIELDS)}, each a text")
    if texts["severity"] not in SEVERITIES:
        raise UsageError(f"{path}:{header.first_line}: severity is one of {', '.join(SEVERITIES)}")
    title, severity, how_to_fix = map(str, texts.values())
    return Check(path.stem, title, header.prose, severity, how_to_fix, header.sql)


def _findings(con: duckdb.DuckDBPyConnection, check: Check, run: str | None) -> Iterator[dict[str, object]]:
    rows = execution.fetch_table(con, f"from (\n{check.sql}\n) where $run is null or run = $run", {"run": run})
    for row in rows.to_pylist():
        severity = row.get("severity")
        yield {
            "severity": severity if severity in SEVERITIES else check.severity,
            "code": row.get("code") or check.code,
            "run": row["run"],
            "rank": row["rank"],
            "count": row["count"],
            "message": row["message"],
            "how_to_fix": row.get("how_to_fix") or check.how_to_fix or None,
        }


def _unanswerable_queries(con: duckdb.DuckDBPyConnection, run: str | None) -> Iterator[dict[str, object]]:
    """Yield a finding on queries whose tables are all empty, for each set of runs and way to capture the data."""
    runs = [run] if run is not None else execute.stored_runs(con)
    filled = {table: _runs_with(con, table) for table in schema.BY_NAME}
    lacks: dict[tuple[tuple[str, ...], str], list[spec.Query]] = {}
    for each in library.library().values():
        runs_without = tuple(name for name in runs if not any(name in filled[table] for table in each.needs))
        if each.needs and runs_without:
            lacks.setdefault((runs_without, _capture_advice(each.needs)), []).append(each)
    for (runs_without, ways), queries in lacks.items():
        yield {
            "severity": "info",
            "code": "not_answerable",
            "run": runs_without[0] if len(runs_without) == 1 else None,
            "count": len(queries),
            "message": _describe_missing(queries, runs_without, len(runs)),
            "how_to_fix": ways,
        }


def _runs_with(con: duckdb.DuckDBPyConnection, table: str) -> list[str]:
    """Return the runs with rows in a table, ordered by name."""
    return [str(run) for (run,) in con.sql(f"select distinct run from {table} order by run").fetchall()]


def _capture_advice(needs: Sequence[str]) -> str:
    ways = execute.capture_hints(needs)
    return f"{ways[0].upper()}{ways[1:]}."


def _describe_missing(queries: Sequence[spec.Query], runs_without: Sequence[str], runs: int) -> str:
    tables = ", ".join(dict.fromkeys(table for each in queries for table in each.needs))
    names = ", ".join(each.name for each in queries)
    subject = "1 query has" if len(queries) == 1 else f"{len(queries)} queries have"
    empty = f"{subject} no data{_of_runs(runs_without, runs)}, because these tables are empty"
    return f"{empty}: {tables}. Without data: {names}."


def _of_runs(names: Sequence[str], runs: int) -> str:
    """Return of which of several runs something is true, with the first names where it is some of them."""
    if len(names) == 1:
        return ""
    if len(names) == runs:
        return f" of all {runs:,} runs"
    first = ", ".join([*names[:_MOST_NAMES], *["…"] * (len(names) > _MOST_NAMES)])
    return f" of {len(names):,} of {runs:,} runs ({first})"
