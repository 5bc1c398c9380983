"""The five figures of a run, each with its denominator, or with what to record where it cannot be known."""

import itertools
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tracelab.compare.left_out import LEFT_OUT, NO_GPU_WORK
from tracelab.output.labels import Quantity, format_scaled
from tracelab.report.windows import StepTime


@dataclass(frozen=True)
class Figure:
    """One figure of a run; `value` is None where `note` states what to record."""

    name: str
    value: float | None
    text: str
    note: str
    unit: str = "ratio"
    """Unit of the value: ratio or ns."""


TIMELINE = ("kernels", "copies", "api_calls", "ops", "ranges")
"""Columns of the query recordings that count the rows of a timeline."""
STEPS = "steps"
"""Key of the steps among the answers, each with whether it counts in a comparison of runs."""
SERVING = "serving"
"""Key of the number of steps that an inference server marks, among the answers; of a run without other steps."""
NO_GPU = "no GPU"
GPU_NOT_RECORDED = "not recorded"
WITHOUT_GPU = frozenset({NO_GPU, GPU_NOT_RECORDED})
"""Texts of the figure of a run without GPU activity."""
_CLASSES = 4
_SURE_COVERAGE = 0.9
"""Share of the kernels' time with known FLOPs from which on `mfu` is no lower bound; its default, too."""
LEAST_COVERAGE = 0.5
"""Least share of the kernels' time whose FLOPs by shapes must be known; what is not known makes a lower bound of it."""
_LEAST_UNKNOWN = 0.001
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) %")
_NO_LOADER = (
    "no step waits for a marked data loader; record the CPU side of a loop over PyTorch's DataLoader, or put a range "
    "around another one and name it in the option --loader-name of data_loader_wait"
)
_NO_TIMES = (
    "nothing on a GPU took any time that is known; record its kernels (activities=[CPU, CUDA], nsys --trace=cuda)"
)
_APART = "; no step is recorded on all ranks"
Rows = list[dict[str, Any]]
FIGURE_QUERIES = (
    *("recordings", "gpu_breakdown", "idle_causes", "stragglers", "mfu"),
    *("cpu_communication", "data_loader_wait", "recoverable_exposure"),
)
"""Queries that the figures are computed from."""
WORK_QUERIES = {"kernel_class_share": ("class", "dur_ns"), "op_summary": ("op", "self_ns")}
"""Queries of what takes most of the time, the first one that has rows: their columns of the name and of the time."""


def compute_figures(
    answers: Mapping[str, Rows],
    missing: Mapping[str, str],
    window_ns: float | None,
    *,
    lacks_start: bool = False,
    is_scoped: bool = False,
) -> list[Figure]:
    """Compute the figures of a run from its rows by query, and the reasons why some have none.

    `window_ns` is the run's measured time; with `lacks_start` it begins after the start of the program. With
    `is_scoped` the rows are those of a scope, and what they lack may be recorded outside of it.
    """

    def rows(name: str) -> Rows:
        return answers.get(name, [])

    breakdown = rows("gpu_breakdown")
    step_time = _step_time(rows(STEPS), rows(SERVING), is_scoped=is_scoped)
    mfu = compute_mfu(rows("mfu"), missing)
    if not breakdown:
        if mfu.value is None:
            mfu = replace(mfu, note="a share of what a GPU can reach, and no activity of one is recorded")
        note = "the run has no GPU activity: these are figures of the CPU"
        no_gpu = Figure("GPU busy", None, NO_GPU, note)
        if any(row["gpu"] or row["gpus"] for row in rows("recordings")):
            note = "the run has a GPU, and no activity of it was recorded; profile it, as with collect train --profiler"
            no_gpu = Figure("GPU busy", None, GPU_NOT_RECORDED, note)
        return [
            step_time,
            no_gpu,
            _exposed_on_cpu(rows("cpu_communication"), rows("stragglers"), window_ns, rows("recordings")),
            _data_wait(rows("data_loader_wait")),
            mfu,
        ]
    return [
        step_time,
        _gpu_busy(breakdown, lacks_start=lacks_start),
        _exposed_communication(breakdown, rows("stragglers"), rows("recoverable_exposure"), is_scoped=is_scoped),
        _host_bound(rows("idle_causes")),
        mfu,
    ]


def describe_work(answers: Mapping[str, Rows]) -> str:
    """Return which classes of kernels take most of the kernel time of a run, communication apart; else which ops.

    `answers` are the run's rows of WORK_QUERIES.
    """
    if text := _list_largest(answers.get("kernel_class_share", []), *WORK_QUERIES["kernel_class_share"]):
        return f"Time of computing kernels: {text}"
    text = _list_largest(answers.get("op_summary", []), *WORK_QUERIES["op_summary"])
    return f"Self time of ops: {text}" if text else ""


def _list_largest(rows: Rows, name: str, amount: str) -> str:
    spent: dict[str, int] = {}
    for row in rows:
        if row[name] not in (None, "communication") and not row[name].startswith("c10d::") and row[amount]:
            spent[row[name]] = spent.get(row[name], 0) + row[amount]
    first = sorted(spent.items(), key=lambda each: -each[1])[:_CLASSES]
    total = sum(spent.values())
    return ", ".join(f"{each} {format_share(dur_ns / total)}" for each, dur_ns in first)


_LEAST_TENTH = 0.001
"""The smallest ratio that one digit after the point of a percentage shows."""


def format_share(ratio: float) -> str:
    """Format a ratio in percent, with one digit after the point."""
    return f"{100 * ratio:.1f} %"


def _format_small_share(ratio: float) -> str:
    """Format a ratio in percent, below 0.1 % with two digits that matter: "at least 0.0 %" would be no bound."""
    return format_share(ratio) if ratio >= _LEAST_TENTH or not ratio else f"{100 * ratio:.2g} %"


def _time(ns: float) -> str:
    return format_scaled(ns, Quantity.DURATION)


def _step_time(rows: Rows, served: Rows, *, is_scoped: bool) -> Figure:
    if not rows and served:
        return Figure("step time", None, "unknown", _describe_served(served[0]["steps"]), "ns")
    if not rows and is_scoped:
        return Figure("step time", None, "unknown", "no step begins in the scope", "ns")
    if not rows:
        note = (
            "no step is marked; pass a schedule to torch.profiler.profile and call profiler.step() in the loop (without"
            " a schedule it marks nothing), r.step() of tracelab.record, or put each step into an NVTX range `step N`"
        )
        return Figure("step time", None, "unknown", note, "ns")
    used, means_ns = _count_steps(rows)
    median = statistics.median(means_ns)
    lengths = [row["step_ns"] for row in used]
    ranks = len({row["rank"] for row in used})
    spread = "" if len(lengths) == 1 else f", {_time(min(lengths))} to {_time(max(lengths))}"
    of = _count(len(means_ns), f"{'recorded' if used[0].get('is_marked', True) else 'timed'} step")
    if len(means_ns) > 1:
        of = f"median of {of}"
    if ranks > 1:
        of += f", {'each ' * (len(means_ns) > 1)}averaged over {ranks:,} ranks"
    is_counted = used[0]["number"] is not None
    left_out = _left_out(rows) if is_counted else _APART * all(row["left_out"] == "not_on_all_ranks" for row in rows)
    note = f"{of}{spread}{left_out}{_describe_recording_cost(used)}"
    return Figure("step time", median, _time(round(median)), note, "ns")


def _describe_recording_cost(rows: Rows) -> str:
    """Return how much longer recorded steps take than those before or after; empty where they do not."""
    slowdown = measure_slowdown(rows)
    return f"; {slowdown.text}: idle and host-bound time include what recording costs" if slowdown else ""


@dataclass(frozen=True)
class Slowdown:
    """How much longer recorded steps take than `other_ns`, the median of those that are not, without waits for data."""

    text: str
    other_ns: float


def measure_slowdown(rows: Rows) -> Slowdown | None:
    """Measure how much longer recorded steps take than those before or after, on the rank where it is most."""
    slowed = [row for row in rows if row.get("other_ns")]
    if not slowed:
        return None
    most = max(slowed, key=lambda row: row["recorded_ns"] / row["other_ns"])
    ranks = {row["rank"] for row in rows}
    of_rank = f" of rank {most['rank']}" if len(ranks) > 1 else ""
    text = (
        f"recorded steps{of_rank} take {most['recorded_ns'] / most['other_ns']:.2f} times as long as the "
        f"{most['other_steps']:,} {most['other_side']} the recording, {_time(most['other_ns'])} without waits "
        "for data"
    )
    return Slowdown(text, most["other_ns"])


def compute_step_time(rows: Rows) -> StepTime | None:
    """Return the mean step of a run from its rows of STEPS, without steps that lack GPU work; None without steps."""
    used = [row for row in rows if row["left_out"] != NO_GPU_WORK] or rows
    recorded_ns = sum(row["step_ns"] or 0 for row in used)
    if not recorded_ns:
        return None
    ranks = len({row["rank"] for row in used})
    is_marked = all(row.get("is_marked", True) for row in used)
    return StepTime(recorded_ns / len(used), recorded_ns / ranks if is_marked else None)


def _count_steps(rows: Rows) -> tuple[Rows, list[float]]:
    """Return the steps that count, and how long each is, averaged over the ranks."""
    counted = [row for row in rows if row["number"] is not None]
    used = counted or rows  # where none counts, as where the GPUs' rows belong to no step, all are better than nothing
    of_step = defaultdict(list)
    for row in used:
        of_step[row["number"] if counted else row["place"]].append(row["step_ns"])
    return used, [statistics.fmean(steps) for steps in of_step.values()]


def _describe_served(steps: int) -> str:
    """Return what has the steps of an inference server, from their number; 0: it only captures CUDA graphs."""
    if not steps:
        return "an inference server captures CUDA graphs, and marks no step: query serving_steps"
    return (
        f"an inference server marks {_count(steps, 'step')}: query serving_steps; by prefill and decode serving_phases"
    )


def name_latencies(figures: Sequence[Figure]) -> list[Figure]:
    """Name the query of latencies beside the step time, where a step is the answer to a batch of prompts."""
    return [
        replace(each, note=f"{each.note}; times to the first and each further token: inference_latency")
        if each.name == "step time"
        else each
        for each in figures
    ]


def _left_out(rows: Rows) -> str:
    """Return how many steps do not count, and why: of the rank that leaves out most."""
    reasons = Counter((row["rank"], row["left_out"]) for row in rows if row["left_out"])
    most = {
        words: max((count for (_, each), count in reasons.items() if each == reason), default=0)
        for reason, words in LEFT_OUT.items()
    }
    listed = ", ".join(f"{count:,} {words}" for words, count in most.items() if count)
    return f"; left out: {listed}" if listed else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def has_timeline(recorded: Rows) -> bool:
    """Return whether a run has rows of a timeline, and not only the steps of its run folder; `recorded`: recordings."""
    return any(row[kind] for row in recorded for kind in TIMELINE)


def _exposed_on_cpu(rows: Rows, waits: Rows, window_ns: float | None, recorded: Rows) -> Figure:
    totals = [row for row in rows if row["collective"] == "all" and row["window_ns"]]
    if not has_timeline(recorded):
        return Figure("exposed communication", None, "unknown", "no timeline is recorded")
    if not totals or not window_ns:
        return Figure("exposed communication", None, "none", "no range of gloo or MPI is recorded")
    share = sum(row["exposed_ns"] for row in totals) / window_ns
    waiting_ns = exposed_waiting_ns(waits)
    waiting = (
        "the waiting included"
        if waiting_ns is None
        else f"waiting for late ranks {format_share(waiting_ns / window_ns)}"
    )
    note = f"of the windows of {_count(len(totals), 'rank')}, by {totals[0]['backend']}; {waiting}"
    return Figure("exposed communication", share, format_share(share), note)


def _data_wait(rows: Rows) -> Figure:
    """Return the share of steps that waits for data: of a rank those that its loop measured, else traced ones.

    Where the trace has no waits, and the profiler recorded some of the steps, the others do not count.
    """
    found = [row for row in rows if row["wait_ns"] is not None and row["step_ns"]]
    measured = {row["rank"] for row in found if row["counted_from"] == "steps"}
    known = [row for row in found if (row["counted_from"] == "steps") == (row["rank"] in measured)]
    counted = {row["rank"] for row in known if row["counted_from"] == "steps" and not row["is_left_out"]}
    of_window = [row for row in known if row["rank"] not in counted or not row["is_left_out"]]
    is_window, known = len(of_window) < len(known), of_window
    if not known:
        return Figure("waiting for data", None, "unknown", _NO_LOADER)
    share = sum(row["wait_ns"] for row in known) / sum(row["step_ns"] for row in known)
    steps = _count(len(known), "timed step" if measured and not is_window else "recorded step")
    note = f"of {steps}, as the loop measured" if measured else f"of {steps}"
    return Figure("waiting for data", share, format_share(share), note)


def _gpu_busy(rows: Rows, *, lacks_start: bool) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        return Figure("GPU busy", None, "unknown", _NO_TIMES)
    busy = [1 - row["idle_ns"] / row["window_ns"] for row in rows if row["window_ns"]]
    mean = 1 - sum(row["idle_ns"] for row in rows) / window_ns
    spread = f", {format_share(min(busy))} to {format_share(max(busy))}" if len(busy) > 1 else ""
    computing = sum(row["compute_ns"] for row in rows) / window_ns
    part = "after the program's start" if lacks_start else "start-up and end included"
    of = f"of the windows of {_count(len(rows), 'GPU')}, {part}"
    outside_ns = sum(row["out_of_scope_ns"] for row in rows)
    outside = f", work outside of the scope {format_share(outside_ns / window_ns)}" if outside_ns else ""
    note = f"{of}{spread}; computing {format_share(computing)}{outside}"
    return Figure("GPU busy", mean, format_share(mean), note)


def _exposed_communication(rows: Rows, waits: Rows, exposure: Rows, *, is_scoped: bool) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        return Figure("exposed communication", None, "unknown", _NO_TIMES)
    if not any(row["comm_ns"] for row in rows):
        of = " of the scope" if is_scoped else ""
        note = f"no kernel{of} communicates; for MPI and gloo: cpu_communication"
        return Figure("exposed communication", 0.0, "none", note)
    share = sum(row["exposed_comm_ns"] for row in rows) / window_ns
    all_ns = sum(row["comm_ns"] for row in rows)
    waiting_ns = exposed_waiting_ns(waits)
    waiting = "" if waiting_ns is None else f"; waiting for late ranks {format_share(waiting_ns / window_ns)}"
    note = f"of the windows{waiting}; all communication {format_share(all_ns / window_ns)}"
    exposed_ns, recoverable_ns = (
        sum(row[f"{kind}_comm_ns"] for row in exposure) for kind in ("exposed", "recoverable")
    )
    recoverable = share * recoverable_ns / exposed_ns if exposed_ns else share
    if share - recoverable >= _LEAST_UNKNOWN:
        note += (
            f"; at most {_format_small_share(recoverable)} can be saved: in the other "
            f"{format_share(share - recoverable)} the GPUs would wait for the CPU side anyway"
            if recoverable
            else "; none of it can be saved: without it the GPUs would wait for the CPU side"
        )
    if all(row["wait_ns"] is None for row in waits):
        note += f"; how much of it is waiting is not known{_why_waits_are_unknown(waits)}"
    return Figure("exposed communication", share, format_share(share), note)


def _why_waits_are_unknown(rows: Rows) -> str:
    """Return what to do, or of several ranks the reason that most of them have, from a run's rows of stragglers."""
    reasons = Counter(row["reason"] for row in rows if row["reason"])
    if len(rows) > 1 and reasons:
        return f" (collective_wait: {reasons.most_common(1)[0][0]})"
    return ": ingest the traces of all ranks as one run"


def exposed_waiting_ns(rows: Rows) -> int | None:
    """Return how long ranks wait for late ones and compute nothing, from a run's rows of stragglers; None if unknown.

    Collectives count that no rank can leave before all have entered.
    """
    known = [row["exposed_wait_ns"] for row in rows if row["exposed_wait_ns"] is not None]
    return sum(known) if known else None


def _host_bound(rows: Rows) -> Figure:
    window_ns = sum(row["window_ns"] for row in rows)
    if not window_ns:
        note = "no GPU idles before work whose launch is known; record CPU and CUDA activities together"
        return Figure("host-bound", None, "unknown", note)
    host_ns, unknown_ns = (sum(row[name] for row in rows) for name in ("host_ns", "unknown_ns"))
    idle_ns = sum(row["idle_ns"] for row in rows)
    if idle_ns and unknown_ns == idle_ns:
        note = "no launch is known: the doctor states whether none was recorded, or the clocks do not agree"
        return Figure("host-bound", None, "unknown", note)
    unknown = (
        f"; {format_share(unknown_ns / window_ns)} more idle for unknown causes: record launches; see the doctor"
        if unknown_ns >= _LEAST_UNKNOWN * window_ns
        else ""
    )
    share = host_ns / window_ns
    return Figure("host-bound", share, format_share(share), f"of the windows idle until the CPU launches work{unknown}")


def compute_mfu(rows: Rows, missing: Mapping[str, str]) -> Figure:
    """Return the share of the peak that the run reaches; a lower bound where some FLOPs are not known."""
    known = [row for row in rows if row["mfu_ratio"] is not None]
    if known:
        mean = sum(row["mfu_ratio"] for row in known) / len(known)
        peak = f"of {known[0]['peak_gflop_per_s'] / 1000:,.1f} TFLOP/s in {known[0]['precision']}"
        counted = {row["ncu_run"] for row in known} - {row["run"] for row in known} - {None}
        source = f"; FLOPs as counted in {', '.join(sorted(counted))}" if counted else ""
        least = min(row["matched_ratio"] or 0.0 for row in known)
        is_bound = known[0]["flop_source"] == "shapes" and least < _SURE_COVERAGE
        if known[0]["flop_source"] == "shapes":
            source = "; FLOPs by the shapes of ops" + (f", known of {format_share(least)} of the time" * is_bound)
            source += f": query mfu --from shapes --min-coverage {LEAST_COVERAGE}"
        text = f"≥ {_format_small_share(mean)}" if is_bound else _format_small_share(mean)
        return Figure("MFU", mean, text, f"{peak}, by the {known[0]['peak_source']} peak{source}")
    refused = _merge_reasons(str(row["refused"]) for row in rows if row["refused"])
    if rows and all(row["flop"] is not None or row["flop_source"] == "shapes" for row in rows):  # not a shape
        return Figure("MFU", None, "unknown", "; ".join(refused))
    reason = "; ".join(refused) if refused and "mfu" not in missing else "no FLOPs of its kernels are counted"
    return Figure(
        "MFU",
        None,
        "unknown",
        f"{reason}; record shapes, ingest ncu's counts, or query mfu with --flop-per-step and --peak-gflop-per-s",
    )


def _merge_reasons(reasons: Iterable[str]) -> list[str]:
    """Return reasons once that differ in their percentages alone, with the range of these."""
    alike: dict[tuple[str, ...], list[list[str]]] = defaultdict(list)
    for reason in sorted(set(reasons)):
        parts = _PERCENT.split(reason)
        alike[tuple(parts[::2])].append(parts[1::2])
    merged = []
    for words, rows in alike.items():
        ranges = []
        for values in zip(*rows, strict=True):
            low, high = (bound(values, key=float) for bound in (min, max))
            ranges.append(f"{low} %" if low == high else f"{low} % to {high} %")
        merged.append("".join(itertools.chain.from_iterable(itertools.zip_longest(words, ranges, fillvalue=""))))
    return merged
