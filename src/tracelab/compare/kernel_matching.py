"""Match the kernels of two versions in stages, from equal names to equal places in the order of a step."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from tracelab.compare.alignment import align_sequences

STAGES = {"name": 1.0, "key": 0.9, "op": 0.8, "range": 0.7, "order": 0.5}
"""The stages, and how sure a match of each is.

name: the same name. key: the same function, without template arguments, indices, hashes and sizes of tiles.
op: launched by the same op with inputs of the same shapes, as its n-th kernel. range: the n-th kernel of its class in
the same range. order: the same class and size of grid, at the same place in the order of a step.
"""
ARROW = " → "
_LEAST_SHARE = 0.5
"""Two names match where at least this share of the time of each lies in launches that match."""

_PARTS = (
    (re.compile(r"0x[0-9a-f]{6,}|[0-9a-f]{16,}"), ""),  # hashes and addresses
    (re.compile(r"(?<=_)(?:tilesize|warpsize|stage|align|warpgroupsize|bz|splitk|sliced)\w*?\d[\dx]*(?=_|$)"), ""),
    (re.compile(r"\d+x\d+(?:x\d+)*"), ""),  # tiles
    (re.compile(r"^(triton_.*?)_\d+(?:d\w*)?$"), r"\1"),
    (re.compile(r"_\d+$"), ""),
    (re.compile(r"_{2,}"), "_"),
)
_GENERIC = re.compile(r"kernel\d*(_helper)?", re.IGNORECASE)
_ARGUMENT = re.compile(r"<([\w:]+)")


@dataclass(frozen=True)
class Kernel:
    """A kernel name of one side."""

    name: str
    key: str
    cls: str
    dur_ns: float
    """Time a step and GPU."""


@dataclass(frozen=True)
class Launch:
    """One kernel of a step, in the order of their starts."""

    name: str
    cls: str
    blocks: int
    op: str | None
    op_call: int | None
    shapes: str | None
    range_name: str | None
    dur_ns: float


@dataclass(frozen=True)
class KernelMatch:
    """Names of the base that are compared with names of the candidate."""

    stage: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]
    key: str | None = None
    """The normalized key that several names share."""

    @property
    def label(self) -> str:
        """The name that the pair is listed under: that of both, the key of several, or one name and the other."""
        if self.key is not None and max(len(self.base), len(self.candidate)) > 1:
            return f"{self.key}, {len(self.base)} and {len(self.candidate)} variants"
        if self.stage in ("name", "key"):
            return self.candidate[0]
        return f"{self.base[0]}{ARROW}{self.candidate[0]}"


@dataclass(frozen=True)
class Matching:
    """All matches, and the shares of kernel time that they cover."""

    matches: tuple[KernelMatch, ...]
    shares: Mapping[str, tuple[float, float]]
    """For each stage the share of the base's and of the candidate's kernel time."""
    rest: tuple[tuple[Kernel, ...], tuple[Kernel, ...]]
    """The kernels of base and candidate that are not matched and take time."""

    @property
    def matched(self) -> tuple[float, float]:
        """The share of the kernel time of both sides that is matched."""
        return sum(share for share, _ in self.shares.values()), sum(share for _, share in self.shares.values())

    def unmatched(self, replaced: Collection[str] = ()) -> list["UnmatchedClass"]:
        """Return the kernels that are not matched by class, the longest first, without those that are `replaced`."""
        classes: dict[str, list[list[Kernel]]] = {}
        for at, side in enumerate(self.rest):
            for each in side:
                if each.name not in replaced:
                    classes.setdefault(each.cls, [[], []])[at].append(each)
        found = [
            UnmatchedClass(
                cls,
                sum(each.dur_ns for each in sides[0]),
                sum(each.dur_ns for each in sides[1]),
                tuple(max(side, key=lambda each: each.dur_ns).name for side in sides if side),
            )
            for cls, sides in classes.items()
        ]
        return sorted(found, key=lambda each: -(each.base_ns + each.candidate_ns))


@dataclass(frozen=True)
class UnmatchedClass:
    """The time of the kernels of a class that are not matched, in ns a step and GPU, and the longest of each side."""

    cls: str
    base_ns: float
    candidate_ns: float
    longest: tuple[str, ...]


def normalize_key(key: str) -> str:
    """Return a kernel's own name without indices, hashes and sizes of tiles: they change from version to version."""
    for pattern, replacement in _PARTS:
        key = pattern.sub(replacement, key) or key
    return key.strip("_") or key


def find_key(kernel: Kernel) -> str:
    """Return what a kernel and its variants in other versions share.

    Libraries call thousands of kernels `kernel`, and name them in the first template argument.
    """
    if _GENERIC.fullmatch(kernel.key) and (argument := _ARGUMENT.search(kernel.name)):
        return normalize_key(argument[1])
    return normalize_key(kernel.key)


def match_kernels(
    base: Sequence[Kernel],
    candidate: Sequence[Kernel],
    launches: Callable[[], tuple[Sequence[Launch], Sequence[Launch]]] | None = None,
) -> Matching:
    """Match the kernels of two sides; `launches` fetches one step of each, where names do not suffice."""
    rest = [{each.name: each for each in side} for side in (base, candidate)]
    matches: list[KernelMatch] = []

    def accept(found: Sequence[KernelMatch]) -> None:
        for each in found:
            matches.append(each)
            for side, names in zip(rest, (each.base, each.candidate), strict=True):
                for name in names:
                    del side[name]

    accept([KernelMatch("name", (name,), (name,)) for name in rest[0] if name in rest[1]])
    accept(_match_keys(rest[0], rest[1]))
    matches = _absorb(matches, base, candidate, rest)
    if launches is not None and all(any(each.dur_ns > 0 for each in side.values()) for side in rest):
        steps = launches()
        for stage, keys in (("op", _op_keys), ("range", _range_keys)):
            names = [set(side) for side in rest]
            accept(_pair(stage, _join(*(keys(step, left) for step, left in zip(steps, names, strict=True))), steps))
        accept(_pair("order", _align(steps, matches, [set(side) for side in rest]), steps))
    return _summarize(matches, base, candidate)


def _match_keys(base: Mapping[str, Kernel], candidate: Mapping[str, Kernel]) -> list[KernelMatch]:
    """Match all names with one normalized key together: which of several belong together their names do not show."""
    groups: list[dict[tuple[str, str], list[Kernel]]] = [defaultdict(list), defaultdict(list)]
    for side, group in zip((base, candidate), groups, strict=True):
        for each in side.values():
            group[find_key(each), each.cls].append(each)

    def names(kernels: list[Kernel]) -> tuple[str, ...]:
        return tuple(each.name for each in sorted(kernels, key=lambda each: (-each.dur_ns, each.name)))

    return [
        KernelMatch("key", names(groups[0][key]), names(groups[1][key]), key[0])
        for key in groups[0]
        if key in groups[1]
    ]


def _absorb(
    matches: Sequence[KernelMatch],
    base: Sequence[Kernel],
    candidate: Sequence[Kernel],
    rest: Sequence[dict[str, Kernel]],
) -> list[KernelMatch]:
    """Add a name of one side to the only match with its normalized key: the other side runs one kernel for both."""
    known = {each.name: (find_key(each), each.cls) for each in (*base, *candidate)}
    by_key: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, match in enumerate(matches):
        by_key[known[match.base[0]]].append(number)
    grown = list(matches)
    for side, kernels in zip(("base", "candidate"), rest, strict=True):
        for name in list(kernels):
            numbers = by_key.get(known[name], [])
            if len(numbers) == 1:
                match = grown[numbers[0]]
                names = {"base": match.base, "candidate": match.candidate}
                names[side] = (*names[side], name)
                grown[numbers[0]] = KernelMatch("key", names["base"], names["candidate"], known[name][0])
                del kernels[name]
    return grown


Keys = dict[Hashable, int]
"""The place of a launch by what identifies it."""


def _op_keys(step: Sequence[Launch], names: set[str]) -> Keys:
    """Identify launches by op, shapes, number of the call among such calls, and place among the kernels of the call."""
    calls: Counter[Hashable] = Counter()
    numbers: dict[int, int] = {}
    places: Counter[int] = Counter()
    keys: Keys = {}
    for at, launch in enumerate(step):
        if launch.op is None or launch.op_call is None:
            continue
        kind = (launch.op, launch.shapes)
        if launch.op_call not in numbers:
            numbers[launch.op_call] = calls[kind]
            calls[kind] += 1
        place = places[launch.op_call]
        places[launch.op_call] += 1
        if launch.name in names:
            keys[(*kind, numbers[launch.op_call], place)] = at
    return keys


def _range_keys(step: Sequence[Launch], names: set[str]) -> Keys:
    """Identify launches by range, class, and their place among those of the class that are not matched yet."""
    places: Counter[Hashable] = Counter()
    keys: Keys = {}
    for at, launch in enumerate(step):
        if launch.range_name is not None and launch.name in names:
            kind = (launch.range_name, launch.cls)
            keys[(*kind, places[kind])] = at
            places[kind] += 1
    return keys


def _join(base: Keys, candidate: Keys) -> list[tuple[int, int]]:
    return [(at, candidate[key]) for key, at in base.items() if key in candidate]


def _align(
    steps: tuple[Sequence[Launch], Sequence[Launch]], matches: Sequence[KernelMatch], names: Sequence[set[str]]
) -> list[tuple[int, int]]:
    """Align two steps: matched kernels are equal to each other, others to those of their class and size of grid."""
    numbers = [
        {name: number for number, each in enumerate(matches) for name in getattr(each, side)}
        for side in ("base", "candidate")
    ]
    tokens = [
        [
            numbered.get(launch.name, (launch.cls, int(math.log2(launch.blocks)) if launch.blocks > 0 else -1))
            for launch in step
        ]
        for step, numbered in zip(steps, numbers, strict=True)
    ]
    return [
        (one, other)
        for one, other in align_sequences(tokens[0], tokens[1])
        if steps[0][one].name in names[0] and steps[1][other].name in names[1]
    ]


def _pair(
    stage: str, pairs: Sequence[tuple[int, int]], steps: tuple[Sequence[Launch], Sequence[Launch]]
) -> list[KernelMatch]:
    """Pair names whose launches are mostly paired with each other, those that take longest first."""
    weights: Counter[tuple[str, str]] = Counter()
    reached: list[Counter[tuple[str, str]]] = [Counter(), Counter()]
    totals: list[Counter[str]] = [Counter(), Counter()]
    for step, total in zip(steps, totals, strict=True):
        for launch in step:
            total[launch.name] += int(max(launch.dur_ns, 1))
    for first, second in pairs:
        one, other = steps[0][first], steps[1][second]
        if one.cls != other.cls:
            continue
        names = (one.name, other.name)
        weights[names] += int(max(one.dur_ns, 1)) + int(max(other.dur_ns, 1))
        reached[0][names] += int(max(one.dur_ns, 1))
        reached[1][names] += int(max(other.dur_ns, 1))
    used: tuple[set[str], set[str]] = (set(), set())
    found = []
    for names, _ in sorted(weights.items(), key=lambda item: (-item[1], item[0])):
        shares = [reached[side][names] / totals[side][names[side]] for side in (0, 1)]
        if min(shares) >= _LEAST_SHARE and names[0] not in used[0] and names[1] not in used[1]:
            found.append(KernelMatch(stage, (names[0],), (names[1],)))
            used[0].add(names[0])
            used[1].add(names[1])
    return found


def _summarize(matches: Sequence[KernelMatch], base: Sequence[Kernel], candidate: Sequence[Kernel]) -> Matching:
    sides = [{each.name: each for each in side} for side in (base, candidate)]
    totals = [sum(each.dur_ns for each in side) for side in (base, candidate)]
    times: dict[str, list[float]] = {stage: [0.0, 0.0] for stage in STAGES}
    matched: tuple[set[str], set[str]] = (set(), set())
    for match in matches:
        for at, names in enumerate((match.base, match.candidate)):
            times[match.stage][at] += sum(sides[at][name].dur_ns for name in names)
            matched[at].update(names)
    shares = {
        stage: (times[stage][0] / totals[0] if totals[0] else 0.0, times[stage][1] / totals[1] if totals[1] else 0.0)
        for stage in STAGES
        if any(times[stage])
    }
    rest = [
        tuple(each for each in side if each.name not in matched[at] and each.dur_ns > 0)
        for at, side in enumerate((base, candidate))
    ]
    return Matching(tuple(matches), shares, (rest[0], rest[1]))
