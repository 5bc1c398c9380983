"""The macros and views of queries/lib, and the selection of those that a query needs."""

import re
from collections.abc import Sequence
from functools import cache

from tracelab.resources import QUERIES

LIBRARY = QUERIES / "lib"

_DEFINITION = re.compile(r"^create or replace (?:macro|view) (\w+)", re.MULTILINE)
_PROSE = re.compile(r"^\s*--.*\n|^comment on .*\n", re.MULTILINE)
_WORD = re.compile(r"\w+")


@cache
def shipped_files() -> tuple[str, ...]:
    """Return the SQL of each file of queries/lib; a file uses only macros of earlier ones."""
    return tuple(path.read_text(encoding="utf-8").strip() for path in sorted(LIBRARY.glob("*.sql")))


def required_definitions(texts: Sequence[str], referenced: str) -> str:
    """Return the definitions that the SQL `referenced` uses, directly or through others, in order.

    A superset is harmless. Creating all definitions takes DuckDB several times as long as most queries run.
    """
    definitions = [definition for text in texts for definition in _split_definitions(text)]
    known: dict[str, set[str]] = {}
    for name, _, identifiers in definitions:
        known.setdefault(name, set()).update(identifiers)
    wanted: set[str] = set()
    pending: set[str] = set(words(referenced) & known.keys())
    while pending:
        wanted |= pending
        pending = set().union(*(known[name] for name in pending)) & known.keys() - wanted
    return "\n\n".join(text for name, text, _ in definitions if name in wanted)


def words(*texts: str) -> frozenset[str]:
    """Return all identifiers in the texts."""
    return frozenset(word for text in texts for word in _WORD.findall(text))


@cache
def _split_definitions(text: str) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """Split a text into definitions: name, SQL without comments, and the identifiers in it."""
    plain = _PROSE.sub("", text + "\n")
    starts = [match.start() for match in _DEFINITION.finditer(plain)]
    parts = [plain[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return tuple((_DEFINITION.findall(part)[0], part, words(part)) for part in parts)
