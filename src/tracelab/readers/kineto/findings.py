"""What a reader notices on its way: counts by code, each with one sample, and the sentences that explain them."""

from collections import Counter
from dataclasses import dataclass, field

SAMPLE_LENGTH = 200


@dataclass
class Findings:
    """Counts by diagnostic code, with the first sample of each."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: dict[str, str] = field(default_factory=dict)

    def note(self, code: str, sample: object = "", count: int = 1) -> None:
        """Count something; the first sample of a code is kept."""
        self.counts[code] += count
        self.samples.setdefault(code, str(sample)[:SAMPLE_LENGTH])

    def add(self, other: "Findings") -> None:
        """Take over what another has counted."""
        self.counts.update(other.counts)
        for code, sample in other.samples.items():
            self.samples.setdefault(code, sample)
