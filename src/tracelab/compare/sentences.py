"""Write what a comparison shows as sentences and cells that an engineer reads; every writer takes them from here."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracelab.compare import metrics
from tracelab.compare.comparability import EXPLAIN_SPEED, SHAPES, FactRow
from tracelab.compare.comparison import Comparison
from tracelab.compare.gates import FAILED, PASSED, GateResult
from tracelab.compare.kernel_matching import ARROW, UnmatchedClass
from tracelab.compare.left_out import FIRST_OR_LAST, LEFT_OUT
from tracelab.compare.recordings import LEAST_TO_TRIM, RECORDED, WHOLE
from tracelab.compare.replacements import Replaced
from tracelab.compare.verdicts import (
    FASTER,
    LEAST_EFFECT,
    LEAST_RECORDINGS,
    SAME,
    SLOWER,
    UNDECIDED,
    WIDEST_SAME,
    MetricRow,
)
from tracelab.output.labels import Quantity, format_scaled, shorten, strip_signature

LEAST_STEP_SHARE = 0.01
"""Details whose difference is below this share of the step are left out unless all are wanted."""
_MOST_DETAILS = 8
_MOST_PARTS = 3
_NAME_WIDTH = 72
_PART_WIDTH = 32
_EXPOSED = {"exposed_communication": "class:communication", "exposed_copies": "copy:", "idle": ""}
"""Parts of a step in which a GPU does not compute, and the metrics that take this time."""
_TITLES = {
    "parts": "Classes of kernels, and copies",
    "kernel": "Kernels",
    "op_gpu": "GPU time by the op that launched it",
    "op": "Ops on the CPU",
}
_SUBJECTS = {
    "step_time": "step time",
    "window_time": "the recorded window",
    "gpu_time": "GPU time per step",
    "peak_memory": "peak memory",
}


@dataclass(frozen=True)
class Details:
    """The rows of one group of details."""

    title: str
    rows: tuple[MetricRow, ...]

    @property
    def is_long(self) -> bool:
        """Whether its names are long, so that a comment folds it: all groups but the classes."""
        return self.title != _TITLES["parts"]


def verdict_sentence(comparison: Comparison) -> str:
    """Return the verdict on the whole in one sentence: direction, effect, interval, values, number of recordings."""
    row = comparison.main
    subject = _SUBJECTS.get(row.metric, row.metric)
    values = f"{format_value(row, row.base)} → {format_value(row, row.candidate)}"
    count = _count_recordings(comparison)
    match row.verdict:
        case "slower" | "faster":
            grows = "grows" if row.difference > 0 else "falls"
            return f"{subject} {grows} by {_size(row)} ({_interval_text(row)}), {values}, in {count}."
        case "same":
            width = _percent(min(_limit(row), WIDEST_SAME))
            change = f"{format_change(row)} ({_interval_text(row)})"
            return f"{subject} is the same within ±{width}: {change}, {values}, in {count}."
    if row.evidence == "recordings":
        return (
            f"{subject} changes by {format_change(row)} ({_interval_text(row)}), {values}, in {count}: too little for "
            "what recordings differ by, or too few recordings."
        )
    return f"{subject} differs by {format_change(row)}, {values}, in {count}; whether that would recur is not known."


def tendency_sentence(comparison: Comparison) -> str | None:
    """Return what the steps of too few recordings show, where recordings do not decide."""
    row = comparison.main
    if row.tendency is None:
        return None
    interval = _interval_text(row).removeprefix("95 % interval ")
    words = {
        SLOWER: f"the candidate is slower: {interval}",
        FASTER: f"the candidate is faster: {interval}",
        SAME: f"both are the same within ±{_percent(min(_limit(row), WIDEST_SAME))}: {interval}",
        UNDECIDED: f"the difference is {interval}, not clearly beyond a noise floor of ±{_percent(_limit(row))}",
    }
    return f"Within these recordings {words[row.tendency]}. Record each version at least 4 times for a verdict."


def explanation(comparison: Comparison) -> str | None:
    """Return the largest differences that make up that of the step, each time once; None where none is 1 % of it.

    Kernels without a counterpart follow: their time is part of the differences of their class.
    """
    unit = "" if comparison.unit == WHOLE else " per step"
    sentences = []
    if parts := _largest_parts(comparison):
        sentences.append(f"Largest differences{unit}: {'; '.join(part.text for part in parts)}.")
    if alone := [_describe_unmatched(each) for each in _leading_unmatched(comparison)]:
        sentences.append(f"Kernels without a counterpart: {'; '.join(alone)}.")
    return " ".join(sentences) or None


def _leading_unmatched(comparison: Comparison) -> list[UnmatchedClass]:
    """Return the kernels that match nothing and take 1 % of the step or more, the longest first."""
    material = [each for each in comparison.unmatched if _is_material(comparison, max(each.base_ns, each.candidate_ns))]
    return material[:_MOST_PARTS]


def _describe_unmatched(unmatched: UnmatchedClass) -> str:
    times = {"base": unmatched.base_ns, "candidate": unmatched.candidate_ns}
    listed = [
        f"{format_scaled(round(time), Quantity.DURATION)} in the {side}" for side, time in times.items() if time > 0
    ]
    return f"{unmatched.cls}, {' and '.join(listed)} ({'; '.join(map(short_name, unmatched.longest))})"


def _largest_parts(comparison: Comparison) -> "list[_Part]":
    parts = _replaced_kernels(comparison) + _exposed_parts(comparison) + _work_parts(comparison)
    least = LEAST_STEP_SHARE * comparison.main.base
    return sorted((part for part in parts if part.size_ns >= least), key=lambda part: -part.size_ns)[:_MOST_PARTS]


@dataclass(frozen=True)
class _Part:
    """A part of the difference of the step: a time that no other part has."""

    text: str
    size_ns: float


def _replaced_kernels(comparison: Comparison) -> list[_Part]:
    """Return kernels with those that are launched in their place."""
    parts = []
    for each in comparison.replacements:
        went, came = (
            f"{_name_kernels(side)} ({_signed_time(difference)})"
            for side, difference in ((each.went, each.went_ns), (each.came, each.came_ns))
        )
        noun = "kernel" if len(each.went) == 1 else "kernels"
        net = each.went_ns + each.came_ns
        parts.append(_Part(f"{noun} {went} replaced by {came}, net {_signed_time(net)}", abs(net)))
    return parts


def _name_kernels(kernels: Sequence[Replaced]) -> str:
    first, *others = (short_name(each.name, width=_PART_WIDTH) for each in kernels)
    if not others:
        return first
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'}"


def _exposed_parts(comparison: Comparison) -> list[_Part]:
    """Return what a GPU does while it does not compute, with the copies or the communication that it is of."""
    rows = {row.metric: row for row in comparison.rows}
    parts = []
    for metric, causes in _EXPOSED.items():
        if metric not in rows:
            continue
        row = rows[metric]
        difference = row.candidate - row.base
        within = [each for each in comparison.rows if causes and each.metric.startswith(causes)]
        alike = [each for each in within if (each.candidate - each.base) * difference > 0]
        cause = max(alike, key=lambda each: abs(each.candidate - each.base), default=None)
        is_material = cause is not None and _is_material(comparison, cause.candidate - cause.base)
        detail = f" ({_name_difference(cause)} in all)" if cause is not None and is_material else ""
        parts.append(_Part(_name_difference(row) + detail, abs(difference)))
    return parts


def _work_parts(comparison: Comparison) -> list[_Part]:
    """Return the classes of kernels without replaced ones; without a GPU the ops, whose own times add up."""
    families = {row.family for row in comparison.rows}
    has_exposed = any(row.metric in _EXPOSED for row in comparison.rows)
    parts = []
    for row in comparison.rows:
        if row.family == "class" and not (has_exposed and row.metric == "class:communication"):
            name = row.metric.partition(":")[2]
            replaced = sum(
                kernel.difference_ns
                for each in comparison.replacements
                for kernel in (*each.went, *each.came)
                if kernel.cls == name
            )
            difference = row.candidate - row.base - replaced
            words = f"{'other ' if replaced else ''}{describe_metric(row.metric)} {_signed_time(difference)}"
            parts.append(_Part(words, abs(difference)))
        elif (row.family == "copy" and not has_exposed) or (row.family == "op" and "class" not in families):
            parts.append(_Part(_name_difference(row), abs(row.candidate - row.base)))
    return parts


def _is_material(comparison: Comparison, difference_ns: float) -> bool:
    return abs(difference_ns) >= LEAST_STEP_SHARE * comparison.main.base


def _name_difference(row: MetricRow) -> str:
    return f"{describe_metric(row.metric)} {_signed_time(row.candidate - row.base)}"


def _signed_time(difference_ns: float) -> str:
    return _signed("step_time", difference_ns)


def _signed(metric: str, difference: float) -> str:
    """Return a difference of a metric with its sign and unit."""
    return _prefix_sign(difference, format_scaled(round(abs(difference)), _quantity(metric)))


def _prefix_sign(difference: float, text: str) -> str:
    """Return the text of a difference with its sign; of one that rounds to 0 without."""
    is_zero = not any(digit in text for digit in "123456789")
    return text if is_zero else f"{'+' if difference > 0 else '−'}{text}"


def _quantity(metric: str) -> Quantity:
    return Quantity.BYTES if metrics.is_memory(metric) else Quantity.DURATION


def rank_sentence(comparison: Comparison) -> str | None:
    """Return the largest differences that are of one rank; None without any."""
    parts = []
    for number, each in enumerate(comparison.rank_differences[:_MOST_PARTS]):
        others = "the median of the others changes by " if number == 0 else "others "
        change, usual = (_signed(each.metric, value) for value in (each.candidate - each.base, each.others))
        parts.append(f"{describe_metric(each.metric)} {change} on rank {each.rank} ({others}{usual})")
    return f"Unlike on the other ranks, by means over steps and recordings: {'; '.join(parts)}." if parts else None


def fullest_sentence(comparison: Comparison) -> str | None:
    """Return which rank peak_memory is of; None where that is no single one."""
    base, candidate = comparison.fullest_ranks
    if None in (base, candidate) or not any(metrics.is_memory(row.metric) for row in comparison.rows):
        return None
    of = f"rank {base}" if base == candidate else f"rank {base} in the base and of rank {candidate} in the candidate"
    return f"Peak memory is of the fullest device, that of {of}."


def gate_sentence(result: GateResult) -> str:
    """Return the verdict on a gate with what it follows from."""
    if result.reason is not None:
        return f"Gate '{result.gate}' is undecided: {result.reason}."
    if result.row is None:
        return f"Gate '{result.gate}' passed, as it is 0 on both sides."
    facts = f"{format_change(result.row)}, {_interval_text(result.row)}"
    why = {
        FAILED: "the whole interval lies above",
        PASSED: _excluded(result),
        UNDECIDED: "neither proven nor excluded"
        if result.row.evidence == "recordings"
        else f"as fewer than {LEAST_RECORDINGS} recordings of each side prove nothing and exclude nothing",
    }
    verdict = "is undecided" if result.verdict == UNDECIDED else result.verdict
    return f"Gate '{result.gate}' {verdict}, {why[result.verdict]} ({facts})."


def _excluded(result: GateResult) -> str:
    """Return why a gate passed: growth up to LEAST_EFFECT is no difference, even if the gate is lower."""
    if result.row is not None and result.row.verdict == FASTER:
        return "it is faster"
    if result.gate.percent < 100 * LEAST_EFFECT:
        return f"a growth above {_percent(LEAST_EFFECT)} is excluded, and a smaller one is no difference"
    return "a larger growth is excluded"


def floor_sentence(comparison: Comparison) -> str:
    """Return where the noise floor is from."""
    row = comparison.main
    if row.floor_measured:
        count = len(comparison.request.noise)
        floor = f"{_percent(row.floor)} of {describe_metric(row.metric)}"
        return f"Noise floor: {floor}, measured on {count} recordings of one version."
    return (
        f"Noise floor: {_percent(comparison.request.assumed_floor)}, assumed, as no recordings of one version measure "
        "it (`tracelab collect noise`, then `--noise-runs`)."
    )


def matching_sentences(comparison: Comparison) -> list[str]:
    """Return how much of the kernel time is matched, by stage, and what is not: replaced kernels, and others by class.

    A replacement or class that the explanation names is not repeated.
    """
    matching = comparison.matching
    if not matching.shares and not any(matching.rest):
        return []
    base, candidate = matching.matched
    stages = ", ".join(f"by {stage} {_percent(shares[1])}" for stage, shares in matching.shares.items())
    sentences = [
        f"Kernels matched: {_percent(base)} of the base's and {_percent(candidate)} of the candidate's kernel time"
        + (f" ({stages})" if stages else "")
        + (", the rest replaces other kernels." if any(matching.rest) and not comparison.unmatched else ".")
    ]
    known = [part.text for part in _largest_parts(comparison)]
    others = [part.text for part in _replaced_kernels(comparison) if part.text not in known]
    if others:
        more = f"; and {len(others) - _MOST_PARTS:,} more" if len(others) > _MOST_PARTS else ""
        sentences.append(f"Smaller differences: {'; '.join(others[:_MOST_PARTS])}{more}.")
    leading = _leading_unmatched(comparison)
    sentences += [f"Not matched: {_describe_unmatched(each)}." for each in comparison.unmatched if each not in leading]
    return sentences


def difference_sentences(comparison: Comparison) -> list[str]:
    """Return the facts in which the sides differ, first those that explain another speed."""
    return [
        f"{row.label}: {row.base}" if row.fact == SHAPES else f"{row.label}: {row.base} → {row.candidate}"
        for row in _list_facts(comparison, "different")
    ]


def mixed_sentences(comparison: Comparison) -> list[str]:
    """Return the facts in which recordings of one side differ although the sides do not."""
    return [
        f"{row.label}: {row.base} " + ("on both sides" if row.base == row.candidate else f"→ {row.candidate}")
        for row in _list_facts(comparison, "mixed")
    ]


def _list_facts(comparison: Comparison, verdict: str) -> list[FactRow]:
    rows = [row for row in comparison.facts if row.verdict == verdict]
    return sorted(rows, key=lambda row: row.fact not in EXPLAIN_SPEED)


def unknown_facts(comparison: Comparison) -> list[str]:
    """Return the facts that only one side records."""
    return [row.label for row in comparison.facts if row.verdict == "unknown"]


def headline_rows(comparison: Comparison) -> list[MetricRow]:
    """Return the metrics of a step, and those of gates."""
    gated = {each.gate.metric for each in comparison.gates}
    return [row for row in comparison.rows if row.family == "headline" or row.metric in gated]


def list_details(comparison: Comparison, *, everything: bool = False, most: int | None = None) -> list[Details]:
    """Return the details with the largest differences, group by group; `everything` lists all but `headline_rows`.

    `most` is the number of rows of a group, by default all with `everything`, else those of a page.
    """
    groups = _group_details(comparison, everything=everything)
    listed = [replace(each, rows=each.rows[: _limit_of(everything=everything, most=most)]) for each in groups]
    return [each for each in listed if each.rows]


def count_cut_details(comparison: Comparison, *, everything: bool = False, most: int | None = None) -> int:
    """Return how many rows `list_details` leaves out because their group has more than it lists."""
    listed = list_details(comparison, everything=everything, most=most)
    groups = _group_details(comparison, everything=everything)
    return sum(len(each.rows) for each in groups) - sum(len(each.rows) for each in listed)


def _limit_of(*, everything: bool, most: int | None) -> int | None:
    return most if most is not None or everything else _MOST_DETAILS


def _group_details(comparison: Comparison, *, everything: bool) -> list[Details]:
    """Return all details by group, the largest difference first, without `everything` those of 1 % of the step or more.

    A kernel that others replace, or that replaces others, is listed with those: by itself it would be faster or slower,
    and it is launched less or more often.
    """
    replaced = {f"kernel:{name}" for each in comparison.replacements for name in each.names}
    groups: dict[str, list[MetricRow]] = {title: [] for title in _TITLES}
    listed_above = {row.metric for row in headline_rows(comparison)}
    for row in comparison.rows:
        if row.metric not in listed_above:
            groups["parts" if row.family in ("class", "copy") else row.family].append(row)
    details = []
    for group, rows in groups.items():
        rows.sort(key=lambda row: (-abs(row.difference), row.metric))
        material = [row for row in rows if abs(row.step_share or 0) >= LEAST_STEP_SHARE and row.metric not in replaced]
        details.append(Details(_TITLES[group], tuple(rows if everything else material)))
    return details


def table_cells(row: MetricRow, *, is_name_whole: bool = False) -> list[str]:
    """Return a row of a table: metric, base, candidate, change, interval, verdict.

    A whole name is what `--fail-on` takes.
    """
    return [
        row.metric if is_name_whole else describe_metric(row.metric, width=_NAME_WIDTH),
        format_value(row, row.base),
        format_value(row, row.candidate),
        format_change(row),
        _interval_cells(row),
        format_verdict(row),
    ]


HEADINGS = ("metric", "base", "candidate", "change", "95 % interval", "verdict")


def format_verdict(row: MetricRow) -> str:
    """Return the verdict; in parentheses what blocks of steps show of these recordings alone."""
    verdict = metrics.spell_verdict(row.metric, row.verdict)
    if row.tendency in (None, UNDECIDED):
        return verdict
    return f"{verdict} ({metrics.spell_verdict(row.metric, str(row.tendency))})"


def describe_metric(metric: str, *, width: int = 40) -> str:
    """Return a metric as people read it: kernels without signature and namespaces, shortened."""
    family = metrics.family_of(metric)
    if family == "headline":
        return metric
    name = metric.partition(":")[2]
    if family in ("class", "copy"):
        return f"{family}:{name}"
    names = name.split(ARROW)
    return ARROW.join(short_name(each, width=width // len(names)) for each in names)


def short_name(name: str, *, width: int = 60) -> str:
    """Return a kernel's or op's name without signature, shortened in its middle."""
    return shorten(strip_signature(name), width)


def format_value(row: MetricRow, value: float) -> str:
    """Return a value of a metric with its unit."""
    return format_scaled(round(value), _quantity(row.metric))


def format_difference(row: MetricRow) -> str:
    """Return the difference with its sign and unit."""
    difference = row.candidate - row.base if 0 in (row.base, row.candidate) else row.difference
    return _prefix_sign(difference, format_value(row, abs(difference)))


def format_change(row: MetricRow) -> str:
    """Return the effect in percent, or as a difference where a value is 0."""
    return format_difference(row) if row.effect is None else _signed_percent(row.effect)


def _interval_text(row: MetricRow) -> str:
    cells = _interval_cells(row)
    return f"95 % interval {cells}" if cells else "no interval"


def _interval_cells(row: MetricRow) -> str:
    if row.low is not None and row.high is not None:
        return f"{_signed_percent(row.low)} to {_signed_percent(row.high)}"
    if row.difference_low is not None and row.difference_high is not None:
        ends = [_prefix_sign(each, format_value(row, abs(each))) for each in (row.difference_low, row.difference_high)]
        return f"{ends[0]} to {ends[1]}"
    return ""


def _limit(row: MetricRow) -> float:
    return max(row.floor, LEAST_EFFECT)


def _size(row: MetricRow) -> str:
    return format_value(row, abs(row.difference)) if row.effect is None else _percent(abs(row.effect))


def _signed_percent(ratio: float) -> str:
    return _prefix_sign(ratio, _percent(abs(ratio)))


def _percent(ratio: float) -> str:
    digits = 1 if abs(ratio) < 1 else 0
    return f"{ratio * 100:,.{digits}f} %"


def _count_recordings(comparison: Comparison) -> str:
    counts = [len(each) for each in comparison.steps]
    recordings = "one recording of each side" if counts == [1, 1] else f"{counts[0]} + {counts[1]} recordings"
    if comparison.unit == WHOLE:
        return recordings
    ranges = list(dict.fromkeys(_step_range([each.counted for each in side]) for side in comparison.steps))
    return f"{recordings} ({' and '.join(ranges)} step{'s' * (ranges != ['1'])}{' each' if len(ranges) == 1 else ''})"


def _step_range(steps: Sequence[int]) -> str:
    return f"{min(steps)}" if min(steps) == max(steps) else f"{min(steps)} to {max(steps)}"


def step_unit(comparison: Comparison) -> str:
    """Return what the values of the tables are of."""
    if comparison.unit == WHOLE:
        return "Values are of whole recordings, per GPU or rank."
    source = "the run folders" if comparison.unit == RECORDED else "each recording"
    over = f"Values are per step and per GPU or rank: medians over the steps of {source}"
    if comparison.is_trimmed:
        return f"{over}, without the first and last."
    return (
        f"{over}, as many of the first as each has: a recording has fewer than {LEAST_TO_TRIM}, so warm-up is among "
        "them and no verdict is possible. Record 5 steps or more."
    )


def left_out_sentence(comparison: Comparison) -> str | None:
    """Return how many marked steps of each side do not count, and why; None where only first and last ones do not."""
    if all(reason == FIRST_OR_LAST for side in comparison.steps for each in side for reason in each.left_out):
        return None
    clauses = []
    for name, side in zip(("base", "candidate"), comparison.steps, strict=True):
        counted, marked = sum(each.counted for each in side), sum(each.marked for each in side)
        reasons = {
            words: count
            for reason, words in LEFT_OUT.items()
            if (count := sum(each.left_out.get(reason, 0) for each in side))
        }
        listed = ", ".join(f"{count:,} {words}" for words, count in reasons.items())
        clauses.append(f"of the {marked:,} of the {name} {counted:,} count" + (f" ({listed})" if listed else ""))
    return f"Steps left out: {'; '.join(clauses)}."
