"""Shorten names from traces so that they fit."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from rich.cells import cell_len

_BEHIND_ARGUMENTS = re.compile(r"\s*($|const\b|\[|::)")
"""Text that may follow the arguments of a C++ function; other text with a bracket is not a C++ name and stays whole."""
_BETWEEN_WORDS = re.compile(r"[\s,;/·_-]+")
IDENTITY = ("run", "before", "after", "rank", "device")
"""Columns that identify what a row is about."""

NO_NAME = "(no name)"
"""Label for an empty name."""


def shorten(text: str, width: int) -> str:
    """Shorten a text to `width` terminal cells by an ellipsis in its middle: both ends of a kernel name matter."""
    if cell_len(text) <= width:
        return text
    tail = max(0, width - 1) // 3
    end = _prefix(text[::-1], tail)[::-1]
    return _prefix(text, max(0, width - 1 - tail)) + "…"[:width] + end


def shorten_distinctly(texts: Iterable[str], width: int) -> dict[str, str]:
    """Shorten texts to `width` cells and keep different texts different: drop shared parts first, then middles.

    Texts that still collide are cut to their beginning and to where they differ, or numbered.

    """
    every = list(dict.fromkeys(texts))
    if all(cell_len(text) <= width for text in every):
        return {text: text for text in every}
    bare = _drop_shared_ends(_drop_shared_parts(every))
    short = {text: shorten(rest, width) for text, rest in zip(every, bare, strict=True)}
    for group in _colliding(short):
        start = _boundary(_shared_prefix(group))
        head = _prefix(group[0][:start], width // 3) + "…"
        short |= {text: head + _cut(text[start:], width - cell_len(head)) for text in group}
    for group in _colliding(short):
        short |= {text: f"{shorten(text, width - 5)} #{number}" for number, text in enumerate(group, 1)}
    return short


def _colliding(short: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of texts that share one short form."""
    groups: dict[str, list[str]] = {}
    for text, label in short.items():
        groups.setdefault(label, []).append(text)
    return [texts for texts in groups.values() if len(texts) > 1]


def _drop_shared_parts(texts: Sequence[str]) -> list[str]:
    """Drop the parts that all lists share; a list never becomes empty."""
    parts = [text.split(", ") for text in texts]
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [", ".join([part for part in each if part not in shared] or each) for each in parts]


def _drop_shared_ends(texts: Sequence[str]) -> list[str]:
    """Replace words that all texts share at their beginning or end by an ellipsis."""
    if len(texts) < 2:  # noqa: PLR2004  one shares nothing
        return list(texts)
    start = _boundary(_shared_prefix(texts))
    rests = [text[start:] for text in texts]
    end = _boundary(_shared_prefix([rest[::-1] for rest in rests]))
    return [("…" if start else "") + rest[: len(rest) - end] + ("…" if end else "") for rest in rests]


def _shared_prefix(texts: Sequence[str]) -> str:
    """Return the common prefix; the first and the last text in order suffice."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _boundary(shared: str) -> int:
    """Return the end of the last whole word in a shared prefix."""
    return max((match.end() for match in _BETWEEN_WORDS.finditer(shared)), default=0)


def _cut(text: str, width: int) -> str:
    """Shorten a text to `width` cells by an ellipsis at its end."""
    return text if cell_len(text) <= width else _prefix(text, width - 1) + "…"


def _prefix(text: str, width: int) -> str:
    """Return as many characters as fit into the cells; some characters take two."""
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return text[:index]
    return text


def strip_signature(name: str) -> str:
    """Return a kernel name without return type, arguments and well-known namespaces."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|\bstd::", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character in "<[") - (character in ">]")
        if character == "(" and depth == 0 and index > 0:
            return name[:index].strip() if _BEHIND_ARGUMENTS.match(_after_arguments(name[index:])) else name
    return name


def _after_arguments(text: str) -> str:
    """Return the text after the bracket that closes the first one; empty if none does, since names may be cut."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[index + 1 :]
    return ""
