"""Names from traces, made fit to show: they are hostile until shown otherwise, and long in any case."""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from rich.cells import cell_len

_BEHIND_ARGUMENTS = re.compile(r"\s*($|const\b|\[|::)")
"""What may follow the arguments of a C++ function; any other text with a bracket is no such name, and stays whole."""
_BETWEEN_WORDS = re.compile(r"[\s,;/·_-]+")
NO_NAME = "(no name)"
"""What stands for an empty name where people read."""


def escape_controls(text: str) -> str:
    """The text in one line without control characters: a name may hold newlines, or commands to a terminal."""
    return "".join(character if character.isprintable() else _escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shorten(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis for its middle: both ends of a kernel's name tell something."""
    if cell_len(text) <= width:
        return text
    tail = max(0, width - 1) // 3
    end = _prefix(text[::-1], tail)[::-1]
    return _prefix(text, max(0, width - 1 - tail)) + "…"[:width] + end


def shorten_distinctly(texts: Iterable[str], width: int) -> dict[str, str]:
    """Each text in at most `width` cells, different ones differently: what all share goes first, then middles.

    A text that still looks like another one is cut to its beginning and to where it differs; failing that, numbered.
    """
    every = list(dict.fromkeys(texts))
    if all(cell_len(text) <= width for text in every):
        return {text: text for text in every}
    bare = _drop_shared_ends(_drop_shared_parts(every))
    short = {text: shorten(rest, width) for text, rest in zip(every, bare, strict=True)}
    for alike in _colliding(short):
        start = _boundary(_shared_prefix(alike))
        head = _prefix(alike[0][:start], width // 3) + "…"
        short |= {text: head + _cut(text[start:], width - cell_len(head)) for text in alike}
    for alike in _colliding(short):
        short |= {text: f"{shorten(text, width - 5)} #{number}" for number, text in enumerate(alike, 1)}
    return short


def _colliding(short: Mapping[str, str]) -> list[list[str]]:
    """The texts that are several for one short form."""
    groups: dict[str, list[str]] = {}
    for text, said in short.items():
        groups.setdefault(said, []).append(text)
    return [texts for texts in groups.values() if len(texts) > 1]


def _drop_shared_parts(texts: Sequence[str]) -> list[str]:
    """Lists without the parts that stand in all of them; a list that would be empty stays."""
    parts = [text.split(", ") for text in texts]
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [", ".join([part for part in each if part not in shared] or each) for each in parts]


def _drop_shared_ends(texts: Sequence[str]) -> list[str]:
    """Texts with an ellipsis for the words with which all of them begin, and for those with which all end."""
    if len(texts) < 2:  # noqa: PLR2004  one shares nothing
        return list(texts)
    start = _boundary(_shared_prefix(texts))
    rests = [text[start:] for text in texts]
    end = _boundary(_shared_prefix([rest[::-1] for rest in rests]))
    return [("…" if start else "") + rest[: len(rest) - end] + ("…" if end else "") for rest in rests]


def _shared_prefix(texts: Sequence[str]) -> str:
    """The characters with which all texts begin: the first and the last in order share no more."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _boundary(shared: str) -> int:
    """Where the last whole word of a shared beginning is over."""
    return max((found.end() for found in _BETWEEN_WORDS.finditer(shared)), default=0)


def _cut(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis for its end."""
    return text if cell_len(text) <= width else _prefix(text, width - 1) + "…"


def _prefix(text: str, width: int) -> str:
    """As many characters as the cells hold; some characters take two."""
    taken = 0
    for index, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:index]
    return text


def strip_signature(name: str) -> str:
    """A kernel's name without what every C++ name carries: return type, arguments, well-known namespaces."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|\bstd::", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character in "<[") - (character in ">]")
        if character == "(" and depth == 0 and index > 0:
            return name[:index].strip() if _BEHIND_ARGUMENTS.match(_after_arguments(name[index:])) else name
    return name


def _after_arguments(text: str) -> str:
    """What follows the bracket that closes the first one; nothing where none does, for names are cut."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[index + 1 :]
    return ""
