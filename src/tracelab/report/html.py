"""Escape text for the report, mark code, and describe sections of the page."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from tracelab.foreign_text import escape_controls, escape_lines

_LONG = 60
_NO_BREAK = "&nbsp;"
_CODE = re.compile(r"`([^`]+)`")


def escape_text(text: object) -> str:
    """Escape any text: names in it may be hostile."""
    return escape(escape_controls(str(text)))


def render_prose(text: str) -> str:
    """Render our own prose with `code` marked; names in it (the doctor's) may be hostile."""
    return _CODE.sub(r"<code>\1</code>", escape(escape_controls(re.sub(r"\s+", " ", text))))


def render_value(text: str, exact: str) -> str:
    """Render a formatted value with the exact one on hover if they differ; long text is not emphasized."""
    title = f' title="{escape(escape_lines(exact))}"' if exact != text else ""
    if len(text) >= _LONG:
        return f"<span{title}>{escape_text(text)}</span>"
    return f"<b{title}>{escape_text(text).replace(' ', _NO_BREAK)}</b>"


def count_in_file(count: int, of: str) -> str:
    """Return a sentence for paper on how many more the file has: `of` with its plural in brackets."""
    words = re.sub(r"\[([^]]*)\]", r"\1" if count > 1 else "", of)
    return f"{count:,} more {words} {'are' if count > 1 else 'is'} in the file."


@dataclass(frozen=True)
class Section:
    """One section: `anchor` of its heading, JSON blocks by name in `data`, asset files in `scripts`.

    `lacking` are HTML lines on queries without data, listed at the end of the report.

    """

    anchor: str
    title: str
    body: str
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
