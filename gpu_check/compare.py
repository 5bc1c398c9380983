"""Compare what `make gpu-check` recorded on a GPU node with the queries, on a laptop: `make gpu-compare RESULTS=FILE`.

    python gpu_check/compare.py gpu-check-out.tar.gz     # or the folder; needs tracelab, no GPU and no torch

The workloads have known results: kernels, bytes and FLOPs of a step. Each query must find them. Exit codes: 0 every
check held, 1 one failed, 2 the results cannot be read.
"""

import argparse
import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from truths import use_checkout  # noqa: E402

use_checkout()

import tracelab  # noqa: E402
from outcome import FAIL, Check, between, equal, exit_code, render_table, skip  # noqa: E402
from tracelab.errors import TracelabError  # noqa: E402

Rows = list[dict[str, Any]]
CEILINGS = Path("ceilings", "ceilings.jsonl")


def main(arguments: list[str] | None = None) -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder or .tar.gz that gpu_check/run.py wrote")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tracelab-") as scratch:
        folder = _unpacked(options.results, Path(scratch))
        if not (folder / "facts.json").is_file():
            parser.error(f"{options.results}: has no facts.json; name the folder or archive of gpu_check/run.py")
        checks = list(Comparison(folder, Path(scratch) / "store").checks())
    print(render_table(checks))
    return exit_code(checks)


def _unpacked(results: Path, scratch: Path) -> Path:
    if results.is_dir():
        return results
    with tarfile.open(results) as tar:
        tar.extractall(scratch / "results", filter="data")
    return next((scratch / "results").iterdir())


class Comparison:
    """The results of one node in a store of their own."""

    def __init__(self, folder: Path, store: Path) -> None:
        self.folder = folder
        self.facts = json.loads((folder / "facts.json").read_text("utf-8"))
        self.on_gpu = self.facts["device"] == "cuda"
        self.lab = tracelab.open(store)
        self.lab.ingest(folder)

    def checks(self) -> Iterator[Check]:
        """Yield a check for each figure that a workload's result determines."""
        for capture in self.facts["captures"]:
            run = f"{capture['workload']}-{capture['profiler']}"
            described = self.folder / run / "run.json"
            status = json.loads(described.read_text("utf-8"))["status"] if described.is_file() else "not recorded"
            if status != "ok":
                yield skip(run, status)
                continue
            try:
                for check in self._of_capture(capture, run, capture["truth"]):
                    yield Check(f"{run}: {check.name}", check.status, check.measured, check.expected, check.reason)
            except TracelabError as error:  # a query that the recording cannot answer
                yield Check(run, FAIL, "", "an answer", " ".join(str(error).split()))
        yield from self._ceilings()

    def _of_capture(self, capture: dict[str, Any], run: str, truth: dict[str, Any]) -> Iterator[Check]:
        if capture["profiler"] == "ncu":
            return self._counted(run, truth)
        times = self.facts["recorded_steps"]
        work = {
            "triad": self._triad,
            "gemm": self._gemm,
            "copies": self._copies,
            "streams": self._streams,
            "collectives": self._collectives,
        }[capture["workload"]]
        return work(run, truth, times)

    def _triad(self, run: str, truth: dict[str, Any], times: int) -> Iterator[Check]:
        if not self.on_gpu:
            yield equal("calls of aten::add", self._calls(run, "aten::add"), truth["triads"] * times)
            return
        kernels = self._rows("kernel_summary", run)
        yield equal("kernels", _sum(kernels, "calls"), truth["triads"] * times)
        rate = truth["size_bytes"] * times / max(_sum(kernels, "dur_ns"), 1)
        yield from self._against_ceiling("bandwidth of the kernels", rate, "dram_triad", 0.7, 1.15)

    def _gemm(self, run: str, truth: dict[str, Any], times: int) -> Iterator[Check]:
        yield equal("calls of aten::mm", self._calls(run, "aten::mm"), truth["products"] * times)
        if self.on_gpu:
            kernels = self._rows("kernel_summary", run)
            rate = truth["flop"] * times / max(_sum(kernels, "dur_ns"), 1)
            yield from self._against_ceiling("FLOP/s of the kernels", rate, "gemm_fp32", 0.5, 1.15)

    def _copies(self, run: str, truth: dict[str, Any], times: int) -> Iterator[Check]:
        if not self.on_gpu:
            yield equal("calls of aten::copy_", self._calls(run, "aten::copy_"), 2 * truth["copies"] * times)
            return
        copies = self._rows("memcpy_throughput", run)
        for direction in ("HtoD", "DtoH"):
            own = [row for row in copies if row["direction"] == direction]
            yield equal(f"copies {direction}", _sum(own, "copies"), truth["copies"] * times)
            yield equal(f"bytes {direction}", _sum(own, "size_bytes"), truth["size_bytes"] * times)

    def _streams(self, run: str, truth: dict[str, Any], times: int) -> Iterator[Check]:
        rows, expected = self._rows("kernel_concurrency", run), truth["concurrency_ratio"]
        yield equal("kernels", _sum(rows, "kernels"), truth["kernels"] * times)
        yield equal("GPUs with kernels", len(rows), 1)
        for row in rows:
            ratio = row["concurrency_ratio"]
            yield between("share of the time with two kernels", ratio, expected - 0.1, expected + 0.1)

    def _collectives(self, run: str, truth: dict[str, Any], times: int) -> Iterator[Check]:
        table, calls = ("collective_summary", "kernels") if self.on_gpu else ("cpu_communication", "calls")
        for kind in ("broadcast", "all_reduce"):
            rows = [row for row in self._rows(table, run) if row["collective"] == kind]
            for rank in sorted({row["rank"] for row in rows}):
                own = [row for row in rows if row["rank"] == rank]
                yield equal(f"{kind} of rank {rank}", _sum(own, calls), truth["calls"] * times)
                if self.on_gpu:
                    yield equal(f"bytes of {kind} of rank {rank}", _sum(own, "size_bytes"), truth["size_bytes"] * times)
            yield equal(f"ranks with {kind}", len({row["rank"] for row in rows}), self._ranks(run))

    def _counted(self, run: str, truth: dict[str, Any]) -> Iterator[Check]:
        """Check what ncu counted in one step against the FLOPs and bytes that it computes and moves."""
        totals = [row for row in self._rows("roofline", run) if row["precision"] == "all"]
        flop = _sum(totals, "flop")
        yield between("FLOPs that ncu counts over the known ones", flop / truth["flop"], 0.99, 1.02)
        if "triads" in truth:
            moved = _sum(totals, "dram_bytes") / truth["size_bytes"]
            yield between("bytes that ncu counts over the known ones", moved, 0.6, 1.3)
        if (self.folder / CEILINGS).is_file():
            yield equal("basis of the ceilings", {row["ceiling_basis"] for row in totals}, {"sustained"})
            largest = max((row["of_ceiling_ratio"] or 0 for row in totals), default=0)
            yield between("share of the ceiling", largest, 0.02, 1.2)

    def _ceilings(self) -> Iterator[Check]:
        written = self.folder / CEILINGS
        if not written.is_file():
            yield skip("ceilings", "not measured")
            return
        lines = len(written.read_text("utf-8").splitlines()) - 1
        stored = self.lab.sql("select count(*) as n from ceilings where run = 'ceilings'").to_pylist()[0]["n"]
        yield equal("ceilings in the store", stored, lines)

    def _against_ceiling(self, name: str, rate: float, metric: str, least: float, most: float) -> Iterator[Check]:
        """Check a rate against a sustained ceiling; a short run may be as fast as the best repetition."""
        figures = "max(coalesce(sustained, median)) as sustained, max(best) as best"
        (ceiling,) = self.lab.sql(f"select {figures} from ceilings where metric = '{metric}'").to_pylist()
        sustained, best = ceiling["sustained"], ceiling["best"]
        if sustained is None:
            yield skip(name, f"{metric} was not measured")
        else:
            yield between(f"{name} over {metric}", rate / sustained, least, most * best / sustained)

    def _calls(self, run: str, op: str) -> int:
        return _sum([row for row in self._rows("op_summary", run) if row["op"] == op], "calls")

    def _ranks(self, run: str) -> int:
        return len(list((self.folder / run).glob("steps.rank*.jsonl")))

    def _rows(self, query: str, run: str) -> Rows:
        rows: Rows = self.lab.query(query, run=run).to_pylist()
        return rows


def _sum(rows: Rows, column: str) -> int:
    return sum(row[column] or 0 for row in rows)


if __name__ == "__main__":
    sys.exit(main())
