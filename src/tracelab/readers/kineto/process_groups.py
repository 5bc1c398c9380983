"""Read the members of process groups from a trace's head, where its events list only the first 30 of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tracelab.readers.kineto.mapping import GROUPS_TYPE


@dataclass(frozen=True)
class CutGroup:
    """Members of a large group: the lowest and their distance where they are evenly spaced, else all of them.

    A list of thousands of ranks on each row would be larger than the rest of the row.
    """

    start: int | None = None
    stride: int | None = None
    ranks: tuple[int, ...] | None = None


def describe_groups(entries: list[dict[str, Any]]) -> dict[str, CutGroup]:
    """Return the members of groups by name, of entries of `pg_config` with lists of ranks."""
    return {
        str(name): _describe_members(entry["ranks"])
        for entry in entries
        if isinstance(name := entry.get("pg_name"), str | int) and _are_ranks(entry["ranks"])
    }


def render_groups(groups: Mapping[str, CutGroup]) -> str:
    """Return SQL for a map from names to members, of at least one group."""
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in groups)
    members = ", ".join(
        f"{{'start': {_sql(group.start)}, 'stride': {_sql(group.stride)}, 'ranks': {_sql(group.ranks)}}}"
        for group in groups.values()
    )
    return f"map([{names}], [{members}])::{GROUPS_TYPE}"


def _are_ranks(ranks: list[object]) -> bool:
    return all(isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 1 << 31 for rank in ranks)


def _describe_members(ranks: list[int]) -> CutGroup:
    stride = ranks[1] - ranks[0]
    if stride > 0 and ranks == list(range(ranks[0], ranks[-1] + 1, stride)):
        return CutGroup(ranks[0], stride)
    return CutGroup(ranks=tuple(ranks))


def _sql(value: int | tuple[int, ...] | None) -> str:
    if value is None:
        return "null"
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else str(value)
