"""The library's queries on a store of a million kernels, checked against the truth about the generated traces."""

import gzip
import json
import math
import re
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from comparing import differences
from ingesting import build_aside, ingest
from process import Cost, cost, median, python

GENERATED = Path(__file__).parents[1] / "data" / "generated"
KERNELS = 1_000_000
QUERIES = (
    *("kernel_concurrency", "memcpy_throughput", "gpu_breakdown", "nccl_share", "kernel_summary"),
    *("kernel_class_share", "kernel_shapes", "stream_summary", "memcpy_overlap", "memcpy_sizes", "advice"),
)
"""Those that need GPU rows alone, for the traces have no others."""
REPEATS = 5

GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


@dataclass
class Answers:
    """What was measured on one store; a query's times are those of its runs, the first one first."""

    ranks: int
    kernels: int
    copies: int
    streams: int
    text_mb: float
    ingested: Cost
    connect_s: float
    query_s: dict[str, list[float]]
    wrong: list[str] = field(default_factory=list)

    def first_s(self, query: str) -> float:
        return self.query_s[query][0]

    def again_s(self, query: str) -> float:
        return median(self.query_s[query][1:])


def measure(ranks: int, work: Path, kernels: int = KERNELS) -> Answers:
    """Ingest the GPU rows of a million kernels, spread over some ranks, and ask every query in one new process."""
    store, traces = work / "store", work / "traces"
    traces.mkdir(parents=True)
    truth = json.loads((GENERATED / "truth.json").read_text())["ranks"]
    try:
        repetitions = [
            _trace(rank, truth[str(rank % len(truth))]["kernels"], traces, kernels // ranks) for rank in range(ranks)
        ]
        text_mb = sum(file.stat().st_size for file in traces.iterdir()) / 1e6
        ingested = cost(ingest(traces, store, run="asked"))
        said = json.loads(cost(python(__file__, str(store))).last_line)
    finally:
        shutil.rmtree(traces, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
    rows = said.pop("rows")
    wrong = [
        f"{ranks} ranks, rank {rank}: {problem}"
        for rank, times in enumerate(repetitions)
        for problem in differences(truth[str(rank % len(truth))], times, rank, rows)
    ]
    return Answers(ranks=ranks, text_mb=text_mb, ingested=ingested, **said, wrong=wrong)


def ask(store: Path) -> dict[str, Any]:
    """Ask every query on one session: the times, and the rows of the first answers."""
    from tracelab import query, session

    started = time.perf_counter()
    con = session.connect(store)
    connect_s = time.perf_counter() - started
    times: dict[str, list[float]] = {name: [] for name in QUERIES}
    rows = {}
    for name in QUERIES:
        found = query.find(name)
        for _ in range(1 + REPEATS):
            started = time.perf_counter()
            answer = query.run(con, found, {})
            times[name].append(time.perf_counter() - started)
            rows.setdefault(name, answer.to_pylist())
    (kernels, streams), (copies,) = (
        con.execute(f"select {what}").fetchone()
        for what in ("count(*), count(distinct stream) from kernels", "count(*) from memcpys")
    )
    return {
        "connect_s": connect_s,
        "query_s": times,
        "kernels": kernels,
        "copies": copies,
        "streams": streams,
        "rows": rows,
    }


def _trace(rank: int, kernels_each: int, folder: Path, kernels: int) -> int:
    """Write one rank's trace with about as many kernels, and nothing but GPU rows; return its repetitions."""
    source = folder / f"source{rank}.json"
    source.write_text(_gpu_only(rank))
    repetitions = math.ceil(kernels / kernels_each)
    # The size of the first two repetitions tells that of any number, nearly: ids and times grow by some digits.
    once, twice = (build_aside(source, folder / "probe.json", mb) for mb in (0, source.stat().st_size * 1.2 / 1e6))
    each = (twice.text_bytes - once.text_bytes) / (twice.repetitions - once.repetitions)
    size_mb = (once.text_bytes + each * 1.01 * (repetitions - 1)) / 1e6
    built = build_aside(source, folder / f"rank{rank}.pt.trace.json", size_mb)
    source.unlink()
    (folder / "probe.json").unlink()
    return built.repetitions


def _gpu_only(rank: int) -> str:
    """Return a generated rank's trace without its CPU events, as that of `rank`; times keep their text."""
    files = sorted(GENERATED.glob("*/rank*.json.gz"))
    with gzip.open(files[rank % len(files)], "rt") as file:
        head, key, rest = file.read().partition('"traceEvents": [')
    end = rest.rindex("]")
    kept = [text for text in _events(rest[:end]) if json.loads(text).get("cat") in GPU]
    head = re.sub(r'("rank": )\d+', rf"\g<1>{rank}", head)
    return f"{head}{key}\n" + ",\n".join(kept) + f"\n{rest[end:]}"


def _events(text: str) -> Iterable[str]:
    decode, at = json.JSONDecoder().raw_decode, text.index("{")
    while True:
        _, end = decode(text, at)
        yield text[at:end]
        at = text.find("{", end)
        if at < 0:
            return


if __name__ == "__main__":
    print(json.dumps(ask(Path(sys.argv[1]))))
