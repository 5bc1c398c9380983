"""What a reader notices on its way: counts by code, each with one sample, and the sentences that explain them."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SAMPLE_LENGTH = 200
_ONE_OR_SEVERAL = re.compile(r"\[([^]|]*)\|([^]|]*)\]")
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker)[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)

Messages = Mapping[str, tuple[str, str, str | None]]
"""By code: severity, message, how to fix it. In a message {n} stands for how often, {sample} for the first, and of
[event|events] the first is said of one, the second of several."""

COMMON_MESSAGES: Messages = {
    "gzip_cut_off": (
        "error",
        "The gzip data ends before its end mark; what could be unpacked was kept.",
        "Copy the file again, or leave the process time to write it.",
    ),
    "gzip_broken": (
        "error",
        "The gzip data breaks ({sample}); what stood before the break was kept.",
        "Copy the file again.",
    ),
    "gzip_trailing": ("warning", "Behind the gzip data stands something else: {sample}; it was not read.", None),
    "negative_duration": (
        "warning",
        "{n} [event ends before it begins; it counts as a call and has|"
        "events end before they begin; they count as calls and have] no measure.",
        "Known of some profiler builds; a newer one may help.",
    ),
    "rank_assumed": (
        "info",
        "Neither the file nor its name says a rank; 0 was assumed.",
        "Name the file rank-N….",
    ),
}
"""What a file of any format may leave."""


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
        """Count something; the first sample of a code is kept."""
        self.counts[code] += count
        self.samples.setdefault(code, str(sample)[:SAMPLE_LENGTH])

    def merge(self, other: "DiagnosticCounts") -> None:
        """Take over what another has counted."""
        self.counts.update(other.counts)
        for code, sample in other.samples.items():
            self.samples.setdefault(code, sample)


def build_diagnostics(diagnostics: DiagnosticCounts, sentences: Messages) -> tuple[Diagnostic, ...]:
    """What was noticed, as rows of `diagnostics`, in the order of the sentences. Raises KeyError on a code without."""
    if unknown := set(+diagnostics.counts) - set(sentences):
        raise KeyError(f"no sentence for {sorted(unknown)}")
    rows = []
    for code, (severity, message, how_to_fix) in sentences.items():
        if count := diagnostics.counts[code]:
            text = _counted(message, count).replace("{sample}", diagnostics.samples.get(code, ""))
            rows.append(Diagnostic(severity, code, count, text, how_to_fix))
    return tuple(rows)


def _counted(message: str, count: int) -> str:
    """The message with the number in it, and the words that go with it."""
    return _ONE_OR_SEVERAL.sub(r"\1" if count == 1 else r"\2", message).replace("{n}", f"{count:,}")


def rank_from_name(path: Path) -> int | None:
    """The rank that a file's name says: rank-3, worker0."""
    named = _RANK_IN_NAME.search(path.name)
    return int(named[1]) if named else None
