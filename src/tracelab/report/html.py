"""Escape text for the report, mark code, and describe sections of the page."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

from tracelab.output.labels import escape_controls

_LONG = 60
_NO_BREAK = "&nbsp;"
_CODE = re.compile(r"`([^`]+)`")


def text(said: object) -> str:
    """Any text, harmless: names in it may be hostile."""
    return escape(escape_controls(str(said)))


def prose(said: str) -> str:
    """Our own prose, `code` in it marked; lines run on. Names in it (the doctor's) may be hostile."""
    return _CODE.sub(r"<code>\1</code>", escape(escape_controls(re.sub(r"\s+", " ", said))))


def value(shown: str, exact: str) -> str:
    """A value as people read it, the exact one on hover where they differ; a long text stands as it is."""
    title = f' title="{escape(exact)}"' if exact != shown else ""
    if len(shown) >= _LONG:
        return f"<span{title}>{text(shown)}</span>"
    return f"<b{title}>{text(shown).replace(' ', _NO_BREAK)}</b>"


@dataclass(frozen=True)
class Section:
    """One section: its heading links to `anchor`; `data` are JSON blocks by name, `scripts` files of assets.

    `lacking` are lines (HTML) about what the store cannot answer: they stand together at the end of the report.
    """

    anchor: str
    title: str
    body: str
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
