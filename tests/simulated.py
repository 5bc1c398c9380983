"""What a store holds of a simulated job, without its files, and random jobs."""

from random import Random
from typing import Any

from job_simulator import (
    GPU_KINDS,
    Clock,
    Cut,
    Delay,
    HostPause,
    Job,
    Kind,
    LoaderStall,
    Row,
    Simulation,
    SlowCompute,
    SlowHost,
    SlowLink,
)
from tests.build import Rows

TABLES = {
    Kind.KERNEL: "kernels",
    Kind.COMMUNICATION: "kernels",
    Kind.MEMCPY: "memcpys",
    Kind.MEMSET: "memsets",
    Kind.CALL: "api_calls",
}
COLLECTIVES = {
    "allreduce": "all_reduce",
    "_allgather_base": "all_gather",
    "_reduce_scatter_base": "reduce_scatter",
    "all_to_all": "all_to_all",
    "send": "send_recv",
    "recv": "send_recv",
}
"""The kind of collective by the name that PyTorch notes."""

GROUP_ARGUMENTS = ("Process Group Name", "Process Group Description", "Process Group Ranks")
OMITTED = ((), (), ("Comms Id",), ("Seq", "Comms Id"), ("Seq", "Comms Id", *GROUP_ARGUMENTS))
"""Arguments that random jobs leave out."""


def stored_tables(simulation: Simulation) -> dict[str, Rows]:
    """Return the rows that a store holds of a job once its traces are ingested, without writing any file."""
    tables = _activity(simulation, tuple(TABLES))
    for rank, process in enumerate(simulation.processes):
        for op in process.ops:
            if simulation.starts_ns[op.first] >= simulation.job.cut_ns(rank):
                span = _span(simulation, rank, op.first, op.last)
                cells = _process(simulation, rank) | {"tid": op.tid, "name": op.name} | span
                if op.category == "cpu_op":
                    numbers = {"external_id": op.external_id, "sequence_number": op.args.get("Sequence number")}
                    tables.setdefault("ops", []).append(cells | numbers)
                else:
                    tables.setdefault("annotations", []).append(cells | {"scope": "cpu", "category": op.category})
        for call, kind, stream, args in process.syncs:
            if simulation.starts_ns[call.number] >= simulation.job.cut_ns(rank):
                cells = _place(simulation, call) | {"kind": kind, "stream": None if stream < 0 else stream}
                cells |= {"device": simulation.job.device(rank), "correlation": call.correlation}
                cells["waits_for_stream"] = args.get("wait_on_stream")
                cells["waits_for_correlation"] = args.get("wait_on_cuda_event_record_corr_id")
                cells["start_ns"], cells["dur_ns"] = cells["start_ns"] + 250, max(1, cells["dur_ns"] - 500)
                tables.setdefault("syncs", []).append(cells)
    return dict(tables)


def communication(simulation: Simulation) -> dict[str, Rows]:
    """Return the same for the kernels of collectives alone."""
    return dict(_activity(simulation, (Kind.COMMUNICATION,)))


def _activity(simulation: Simulation, kinds: tuple[Kind, ...]) -> dict[str, list[dict[str, Any]]]:
    tables: dict[str, list[dict[str, Any]]] = {}
    for rank, process in enumerate(simulation.processes):
        for row in process.rows:
            if row.kind in kinds and simulation.starts_ns[row.number] >= simulation.job.cut_ns(rank):
                _store(tables, simulation, row)
    return tables


def _store(tables: dict[str, list[dict[str, Any]]], simulation: Simulation, row: Row) -> None:
    cells = _place(simulation, row) | {"correlation": row.correlation}
    external_id = simulation.processes[row.rank].external_ids.get(row.number)
    if row.kind is Kind.CALL:
        cells |= {"api": "runtime", "name": row.name, "tid": row.track, "external_id": external_id}
    else:
        cells |= {
            "device": simulation.job.device(row.rank),
            "context": 1,
            "stream": row.track,
            "external_id": external_id,
        }
    if row.kind in (Kind.KERNEL, Kind.COMMUNICATION):
        cells["name"] = row.name
    elif row.kind in GPU_KINDS:
        cells["size_bytes"] = row.args["bytes"]
    if row.kind is Kind.MEMCPY:
        cells["direction"] = row.name.split()[1]
        cells["src_memory"], cells["dst_memory"] = row.name[row.name.index("(") + 1 : -1].split(" -> ")
    tables.setdefault(TABLES[row.kind], []).append(cells)
    if row.kind is Kind.COMMUNICATION:
        tables.setdefault("collectives", []).append(_note(cells, row.args))


def _note(cells: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    listed = args.get("Process Group Ranks", "...")
    return {name: cells[name] for name in cells if name not in ("name", "context")} | {
        "origin": "kernel",
        "collective": COLLECTIVES[args["Collective name"]],
        "raw_name": args["Collective name"],
        "in_elements": args["In msg nelems"],
        "out_elements": args["Out msg nelems"],
        "dtype": args["dtype"],
        "group_name": args.get("Process Group Name"),
        "group_size": args["Group size"],
        "group_description": args.get("Process Group Description"),
        "group_ranks": None if "..." in listed else [int(rank) for rank in listed.strip("[]").split(", ")],
        "seq": args.get("Seq"),
        "comms_id": str(args["Comms Id"]) if "Comms Id" in args else None,
        "peer": args.get("Dst Rank", args.get("Src Rank")),
        "is_p2p": args["Collective name"] in ("send", "recv"),
        "src_rank": args.get("Src Rank"),
        "dst_rank": args.get("Dst Rank"),
    }


def _place(simulation: Simulation, row: Row) -> dict[str, Any]:
    return _process(simulation, row.rank) | _span(simulation, row.rank, row.number, row.number)


def _process(simulation: Simulation, rank: int) -> dict[str, Any]:
    return {"run": simulation.job.name, "rank": rank, "source": f"rank {rank}", "pid": simulation.processes[rank].pid}


def _span(simulation: Simulation, rank: int, first: int, last: int) -> dict[str, int]:
    """Return start and duration by the rank's own clock."""
    clock = simulation.job.clock(rank)
    start_ns = clock.reading_ns(simulation.starts_ns[first])
    return {"start_ns": start_ns, "dur_ns": clock.reading_ns(simulation.ends_ns[last]) - start_ns}


def random_job(seed: int) -> Job:
    """Return a small job of two to eight ranks with clocks apart, delays, late recordings and missing arguments."""
    random = Random(seed)
    pipeline, tensor = random.choice((1, 2)), random.choice((1, 2))
    data = random.choice((1, 2)) if pipeline * tensor > 1 else 2
    ranks, steps = pipeline * tensor * data, random.choice((2, 3))
    return Job(
        ranks=ranks,
        pipeline=pipeline,
        tensor=tensor,
        expert=random.choice((1, data)),
        sharded=random.random() < 0.3,
        steps=steps,
        microbatches=pipeline * random.choice((1, 2)),
        layers=1,
        seed=seed,
        delays=tuple(_random_delay(random, ranks, steps) for _ in range(random.randrange(3))),
        clocks=tuple(
            Clock(random.randrange(-500_000_000, 500_000_001), random.randrange(-30_000, 30_001)) for _ in range(ranks)
        ),
        cuts=tuple(Cut(rank, random.randrange(3_000_000)) for rank in range(ranks) if random.random() < 0.3),
        omitted=random.choice(OMITTED),
        end_jitter_ns=random.choice((0, 1_500, 5_000)),
        name=f"job {seed}",
    )


def _random_delay(random: Random, ranks: int, steps: int) -> Delay:
    rank, step = random.randrange(ranks), random.randrange(steps)
    lost_ns, percent = random.randrange(10**6, 10**7), random.randrange(105, 400)
    return random.choice(
        (
            SlowCompute(rank, percent),
            SlowHost(rank, percent),
            SlowLink(rank, percent),
            LoaderStall(rank, step, lost_ns),
            HostPause(rank, step, lost_ns),
        )
    )
