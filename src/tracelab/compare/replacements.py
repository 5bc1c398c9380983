"""Find kernels that other kernels replace: at one place of a step base and candidate launch different ones."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from tracelab.compare.alignment import align_sequences
from tracelab.compare.kernel_matching import Kernel, Launch, Matching

_MOST_IN_GAP = 8
"""With more launches between two matched ones, which replaces which is not known."""
_LEAST_SHARE = 0.5
"""A kernel replaces another one where this share of the launches by which each differs is at the same places."""

_PRODUCTS = frozenset({"gemm", "implicit_gemm", "convolution", "winograd", "fft"})
"""Classes of matrix products and convolutions, which replace each other."""
_ANY_WORK = frozenset({"attention", "fused", "unclassified"})
"""Classes of kernels that may do the work of several others."""
_ALONE = frozenset({"communication"})

Times = Mapping[str, tuple[float, float]]
"""The time of each kernel in ns a step and GPU, of base and candidate, by its name or, if it is matched, its label."""


@dataclass(frozen=True)
class Replaced:
    """A kernel of a replacement: by how much less or more it takes."""

    name: str
    cls: str
    difference_ns: float


@dataclass(frozen=True)
class Replacement:
    """Kernels that are launched less often, or no more, and those launched in their place, the longest ones first."""

    went: tuple[Replaced, ...]
    came: tuple[Replaced, ...]

    @property
    def names(self) -> list[str]:
        """The names of all of them, of matched ones their labels."""
        return [each.name for each in (*self.went, *self.came)]

    @property
    def went_ns(self) -> float:
        """The difference of those that went, in ns a step and GPU: below 0."""
        return sum(each.difference_ns for each in self.went)

    @property
    def came_ns(self) -> float:
        """The difference of those that came."""
        return sum(each.difference_ns for each in self.came)


def find_replacements(
    matching: Matching,
    kernels: tuple[Sequence[Kernel], Sequence[Kernel]],
    times: Times,
    steps: tuple[Sequence[Launch], Sequence[Launch]],
) -> list[Replacement]:
    """Return the replacements of two sides, by the launches of a step of each, those of most time first.

    Without launches, and for kernels whose place does not show, all kernels of a class that only one side runs count as
    replaced by those of the class that only the other one runs.
    """
    labels = [
        {name: match.label for match in matching.matches for name in getattr(match, side)}
        for side in ("base", "candidate")
    ]
    classes = {labels[at].get(each.name, each.name): each.cls for at, side in enumerate(kernels) for each in side}
    groups = _replaced_at_one_place(
        [[labels[at].get(launch.name, launch.name) for launch in step] for at, step in enumerate(steps)], classes
    )
    placed = {name for group in groups for side in group for name in side}
    rest: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    for at, side in enumerate(kernels):
        for each in side:
            if each.name not in labels[at] and each.name not in placed and each.dur_ns > 0:
                rest[each.cls][at].add(each.name)
    groups += [group for group in rest.values() if all(group)]
    found = []
    for group in groups:
        went, came = (
            tuple(
                sorted(
                    (Replaced(name, classes[name], times[name][1] - times[name][0]) for name in names if name in times),
                    key=lambda each: (-abs(each.difference_ns), each.name),
                )
            )
            for names in group
        )
        replacement = Replacement(went, came)
        if replacement.went_ns < 0 < replacement.came_ns:
            found.append(replacement)
    return sorted(found, key=lambda each: each.went_ns - each.came_ns)


def _replaced_at_one_place(
    steps: Sequence[Sequence[str]], classes: Mapping[str, str]
) -> list[tuple[set[str], set[str]]]:
    """Return groups of names of which base and candidate launch more, and that are launched at the same places.

    Their classes must be able to do the same work.
    """
    counts = [Counter(step) for step in steps]
    surplus = (counts[0] - counts[1], counts[1] - counts[0])
    together: Counter[tuple[str, str]] = Counter()
    for gap in _gaps(steps):
        names = [set(side) & surplus[at].keys() for at, side in enumerate(gap)]
        for went in names[0]:
            for came in names[1]:
                together[went, came] += min(gap[0].count(went), gap[1].count(came))
    group_of: dict[Hashable, tuple[set[str], set[str]]] = {}
    for (went, came), count in sorted(together.items()):
        if count < _LEAST_SHARE * max(surplus[0][went], surplus[1][came]):
            continue
        if not _may_replace(classes[went], classes[came]):
            continue
        first = group_of.get((0, went), ({went}, set()))
        second = group_of.get((1, came), (set(), {came}))
        joined = (first[0] | second[0], first[1] | second[1])
        group_of |= {(at, name): joined for at, side in enumerate(joined) for name in side}
    unique = {(frozenset(went), frozenset(came)) for went, came in group_of.values()}
    return [(set(went), set(came)) for went, came in sorted(unique, key=lambda group: sorted(group[0]))]


def _may_replace(went: str, came: str) -> bool:
    """Return whether kernels of two classes can do the same work: a convolution is no elementwise kernel."""
    if went == came or {went, came} & _ANY_WORK:
        return True
    return all(each in _PRODUCTS for each in (went, came)) or not {went, came} & (_PRODUCTS | _ALONE)


def _gaps(steps: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], Sequence[str]]]:
    """Return what two steps launch between the launches that both have."""
    gaps = []
    before = (-1, -1)
    for one, other in [*align_sequences(steps[0], steps[1]), (len(steps[0]), len(steps[1]))]:
        gap = (steps[0][before[0] + 1 : one], steps[1][before[1] + 1 : other])
        if 0 < len(gap[0]) <= _MOST_IN_GAP and 0 < len(gap[1]) <= _MOST_IN_GAP:
            gaps.append(gap)
        before = (one, other)
    return gaps
