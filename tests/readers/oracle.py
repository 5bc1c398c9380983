"""A second reading of Kineto files, by brute force: `json` with `Decimal`, one event after the other, in plain Python.

It shares nothing with the reader but the documents. Rows are dictionaries with the schema's column names.
"""

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from pathlib import Path

Row = dict[str, object]

INT64 = range(-(2**63), 2**63)
_SAFE = range(-(10**15), 10**15)
_EXACT = Context(prec=400)
_THOUSAND = Decimal(1000)
SENTINELS = (-1, 4294967295)

ALIASES = {
    "operator": "cpu_op",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "runtime": "cuda_runtime",
    "user": "user_annotation",
}
DTYPE_BYTES = {"Float": 4, "BFloat16": 2, "Half": 2, "Byte": 1, "Char": 1, "Bool": 1, "Int": 4, "Long": 8, "Double": 8}
COLLECTIVES = {
    "allreduce": "all_reduce",
    "broadcast": "broadcast",
    "_allgather_base": "all_gather",
    "wait": "other",
}

MAPPED = {
    "kernels": {"device", "context", "stream", "correlation", "External id", "external id", "grid", "block"}
    | {"registers per thread", "est. achieved occupancy %", "graph id", "graph node id"},
    "memcpys": {"device", "context", "stream", "correlation", "External id", "external id", "bytes", "kind"}
    | {"direction", "size"},
    "memsets": {"device", "context", "stream", "correlation", "External id", "external id", "bytes"},
    "api_calls": {"correlation", "External id", "external id"},
    "ops": {"External id", "Sequence number", "Fwd thread id", "Input Dims", "Input type"},
    "annotations": set(),
    "python_frames": {"Python id", "Python parent id", "Python module id"},
    "memory_events": {"Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Id", "Device Type"},
    "syncs": {"device", "context", "stream", "correlation", "cuda_sync_kind", "wait_on_stream"}
    | {"wait_on_cuda_event_id", "wait_on_cuda_event_record_corr_id", "stream_id"},
    "other_events": set(),
}
"""Arguments that a column of the table holds, and `args` therefore need not."""

COLLECTIVE_KEYS = {
    "Collective name", "In msg nelems", "Out msg nelems", "In msg size", "Out msg size", "Group size", "dtype",
    "Process Group Name", "PG ID", "Process Group ID", "Process Group Description", "Process Group Ranks", "Seq",
    "Comms Id", "Src Rank", "Dst Rank", "Rank", "In split size", "Out split size", "Global rank start",
    "Global rank stride", "Root Rank",
}  # fmt: skip
"""Arguments that `collectives` tells of, in part; a kernel or op may or may not repeat them."""


@dataclass(frozen=True)
class Reading:
    """What one file says: the keys around its events, how many there are, and rows by table.

    Rows of `collectives` stand beside those of the kernels and ops that carry them.
    """

    top: Row
    events: int
    rank: int | None
    tables: dict[str, list[Row]]


def read(path: Path) -> Reading:
    """Read a whole, undamaged file."""
    data = path.read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    document = json.loads(data, parse_float=Decimal)
    top = document if isinstance(document, dict) else {"traceEvents": document}
    events = top["traceEvents"]
    base = top.get("baseTimeNanoseconds") or 0
    tables: dict[str, list[Row]] = defaultdict(list)
    for event in events:
        table, row = _row(event, base)
        tables[table].append(row)
        if table in ("kernels", "ops") and "Collective name" in (event.get("args") or {}):
            tables["collectives"].append(_collective(event["args"], row, "kernel" if table == "kernels" else "op"))
    pids = {row["pid"] for table in ("ops", "api_calls", "python_frames") for row in tables[table]} - {0}
    only = next(iter(pids)) if len(pids) == 1 else None
    for table in ("kernels", "memcpys", "memsets", "syncs"):
        for row in tables[table]:
            row["pid"] = only
    _sizes_through_correlation(tables)
    tables["collectives"] += [] if only is None else _collectives_of_ranges(tables)
    around = {key: value for key, value in top.items() if key != "traceEvents"}
    return Reading(around, len(events), (top.get("distributedInfo") or {}).get("rank"), dict(tables))


def to_ns(value: object) -> int | None:
    """Microseconds, as number or text, to the nearest nanosecond; None where that is no int64."""
    if type(value) is int and value in _SAFE:
        return value * 1000
    if value is None or isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        return None
    try:
        decimal = Decimal(value)
    except InvalidOperation:
        return None
    if not decimal.is_finite() or decimal.adjusted() > 20:
        return None
    whole = int(_EXACT.multiply(decimal, _THOUSAND).to_integral_value(ROUND_HALF_EVEN, _EXACT))
    return whole if whole in INT64 else None


def busy(intervals: Iterable[tuple[int, int]], depth: int = 1) -> int:
    """Length of the time in which at least `depth` of the intervals (start, end) run."""
    edges: dict[int, int] = defaultdict(int)
    for start, end in intervals:
        if end > start:
            edges[start] += 1
            edges[end] -= 1
    total, running, since = 0, 0, 0
    for at in sorted(edges):
        if running >= depth:
            total += at - since
        running += edges[at]
        since = at
    return total


def concurrency(reading: Reading) -> dict[object, tuple[int, int, int, int]]:
    """Per device: kernels, their busy time, the time of two and more, and the window of all GPU activity."""
    spans: dict[object, list[tuple[int, int]]] = defaultdict(list)
    kernels: dict[object, list[tuple[int, int]]] = defaultdict(list)
    for table in ("kernels", "memcpys", "memsets"):
        for row in reading.tables.get(table, []):
            span = (row["start_ns"], row["start_ns"] + row["dur_ns"])
            spans[row["device"]].append(span)
            if table == "kernels":
                kernels[row["device"]].append(span)
    return {
        device: (
            len(kernels[device]),
            busy(kernels[device]),
            busy(kernels[device], 2),
            max(end for _, end in every) - min(start for start, _ in every),
        )
        for device, every in spans.items()
        if kernels[device]
    }


def copies(reading: Reading) -> dict[tuple[object, object, object, object], tuple[int, int, int]]:
    """Per device, direction and kinds of memory: copies, bytes and time."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in reading.tables.get("memcpys", []):
        groups[row["device"], row["direction"], row["src_memory"], row["dst_memory"]].append(row)
    return {
        key: (len(rows), sum(row["size_bytes"] or 0 for row in rows), sum(row["dur_ns"] for row in rows))
        for key, rows in groups.items()
    }


def _row(event: Row, base: int) -> tuple[str, Row]:
    """The table of one event, and its row."""
    category = str(event.get("cat") or "").lower()
    category = ALIASES.get(category, category)
    args = event.get("args") or {}
    start, dur = to_ns(event.get("ts")), to_ns(event.get("dur"))
    start = None if start is None else start + base
    shared = {"start_ns": start, "dur_ns": dur, "name": event.get("name"), "_args": args}
    cpu = shared | {"pid": _thread(event.get("pid")), "tid": _thread(event.get("tid"))}
    external = _integer(args.get("External id", args.get("external id")))
    if event.get("name") == "[memory]" and "Bytes" in args:
        return "memory_events", _memory(args, cpu)
    if event.get("ph") == "X" and category in GPU_ROWS:
        table, own = GPU_ROWS[category]
        row = shared | _gpu(event, args) | own(str(event.get("name")), args)
        return table, row | ({} if table == "syncs" else {"external_id": external})
    if event.get("ph") == "X" and category == "gpu_user_annotation":
        where = _gpu(event, args)
        return "annotations", shared | {"scope": "gpu", "device": where["device"], "stream": where["stream"]}
    if category in ("mtia_ccp_events", "mtia_runtime") and event["name"] in MTIA_ROWS:
        table, own = MTIA_ROWS[event["name"]]
        stream = _id(args.get("stream", args.get("stream_id")))
        return table, shared | _gpu(event, args) | {"stream": stream} | own(event["name"], args)
    if category == "cpu_op" and str(event.get("name")).startswith("ProfilerStep#"):
        return "annotations", cpu | {"scope": "cpu", "device": None, "stream": None}
    if event.get("ph") == "X" and category in CPU_ROWS:
        table, own = CPU_ROWS[category]
        return table, cpu | {"external_id": external} | own(args)
    return "other_events", cpu


def _gpu(event: Row, args: Row) -> Row:
    return {
        "device": _id(args.get("device", event.get("pid"))),
        "context": _integer(args.get("context")),
        "stream": _id(args.get("stream", _thread(event.get("tid")))),
        "correlation": _id(args.get("correlation")),
    }


def _kernel(_: str, args: Row) -> Row:
    grid, block = args.get("grid") or [None] * 3, args.get("block") or [None] * 3
    occupancy = args.get("est. achieved occupancy %")
    return {
        **{f"grid_{axis}": grid[index] for index, axis in enumerate("xyz")},
        **{f"block_{axis}": block[index] for index, axis in enumerate("xyz")},
        "registers": _integer(args.get("registers per thread")),
        "occupancy_ratio": None if occupancy is None else float(occupancy) / 100,
    }


def _memcpy(name: str, args: Row) -> Row:
    found = re.fullmatch(r"Memcpy (\w+) \((.+) -> (.+)\)", name)
    direction, source, target = found.groups() if found else (args.get("kind") or "unknown", None, None)
    return {
        "direction": direction,
        "src_memory": source,
        "dst_memory": target,
        "size_bytes": _integer(args.get("bytes")),
    }


def _memset(name: str, args: Row) -> Row:
    found = re.fullmatch(r"Memset \((.+)\)", name)
    return {"memory": found.group(1) if found else None, "size_bytes": _integer(args.get("bytes"))}


def _sync(name: str, args: Row) -> Row:
    return {
        "kind": args.get("cuda_sync_kind", name),
        "event_id": _integer(args.get("wait_on_cuda_event_id")),
        "waits_for_stream": _id(args.get("wait_on_stream")),
        "waits_for_correlation": _id(args.get("wait_on_cuda_event_record_corr_id")),
    }


GPU_ROWS = {
    "kernel": ("kernels", _kernel),
    "gpu_memcpy": ("memcpys", _memcpy),
    "gpu_memset": ("memsets", _memset),
    "cuda_sync": ("syncs", _sync),
}


MTIA_ROWS: dict[str, tuple[str, Callable[[str, Row], Row]]] = {
    **dict.fromkeys(("pe_exe", "merge", "remote"), ("kernels", _kernel)),
    **dict.fromkeys(("event_wait", "event_record", "synchronize"), ("syncs", _sync)),
    "dma_request": (
        "memcpys",
        lambda _, args: {
            "direction": {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH"}[args["direction"]],
            "src_memory": None,
            "dst_memory": None,
            "size_bytes": args["size"],
        },
    ),
}


def _call(api: str | None) -> Callable[[Row], Row]:
    return lambda args: {"api": api, "correlation": _id(args.get("correlation"))}


def _op(args: Row) -> Row:
    return {
        "sequence_number": _integer(args.get("Sequence number")),
        "forward_tid": _integer(args.get("Fwd thread id")),
        "input_shapes": args.get("Input Dims"),
        "input_types": args.get("Input type"),
    }


def _frame(args: Row) -> Row:
    return {
        "frame": _integer(args.get("Python id")),
        "parent_frame": _integer(args.get("Python parent id")),
        "module": _integer(args.get("Python module id")),
    }


CPU_ROWS: dict[str, tuple[str, Callable[[Row], Row]]] = {
    "cpu_op": ("ops", _op),
    "cuda_runtime": ("api_calls", _call("runtime")),
    "cuda_driver": ("api_calls", _call("driver")),
    "mtia_runtime": ("api_calls", _call(None)),
    "python_function": ("python_frames", _frame),
    "user_annotation": ("annotations", lambda _: {"scope": "cpu", "device": None, "stream": None}),
}


def _memory(args: Row, cpu: Row) -> Row:
    return {
        **{key: cpu[key] for key in ("pid", "tid", "_args")},
        "time_ns": cpu["start_ns"],
        "device": _id(args.get("Device Id")) if args.get("Device Type") else None,
        "address": _integer(args.get("Addr")),
        "size_bytes": _integer(args.get("Bytes")),
        "allocated_bytes": _integer(args.get("Total Allocated")),
        "reserved_bytes": _integer(args.get("Total Reserved")),
    }


def _collective(args: Row, row: Row, on: str) -> Row:
    given = _integer(args.get("In msg nelems", args.get("In msg size")))
    received = _integer(args.get("Out msg nelems", args.get("Out msg size")))
    size = DTYPE_BYTES.get(str(args.get("dtype")))
    ranks = json.loads(args.get("Process Group Ranks") or "[]")
    group = args.get("Process Group Name", args.get("PG ID", args.get("Process Group ID")))
    return {
        **{key: row.get(key) for key in ("start_ns", "dur_ns", "device", "stream", "correlation", "external_id")},
        "origin": on,
        "raw_name": args["Collective name"],
        "collective": COLLECTIVES[str(args["Collective name"])],
        "in_elements": given,
        "out_elements": received,
        "dtype": args.get("dtype"),
        "size_bytes": size and max(given, received) * size,
        "group_name": None if group is None else str(group),
        "group_size": _integer(args.get("Group size")),
        "group_ranks": ranks or None,
        "group_description": None if (name := args.get("Process Group Description")) == "undefined" else name,
        "group_start": _integer(args.get("Global rank start")),
        "group_stride": _integer(args.get("Global rank stride")),
    }


def _collectives_of_ranges(tables: dict[str, list[Row]]) -> list[Row]:
    """What ranges like nccl:all_to_all tell of the kernels launched in them that tell nothing themselves."""
    ranges: dict[object, list[Row]] = defaultdict(list)
    for row in tables["annotations"]:
        if row.get("tid") and re.match(r"nccl:", str(row["name"])):
            ranges[row["tid"]].append(row)
    calls: dict[object, Row] = {}
    for call in sorted(tables["api_calls"] if ranges else [], key=lambda row: row["start_ns"], reverse=True):
        calls[call["correlation"]] = call
    rows = []
    for kernel in tables["kernels"] if ranges else []:
        call = calls.get(kernel["correlation"])
        if call is None or "nccl" not in kernel["name"] or "Collective name" in kernel["_args"]:
            continue
        around = [
            row for row in ranges[call["tid"]] if row["start_ns"] <= call["start_ns"] < row["start_ns"] + row["dur_ns"]
        ]
        if around:
            name = str(max(around, key=lambda row: row["start_ns"])["name"]).removeprefix("nccl:")
            given = {
                key: kernel[key] for key in ("start_ns", "dur_ns", "device", "stream", "correlation", "external_id")
            }
            unknown = dict.fromkeys(("in_elements", "out_elements", "dtype", "size_bytes"))
            group = dict.fromkeys(
                ("group_name", "group_size", "group_ranks", "group_description", "group_start", "group_stride")
            )
            kind = re.sub("^_|_base$", "", name)
            rows.append(given | unknown | group | {"origin": "range", "raw_name": name, "collective": kind})
    return rows


def _sizes_through_correlation(tables: dict[str, list[Row]]) -> None:
    """Give copies without a size that of the call that made them (HIP)."""
    sizes = {row["correlation"]: _integer(row["_args"].get("bytes")) for row in tables["api_calls"]}
    for row in tables["memcpys"]:
        if row["size_bytes"] is None:
            row["size_bytes"] = sizes.get(row["correlation"])


def _integer(value: object) -> int | None:
    """An int64, also where it is written as text."""
    if value is None or (type(value) is int and value in INT64):
        return value
    if isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value in INT64 else None


def _id(value: object) -> int | None:
    number = _integer(value)
    return None if number in SENTINELS else number


def _thread(value: object) -> int | None:
    """The number of a track: 7, '7' and 'stream 7' alike."""
    if type(value) is int and value in INT64:
        return value
    if isinstance(value, str) and (found := re.fullmatch(r"(?:stream )?(-?\d+)", value)):
        return int(found.group(1))
    return _integer(value)
