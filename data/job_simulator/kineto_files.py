"""Write the trace of one rank of a simulated job as Kineto exports it in torch 2.13."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING

from job_simulator.process import Op, Process
from job_simulator.settings import BASE_NS
from job_simulator.timed_graph import GPU_KINDS, Kind, Row
from kineto_metadata import SMS, describe_tracks, device_properties, recording, versions
from kineto_writer import Event, Flow, text

if TYPE_CHECKING:
    from job_simulator.simulation import Simulation

CBIDS = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaStreamSynchronize": 131,
    "cudaDeviceSynchronize": 165,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
}
CATEGORIES = {
    Kind.KERNEL: "kernel",
    Kind.COMMUNICATION: "kernel",
    Kind.MEMCPY: "gpu_memcpy",
    Kind.MEMSET: "gpu_memset",
}
WARPS_PER_SM = 64


def kineto_text(simulation: "Simulation", rank: int, name: str) -> str:
    """Return the text of a rank's trace: by its own clock, and without what starts before its recording."""
    return _Trace(simulation, rank).text(name)


class _Trace:
    def __init__(self, simulation: "Simulation", rank: int) -> None:
        self.job = simulation.job
        self.rank, self.device = rank, self.job.device(rank)
        self.process: Process = simulation.processes[rank]
        self.cut_ns = self.job.cut_ns(rank)
        clock = self.job.clock(rank)
        self.true_starts_ns, true_ends_ns = simulation.starts_ns, simulation.ends_ns
        numbers = [row.number for row in self.process.rows]
        self.starts_ns = {number: clock.reading_ns(self.true_starts_ns[number]) for number in numbers}
        self.ends_ns = {number: clock.reading_ns(true_ends_ns[number]) for number in numbers}

    def text(self, name: str) -> str:
        ops = [self._op_event(op) for op in self.process.ops if self._is_recorded(op.first)]
        for number, event in enumerate(ops):
            event.args["Ev Idx"] = number
        rows = [self._row_event(row) for row in self.process.rows if row.correlation and self._is_recorded(row.number)]
        syncs = [
            self._sync_event(call, kind, stream, args)
            for call, kind, stream, args in self.process.syncs
            if self._is_recorded(call.number)
        ]
        activities = sorted([*rows, *syncs], key=_by_correlation)
        events = [*ops, *activities, *self._annotations_on_device()]
        start_ns = min(event.start_ns for event in events) - 2_402_117
        end_ns = max(event.end_ns for event in events) + 1_804_003
        events += recording(start_ns, end_ns)
        for event in events:
            event.start_ns -= BASE_NS
        streams = sorted(
            {int(event.tid) for event in [*rows, *syncs] if event.pid == self.device and int(event.tid) >= 0}
        )
        threads = ((self.process.main_tid, "python"), (self.process.autograd_tid, f"pt_autograd_{self.device}"))
        on_device = ((self.device, stream) for stream in streams)
        tracks = describe_tracks(self.process.pid, range(self._devices()), on_device, threads, start_ns - BASE_NS)
        return text(self._top(), events, tracks, name)

    def _devices(self) -> int:
        return min(self.job.ranks, self.job.gpus_per_host)

    def _is_recorded(self, number: int) -> bool:
        return self.true_starts_ns[number] >= self.cut_ns

    def _top(self) -> dict[str, object]:
        host = self.job.host(self.rank)
        groups = [group for group in self.job.groups if self.rank in group.ranks]
        return {
            "schemaVersion": 1,
            "generated": "by data/job_simulator; no GPU was involved",
            "deviceProperties": [device_properties(number) for number in range(self._devices())],
            **versions(),
            "trace_id": f"{self.rank:032X}",
            "distributedInfo": {
                "backend": "nccl",
                "rank": self.rank,
                "world_size": self.job.ranks,
                "pg_count": len(groups),
                "pg_config": [
                    {
                        "pg_name": group.name,
                        "pg_desc": group.description,
                        "backend_config": "cuda:nccl",
                        "pg_size": len(group.ranks),
                        "ranks": list(group.ranks),
                    }
                    for group in groups
                ],
                "nccl_version": "2.27.5",
            },
            **({"host_name": host} if host else {}),
            "record_shapes": 0,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
        }

    def _op_event(self, op: Op) -> Event:
        start_ns = self.starts_ns[op.first]
        args: dict[str, object] = {"External id": op.external_id, "Record function id": 0, **op.args}
        event = Event(op.category, op.name, self.process.pid, op.tid, start_ns, self.ends_ns[op.last] - start_ns, args)
        if op.flow:
            event.flows.append(Flow("fwdbwd", *op.flow))
        return event

    def _row_event(self, row: Row) -> Event:
        start_ns = self.starts_ns[row.number]
        dur_ns = self.ends_ns[row.number] - start_ns
        external_id = self.process.external_ids.get(row.number)
        args: dict[str, object] = {"External id": external_id} if external_id else {}
        correlation = row.correlation or 0
        if row.kind not in GPU_KINDS:
            args |= {"cbid": CBIDS[row.name], "correlation": correlation}
            event = Event("cuda_runtime", row.name, self.process.pid, row.track, start_ns, dur_ns, args)
            if row.name not in ("cudaEventRecord",):
                event.flows.append(Flow("ac2g", correlation, "s"))
            return event
        queued = {"queued": 0} if CATEGORIES[row.kind] == "kernel" else {}
        args |= queued | {"device": self.device, "context": 1, "stream": row.track, "correlation": correlation}
        args |= row.args | (_occupancy(row) if queued else {"memory bandwidth (GB/s)": _bandwidth(row, dur_ns)})
        event = Event(CATEGORIES[row.kind], row.name, self.device, row.track, start_ns, dur_ns, args)
        event.flows.append(Flow("ac2g", correlation, "f"))
        return event

    def _sync_event(self, call: Row, kind: str, stream: int, args: dict[str, object]) -> Event:
        # Since April 2026 Kineto shows "Stream Sync" on a track of its own, beside the stream's
        tid = stream + 1_000_000 if kind == "Stream Sync" else stream
        start_ns = self.starts_ns[call.number]
        dur_ns = self.ends_ns[call.number] - start_ns
        event = Event("cuda_sync", kind, self.device, tid, start_ns + 250, max(1, dur_ns - 500))
        external_id = self.process.external_ids.get(call.number)
        event.args = {"External id": external_id} if external_id else {}
        event.args |= {"cuda_sync_kind": kind} | args
        event.args |= {"stream": stream, "correlation": call.correlation, "device": self.device, "context": 1}
        event.flows.append(Flow("ac2g", call.correlation or 0, "f"))
        return event

    def _annotations_on_device(self) -> Iterator[Event]:
        """Yield each annotation from 1 ns before the first to 1 ns after the last row that it launched on a stream."""
        rows = {row.correlation: row for row in self.process.rows if row.kind in GPU_KINDS}
        calls = [row for row in self.process.rows if row.kind is Kind.CALL and row.correlation in rows]
        positions = [call.number for call in calls]
        for op in self.process.ops:
            if op.category != "user_annotation":
                continue
            spans: dict[int, tuple[int, int]] = {}
            for at in range(bisect_left(positions, op.first), bisect_left(positions, op.last)):
                row = rows[calls[at].correlation]
                if calls[at].track != op.tid or not self._is_recorded(row.number):
                    continue
                start_ns, end_ns = self.starts_ns[row.number], self.ends_ns[row.number]
                first_ns, last_ns = spans.get(row.track, (start_ns, end_ns))
                spans[row.track] = min(first_ns, start_ns), max(last_ns, end_ns)
            for stream, (start_ns, end_ns) in sorted(spans.items()):
                args: dict[str, object] = {"External id": op.external_id}
                yield Event(
                    "gpu_user_annotation", op.name, self.device, stream, start_ns - 1, end_ns - start_ns + 2, args
                )


def _by_correlation(event: Event) -> int:
    correlation = event.args["correlation"]
    return correlation if isinstance(correlation, int) else 0


def _occupancy(row: Row) -> dict[str, object]:
    blocks = row.args["grid"][0] / SMS
    warps = blocks * row.args["block"][0] / 32
    return {
        "shared memory": 0,
        "blocks per SM": round(blocks, 6),
        "warps per SM": round(warps, 6),
        "est. achieved occupancy %": int(100 * min(1.0, warps / WARPS_PER_SM)),
    }


def _bandwidth(row: Row, dur_ns: int) -> float:
    return float(row.args["bytes"] / max(1, dur_ns))
