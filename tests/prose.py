"""Extract the prose of the repository: comments, docstrings, messages, query headers, pages."""

import ast
import io
import re
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "docs/style.toml"

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`|https?://\S+|\{[^}\n]*\}|</?[a-z][^>\n]*>|\]\([^)\n]*\)")
_SQL_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SQL_STRING = re.compile(r"'(?:[^']|'')*'")
_HAS_WORDS = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")


@dataclass(frozen=True)
class Rule:
    """A pattern that prose avoids, with the reason and what to write instead."""

    pattern: re.Pattern[str]
    why: str
    write: str


@dataclass(frozen=True)
class Passage:
    """A piece of prose and the line at which it starts."""

    path: str
    line: int
    text: str


def rules() -> list[Rule]:
    """Read the word list of docs/style.toml."""
    entries = tomllib.loads(STYLE.read_text(encoding="utf-8"))["words"]
    return [
        Rule(re.compile(rf"(?<![\w`$.\"-])(?:{entry['pattern']})", re.IGNORECASE), entry["why"], entry["write"])
        if entry["why"] == "US spelling."
        else Rule(
            re.compile(rf"(?<![\w`$.-])(?:{entry['pattern']})(?![\w`(-])", re.IGNORECASE), entry["why"], entry["write"]
        )
        for entry in entries
    ]


def passages() -> Iterator[Passage]:
    """Yield all prose of src, queries, collectors, docs and the top-level pages."""
    listed = subprocess.run(
        ["git", "ls-files", "src", "queries", "collectors", "docs", "*.md"],
        capture_output=True, check=True, text=True, cwd=ROOT,
    ).stdout.split()  # fmt: skip
    for name in listed:
        path = ROOT / name
        if not path.is_file():
            continue
        if name.endswith(".py"):
            yield from _python(name, path.read_text(encoding="utf-8"))
        elif name.endswith(".sql"):
            yield from _sql(name, path.read_text(encoding="utf-8"))
        elif name.endswith(".md") and not name.startswith("docs/reference/") and name != "docs/style.md":
            yield Passage(name, 1, _without_code(path.read_text(encoding="utf-8")))
        elif name.endswith((".c", ".h")):
            text = path.read_text(encoding="utf-8")
            for match in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.DOTALL):
                yield Passage(name, text.count("\n", 0, match.start()) + 1, match[0])


def _python(name: str, text: str) -> Iterator[Passage]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield Passage(name, token.start[0], _CODE.sub(" ", token.string))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _HAS_WORDS.search(node.value):
            yield Passage(name, node.lineno, _CODE.sub(" ", node.value))


def _sql(name: str, text: str) -> Iterator[Passage]:
    for match in _SQL_COMMENT.finditer(text):
        yield Passage(name, text.count("\n", 0, match.start()) + 1, _CODE.sub(" ", match[0]))
    code = _SQL_COMMENT.sub(lambda match: " " * len(match[0]), text)
    for match in _SQL_STRING.finditer(code):
        if _HAS_WORDS.search(match[0]):
            yield Passage(name, text.count("\n", 0, match.start()) + 1, match[0])


def _without_code(text: str) -> str:
    def blank(match: re.Match[str]) -> str:
        return "\n" * match[0].count("\n")

    return _CODE.sub(" ", _FENCE.sub(blank, text))
