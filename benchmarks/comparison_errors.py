"""Count the errors of `tracelab compare`: false alarms between equal sides, and slowdowns that it does not find.

    python benchmarks/comparison_errors.py                     generated recordings alone
    python benchmarks/comparison_errors.py --store lab         also steps of its runs, dealt to 5 + 5 recordings
    python benchmarks/comparison_errors.py --store lab --recordings 'noise-*'
                                                               also these recordings of one program, dealt to 5 + 5

Sides are dealt at random, so they are equal, and every verdict of faster or slower is a false alarm. Without a noise
floor all alarms show; with that of `tracelab compare` few remain.
"""

import argparse
import fnmatch
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tracelab.compare import fetch
from tracelab.compare.noise import ASSUMED_FLOOR
from tracelab.compare.recordings import Recording, build_recordings
from tracelab.compare.verdicts import FASTER, SLOWER, UNDECIDED, judge
from tracelab.errors import TracelabError

Series = Mapping[str, np.ndarray]
Sides = tuple[Sequence[Series], Sequence[Series]]
Deal = Callable[[np.random.Generator], Sides]

RECORDINGS = 5
LEAST_STEPS = 4 * RECORDINGS
"""A run with fewer steps cannot be dealt to recordings of two steps."""
SLOWDOWN = 1.05
METRICS = ["step_time", "gpu_time", "peak_memory", *(f"op:aten::op{number}" for number in range(6))]


def main() -> int:
    """Measure what is asked for, print Markdown, and return the exit code: 1 where errors are beyond 5 % and chance."""
    options = _options()
    count, failed = options.comparisons, False
    print(f"| equal sides, {count:,} comparisons | metrics | alarms without a floor | with the floor of 2 % |")
    print("|---|---:|---:|---:|")
    for name, metrics, deal in [*_generated(), *_recorded(options.store, options.recordings)]:
        alarms = [_count_alarms(metrics, deal, floor, count) for floor in (0.0, ASSUMED_FLOOR)]
        failed |= alarms[0] > 0.05 * count + 2 * (0.05 * 0.95 * count) ** 0.5
        print(f"| {name} | {len(metrics):,} | {alarms[0]:,} | {alarms[1]:,} |", flush=True)
    found, decided = _count_found(100), _count_decided(100)
    print(f"\nA step that is 5 % slower, 5 + 5 recordings of 20 steps with 2 % noise: found in {found} of 100.")
    print(f"The same in 3 + 3 recordings: decided in {decided} of 100.")
    return int(failed or found < 95 or decided > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, help="a store with recorded runs")
    parser.add_argument("--recordings", metavar="PATTERN", help="recordings of one program, ten or more")
    parser.add_argument("--comparisons", type=int, default=1_000, help="of each kind (default: 1000)")
    return parser.parse_args()


def _record(
    count: int, random: np.random.Generator, *, steps: int, between: float = 0.01, step_time: float = 1.0
) -> list[Series]:
    """Return recordings whose steps scatter by 2 %, and whose levels scatter by `between`."""
    scales = np.array([1e8 * (step_time if name == "step_time" else 1) for name in METRICS])[:, None]
    levels = random.normal(0, between, (count, 1, 1))
    values = scales * np.exp(levels + random.normal(0, 0.02, (count, len(METRICS), steps)))
    return [dict(zip(METRICS, each, strict=True)) for each in values]


def _generated() -> list[tuple[str, list[str], Deal]]:
    def deal(count: int, steps: int, between: float) -> Deal:
        def sides(random: np.random.Generator) -> Sides:
            return _record(count, random, steps=steps, between=between), _record(
                count, random, steps=steps, between=between
            )

        return sides

    return [
        (f"generated, {count} + {count} of {steps} steps, {between:.0%} between recordings", METRICS, deal(*each))
        for each in ((5, 20, 0.0), (5, 20, 0.01), (4, 20, 0.01), (8, 6, 0.03))
        for count, steps, between in (each,)
    ]


def _recorded(store: Path | None, pattern: str | None) -> list[tuple[str, list[str], Deal]]:
    if store is None:
        return []
    runs = fetch.list_runs(store)
    cases = []
    for run in runs:
        try:
            (recording,) = _fetch(store, [run])
        except TracelabError:  # nothing with a time
            continue
        series = {name: steps for name, steps in recording.series.items() if len(steps) > 1}
        if recording.steps.counted >= LEAST_STEPS:
            name = f"recorded, {recording.steps.counted} steps of {run}"
            cases.append((name, list(series), _deal_steps(series, recording.steps.counted)))
    if pattern is not None:
        every = [each.series for each in _fetch(store, fnmatch.filter(runs, pattern))]
        metrics = sorted({name for each in every for name in each})
        cases.append((f"recorded, {len(every)} recordings of {pattern}", metrics, _deal_recordings(every)))
    return cases


def _fetch(store: Path, runs: Sequence[str]) -> list[Recording]:
    """Fetch recordings that are compared: which steps count depends on all of them."""
    with fetch.open_source(store, runs) as source:
        return build_recordings(source.answers(), runs)[1]


def _deal_steps(series: Series, count: int) -> Deal:
    even = count - count % (2 * RECORDINGS)  # recordings of unequal length would not be exchangeable

    def deal(random: np.random.Generator) -> Sides:
        parts = [
            {name: steps[part] for name, steps in series.items()}
            for part in np.split(random.permutation(count)[:even], 2 * RECORDINGS)
        ]
        return parts[:RECORDINGS], parts[RECORDINGS:]

    return deal


def _deal_recordings(recordings: Sequence[Series]) -> Deal:
    def deal(random: np.random.Generator) -> Sides:
        chosen = [recordings[at] for at in random.permutation(len(recordings))]
        return chosen[:RECORDINGS], chosen[RECORDINGS : 2 * RECORDINGS]

    return deal


def _count_alarms(metrics: Sequence[str], deal: Deal, floor: float, count: int) -> int:
    random = np.random.default_rng(0)
    return sum(
        any(row.verdict in (FASTER, SLOWER) for row in judge(metrics, *deal(random), assumed_floor=floor))
        for _ in range(count)
    )


def _verdict_on_slowdown(count: int, random: np.random.Generator) -> str:
    sides = [_record(count, random, steps=20, between=0, step_time=each) for each in (1.0, SLOWDOWN)]
    return judge(METRICS, sides[0], sides[1])[0].verdict


def _count_found(count: int) -> int:
    random = np.random.default_rng(1)
    return sum(_verdict_on_slowdown(RECORDINGS, random) == SLOWER for _ in range(count))


def _count_decided(count: int) -> int:
    random = np.random.default_rng(2)
    return sum(_verdict_on_slowdown(3, random) != UNDECIDED for _ in range(count))


if __name__ == "__main__":
    sys.exit(main())
