"""Measure queries on a store of ncu counters per launch and two timelines of the same kernels."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import query_cost
from ingest_cost import build_aside, ingest
from process_cost import cost

SOURCE = Path(__file__).parents[1] / "data" / "generated" / "ncu-forward" / "resnet18-batch256.txt"
LAUNCH = re.compile(r"^  (\S.*) \((\d+), (\d+), (\d+)\)x\((\d+), (\d+), (\d+)\), Context 1, Stream 7, Device 0", re.M)
KERNEL_US, GAP_US = 20, 2


def measure(work: Path, events: int) -> query_cost.Asked:
    """Repeat a forward pass until half of the events are its counters, and the kernels of two runs the other half."""
    store, report, trace = work / "counted-store", work / "counted.txt", work / "timeline.pt.trace.json"
    try:
        counters = _report(report, events // 2)
        cost(ingest(report, store, run="counted"))
        kernels = 0
        for run in ("before", "after"):
            kernels += _timeline(work / "kernels.json", trace, events // 4)
            cost(ingest(trace, store, run=run))
        held = f"counters: {counters:,} lines of ncu, and {kernels:,} kernels of the same program in two runs"
        return query_cost.ask(store, "counters", held, repeats=query_cost.repeats_of(events))
    finally:
        for file in (report, trace, work / "kernels.json"):
            file.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)


def _report(path: Path, counters: int) -> int:
    """Write ncu's text with at least so many lines of counters, and return how many."""
    text = SOURCE.read_text()
    first = next(LAUNCH.finditer(text)).start()
    one_pass = text[first:].rstrip("\n") + "\n"
    each = sum(line.startswith("    ") and "__" in line for line in one_pass.splitlines())
    times = -(-counters // each)
    with path.open("w") as out:
        out.write(text[:first])
        for _ in range(times):
            out.write(one_pass)
    return times * each


def _timeline(source: Path, trace: Path, kernels: int) -> int:
    """Write a trace with about so many kernels, those of the report one after the other, and return how many."""
    events = list(_kernels())
    source.write_text(json.dumps({"traceEvents": events}))
    each_bytes = len(json.dumps(events)) / len(events)
    return build_aside(source, trace, kernels * each_bytes / 1e6).events


def _kernels() -> Iterator[dict[str, object]]:
    for number, launch in enumerate(LAUNCH.finditer(SOURCE.read_text()), 1):
        shape = [int(text) for text in launch.groups()[1:]]
        arguments = {"device": 0, "context": 1, "stream": 7, "correlation": number, "shared memory": 0}
        yield {"ph": "X", "cat": "kernel", "name": launch[1], "pid": 0, "tid": 7, "dur": KERNEL_US} | {
            "ts": number * (KERNEL_US + GAP_US),
            "args": arguments | {"grid": shape[:3], "block": shape[3:]},
        }
