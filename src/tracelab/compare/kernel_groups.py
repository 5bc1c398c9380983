"""Group the kernels of two runs that are one kernel of two versions, or that replace each other."""

from collections.abc import Iterable

from tracelab.compare import comparability, fetch
from tracelab.compare.comparison import Comparison, Request, compare_source
from tracelab.compare.kernel_matching import ARROW
from tracelab.errors import TracelabError
from tracelab.output.labels import shorten, strip_signature

_NAME_CELLS = 20
"""Two names, each with both ends, fit in the label of a bar."""


def group_kernels(compared: Comparison) -> dict[str, frozenset[str]]:
    """Return the groups of kernel names of a comparison that are one difference, by a label of both versions.

    A name that both sides have and that nothing replaces is in no group.
    """
    matched = {match.label: (match.base, match.candidate) for match in compared.matching.matches}
    groups: dict[str, frozenset[str]] = {}
    for each in compared.replacements:
        parts = [matched.get(part.name, ((part.name,), (part.name,))) for part in (*each.went, *each.came)]
        sides = parts[: len(each.went)], parts[len(each.went) :]
        went, came = ([name for part in side for name in part[at]] for at, side in enumerate(sides))
        names = frozenset(name for part in parts for side in part for name in side)
        _add_group(groups, went, came, names)
    for base, candidate in matched.values():
        if set(base) != set(candidate):
            _add_group(groups, base, candidate, frozenset((*base, *candidate)))
    return groups


def fetch_groups(
    source: fetch.Source, before: str, after: str, step_name: str | None = None
) -> dict[str, frozenset[str]]:
    """Return the groups of two runs; none where they cannot be compared."""
    request = Request((before,), (after,), allow_different=comparability.ALLOWABLE, step_name=step_name)
    try:
        return group_kernels(compare_source(source, request))
    except TracelabError:
        return {}


def _add_group(
    groups: dict[str, frozenset[str]], base: Iterable[str], candidate: Iterable[str], names: frozenset[str]
) -> None:
    """Add a group of names, with a label of both sides, unless one of its names is in a group before.

    A matched kernel brings its names of both sides: the difference is between them.
    """
    if not any(names & each for each in groups.values()):
        groups[ARROW.join(_label(side) for side in (base, candidate))] = names


def _label(names: Iterable[str]) -> str:
    first, *others = names
    return shorten(strip_signature(first), _NAME_CELLS) + (f" + {len(others)}" if others else "")
