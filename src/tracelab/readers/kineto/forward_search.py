"""Search a text for a pattern from one place after another, in a time that is linear in the text's length."""

import re


class ForwardSearch:
    """Finds the first match from a place on.

    The last answer also holds for all places between, so that no character is searched again and again.
    """

    def __init__(self, pattern: re.Pattern[str], text: str) -> None:
        self._pattern, self._text = pattern, text
        self._start = len(text) + 1
        self._match: re.Match[str] | None = None

    def find(self, start: int) -> re.Match[str] | None:
        """Return the first match that begins at `start` or later; None where there is none."""
        if not self._start <= start <= (self._match.start() if self._match else len(self._text)):
            self._start, self._match = start, self._pattern.search(self._text, start)
        return self._match
