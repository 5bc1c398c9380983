"""The macros and views of queries/lib, and of the classifier: one after another, and which of them a question needs."""

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
    """The SQL of each file of queries/lib, in the order in which they build on each other."""
    return tuple(path.read_text(encoding="utf-8").strip() for path in sorted(LIBRARY.glob("*.sql")))


def required_definitions(texts: Sequence[str], asked: str) -> str:
    """Of these texts the definitions that the SQL `asked` names, and those that these name; a word too many is no harm.

    To define all of them takes DuckDB several times as long as most questions do.
    """
    definitions = [each for text in texts for each in _split_definitions(text)]
    known: dict[str, set[str]] = {}
    for name, _, named in definitions:
        known.setdefault(name, set()).update(named)
    wanted: set[str] = set()
    left: set[str] = set(words(asked) & known.keys())
    while left:
        wanted |= left
        left = set().union(*(known[name] for name in left)) & known.keys() - wanted
    return "\n\n".join(text for name, text, _ in definitions if name in wanted)


def words(*texts: str) -> frozenset[str]:
    """The words in texts, names among them."""
    return frozenset(word for text in texts for word in _WORD.findall(text))


@cache
def _split_definitions(text: str) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """The definitions in a text: name, SQL without comments, and the words in it."""
    plain = _PROSE.sub("", text + "\n")
    starts = [match.start() for match in _DEFINITION.finditer(plain)]
    parts = [plain[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return tuple((_DEFINITION.findall(part)[0], part, words(part)) for part in parts)
