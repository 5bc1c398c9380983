"""Compute what queries keep of large runs before anyone asks, so that first answers take as long as later ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracelab.errors import NoDataError, TracelabError, UsageError
from tracelab.query import execute, library
from tracelab.query.spec import Query
from tracelab.store import session, shared_relations

_OF_ALL_RUNS = "fleet_summary"
"""A query that reads the rollups of all runs."""


@dataclass(frozen=True)
class PrecomputedRun:
    """A large run, the queries that were answered for it, and why others failed, by query."""

    run: str
    queries: tuple[str, ...]
    failures: dict[str, str]


def precompute(store: Path, run: str | None = None) -> Iterator[PrecomputedRun]:
    """Answer the queries that keep something of each large run of a store, or of one; yield each run when it is done.

    Large are runs of 50,000 rows of GPU activity, ops or API calls, or more. Each query has a session of its own, so
    that memory is that of one query. Raises NoDataError for a store without sources.
    """
    with session.connect(store, referenced=", ".join(("sources", *shared_relations.LARGE_TABLES))) as con:
        stored = [name for (name,) in con.execute("select distinct run from sources order by run").fetchall()]
        wanted = [name for name in stored if run in (None, name)]
        large = [name for name in wanted if shared_relations.is_large(con, name)]
    for name in large:
        answered, failures = [], {}
        for query in library.library().values():
            if shared_relations.keeps_sums(query.sql):
                try:
                    if _answer(store, query, name):
                        answered.append(query.name)
                except TracelabError as error:
                    failures[query.name] = str(error)
        yield PrecomputedRun(name, tuple(answered), failures)


def precompute_rollups(store: Path) -> int:
    """Compute the rollups of all runs of a store, which queries over many runs read; return how many runs it has.

    Raises NoDataError for a store without sources.
    """
    query = library.find(_OF_ALL_RUNS)
    with session.connect(store, referenced=execute.referenced_sql(query, {})) as con:
        execute.start(con, query, {})
        return len(con.execute("select distinct run from sources").fetchall())


def _answer(store: Path, query: Query, run: str) -> bool:
    """Answer a query about a run; return whether the run has data for it."""
    values = {"run": run} if any(param.name == "run" for param in query.params) else {}
    with session.connect(store, referenced=execute.referenced_sql(query, values), read_runs=[run]) as con:
        try:
            execute.start(con, query, values)
        except (NoDataError, UsageError):
            return False
    return True
