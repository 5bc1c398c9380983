"""Count recordings of equal content once: a copy of a recording does not show how much recordings differ."""

from collections.abc import Mapping, Sequence
from typing import Any

from tracelab.query import execute

Contents = Mapping[str, str | None]
"""By run what identifies its content; None where the hash of a file is not known."""


def list_contents(facts: Mapping[str, Mapping[str, Any]]) -> Contents:
    """Return what runs hold, from the hashes of their files, and one of those for all runs with the same rows."""
    first: dict[str, str] = {}
    contents = {}
    for run, each in facts.items():
        content, rows = each["content"], each["rows"]
        contents[run] = first.setdefault(rows, content) if content and rows else content
    return contents


def find_copies(runs: Sequence[str], contents: Contents) -> dict[str, str]:
    """Return the runs that hold the same as an earlier one, each with that one."""
    first: dict[str, str] = {}
    copies = {}
    for run in runs:
        content = contents.get(run)
        if content is not None and first.setdefault(content, run) != run:
            copies[run] = first[content]
    return copies


def describe_copies(side: str, runs: Sequence[str], copies: Mapping[str, str]) -> list[str]:
    """Return that copies count once among the recordings of a side; nothing without copies."""
    if not copies:
        return []
    listed = [f"{run} (of {first})" for run, first in copies.items()]
    are, count = ("is a copy", "counts") if len(copies) == 1 else ("are copies", "count")
    return [
        f"{len(copies)} of {len(runs)} recordings of the {side} {are} of another one, with the same content, and "
        f"{count} once: {execute.list_first(listed)}. Record the program again for each recording."
    ]


def describe_shared(
    base: Sequence[str], candidate: Sequence[str], noise: Sequence[str], contents: Contents
) -> list[str]:
    """Return that the candidate, or the noise runs, hold recordings of a side that they are compared with."""
    sentences = []
    if copies := _copies_among(candidate, base, contents):
        sentences.append(f"Base and candidate have recordings with the same content: {execute.list_first(copies)}.")
    if copies := _copies_among(noise, (*base, *candidate), contents):
        sentences.append(
            f"Noise runs are recordings of the compared sides, too ({execute.list_first(copies)}), so the noise floor "
            "does not come from recordings of its own: `tracelab collect noise` makes some."
        )
    return sentences


def _copies_among(runs: Sequence[str], others: Sequence[str], contents: Contents) -> list[str]:
    known = {contents[run] for run in others if contents.get(run) is not None}
    return [run for run in runs if run in others or contents.get(run) in known]
