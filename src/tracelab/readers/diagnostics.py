"""Diagnostics of a reader: counts by code, each with a first sample, and the messages for them."""

import difflib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from tracelab.errors import ReaderBugError
from tracelab.foreign_text import escape_controls

SAMPLE_LENGTH = 200
_ONE_OR_SEVERAL = re.compile(r"\[([^]|]*)\|([^]|]*)\]")
_LONGEST_NUMBER = 40
_DAMAGED_NAME = 0.8
"""Similarity of a name to the original that it is without one of seven characters."""

_NUMBER_LIKE = re.compile(r"[-+0-9.,eE%]{0,40}|[-+]?(?:nan|NaN|inf|Infinity|N/A|n/a)")
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)

Messages = Mapping[str, tuple[str, str, str | None]]
"""By code: severity, message, how to fix it. In a message, {n} is replaced by the count and {sample} by the first
sample; [event|events] becomes its first form for a count of one, else its second."""

COMMON_MESSAGES: Messages = {
    "compressed_cut_off": (
        "error",
        "The compressed data ends before its end mark; what could be decompressed was kept.",
        "Copy the file again, or give the process time to finish writing.",
    ),
    "compressed_broken": (
        "error",
        "The compressed data is corrupt ({sample}); everything before the corruption was kept.",
        "Copy the file again.",
    ),
    "compressed_trailing": ("warning", "Other data follows the compressed data: {sample}; it was not read.", None),
    "negative_duration": (
        "warning",
        "{n} [event ends before it begins; it counts as a call and has|"
        "events end before they begin; they count as calls and have] no measure.",
        "Known of some profiler builds; a newer one may help.",
    ),
    "rank_assumed": (
        "info",
        "No rank in the file or its name; assuming 0.",
        "Put the rank into the file name, such as rank-3.json.",
    ),
}
"""Codes that files of any format can have."""

GROUPING_MESSAGES: Messages = {
    "rank_recorded_again": (
        "warning",
        "{sample} holds another recording of this rank at the same time; this one is a run of its own.",
        "Remove the recording that you do not need from the folder.",
    ),
}
"""Codes of ingest itself, which groups files into runs."""


@dataclass(frozen=True)
class Diagnostic:
    """One row of `diagnostics`, without `run` and `source`."""

    severity: str
    code: str
    count: int
    message: str
    how_to_fix: str | None = None


@dataclass
class DiagnosticCounts:
    """Counts by diagnostic code, with the first sample of each."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    def note(self, code: str, sample: object = "", count: int = 1) -> None:
        """Count an occurrence; keep the sample, escaped and cut, if it is the first of its code.

        A sample is public: of a cell that is not stored it is `describe_value`, of a tool's message `quote_message`.
        """
        self.counts[code] += count
        if code not in self.samples:
            self.samples[code] = escape_controls(str(sample)[:SAMPLE_LENGTH])[:SAMPLE_LENGTH]

    def merge(self, other: "DiagnosticCounts") -> None:
        """Add the counts of another one."""
        self.counts.update(other.counts)
        for code, sample in other.samples.items():
            self.samples.setdefault(code, sample)


def describe_value(value: object) -> str:
    """Describe a value that is not stored: a number as it is, of any other its kind only, since it may be a secret."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return repr(value) if _NUMBER_LIKE.fullmatch(value) else f"a text of {len(value):,} characters"
    if value is None or isinstance(value, bool | int | float | Decimal):
        return str(value)[:_LONGEST_NUMBER]
    return "an array" if isinstance(value, list) else "an object"


def resembles_any(name: str, originals: Sequence[str]) -> bool:
    """Return whether a name is one of these, or one of them with a damaged byte."""
    candidates = [original for original in originals if abs(len(original) - len(name)) <= 1]
    return bool(difflib.get_close_matches(name, candidates, n=1, cutoff=_DAMAGED_NAME))


def build_diagnostics(counted: DiagnosticCounts, messages: Messages) -> tuple[Diagnostic, ...]:
    """Return rows of `diagnostics`, in the order of the messages; ReaderBugError for a code without message."""
    if unknown := set(+counted.counts) - set(messages):
        raise ReaderBugError(f"no message for {sorted(unknown)}; add an entry for each to the MESSAGES of the reader")
    rows = []
    for code, (severity, message, how_to_fix) in messages.items():
        if count := counted.counts[code]:
            text = _insert_count(message, count).replace("{sample}", counted.samples.get(code, ""))
            rows.append(Diagnostic(severity, code, count, text, how_to_fix))
    return tuple(rows)


def _insert_count(message: str, count: int) -> str:
    """Return the message with the count, and the singular or plural forms that fit it."""
    return _ONE_OR_SEVERAL.sub(r"\1" if count == 1 else r"\2", message).replace("{n}", f"{count:,}")


def rank_from_name(path: Path) -> int | None:
    """Return the rank in a file's name: 3 for rank-3, 0 for worker0."""
    match = _RANK_IN_NAME.search(path.name)
    return int(match[1]) if match else None
