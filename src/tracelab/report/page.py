"""The page: sections, styles and scripts in one file, which a browser may neither load anything into nor send from."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from tracelab.report.section import Section

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("echarts.js", "report.js", "tables.js", "limits.js", "drawings.js", "pairs.js", "charts.js")
"""The scripts that every page has, in their order; those of sections come behind them."""


def page(title: str, head: str, sections: Sequence[Section]) -> str:
    """The whole document."""
    names = list(dict.fromkeys([*SCRIPTS, *(name for section in sections for name in section.scripts)]))
    scripts = [_script(name) for name in names]
    links = "".join(f'<li><a href="#{each.anchor}">{escape(each.title)}</a>' for each in sections)
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark"><meta name="generator" content="tracelab">',
            f"<title>{escape(title)}</title>",
            f"<style>{(ASSETS / 'report.css').read_text('utf-8')}</style></head>",
            '<body><a class="skip" href="#main">To the report</a>',
            head,
            f'<nav aria-label="Parts of the report"><ul>{links}</ul></nav>',
            '<main id="main">',
            *(_section(each) for each in sections),
            "</main>",
            *(_block(name, value) for each in sections for name, value in each.data.items()),
            *(f"<script>{script}</script>" for script in scripts),
            "</body></html>\n",
        ]
    )


def json_in_html(value: object) -> str:
    """JSON that no HTML ends: `<` is spelled out, so that a name cannot close the script element."""
    written = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return written.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def _section(section: Section) -> str:
    anchor = section.anchor
    return (
        f'<section id="{anchor}" aria-labelledby="{anchor}-title"><h2 id="{anchor}-title">{escape(section.title)}</h2>'
        f"\n{section.body}\n</section>"
    )


def _block(name: str, value: object) -> str:
    return f'<script type="application/json" id="json-{escape(name)}">{json_in_html(value)}</script>'


def _script(name: str) -> str:
    """A script as it stands between its tags; a text that would end the element is a mistake of ours."""
    script = (ASSETS / name).read_text("utf-8")
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError(f"{name} has text that ends a script element")
    return script


def _policy(scripts: Iterable[str]) -> str:
    """No network at all, and of scripts exactly ours."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(each.encode()).digest()).decode()}'" for each in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
