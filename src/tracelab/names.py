"""Names from traces, made fit to show: they are hostile until shown otherwise, and long in any case."""

import re

from rich.cells import cell_len

_BEHIND_ARGUMENTS = re.compile(r"\s*($|const\b|\[|::)")
"""What may follow the arguments of a C++ function; any other text with a bracket is no such name, and stays whole."""
NO_NAME = "(no name)"
"""What stands for an empty name where people read."""


def visible(text: str) -> str:
    """The text in one line without control characters: a name may hold newlines, or commands to a terminal."""
    return "".join(character if character.isprintable() else _spelled(character) for character in text)


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(text: str, width: int) -> str:
    """The text in at most `width` cells, an ellipsis for its middle: both ends of a kernel's name tell something."""
    if cell_len(text) <= width:
        return text
    tail = max(0, width - 1) // 3
    end = _beginning(text[::-1], tail)[::-1]
    return _beginning(text, max(0, width - 1 - tail)) + "…"[:width] + end


def _beginning(text: str, width: int) -> str:
    """As many characters as the cells hold; some characters take two."""
    taken = 0
    for index, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:index]
    return text


def plain_kernel(name: str) -> str:
    """A kernel's name without what every C++ name carries: return type, arguments, well-known namespaces."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|\bstd::", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character in "<[") - (character in ">]")
        if character == "(" and depth == 0 and index > 0:
            return name[:index].strip() if _BEHIND_ARGUMENTS.match(_behind(name[index:])) else name
    return name


def _behind(text: str) -> str:
    """What follows the bracket that closes the first one; nothing where none does, for names are cut."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[index + 1 :]
    return ""
