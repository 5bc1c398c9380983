"""Every tracelab command that README.md, CONTRIBUTING.md or a page shows exists, with the options it uses."""

import re
import shlex
import textwrap
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from tracelab.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(?:sh|bash|console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
FIRST = re.compile(r"""(?:'[^']*'|"[^"]*"|\s(?![|<>;]|&&)|\S)*""")
"""A line up to a pipe, a redirection or another command, unless these are quoted."""


@cache
def shown_commands() -> list[tuple[str, str]]:
    """Return page and command of every line that starts with `tracelab`, continuation lines joined."""
    commands = set()
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = FENCED.findall(text) + [textwrap.dedent(block) for block in INDENTED.findall(FENCED.sub("", text))]
        for line in "\n".join(blocks).replace("\\\n", " ").splitlines():
            command = line.strip().removeprefix("$ ").removeprefix("srun ")
            first = FIRST.match(command)
            if first and command.startswith("tracelab ") and "…" not in command:
                commands.add((page.relative_to(ROOT).as_posix(), first[0]))
    return sorted(commands)


def names_a_file_to_write(words: list[str]) -> bool:
    """Return whether a command names a query or workload that the reader writes."""
    return any(word.endswith((".sql", ".py")) and not (ROOT / word).exists() for word in words)


def test_commands_are_found_on_the_pages() -> None:
    assert len(shown_commands()) > 150


@pytest.mark.parametrize("page", sorted({page for page, _ in shown_commands()}))
def test_every_command_of_a_page_exists_with_its_options(page: str) -> None:
    wrong = {}
    for command in [command for each, command in shown_commands() if each == page]:
        words = shlex.split(command, comments=True)[1:]
        if not names_a_file_to_write(words):
            result = CliRunner().invoke(main, [*words, "--help"])
            if result.exit_code != 0:
                wrong[command] = result.output
    assert wrong == {}
