"""The walk along a critical path takes the steps that a plain loop over its rules takes."""

from collections.abc import Iterable
from dataclasses import fields
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from tests.properties import examples
from tracelab.paths import walk
from tracelab.paths.columns import NONE
from tracelab.paths.graph import Graph
from tracelab.paths.nodes import GAP
from tracelab.paths.walk import NodePath, Window, walk_back

Stretch = tuple[int, int, int, int, int]


class FewNodes(SimpleNamespace):
    """A graph of the columns that a walk reads."""

    left = Graph.left
    followed_to = cached_property(Graph.followed_to.func)


def plain_walk(graph: Any, window: Window) -> list[Stretch]:
    """Return the stretches (node, start, end, gap, cause) of a path, the earliest first."""
    node, now, begin = window.node, window.end, window.start
    left: dict[int, int] = {}
    stretches: list[Stretch] = []
    moment, following = graph.bound[node], graph.before[node]
    if begin < now and NONE < moment < now < graph.since[node]:  # the window ends in the gap before its node
        stretches.append((node, max(moment, begin), now, graph.gap[node] or GAP["unknown"], graph.cause[node]))
        if following < 0 and moment > begin:
            stretches.append((node, begin, moment, GAP["unknown"], 0))
        node, now = following, moment if following >= 0 else begin
    while now > begin:
        start, following, moment = graph.since[node], graph.before[node], graph.bound[node]
        gap, cause = graph.gap[node], graph.cause[node]
        if now < start or left.get(node) == now:
            start, (following, moment, gap, cause) = graph.start[node], graph.followed_at_start(node)
            if left.get(node) == now and (now <= start or (following >= 0 and left.get(following) == now)):
                following, moment = -1, NONE
        if start < now:
            stretches.append((node, max(start, begin), now, 0, cause))
            now = start
        if NONE < moment < now and now > begin:
            stretches.append((node, max(moment, begin), now, gap or GAP["unknown"], cause))
            now = moment
        left[node] = now
        if following < 0 and now > begin:
            stretches.append((node, begin, now, GAP["unknown"], 0))
            break
        node = following
    return [cast("Stretch", tuple(map(int, stretch))) for stretch in reversed(stretches)]


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    """Graphs of a few nodes that mostly follow earlier ones; some wait for themselves or in a circle."""
    count = draw(st.integers(1, 8))

    def column(cell: st.SearchStrategy[int]) -> Any:
        return np.array(draw(st.lists(cell, min_size=count, max_size=count)), dtype=np.int64)

    def bounds(moments: Any) -> Any:
        return np.array([draw(st.sampled_from([NONE, int(at), int(at), max(0, int(at) - 2)])) for at in moments])

    start = np.sort(column(st.integers(0, 12)))
    since = start + column(st.sampled_from([0, 0, 0, 2]))
    near = np.maximum(np.arange(count) - column(st.integers(1, 2)), -1)
    before = np.where(column(st.integers(0, 3)) > 0, near, column(st.integers(-1, count - 1)))
    number = st.integers(0, 3)
    followed = [column(st.integers(-1, count - 1)), bounds(start), column(number), column(number)]
    return FewNodes(
        start=start, since=since, before=before, bound=bounds(since), gap=column(number), cause=column(number),
        followed_at_start=lambda node: tuple(int(cells[node]) for cells in followed),
    )  # fmt: skip


def graph_of(cells: dict[str, list[int]], followed: tuple[int, int, int, int]) -> Any:
    """Return a graph of columns, of which each node follows the same at its start."""
    columns = {name: np.array(values, dtype=np.int64) for name, values in cells.items()}
    return FewNodes(**columns, followed_at_start=lambda _: followed)


ENDS_IN_A_GAP = graph_of(
    {"start": [0, 12], "since": [0, 12], "before": [0, 0], "bound": [NONE, 10], "gap": [0, 0], "cause": [0, 0]},
    (0, NONE, 0, 0),
)


def join_blocks(blocks: Iterable[NodePath]) -> NodePath:
    """Return the stretches of several blocks as one, the earliest first."""
    some = list(blocks)
    return NodePath(*(np.concatenate([getattr(each, field.name) for each in some]) for field in fields(NodePath)))


@example(ENDS_IN_A_GAP, 0, 11, 1, 0, 2)
@examples(300)
@given(
    graphs(), st.integers(0, 3), st.integers(4, 16), st.integers(0, 7), st.sampled_from([0, 1, 16]), st.integers(1, 4)
)
def test_a_walk_takes_the_steps_of_a_plain_loop(
    graph: Any, begin: int, end: int, node: int, least_at_once: int, block_nodes: int
) -> None:
    window = Window(begin, end, min(node, len(graph.start) - 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "_CHECK_EVERY", 3)
        patch.setattr(walk, "_LEAST_AT_ONCE", least_at_once)
        patch.setattr(walk, "_BLOCK_NODES", block_nodes)
        path = join_blocks(walk_back(cast("Graph", graph), window, lambda: None).blocks())
    columns = (path.node, path.start, path.end, path.gap, path.cause)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == plain_walk(graph, window)
