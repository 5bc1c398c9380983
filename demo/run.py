"""The demo: ingest the runs in data/, run queries, explain and draw their answers, and check them.

    python demo/run.py

Every line after a `$` is a command that runs. The store and the pictures are in demo-out/ afterwards.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tracelab
from terminal import ROOT, bold, print_heading, print_note, run_tracelab
from tracelab.client import Lab

OUT = Path("demo-out")
STORE = OUT / "lab"
CPU = "data/cpu"
GPU = "data/generated/generated-4rank-ddp"
JOB_RUN = "generated-8rank-pipeline"
JOB = f"data/generated/{JOB_RUN}"
SLOW_RANK = 2
RECORDED = "data/h200"
COUNTED_RUN, TRAINED_RUN = "resnet18-ncu", "alexnet-batch64"
GENERATED, REAL = "generated data", "recorded data"
TRUTH = ROOT / "data" / "generated" / "truth.json"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Query:
    """A query of the demo: its heading, its parameters, and the sentence that explains its answer."""

    name: str
    heading: str
    explain: Callable[[Rows], str]
    params: dict[str, int | str | float] = field(default_factory=dict)
    has_chart: bool = True
    data: str = GENERATED
    options: tuple[str, ...] = ()
    """Options of the table alone."""

    @property
    def command(self) -> list[str]:
        """Arguments of `tracelab` that run the query."""
        params = [word for name, value in self.params.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        return ["query", self.name, *params, *self.options]

    @property
    def picture(self) -> Path:
        """Where its chart goes."""
        return OUT / f"{self.name}.png"


def _explain_breakdown(rows: Rows) -> str:
    idle = max(rows, key=lambda row: row["idle_ns"] / row["window_ns"])
    waiting = max(rows, key=lambda row: row["exposed_comm_ns"] / row["window_ns"])
    return (
        f"The GPUs compute for about the same time, but GPU {idle['device']} idles for "
        f"{idle['idle_ns'] / idle['window_ns']:.0%} of its window, and GPU {waiting['device']} spends "
        f"{waiting['exposed_comm_ns'] / waiting['window_ns']:.0%} of its own in NCCL while nothing computes: "
        f"rank {idle['rank']} is the straggler, and the other ranks wait for it."
    )


def _explain_concurrency(rows: Rows) -> str:
    low, high = (pick(rows, key=lambda row: row["concurrency_ratio"]) for pick in (min, max))
    return (
        f"At least two kernels run at once for {low['concurrency_ratio']:.0%} (rank {low['rank']}) to "
        f"{high['concurrency_ratio']:.0%} (rank {high['rank']}) of the time in which any runs. "
        "Kernels that only touch do not count."
    )


def _explain_copies(rows: Rows) -> str:
    speed = {(row["direction"], row["src_memory"]): row["throughput_gb_per_s"] for row in rows}
    pinned, pageable = speed["HtoD", "Pinned"], speed["HtoD", "Pageable"]
    return (
        f"Copies from pinned host memory are {pinned / pageable:.1f} times as fast as copies from pageable memory "
        f"({pinned:.1f} against {pageable:.2f} GB/s)."
    )


def _explain_share(rows: Rows) -> str:
    row = next(row for row in rows if row["collective"] == "broadcast")
    return (
        f"Broadcasts take {row['of_gpu_activity_ratio']:.1%} of the sum of all GPU activity, "
        f"{row['of_kernel_sum_ratio']:.1%} of the sum of all kernels, {row['of_kernel_busy_ratio']:.1%} of the time in "
        f"which any kernel runs, {row['of_window_ratio']:.1%} of the window: {row['dur_ns']:,} ns by four denominators."
    )


def _explain_kernels(rows: Rows) -> str:
    first = rows[0]
    return (
        f"{first['kernel'].split('(')[0]} takes {first['of_kernel_sum_ratio']:.0%} of rank 0's kernel time. "
        f"Its mean is {first['mean_ns'] / first['median_ns']:.1f} times its median, so a few calls wait long."
    )


def _explain_clocks(rows: Rows) -> str:
    ahead = [row for row in rows if row["verdict"] == "aligned"]
    return (
        f"The clocks of ranks {ahead[0]['rank']} to {ahead[-1]['rank']}, on the second host, are "
        f"{-ahead[0]['offset_ns'] / 1e6:.2f} ms ahead of rank 0's. All ranks leave a collective at nearly the same "
        f"moment, so the ends show it; {sum(row['violations'] for row in rows)} collectives contradict it."
    )


def _explain_stragglers(rows: Rows) -> str:
    late = rows[0]
    return (
        f"Rank {late['rank']} is the last in {late['times_last']} of its {late['collectives']} collectives, and the "
        f"others wait {late['caused_wait_ns'] / 1e6:.1f} ms for it, added up."
    )


def _explain_causes(rows: Rows) -> str:
    first = rows[0]
    computes_ns = sum(row["charged_ns"] for row in rows if (row["rank"], row["cause"]) == (first["rank"], "compute"))
    return (
        f"Rank {first['rank']} computes longer than its peers: that is charged with {computes_ns / 1e6:.1f} ms of the "
        f"waits, {first['charged_ns'] / 1e6:.1f} ms of it kernels of the class {first['detail']}. The generator slowed "
        "its GPU down."
    )


def _explain_gain(rows: Rows) -> str:
    first, truth = rows[0], json.loads(TRUTH.read_text("utf-8"))["job"]
    return (
        f"Were its kernels as fast as those of the others, the job would take {first['time_after_ns'] / 1e6:.3f} "
        f"instead of {first['time_before_ns'] / 1e6:.3f} ms. The generator ran the job again without the slow GPU: "
        f"{truth['window_without_the_slow_gpu_ns'] / 1e6:.3f} ms."
    )


def _explain_roofline(rows: Rows) -> str:
    kernels = [row for row in rows if row["precision"] == "all"]
    forward_ns = sum(row["dur_ns"] for row in kernels)
    computing = [row for row in kernels if row["bound"] == "compute"]
    most = max(computing, key=lambda row: row["dur_ns"])
    return (
        f"Kernels bound by arithmetic take {sum(row['dur_ns'] for row in computing) / forward_ns:.0%} of the forward "
        f"pass. The longest of them reaches {most['of_ceiling_ratio']:.0%} of the "
        f"{most['ceiling_gflop_per_s'] / 1000:.0f} TFLOP/s that fp32 products sustained on this model of GPU."
    )


QUERIES = (
    Query("gpu_breakdown", "Where does the time of each GPU go?", _explain_breakdown),
    Query("kernel_concurrency", "How much do kernels overlap?", _explain_concurrency),
    Query("memcpy_throughput", "How fast are the copies of rank 0?", _explain_copies, {"rank": 0}),
    Query("nccl_share", "What share of rank 0's GPU time is NCCL broadcasts?", _explain_share, {"rank": 0}),
    Query("kernel_summary", "Which kernels take the time of rank 0?", _explain_kernels, {"rank": 0, "top": 8}),
)
OF_JOB = {"run": JOB_RUN}
JOB_QUERIES = (
    Query("clock_offsets", "Are the clocks of all ranks right?", _explain_clocks, OF_JOB, has_chart=False),
    Query("stragglers", "Which rank do the others wait for?", _explain_stragglers, OF_JOB),
    Query("straggler_causes", "Why does it come late?", _explain_causes, OF_JOB | {"rank": SLOW_RANK}),
    Query(
        "what_if",
        "What would the job gain if it did not?",
        _explain_gain,
        OF_JOB | {"class": "compute", "of_rank": SLOW_RANK, "factor": 0.5882353},
        has_chart=False,
    ),
)
RECORDED_QUERIES = (
    Query(
        "roofline",
        "How close do the kernels of ResNet-18 come to the limits of an H200?",
        _explain_roofline,
        {"run": COUNTED_RUN},
        data=REAL,
        options=("--limit", "6"),
    ),
)


def main() -> None:
    os.chdir(ROOT)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    os.environ["TRACELAB_STORE"] = str(STORE)
    lab = tracelab.open(STORE)
    ingest()
    for number, query in enumerate(QUERIES, 1):
        run_query(lab, number, query)
    run_sql(lab, len(QUERIES) + 1)
    check_answers(lab)
    ingest_job()
    for number, query in enumerate(JOB_QUERIES, len(QUERIES) + 2):
        run_query(tracelab.open(STORE), number, query)
    ingest_recorded()
    for number, query in enumerate(RECORDED_QUERIES, len(QUERIES) + len(JOB_QUERIES) + 2):
        run_query(tracelab.open(STORE), number, query)
    list_pictures()


def ingest() -> None:
    print(bold("tracelab: profiler traces in, exact answers out"))
    print()
    print_note(f"{CPU}: training runs on a CPU, recorded with torch.profiler. Real, without a GPU.")
    print_note(
        f"{GPU}: data-parallel training on four GPUs, GENERATED by data/generate.py. No GPU ran, and the durations are "
        "invented, so that the right answers are known."
    )
    print_heading("Ingest", "recorded and generated data")
    print(f"$ export TRACELAB_STORE={STORE}")
    run_tracelab(["ingest", CPU, GPU])


def ingest_job() -> None:
    print_heading("A job of eight ranks", "generated data")
    print_note(f"{JOB}: two pipeline stages of two by two ranks, on two hosts whose clocks disagree. One GPU is slow.")
    run_tracelab(["ingest", JOB])


def ingest_recorded() -> None:
    print_heading("A real GPU", REAL)
    print_note(
        f"{RECORDED}: training on one NVIDIA H200, recorded by tracelab collect with PyTorch's profiler and ncu."
    )
    run_tracelab(["ingest", RECORDED])
    run_tracelab(["summary", TRAINED_RUN])


def run_query(lab: Lab, number: int, query: Query) -> None:
    print_heading(f"{number} · {query.heading}", query.data)
    plot = ["--plot", str(query.picture)] if query.has_chart else []
    run_tracelab([*query.command, "--format", "table", *plot])
    print_note(query.explain(lab.query(query.name, **query.params).to_pylist()))


def run_sql(lab: Lab, number: int) -> None:
    print_heading(f"{number} · SQL of your own: how much of a step is matrix arithmetic?", "recorded data")
    script = Path("demo/matrix_share.sql")
    print(script.read_text("utf-8"))
    run_tracelab(["sql", "-"], stdin=script)
    most, *_, least = lab.sql(script.read_text("utf-8")).to_pylist()
    print_note(
        f"Matrix arithmetic is {most['of_step_ratio']:.0%} of the steps of {most['run']}, "
        f"{least['of_step_ratio']:.0%} of those of {least['run']}, where small ops and communication take more."
    )


def check_answers(lab: Lab) -> None:
    """Compare the answers with the figures that the generator counted."""
    print_heading("Are these answers right?", "generated data")
    truths = {int(rank): truth for rank, truth in json.loads(TRUTH.read_text("utf-8"))["ranks"].items()}
    pairs = [
        (truths[row["rank"]][column], figure)
        for query in ("gpu_breakdown", "kernel_concurrency")
        for row in lab.query(query).to_pylist()
        for column, figure in row.items()
        if column in truths[row["rank"]]
    ]
    pairs += [
        (truths[row["rank"]]["collectives"][row["collective"]][column], row[column])
        for row in lab.query("nccl_share").to_pylist()
        if row["collective"] != "all"
        for column in ("dur_ns", "busy_ns", "exposed_ns")
    ]
    right = sum(expected == figure for expected, figure in pairs)
    print_note(
        f"{right} of {len(pairs)} times and counts equal, to the nanosecond, the figures that the generator counted "
        f"while it made the traces ({TRUTH.relative_to(ROOT)})."
    )
    if right < len(pairs):
        sys.exit("demo: wrong answers")


def list_pictures() -> None:
    print_heading("Next: a trace of your own")
    for line in (
        "source .venv/bin/activate",
        "tracelab ingest trace.json.gz",
        "tracelab query",
        "tracelab report --open",
    ):
        print(f"$ {line}")
    print_heading("Pictures of the answers above")
    drawn = [query for query in (*QUERIES, *JOB_QUERIES, *RECORDED_QUERIES) if query.has_chart]
    width = max(len(query.heading) for query in drawn)
    for query in drawn:
        print(f"  {query.heading:{width}}  {query.picture}")


if __name__ == "__main__":
    main()
