"""Quote known messages of profilers, and only the length of any other: a message can repeat what a user typed."""

import re
import tomllib
from functools import cache
from pathlib import Path

_TEMPLATES = Path(__file__).with_suffix(".toml")
_NUMBER = r"-?[0-9]{1,20}(?:\.[0-9]{1,20}){0,3}"
_MARKS = re.compile("([#…]|<[^>]*>)")
_ENDS_IN_WORD = re.compile(r"\w$")
_LONGEST_LINE = 4096
_END = " ."
"""What follows a message that is quoted whole."""


def quote_message(tool: str, message: str) -> str:
    """Return the known beginning of a message's first line, without a period; of an unknown message its length."""
    message = message.strip()
    line = message.split("\n", 1)[0][:_LONGEST_LINE]
    match = _compile_templates(tool).match(line)
    if match is None:
        return f"an unknown message of {len(message):,} characters"
    quoted, end = "", 0
    for group in range(1, (match.lastindex or 0) + 1):
        if match[group] is not None:
            quoted, end = quoted + line[end : match.start(group)] + "…", match.end(group)
    quoted += line[end : match.end()]
    return f"{quoted} …" if line[match.end() :].strip(_END) else quoted.rstrip(_END)


@cache
def _compile_templates(tool: str) -> re.Pattern[str]:
    """Return a pattern that matches the longest template; its groups are the texts that are not quoted."""
    templates = tomllib.loads(_TEMPLATES.read_text(encoding="utf-8"))[tool]
    return re.compile("|".join(_compile_template(text) for text in sorted(templates, key=len, reverse=True)))


def _compile_template(text: str) -> str:
    """Return a pattern for the template; a word at its end is no part of a longer word."""
    pattern = "".join(_compile_mark(part) if _MARKS.fullmatch(part) else re.escape(part) for part in _MARKS.split(text))
    return pattern + (r"\b" if _ENDS_IN_WORD.search(text) else "")


def _compile_mark(mark: str) -> str:
    if mark == "#":
        return _NUMBER
    return "(.*?)" if mark == "…" else f"(?:{re.escape(mark[1:-1]).replace(re.escape('|'), '|')})"
