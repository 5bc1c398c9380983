"""Measure ingest against json.load on one built trace, as whole processes."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

import build_trace
import other_tools
from build_trace import Built
from expected_rows import expected, wrong
from machine import available_bytes
from other_tools import Answer
from process_cost import Cost, FailedError, cost, median, python

JSON_BYTES_A_BYTE = 5.6
"""What json.load needs of memory for a byte of such a trace, with some reserve."""

# The time of the call alone is printed too: the process also ends, and frees what it loaded.
JSON_LOAD = """
import json, sys, time
started = time.perf_counter()
with open(sys.argv[1]) as file:
    trace = json.load(file)
print(time.perf_counter() - started)
"""
JSON_LOAD_GZIP = JSON_LOAD.replace("import json", "import gzip, json").replace("open(", "gzip.open(")


@dataclass(frozen=True)
class Job:
    """One trace to build and measure."""

    name: str
    source: Path
    size_mb: int
    gzip: bool
    pairs: int
    baseline: bool
    peers: bool


@dataclass
class Case:
    """What was measured on one trace; a peer's value is its figures, or the reason why there are none."""

    name: str
    text_mb: float
    file_mb: float
    gzip: bool
    events: int
    rows: int = 0
    store_mb: float = 0
    tracelab: list[Cost] = field(default_factory=list)
    json_load: list[Cost] = field(default_factory=list)
    json_load_absent: str = ""
    peers: dict[str, Answer | str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return median([run.wall_s for run in self.tracelab])

    @property
    def speedup(self) -> float | None:
        """How many times faster than json.load: the median over the pairs, each of which ran one after the other."""
        ratios = [slow.wall_s / fast.wall_s for slow, fast in zip(self.json_load, self.tracelab, strict=False)]
        return median(ratios) if ratios else None

    @property
    def peak_bytes(self) -> int:
        return max(run.peak_bytes for run in self.tracelab)


def measure(job: Job, work: Path) -> Case:
    """Build the trace, measure, check the store against exact figures, and remove both."""
    trace = work / f"{job.name}-{job.size_mb}mb.pt.trace.json{'.gz' if job.gzip else ''}"
    store = work / "store"
    try:
        built = build_aside(job.source, trace, job.size_mb)
        case = Case(job.name, built.text_bytes / 1e6, trace.stat().st_size / 1e6, job.gzip, built.events)
        case.json_load_absent = _why_not(job, built)
        for _ in range(job.pairs):
            if not case.json_load_absent:
                case.json_load.append(cost(python("-c", JSON_LOAD_GZIP if job.gzip else JSON_LOAD, str(trace))))
            shutil.rmtree(store, ignore_errors=True)
            case.tracelab.append(cost(ingest(trace, store)))
        case.store_mb = sum(file.stat().st_size for file in store.rglob("*.parquet")) / 1e6
        case.rows = _rows(store)
        case.wrong = wrong(store, expected(job.source, built))
        if job.peers:
            case.peers = {name: _asked(peer, trace) for name, peer in other_tools.ALL.items()}
        return case
    finally:
        trace.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)


def ingest(*paths: Path, run: str | None = None) -> list[str]:
    """Return the command that ingests paths into the last of them."""
    *traces, store = map(str, paths)
    return python("-m", "tracelab", "ingest", *traces, "--store", store, "-q", *(["--run", run] if run else []))


def build_aside(source: Path, target: Path, size_mb: float) -> Built:
    """Build a trace in a process of its own, which takes its memory with it."""
    command = python(str(Path(build_trace.__file__)), str(source), str(target), str(size_mb))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(f"building from {source} failed: {done.stderr.strip()}")
    return Built(**json.loads(done.stdout) | {"path": target})


def _why_not(job: Job, built: Built) -> str:
    if not job.baseline:
        return "not asked for"
    need = built.text_bytes * JSON_BYTES_A_BYTE
    return "" if need < available_bytes() else f"needs about {need / 1e9:.0f} GB of memory, more than is free"


def _asked(peer: Callable[[Path], Answer], trace: Path) -> Answer | str:
    try:
        return peer(trace)
    except other_tools.AbsentError as missing:
        return str(missing)
    except FailedError as failed:
        return f"failed: {str(failed)[-300:]}"


def _rows(store: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in store.rglob("*.parquet"))
