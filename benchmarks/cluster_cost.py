"""Measure what `tracelab ingest --cluster local:2` costs beside `local:1` and beside one process.

    python benchmarks/cluster_cost.py [FILES [MEGABYTES]]     # 64 files of 20 MB, one rank each

Prints the CPU time of the driver and of its workers. Wall time depends on what else the machine does, so that the
efficiency follows from CPU time: two workers each do half of the workers' part, and no part of the driver's runs beside
theirs. It is 1 where two workers take half the time of one.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import build_trace

SOURCE = Path(__file__).parents[1] / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz"
RANK = b'"rank": 0'
PROGRAM = """
import json, resource, sys
from tracelab.ingest.pipeline import ingest
paths, store, cluster = sys.argv[1:]
report = ingest([paths], store, cluster=cluster or None, jobs=1)
assert {file.status for file in report.files} == {"stored"}, report
spent = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps([usage.ru_utime + usage.ru_stime for usage in spent]))
"""
PAIRS = 2


@dataclass(frozen=True)
class Spent:
    """CPU seconds of the process that ingests, and of its workers."""

    driver_s: float
    workers_s: float

    @property
    def total_s(self) -> float:
        return self.driver_s + self.workers_s

    def least_wall_s(self, workers: int) -> float:
        """Time that so many workers need on free processors, if none of the driver's work runs beside theirs."""
        return self.driver_s + self.workers_s / workers


def build_job(folder: Path, files: int, megabytes: int) -> None:
    """Write a job with a trace of the same size for each rank."""
    first = folder / "rank0.json"
    build_trace.build(SOURCE, first, megabytes * 10**6, gzip=False)
    content = first.read_bytes()
    if content.count(RANK) != 1:
        raise ValueError(f"{SOURCE}: has {RANK.decode()} {content.count(RANK)} times; once is needed to replace it")
    for rank in range(1, files):
        ranked = content.replace(RANK, b'"rank": %d' % rank) + b"\n" * rank  # no two of a real job have one size
        (folder / f"rank{rank}.json").write_bytes(ranked)


def measure(job: Path, cluster: str) -> Spent:
    """Ingest a job into a new store."""
    with TemporaryDirectory() as store:
        command = [sys.executable, "-c", PROGRAM, str(job), store, cluster]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return Spent(*json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    files, megabytes = [int(word) for word in sys.argv[1:]] + [64, 20][len(sys.argv) - 1 :]
    with TemporaryDirectory() as folder:
        build_job(Path(folder), files, megabytes)
        runs = {cluster: [] for cluster in ("", "local:1", "local:2")}
        for _ in range(PAIRS):
            for cluster, spent in runs.items():
                spent.append(measure(Path(folder), cluster))
    least = {cluster: min(spent, key=lambda each: each.total_s) for cluster, spent in runs.items()}
    for cluster, spent in least.items():
        print(f"{cluster or 'one process':11}: driver {spent.driver_s:5.1f} s, workers {spent.workers_s:5.1f} s of CPU")
    one, two = least["local:1"], least["local:2"]
    print(f"efficiency of two workers: {one.least_wall_s(1) / 2 / two.least_wall_s(2):.2f}")


if __name__ == "__main__":
    main()
