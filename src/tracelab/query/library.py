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

_LIKE = re.compile(r"^-- like\b", re.MULTILINE)


@cache
def names() -> tuple[str, ...]:
    """The names of the queries that tracelab ships, in order: the files of the folder, without a registry."""
    return tuple(sorted(path.stem for path in QUERIES.glob("*.sql")))


@cache
def shipped(name: str) -> Query:
    """The query that tracelab ships under this name, one of `names`."""
    return parse(QUERIES / f"{name}.sql")


def library() -> dict[str, Query]:
    """The queries that tracelab ships, by name; to parse all takes as long as to open a store."""
    return {name: shipped(name) for name in names()}


@cache
def variants() -> dict[str, dict[str, Query]]:
    """By query and tool: the same query as that tool defines it."""
    return {name: by_tool for name in names() if (by_tool := variants_of(name))}


@cache
def variants_of(name: str) -> dict[str, Query]:
    """By tool: a query of the library as that tool defines it.

    These are the files like/<tool>/<query>.sql, and the library's queries with `like` in their header.
    """
    listed = [*map(_parse_variant, QUERIES.glob(f"like/*/{name}.sql")), *_equivalents()]
    return dict(sorted({tool: each for each in listed for tool, of in each.like.items() if of == name}.items()))


@cache
def _equivalents() -> list[Query]:
    """The queries of the library with `like` in their header."""
    texts = {name: (QUERIES / f"{name}.sql").read_text(encoding="utf-8") for name in names()}
    return [shipped(name) for name, text in texts.items() if _LIKE.search(text)]


def _parse_variant(path: Path) -> Query:
    tool, name = path.parent.name, path.stem
    return replace(parse(path), name=f"{name} --like {tool}", like={tool: name})


def title_with_tools(name: str) -> str:
    """The title of a query of the library, and the tools that define it too."""
    tools = variants_of(name)
    return shipped(name).title + (f"; --like {', '.join(tools)}" if tools else "")


def by_subject() -> dict[str, list[Query]]:
    """The queries by the title of their subject, in the order of the report; those without one come last."""
    grouped = {
        title: [each for each in library().values() if each.subject == subject]
        for subject, title in (*SECTION_TITLES.items(), (None, "Others"))
    }
    return {title: queries for title, queries in grouped.items() if queries}


def is_shipped(query: Query) -> bool:
    """Whether the query is of the library, not from a user's file."""
    own = [shipped(query.name)] if query.name in names() else []
    return query in [*own, *(variants_of(name).get(tool) for tool, name in query.like.items() if name in names())]


def find(name_or_path: str, like: str | None = None) -> Query:
    """Return a query by its name, or from a file ending in .sql; with `like`, as that tool defines it."""
    query = _find(name_or_path)
    if like is None:
        return query
    tools = variants_of(query.name) if is_shipped(query) and query.name in names() else {}
    if like in tools:
        return tools[like]
    if tools:
        raise UsageError(f"{query.name} has no definition like {like!r}; there are {', '.join(tools)}")
    raise UsageError(f"{query.name} has no definition of another tool; these queries have: {', '.join(variants())}")


def _find(name_or_path: str) -> Query:
    if name_or_path in names():
        return shipped(name_or_path)
    path = Path(name_or_path)
    if path.suffix == ".sql":
        if not path.is_file():
            raise UsageError(f"no file {path}; `tracelab query` lists the queries")
        return parse(path)
    near = " or ".join(map(repr, _suggest(name_or_path, library())))
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
