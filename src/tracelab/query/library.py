"""Find queries: those that tracelab ships, by name, and those in a user's file, by path."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from tracelab.errors import UsageError
from tracelab.query.report_rules import SECTION_TITLES
from tracelab.query.spec import Query, parse
from tracelab.resources import QUERIES


@cache
def library() -> dict[str, Query]:
    """The queries that tracelab ships, by name: the files of the folder, without a registry."""
    return {path.stem: parse(path) for path in sorted(QUERIES.glob("*.sql"))}


@cache
def variants() -> dict[str, dict[str, Query]]:
    """By query and tool: the same query as that tool defines it.

    These are the files like/<tool>/<query>.sql, and the library's queries with `like` in their header.
    """
    by_query: dict[str, dict[str, Query]] = {}
    for each in [*map(_parse_variant, sorted(QUERIES.glob("like/*/*.sql"))), *library().values()]:
        for tool, name in each.like.items():
            by_query.setdefault(name, {})[tool] = each
    return {name: dict(sorted(by_query[name].items())) for name in library() if name in by_query}


def _parse_variant(path: Path) -> Query:
    tool, name = path.parent.name, path.stem
    return replace(parse(path), name=f"{name} --like {tool}", like={tool: name})


def title_with_tools(name: str) -> str:
    """The title of a query of the library, and the tools that define it too."""
    tools = variants().get(name)
    return library()[name].title + (f"; --like {', '.join(tools)}" if tools else "")


def by_subject() -> dict[str, list[Query]]:
    """The queries by the title of their subject, in the order of the report; those without one come last."""
    grouped = {
        title: [each for each in library().values() if each.subject == subject]
        for subject, title in (*SECTION_TITLES.items(), (None, "Others"))
    }
    return {title: queries for title, queries in grouped.items() if queries}


def is_shipped(query: Query) -> bool:
    """Whether the query is of the library, not from a user's file."""
    known = [library().get(query.name), *(variants().get(name, {}).get(tool) for tool, name in query.like.items())]
    return query in known


def find(name_or_path: str, like: str | None = None) -> Query:
    """Return a query by its name, or from a file ending in .sql; with `like`, as that tool defines it."""
    query = _find(name_or_path)
    if like is None:
        return query
    tools = variants().get(query.name, {}) if is_shipped(query) else {}
    if like in tools:
        return tools[like]
    if tools:
        raise UsageError(f"{query.name} has no definition like {like!r}; there are {', '.join(tools)}")
    raise UsageError(f"{query.name} has no definition of another tool; these queries have: {', '.join(variants())}")


def _find(name_or_path: str) -> Query:
    known = library()
    if name_or_path in known:
        return known[name_or_path]
    path = Path(name_or_path)
    if path.suffix == ".sql":
        if not path.is_file():
            raise UsageError(f"no file {path}; `tracelab query` lists the queries")
        return parse(path)
    near = " or ".join(map(repr, _suggest(name_or_path, known)))
    raise UsageError(f"no query {name_or_path!r}; did you mean {near}? `tracelab query` lists them all")


_MISSPELLED = 0.85
"""A name at least this similar to that of a query is a misspelling of it."""
_MOST_SUGGESTED = 3


def _suggest(name: str, known: Mapping[str, Query]) -> list[str]:
    """Return the query whose name is misspelled, else those most about the words of the name, else the nearest."""
    if misspelled := difflib.get_close_matches(name, known, n=1, cutoff=_MISSPELLED):
        return misspelled
    stems = [word.removesuffix("s") for word in re.findall("[a-z]+", name.lower())]
    words = [re.compile(rf"(?<![a-z]){stem}") for stem in stems]
    relevance = {query.name: _relevance(words, query) for query in known.values()} if words else {}
    if best := max(relevance.values(), default=0):
        return [query for query, value in relevance.items() if value == best][:_MOST_SUGGESTED]
    return difflib.get_close_matches(name, known, n=1, cutoff=0.0)


def _relevance(words: list[re.Pattern[str]], query: Query) -> int:
    """Return which of prose, columns, title and name have all words, as bits: the name counts more than the others."""
    texts = (query.prose, " ".join(query.columns), f"{query.title} {query.title.replace(' ', '')}", query.name)
    return sum(all(word.search(text.lower()) for word in words) << place for place, text in enumerate(texts))


def default_step_name() -> str:
    """Return the regular expression that finds the names of steps."""
    return next(str(param.default) for param in find("run_difference").params if param.name == "step_name")
