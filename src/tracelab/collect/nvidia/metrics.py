"""Select the metrics for ncu: those of the roofline that the GPUs support, and the user's."""

import difflib
import re
from collections.abc import Iterable, Sequence

from tracelab.errors import UsageError

_CHIP = re.compile(r"(?:Chip|Device)\s+\S")
_METRIC = re.compile(r"([a-z][a-z0-9]*(?:_[a-z0-9]+)*__\w+)(?:\.\S+)?(?:\s|$)")
_EXPANDED = ("regex:", "group:", "breakdown:", "pmsampling:")
_NOT_LISTED = (
    "launch__",
    "device__attribute_",
    "profiler__",
    "numa__",
    "nvlink__",
    "smsp__pcsamp_",
    "group__",
    "sass__",
)
"""Families that a report may hold, and that --query-metrics does not list."""
_ROLLUPS = frozenset({"sum", "avg", "min", "max", "pct", "ratio", "max_rate"})

_THREAD = "smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
_OPS = ("dadd", "dmul", "dfma", "fadd", "fmul", "ffma", "hadd", "hmul", "hfma", "fadd2", "fmul2", "ffma2")
"""All kinds of arithmetic of a thread; the last three are Blackwell's, which counts two numbers at once."""

COUNTS = (
    ("gpu__time_duration.sum",),
    (
        "dram__bytes.sum",
        "dram__bytes_read.sum+dram__bytes_write.sum",
        "dram__bytes_op_read.sum+dram__bytes_op_write.sum",
    ),
    ("lts__t_bytes.sum", "lts__t_sectors.sum"),
    ("l1tex__t_bytes.sum",),
    *((_THREAD.format(op=op),) for op in _OPS),
    ("sm__inst_executed_pipe_tensor.sum", "smsp__inst_executed_pipe_tensor.sum"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active",),
)
"""Counters of one roofline; of several alternatives, the first that the chip has."""
RATES = tuple(f"{unit}__cycles_elapsed.avg.per_second" for unit in ("sm", "smsp", "dram", "lts", "l1tex"))
"""Clocks, at which the peaks below hold."""
PEAKS = (
    *(f"{name}.sum.peak_sustained" for name in ("dram__bytes", "lts__t_bytes", "l1tex__t_bytes")),
    *(f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained" for op in ("dfma", "ffma", "hfma")),
)
OF_THE_LAUNCH = (
    "launch__registers_per_thread",
    "launch__shared_mem_per_block_static",
    "launch__shared_mem_per_block_dynamic",
    "launch__waves_per_multiprocessor",
)
OF_THE_DEVICE = tuple(
    f"device__attribute_{name}"
    for name in (
        "display_name",
        "compute_capability_major",
        "compute_capability_minor",
        "multiprocessor_count",
        "max_threads_per_multiprocessor",
        "l2_cache_size",
        "clock_rate",
        "memory_clock_rate",
        "global_memory_bus_width",
    )
)
"""Both come from the driver and cost no pass."""

_TENSOR = re.compile(
    r"sm__ops_path_tensor(?:_op_(?P<op>[a-z]+))?_src_(?P<src>(?:fp|bf|tf)\d+(?:_(?:fp|bf|tf)\d+)*)"
    r"(?:_dst_(?P<dst>\w+?))?(?:_sparsity_(?P<sparsity>on|off))?"
)


def parse_metric_list(text: str) -> frozenset[str]:
    """The metrics, without their suffixes, that `ncu --query-metrics` lists for every GPU that it lists."""
    chips: list[set[str]] = []
    for line in text.splitlines():
        if _CHIP.match(line):
            chips.append(set())
        elif match := _METRIC.match(line):
            if not chips:
                chips.append(set())
            chips[-1].add(match[1])
    return frozenset(set.intersection(*chips)) if chips else frozenset()


def roofline_metrics(available: frozenset[str]) -> list[str]:
    """All that one roofline needs, of what the GPUs have; FLOPs of the tensor cores by the type they multiply."""
    counts = [name for ways in COUNTS for name in _first_way(ways, available)]
    free = [name for name in (*RATES, *PEAKS) if _base(name) in available]
    return [*counts, *_tensor(available), *free, *OF_THE_LAUNCH, *OF_THE_DEVICE]


def check_metrics(requested: Iterable[str], available: frozenset[str], version: str) -> list[str]:
    """The user's metrics. Raises UsageError with the nearest name for one that this ncu does not know of these GPUs."""
    names = [name.strip() for text in requested for name in text.split(",") if name.strip()]
    for name in names:
        if name.startswith((*_EXPANDED, *_NOT_LISTED)):
            continue
        base, _, rollup = name.partition(".")
        if base not in available:
            raise UsageError(f"ncu {version} knows no metric {name!r} of this GPU; {_nearest(base, rollup, available)}")
        if rollup and rollup.partition(".")[0] not in _ROLLUPS:
            near = difflib.get_close_matches(rollup.partition(".")[0], sorted(_ROLLUPS), n=1)
            raise UsageError(
                f"ncu knows no form {rollup!r} of {base}; did you mean {base}.{near[0] if near else 'sum'}?"
            )
    return names


def merge_metrics(*lists: Sequence[str]) -> tuple[str, ...]:
    """All names, each once, in order."""
    return tuple(dict.fromkeys(name for names in lists for name in names))


def _first_way(ways: Sequence[str], available: frozenset[str]) -> list[str]:
    for way in ways:
        names = way.split("+")
        if all(_base(name) in available for name in names):
            return names
    return []


def _tensor(available: frozenset[str]) -> list[str]:
    """By multiplied type: its whole where the chip counts that, else every type of result, else every instruction.

    The peaks are those of dense operations: sparse ones would be twice as many, and training has none. Hopper lists
    them by instruction alone; those of warp groups (hgmma) reach the peak, and the older hmma two thirds of it.
    """
    matches = [(match, name) for name in sorted(available) if (match := _TENSOR.fullmatch(name))]
    chosen: list[str] = []
    for src in dict.fromkeys(match["src"] for match, _ in matches):
        of_type = [(match, name) for match, name in matches if match["src"] == src and not match["op"]]
        of_instructions = [(match, name) for match, name in matches if match["src"] == src and match["op"]]
        chosen += [f"{name}.sum" for name in _counts(of_type) or _counts(of_instructions)]
        dense = [name for match, name in of_type if match["sparsity"] == "off"]
        by_instruction = [(match["op"], name) for match, name in of_instructions if match["sparsity"] == "off"]
        largest = [name for op, name in by_instruction if op.endswith("gmma")] or [name for _, name in by_instruction]
        chosen += [f"{name}.sum.peak_sustained" for name in dense or largest]
    return chosen


def _counts(names: Sequence[tuple[re.Match[str], str]]) -> list[str]:
    """Return the counters that together count every operation once."""
    unsparse = [name for match, name in names if not match["dst"] and not match["sparsity"]]
    results = [name for match, name in names if match["dst"] and not match["sparsity"]]
    counted_types = {match["dst"] for match, name in names if name in results}
    parts = [name for match, name in names if match["sparsity"] and match["dst"] not in counted_types]
    return unsparse or [*results, *parts]


def _nearest(base: str, rollup: str, available: frozenset[str]) -> str:
    """The nearest known name: of the same words in another order, else of nearly the same letters."""
    words = sorted(re.findall(r"[a-z0-9]+", base))
    same = [name for name in sorted(available) if sorted(re.findall(r"[a-z0-9]+", name)) == words]
    near = same or difflib.get_close_matches(base, sorted(available), n=1, cutoff=0.6)
    if not near:
        return "`ncu --query-metrics` lists them"
    return f"did you mean {near[0] + '.' + (rollup or 'sum')!r}?"


def _base(name: str) -> str:
    return name.partition(".")[0]
