"""What a store holds of a simulated job, without its files."""

from typing import Any

from job_simulator import GPU_KINDS, Kind, Row, Simulation
from tests.build import Rows

TABLES = {
    Kind.KERNEL: "kernels",
    Kind.COMMUNICATION: "kernels",
    Kind.MEMCPY: "memcpys",
    Kind.MEMSET: "memsets",
    Kind.CALL: "api_calls",
}
COLLECTIVES = {"allreduce": "all_reduce", "all_to_all": "all_to_all", "send": "send_recv", "recv": "send_recv"}


def stored_tables(simulation: Simulation) -> dict[str, Rows]:
    """Return the rows that a store holds of a job once its traces are ingested, without writing any file."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for rank, process in enumerate(simulation.processes):
        for row in process.rows:
            if row.kind in TABLES and simulation.starts_ns[row.number] >= simulation.job.cut_ns(rank):
                _store(tables, simulation, row)
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
                cells |= {"device": rank % 8, "correlation": call.correlation}
                cells["waits_for_stream"] = args.get("wait_on_stream")
                cells["waits_for_correlation"] = args.get("wait_on_cuda_event_record_corr_id")
                cells["start_ns"], cells["dur_ns"] = cells["start_ns"] + 250, max(1, cells["dur_ns"] - 500)
                tables.setdefault("syncs", []).append(cells)
    return dict(tables)


def _store(tables: dict[str, list[dict[str, Any]]], simulation: Simulation, row: Row) -> None:
    cells = _place(simulation, row) | {"correlation": row.correlation}
    external_id = simulation.processes[row.rank].external_ids.get(row.number)
    if row.kind is Kind.CALL:
        cells |= {"api": "runtime", "name": row.name, "tid": row.track, "external_id": external_id}
    else:
        cells |= {"device": row.rank % 8, "context": 1, "stream": row.track, "external_id": external_id}
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
    return {"rank": rank, "source": f"rank {rank}", "pid": simulation.processes[rank].pid}


def _span(simulation: Simulation, rank: int, first: int, last: int) -> dict[str, int]:
    """Return start and duration by the rank's own clock."""
    clock = simulation.job.clock(rank)
    start_ns = clock.reading_ns(simulation.starts_ns[first])
    return {"start_ns": start_ns, "dur_ns": clock.reading_ns(simulation.ends_ns[last]) - start_ns}
