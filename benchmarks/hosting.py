"""The questions about the host's side, on a generated rank's whole trace: ops, calls, ranges, memory and GPU rows."""

import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ingesting import build_aside, ingest
from process import Cost, cost, median, python

SOURCE = Path(__file__).parents[1] / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz"
QUERIES = (
    *("api_summary", "op_summary", "op_kernels", "annotation_gpu_time", "step_breakdown", "data_loader_wait"),
    *("memory_timeline", "memory_peak", "memory_live", "collective_summary"),
)
REPEATS = 3


@dataclass
class HostAnswers:
    """What was measured; a query's times are those of its runs, the first one first."""

    events: int
    ops: int
    text_mb: float
    ingested: Cost
    query_s: dict[str, list[float]]

    def first_s(self, query: str) -> float:
        return self.query_s[query][0]

    def again_s(self, query: str) -> float:
        return median(self.query_s[query][1:])


def measure(work: Path, size_mb: float) -> HostAnswers:
    """Build the trace, ingest it, and ask every query in one new process."""
    store, trace = work / "host-store", work / "host.pt.trace.json"
    try:
        built = build_aside(SOURCE, trace, size_mb)
        ingested = cost(ingest(trace, store, run="host"))
        said = json.loads(cost(python(__file__, str(store))).last_line)
    finally:
        trace.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)
    return HostAnswers(events=built.events, text_mb=built.text_bytes / 1e6, ingested=ingested, **said)


def ask(store: Path) -> dict[str, Any]:
    """Ask every query on one session, and return the times."""
    from tracelab import query, session

    con = session.connect(store)
    times: dict[str, list[float]] = {}
    for name in QUERIES:
        found = query.find(name)
        for _ in range(1 + REPEATS):
            started = time.perf_counter()
            query.run(con, found, {})
            times.setdefault(name, []).append(time.perf_counter() - started)
    (ops,) = con.execute("select count(*) from ops").fetchall()[0]
    return {"query_s": times, "ops": ops}


if __name__ == "__main__":
    print(json.dumps(ask(Path(sys.argv[1]))))
