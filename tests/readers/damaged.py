"""A trace with something odd in its middle, and an undamaged kernel on either side."""

import json

from tests.readers.small import kernel, trace

FIRST, LAST = kernel("first", ts=1000), kernel("last", ts=3000)


def between(text: str) -> str:
    """A file with an undamaged kernel before and behind the text."""
    return trace(FIRST, text, LAST)


def swap(old: str, new: str) -> str:
    """The text of a kernel in the middle, with a part of it replaced."""
    text = json.dumps(kernel("middle", ts=2000))
    assert old in text
    return text.replace(old, new)
