"""Write stacks with what they cost for other tools: as collapsed lines, or as a file of speedscope."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any, BinaryIO

from tracelab import __version__
from tracelab.errors import NoDataError, UsageError
from tracelab.query import execute, library, spec
from tracelab.store import integrity, session
from tracelab.store.scope.request import Scope
from tracelab.store.scope.row_mask import RowMask

MEASURES = {
    "cpu": ("time on the CPU", "nanoseconds"),
    "gpu": ("GPU time launched", "nanoseconds"),
    "gpu_memory": ("bytes allocated on GPUs", "bytes"),
    "cpu_memory": ("bytes allocated on the host", "bytes"),
}
"""What a stack costs: the measures of the query `stacks` in words, and their units as speedscope names them."""

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_IN_FILE = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<name>.+)", re.DOTALL)


@dataclass(frozen=True)
class StackRequest:
    """The stacks to export: of runs and ranks (none: of all), by these frames, with these measures, in a scope."""

    runs: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    measures: tuple[str, ...] = tuple(MEASURES)
    by: str = "stack"
    scope: Scope | None = None


@dataclass(frozen=True)
class StackTree:
    """The tree of stacks of one rank and measure: parallel lists, parents (None: a root) by their positions."""

    run: str
    rank: int
    measure: str
    frames: Sequence[str]
    parents: Sequence[int | None]
    own: Sequence[int]

    def stacks(self) -> Iterator[tuple[list[int], int]]:
        """Yield each stack that costs anything of its own: positions from the root on, and the cost."""
        for place, cost in enumerate(self.own):
            if cost:
                stack, above = [place], self.parents[place]
                while above is not None:
                    stack.append(above)
                    above = self.parents[above]
                yield stack[::-1], cost


def read_stacks(store: Path, request: StackRequest) -> tuple[list[StackTree], list[str]]:
    """Return a tree for each run, rank and measure in which any stack costs something, and what the scope is in words.

    Raises NoDataError where there is none, and for a run that the store does not have.
    """
    query = library.find("stacks")
    mask = _choose_rows(store, query, request.scope)
    with (
        session.connect(store, referenced=execute.referenced_sql(query), mask=mask) as con,
        integrity.explain_read_errors(store),
    ):
        for run in request.runs:
            execute.check_run(execute.stored_runs(con), run)
        trees: list[StackTree] = []
        for measure, wanted in product(request.measures, dict.fromkeys(request.runs) or [None]):
            columns = execute.run(con, query, {"measure": measure, "by": request.by, "run": wanted}).to_pydict()
            trees += _split(columns, measure, request)
    if not trees:
        words = " or ".join(MEASURES[measure][0] for measure in request.measures)
        if mask is not None:
            raise NoDataError(f"no stack in the scope with {words}; {mask.note}")
        raise NoDataError(f"no stack with {words}; record with with_stack=True, and profile_memory=True for memory")
    return sorted(trees, key=lambda tree: (tree.run, tree.rank)), [] if mask is None else [mask.note]


def _choose_rows(store: Path, query: spec.Query, scope: Scope | None) -> RowMask | None:
    if not scope:
        return None
    from tracelab.store.scope.row_choice import select_rows

    return select_rows(
        store,
        scope,
        step_name=library.default_step_name(),
        referenced=execute.referenced_sql(query),
        needs=query.needs,
    )


def _split(columns: dict[str, list[Any]], measure: str, request: StackRequest) -> Iterator[StackTree]:
    """Yield the trees of an answer of `stacks`, whose rows are ordered by run and rank."""
    keys = list(zip(columns["run"], columns["rank"], strict=True))
    starts = [place for place, key in enumerate(keys) if place == 0 or keys[place - 1] != key]
    for start, end in pairwise([*starts, len(keys)]):
        run, rank = keys[start]
        own = columns["own"][start:end]
        if (request.ranks and rank not in request.ranks) or not any(own):
            continue
        parents = [None if node is None else node - 1 for node in columns["parent"][start:end]]
        yield StackTree(run, rank, measure, columns["frame"][start:end], parents, own)


def write_collapsed(trees: Sequence[StackTree], stream: BinaryIO) -> int:
    """Write a line a stack, `frame;frame;frame cost`, as flamegraph.pl reads it; return their number.

    Of several ranks, a frame with run and rank is the root. Raises UsageError for trees of several measures.
    """
    if len({tree.measure for tree in trees}) > 1:
        raise UsageError("collapsed stacks have one measure; choose it with --measure")
    count = 0
    for tree in trees:
        root = [f"{tree.run} rank {tree.rank}"] if len(trees) > 1 else []
        frames = [_collapsed_name(frame) for frame in [*root, *tree.frames]]
        for stack, cost in tree.stacks():
            names = [*frames[: len(root)], *(frames[place + len(root)] for place in stack)]
            stream.write(f"{';'.join(names)} {cost}\n".encode())
            count += 1
    return count


def _collapsed_name(frame: str) -> str:
    """Replace what separates frames and lines."""
    return re.sub(r"\s+", " ", frame.replace(";", ","))


def write_speedscope(trees: Sequence[StackTree], stream: BinaryIO) -> int:
    """Write a file of https://speedscope.app, a profile for each rank and measure; return the number of stacks."""
    frames: dict[str, int] = {}
    profiles = []
    for tree in trees:
        places = [frames.setdefault(frame, len(frames)) for frame in tree.frames]
        samples = [([places[place] for place in stack], cost) for stack, cost in tree.stacks()]
        words, unit = MEASURES[tree.measure]
        profiles.append(
            {
                "type": "sampled",
                "name": f"{tree.run} rank {tree.rank}: {words}",
                "unit": unit,
                "startValue": 0,
                "endValue": sum(tree.own),
                "samples": [stack for stack, _ in samples],
                "weights": [cost for _, cost in samples],
            }
        )
    content = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"tracelab {__version__}",
        "shared": {"frames": [_speedscope_frame(frame) for frame in frames]},
        "profiles": profiles,
    }
    stream.write(json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode())
    return sum(len(profile["weights"]) for profile in profiles)  # type: ignore[misc,arg-type]  # lists, as above


def _speedscope_frame(frame: str) -> dict[str, str | int]:
    match = _IN_FILE.fullmatch(frame)
    return {"name": match["name"], "file": match["file"], "line": int(match["line"])} if match else {"name": frame}
