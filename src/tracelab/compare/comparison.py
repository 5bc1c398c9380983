"""Compare two sides of a store: fetch recordings, check that they are comparable, match kernels, decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from tracelab.compare import comparability, copies, fetch, gated_kernels, kernel_series, metrics, notes, recordings
from tracelab.compare.gates import FAILED, UNDECIDED, Gate, GateResult, check_gate
from tracelab.compare.kernel_matching import Launch, Matching, UnmatchedClass, match_kernels
from tracelab.compare.noise import ASSUMED_FLOOR
from tracelab.compare.ranks import RankDifference, find_rank_differences, fullest_rank
from tracelab.compare.recordings import RANGES, WHOLE, StepCounts
from tracelab.compare.replacements import Replacement, find_replacements
from tracelab.compare.verdicts import MetricRow, Series, judge
from tracelab.errors import NoDataError, UsageError
from tracelab.query import execute

_LEAST_MEASURED = 2
_LEAST_REPLACED = 0.002
"""Launches are aligned to find replacements only if some kernel's time changes by this share of the step."""


@dataclass(frozen=True)
class Request:
    """What to compare, and how."""

    base: tuple[str, ...]
    candidate: tuple[str, ...]
    noise: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    assumed_floor: float = ASSUMED_FLOOR
    allow_different: tuple[str, ...] = ()
    step_name: str | None = None
    whole: bool = False
    """Whether to include the starts of programs."""

    def __post_init__(self) -> None:
        """Check the noise floor. Raises UsageError for one below 0."""
        if not self.assumed_floor >= 0:
            raise UsageError(
                f"a noise floor of {self.assumed_floor!r} is none; give a ratio of at least 0, such as 0.02"
            )


@dataclass(frozen=True)
class Comparison:
    """The answer: one row a metric, and what it rests on."""

    request: Request
    unit: str
    """What the values are of: steps of ranges, steps of run folders, or whole recordings."""
    steps: tuple[tuple[StepCounts, ...], tuple[StepCounts, ...]]
    """Steps that count, and others, of each recording of base and candidate."""
    rows: tuple[MetricRow, ...]
    facts: tuple[comparability.FactRow, ...]
    matching: Matching
    replacements: tuple[Replacement, ...]
    gates: tuple[GateResult, ...]
    warnings: tuple[str, ...]
    """Sentences that a reader must know before the figures."""
    notes: tuple[str, ...]
    """Sentences about what limits the comparison."""
    is_trimmed: bool = True
    """Whether the first and last step of each recording are left out."""
    rank_differences: tuple[RankDifference, ...] = ()
    """Differences that are of one rank, the largest first."""
    fullest_ranks: tuple[int | None, int | None] = (None, None)
    """The rank of base and of candidate that peak_memory is of; None where that is no single one."""

    @property
    def main(self) -> MetricRow:
        """The row that the verdict of the whole comparison is of: step time, or what replaces it."""
        return self.rows[0]

    @property
    def unmatched(self) -> list[UnmatchedClass]:
        """The kernels that are neither matched nor replace others, by class."""
        return self.matching.unmatched({name for each in self.replacements for name in each.names})

    @property
    def verdict(self) -> str:
        """faster, slower, same or undecided."""
        return self.main.verdict

    def exit_code(self, *, strict: bool) -> int:
        """Return 1 if a gate fails, 4 if one is undecided and `strict`, else 0; without gates the verdict counts."""
        verdicts = [each.verdict for each in self.gates]
        if FAILED in verdicts:
            return 1
        undecided = UNDECIDED in verdicts if verdicts else self.verdict == UNDECIDED
        return UNDECIDED_EXIT if undecided and strict else 0


UNDECIDED_EXIT = 4
"""The exit code of --strict where a gate is undecided."""


def compare_runs(
    store: Path, request: Request, *, memory_limit: str | None = None, timeout_s: float | None = None
) -> Comparison:
    """Compare the runs of a request. Raises NotComparableError, UsageError, and NoDataError."""
    _check_request(request)
    runs = _runs(request)
    with fetch.open_source(
        store,
        runs,
        step_name=request.step_name,
        whole=request.whole,
        memory_limit=memory_limit,
        timeout_s=timeout_s,
    ) as source:
        return compare_source(source, request)


def compare_source(source: fetch.Source, request: Request) -> Comparison:
    """Compare the runs of a request, from an open source of their rows."""
    answers = source.answers()
    request, unusable = _leave_out(request, recordings.find_unusable(answers, _runs(request), source.failed_runs()))
    facts_of, shapes = source.facts(), source.op_shapes()
    request, repeated = _count_once(request, copies.list_contents(facts_of))
    described = [[facts_of[run] for run in side] for side in (request.base, request.candidate, request.noise)]
    facts = comparability.compare_facts(
        described[0],
        described[1],
        shapes,
        request.allow_different,
        described[2],
        precisions=source.product_precisions(),
    )
    runs = _runs(request)
    if request.step_name is not None:
        _check_step_name(answers, runs, request.step_name)
    unit, every = recordings.build_recordings(answers, runs)
    by_run = {each.run: each for each in every}
    base, candidate, noise = (
        [by_run[run] for run in side] for side in (request.base, request.candidate, request.noise)
    )
    keys = {str(name): (str(key), str(cls)) for name, key, cls in kernel_series.kernel_names(answers)}
    kernels = (kernel_series.list_kernels(base, keys), kernel_series.list_kernels(candidate, keys))

    @cache
    def launches() -> tuple[list[Launch], list[Launch]]:
        """Fetch the launches of a step in the middle of the first recordings."""
        return kernel_series.fetch_launches(source, base[0]), kernel_series.fetch_launches(source, candidate[0])

    matching = match_kernels(kernels[0], kernels[1], launches if unit == RANGES else None)
    sides = [kernel_series.matched_series(side, matching, number) for number, side in enumerate((base, candidate))]
    noise_series = kernel_series.matched_series(noise, matching, 0)
    is_trimmed = all(each.is_trimmed for each in every)
    families = frozenset.intersection(*(each.families for each in (*base, *candidate)))
    mixed_profilers = notes.mixes_profilers(facts)
    names = _metric_names(families, [*sides[0], *sides[1]], mixed_profilers=mixed_profilers)
    gated = [gate.metric for gate in request.gates]
    alone = gated_kernels.list_alone(gated, names, kernels)
    reasons = _explain_gates(source, request.gates, [*names, *alone], families, mixed_profilers=mixed_profilers)

    def judge_with(groups: gated_kernels.Groups) -> list[MetricRow]:
        """Judge all metrics, and those of groups of kernels."""
        series = [
            gated_kernels.add_groups(each, of, groups)
            for each, of in ((sides[0], base), (sides[1], candidate), (noise_series, noise))
        ]
        return judge(
            [*names, *groups],
            series[0],
            series[1],
            noise_runs=series[2],
            assumed_floor=request.assumed_floor,
            declared=gated,
            can_decide=is_trimmed,
        )

    rows = judge_with({})
    if not rows:
        raise NoDataError("base and candidate have no metric in common; record both with one profiler")
    times = kernel_series.kernel_times(rows, kernels)
    least = _LEAST_REPLACED * rows[0].base
    is_material = any(abs(other - one) >= least for one, other in times.values())
    steps = launches() if unit == RANGES and all(kernels) and is_material else ([], [])
    replacements = find_replacements(matching, kernels, times, steps)
    groups = gated_kernels.group_replaced(alone, matching, replacements)
    rows = judge_with(groups) if groups else rows
    reasons = [
        gated_kernels.explain_alone(alone[metric]) if metric in alone and metric not in groups else reason
        for metric, reason in zip(gated, reasons, strict=True)
    ]
    return Comparison(
        request,
        unit,
        (tuple(each.steps for each in base), tuple(each.steps for each in candidate)),
        tuple(rows),
        tuple(facts),
        matching,
        tuple(replacements),
        tuple(check_gate(gate, rows, reason) for gate, reason in zip(request.gates, reasons, strict=True)),
        (
            *(*unusable, *repeated),
            *notes.list_warnings(unit, matching, facts, rows[0].metric, sides),
            *notes.describe_core_waits(facts_of, runs),
            *(
                notes.describe_recording_costs(source.recording_costs(), request.base, request.candidate)
                if unit == RANGES
                else []
            ),
        ),
        (
            *gated_kernels.describe_groups(groups),
            *notes.list_notes(unit, matching, facts, sides, rows),
            *notes.describe_starts(source.starts_ns),
            *(notes.describe_unassigned(answers.gpu_rows, runs) if unit == RANGES else []),
            *(notes.describe_start_ups(source.start_ups(runs)) if unit == WHOLE else []),
        ),
        is_trimmed,
        tuple(find_rank_differences(rows, base, candidate)),
        (fullest_rank(base), fullest_rank(candidate)),
    )


def _runs(request: Request) -> list[str]:
    """Return all runs of a request once."""
    return list(dict.fromkeys([*request.base, *request.candidate, *request.noise]))


def _leave_out(request: Request, unusable: Mapping[str, str]) -> tuple[Request, list[str]]:
    """Leave runs that cannot be compared out of a request, and return a sentence for each side that has some.

    A side keeps its runs where all are such: the comparison is refused then.
    """
    sentences = []
    kept = {}
    for name, runs in (("base", request.base), ("candidate", request.candidate), ("noise", request.noise)):
        kept[name] = tuple(run for run in runs if run not in unusable) or runs
        if others := [f"{run} ({unusable[run]})" for run in runs if run not in kept[name]]:
            side, verb = "noise runs" if name == "noise" else name, "is" if len(others) == 1 else "are"
            sentences.append(
                f"{len(others)} of {len(runs)} recordings of the {side} {verb} left out: {', '.join(others)}."
            )
    changed = replace(request, base=kept["base"], candidate=kept["candidate"], noise=kept["noise"])
    _check_request(changed)
    return changed, sentences


def _count_once(request: Request, contents: copies.Contents) -> tuple[Request, list[str]]:
    """Leave copies of other recordings of a side out of a request, and return what to know of copies.

    Raises UsageError for noise runs that are copies of one recording.
    """
    kept, sentences = {}, []
    for name, runs in (("base", request.base), ("candidate", request.candidate), ("noise", request.noise)):
        repeated = copies.find_copies(runs, contents)
        kept[name] = tuple(run for run in runs if run not in repeated)
        sentences += copies.describe_copies("noise runs" if name == "noise" else name, runs, repeated)
    if len(kept["noise"]) == 1:
        raise UsageError(
            f"--noise-runs {execute.list_first(request.noise)} hold the same content, one recording; the noise shows "
            "from 2 recordings on"
        )
    changed = replace(request, base=kept["base"], candidate=kept["candidate"], noise=kept["noise"])
    return changed, [*sentences, *copies.describe_shared(kept["base"], kept["candidate"], kept["noise"], contents)]


def _check_request(request: Request) -> None:
    """Raise UsageError for sides that share a run, and for too few recordings to measure noise."""
    if shared := set(request.base) & set(request.candidate):
        raise UsageError(f"{min(shared)} is in base and candidate; name different runs")
    if request.noise and len(request.noise) < _LEAST_MEASURED:
        raise UsageError(f"--noise-runs matches one run, {request.noise[0]}; the noise shows from 2 recordings on")
    for fact in request.allow_different:
        if fact not in comparability.ALLOWABLE:
            raise UsageError(f"--allow-different {fact}: expected one of {', '.join(comparability.ALLOWABLE)}")


def _check_step_name(answers: fetch.Answers, runs: Sequence[str], step_name: str) -> None:
    """Raise NoDataError where no range of a run has the requested name: its whole windows would be compared."""
    with_steps = set(answers.steps["run"]) if answers.steps.height else set()
    if without := [run for run in runs if run not in with_steps]:
        raise NoDataError(
            f"--step-name {step_name!r} finds no range of {execute.list_first(without)}; `tracelab query nvtx_sum` "
            "lists the ranges"
        )


def _explain_gates(
    source: fetch.Source,
    gates: Sequence[Gate],
    names: Sequence[str],
    families: frozenset[str],
    *,
    mixed_profilers: bool,
) -> list[str | None]:
    """Return for each gate why its metric is not compared, None if it is. Raises UsageError for a name of no metric."""
    classes = source.kernel_classes() if gates else frozenset()
    reasons = []
    for gate in gates:
        try:
            reasons.append(
                metrics.explain_unknown(gate.metric, names, families, classes, mixed_profilers=mixed_profilers)
            )
        except UsageError as error:
            raise UsageError(f"--fail-on {str(gate)!r}: {error}") from error
    return reasons


def _metric_names(families: frozenset[str], series: Sequence[Series], *, mixed_profilers: bool) -> list[str]:
    """Return the names of all metrics: those of the step first, then by family and by name.

    `families` are those that every recording has: ops of a profiler that records none are no ops that were removed.
    """
    known = {name for each in series for name in each if metrics.family_of(name) in families}
    names = {
        name
        for name in known
        if metrics.family_of(name) != "headline"
        or all(name in each and not np.isnan(each[name]).all() for each in series)
    }
    if mixed_profilers:
        names = {name for name in names if name not in metrics.HOST_METRICS and metrics.family_of(name) != "op"}
    order = ["headline", *metrics.FAMILIES]
    headline = list(metrics.HEADLINE)

    def place(name: str) -> tuple[int, int, str]:
        family = metrics.family_of(name)
        return order.index(family), headline.index(name) if family == "headline" else 0, name

    return sorted(names, key=place)
