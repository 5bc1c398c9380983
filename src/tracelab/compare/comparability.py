"""Compare the facts of two sides: what forbids a comparison, and what differs and is allowed to."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from tracelab.compare.precisions import compare_precisions
from tracelab.errors import TracelabError

Facts = Mapping[str, Any]
"""The facts of one run, and its name."""

REQUIRED = {
    "gpu": "record both on one GPU model",
    "gpus": "record both with as many GPUs",
    "ranks": "record both with as many ranks",
    "world_size": "record both with as many ranks",
    "workload": "record both with one workload",
    "model": "record both with one model",
    "dataset": "record both with one data set",
    "batch_size": "record both with one batch size",
    "global_batch_size": "record both with one batch size",
    "image_size": "record both with one image size",
}
"""Facts that must be alike where both sides record them, and what to do where they are not."""
_CAUSES = {"ranks": ("gpus",), "world_size": ("gpus", "ranks"), "global_batch_size": ("gpus", "ranks", "batch_size")}
"""Facts that differ where another one does, which then is the only one to be allowed."""
SHAPES = "shapes"
PRODUCTS = "product_precision"
ALLOWABLE = (*REQUIRED, SHAPES)
_LISTED = (
    *("program", "precision", "optimizer", "parallelism", "workers", "profiler", "recorded", "complete", "host"),
    *("driver", "cuda_version", "torch_version", "git_commit", "sm_clock_hz", "core_wait_ratio"),
)
"""Facts that may differ: a difference is listed, as it may be the reason of an effect."""
EXPLAIN_SPEED = frozenset(
    {*REQUIRED, SHAPES, PRODUCTS, "precision", "optimizer", "parallelism", "workers", "sm_clock_hz", "core_wait_ratio"}
    | {"driver", "cuda_version", "torch_version"}
)
"""Facts whose difference may be the cause of another speed; others, such as the commit, describe the recordings."""
_SAME_CLOCK_RATIO = 0.02
_SAME_WAIT = 0.05
_COMMIT_LENGTH = 10
LEAST_ALIKE_SHAPES = 0.5
"""Two sides with fewer of their common ops' calls on inputs of the same shapes do other work."""
_LABELS = {
    "gpu": "GPU model",
    "gpus": "GPUs",
    "dataset": "data set",
    "recorded": "what is recorded",
    "complete": "recordings complete",
    "driver": "GPU driver",
    "cuda_version": "CUDA",
    "torch_version": "torch",
    "git_commit": "commit",
    "sm_clock_hz": "GPU clock",
    "core_wait_ratio": "time in which threads waited for a core",
    PRODUCTS: "precision by kernel names",
    SHAPES: "calls with inputs of the same shapes",
}


class NotComparableError(TracelabError):
    """The recordings differ in what a comparison would measure instead of the change."""

    exit_code = 5
    facts: "tuple[FactRow, ...]" = ()
    """The facts of both sides, where they were compared."""


@dataclass(frozen=True)
class FactRow:
    """One fact of both sides."""

    fact: str
    verdict: str
    """same, different, mixed where only recordings of one side differ, or unknown where a side does not record it."""
    base: str | None
    candidate: str | None
    allowed: bool
    """Whether a difference of it would have forbidden the comparison, and was allowed."""

    @property
    def label(self) -> str:
        """The fact in words."""
        return label_of(self.fact)


def label_of(fact: str) -> str:
    """Return a fact in words."""
    return _LABELS.get(fact, fact.replace("_", " "))


@dataclass(frozen=True)
class Problem:
    """A fact that forbids a comparison, in words, with what to do, and the side that differs from the base."""

    fact: str
    text: str
    action: str
    side: str = "candidate"


def compare_facts(
    base: Sequence[Facts],
    candidate: Sequence[Facts],
    shapes: pl.DataFrame,
    allowed: Iterable[str] = (),
    noise: Sequence[Facts] = (),
    *,
    precisions: pl.DataFrame | None = None,
) -> list[FactRow]:
    """Return the facts of both sides. Raises NotComparableError where one forbids the comparison and is not allowed.

    Recordings of noise must be of the work of the base, too; the error names all that is to be allowed. The
    `precisions` of products by kernel names come first, and count where a recording does not have its precision.
    """
    permitted = frozenset(allowed)
    rows, problems = _find_problems(base, candidate, shapes, permitted)
    if precisions is not None and any(each.get("precision") is None for each in (*base, *candidate)):
        sides = ([str(each["run"]) for each in side] for side in (base, candidate))
        if compared := compare_precisions(precisions, *sides):
            rows.insert(0, FactRow(PRODUCTS, *compared, allowed=False))
    if noise:
        problems += [replace(each, side="noise runs") for each in _find_problems(base, noise, shapes, permitted)[1]]
    if problems:
        error = NotComparableError(_describe_problems(problems))
        error.facts = tuple(rows)
        raise error
    return rows


def _find_problems(
    base: Sequence[Facts], candidate: Sequence[Facts], shapes: pl.DataFrame, permitted: frozenset[str]
) -> tuple[list[FactRow], list[Problem]]:
    rows, problems, differing = [], [], set[str]()
    for fact in (*REQUIRED, *_LISTED):
        verdict, texts = _compare(fact, base, candidate)
        if texts == (None, None):
            continue
        forbidden = verdict in ("different", "mixed") and fact in REQUIRED
        follows = differing & set(_CAUSES.get(fact, ()))
        differing |= {fact} if forbidden else set()
        if forbidden and fact not in permitted and not follows:
            problems.append(Problem(fact, f"{label_of(fact)} {texts[0]} against {texts[1]}", REQUIRED[fact]))
        rows.append(FactRow(fact, verdict, *texts, allowed=forbidden))
    alike = alike_shapes(shapes, [str(each["run"]) for each in base], [str(each["run"]) for each in candidate])
    if alike is not None:
        forbidden = alike < LEAST_ALIKE_SHAPES
        text = f"{alike:.0%}".replace("%", " %")
        if forbidden and SHAPES not in permitted:
            words = f"only {text} of the calls of common ops have inputs of the same shapes"
            problems.append(Problem(SHAPES, words, "record the same inputs"))
        rows.append(FactRow(SHAPES, "different" if forbidden else "same", text, text, allowed=forbidden))
    return rows, problems


def _describe_problems(problems: Sequence[Problem]) -> str:
    clauses = []
    for side in dict.fromkeys(each.side for each in problems):
        what = "; ".join(each.text for each in problems if each.side == side)
        clauses.append(f"base and {side} cannot be compared: {what}")
    todo = ", ".join(dict.fromkeys(each.action for each in problems))
    options = " ".join(dict.fromkeys(f"--allow-different {each.fact}" for each in problems))
    return f"{'; '.join(clauses)}; {todo}, or add {options}"


def _compare(fact: str, base: Sequence[Facts], candidate: Sequence[Facts]) -> tuple[str, tuple[str | None, str | None]]:
    """Compare the values of a fact: mixed where both sides have the same several, unknown where one has none."""
    sides = [_values(fact, side) for side in (base, candidate)]
    texts = [", ".join(_format(fact, value) for value in side) if side else None for side in sides]
    if not all(sides):
        return "unknown", (texts[0], texts[1])
    if fact in ("sm_clock_hz", "core_wait_ratio"):
        verdict = _compare_measured(
            fact, *([each[fact] for each in side if each.get(fact) is not None] for side in (base, candidate))
        )
        return verdict, (texts[0], texts[1])
    if sides[0] != sides[1]:
        return "different", (texts[0], texts[1])
    return "same" if len(sides[0]) == 1 else "mixed", (texts[0], texts[1])


def _compare_measured(fact: str, base: Sequence[float], candidate: Sequence[float]) -> str:
    """Compare the medians of measured values, and for clocks also the recordings of each side."""
    low, high = sorted(map(statistics.median, (base, candidate)))
    if fact == "core_wait_ratio":
        return "same" if high - low <= _SAME_WAIT else "different"
    if not _is_one_clock(low, high):
        return "different"
    return "same" if all(_is_one_clock(min(side), max(side)) for side in (base, candidate)) else "mixed"


def _is_one_clock(low: float, high: float) -> bool:
    return high - low <= _SAME_CLOCK_RATIO * low


def _values(fact: str, side: Sequence[Facts]) -> list[Any]:
    values = {each.get(fact) for each in side} - {None}
    return sorted(values, key=lambda value: (str(type(value)), value))


def _format(fact: str, value: Any) -> str:  # noqa: ANN401  any fact
    if isinstance(value, bool):
        return "yes" if value else "no"
    if fact == "git_commit":
        return str(value)[:_COMMIT_LENGTH]
    if fact == "core_wait_ratio":
        return f"{100 * value:.3g} %"
    return f"{value / 1e6:.0f} MHz" if fact == "sm_clock_hz" else str(value)


def alike_shapes(shapes: pl.DataFrame, base: Sequence[str], candidate: Sequence[str]) -> float | None:
    """Return the share of calls of ops of both sides whose inputs have shapes of both; None where none is recorded.

    Recordings differ in length, so the calls of each op are shares of its calls on that side.
    """
    sides = [_shape_shares(shapes, runs) for runs in (base, candidate)]
    ops = sides[0].keys() & sides[1].keys()
    if not ops:
        return None
    weights = {op: min(side[op][0] for side in sides) for op in ops}
    alike = 0.0
    for op, weight in weights.items():
        first, second = (side[op][1] for side in sides)
        alike += weight * sum(min(share, second.get(shape, 0.0)) for shape, share in first.items())
    return alike / sum(weights.values())


def _shape_shares(shapes: pl.DataFrame, runs: Sequence[str]) -> dict[str, tuple[float, Mapping[str, float]]]:
    """Return for each op its share of all calls, and of its calls the share of each list of shapes."""
    if not shapes.height:
        return {}
    calls: dict[str, dict[str, float]] = {}
    rows = shapes.filter(pl.col("run").is_in(list(runs))).group_by("op", "input_shapes").agg(pl.col("calls").sum())
    for op, shape, count in rows.rows():
        calls.setdefault(op, {})[shape] = float(count)
    total = sum(sum(each.values()) for each in calls.values())
    return {
        op: (sum(each.values()) / total, {shape: count / sum(each.values()) for shape, count in each.items()})
        for op, each in calls.items()
    }
