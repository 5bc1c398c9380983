"""Collectives, sends and receives that only NCCL's NVTX ranges describe, of ranks in reports of their own."""

import json
from pathlib import Path
from typing import Any

from tests.readers.nsys_small import GLOBAL_TID, call, export, kernel, nvtx
from tests.readers.small import ingest_paths
from tracelab.client import Lab

KERNEL_NAMES = {
    10: "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)",
    11: "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
}
SESSION_SHIFT_NS = 40_000


class Rank:
    """The NVTX ranges, calls and kernels of one rank; each group of NCCL calls launches one kernel when it ends."""

    def __init__(self, rank: int) -> None:
        self.rank, self.correlation = rank, 0
        self.tables: dict[str, list[Any]] = {"NVTX_EVENTS": [], "CUPTI_ACTIVITY_KIND_RUNTIME": []}
        self.tables["CUPTI_ACTIVITY_KIND_KERNEL"] = []

    def group(self, at: int, start: int, end: int, *calls: dict[str, Any], name: int = 10) -> None:
        """Add a group of calls from `at` on, and the kernel that it launches."""
        self.correlation += 1
        ranges = self.tables["NVTX_EVENTS"]
        ranges.append(nvtx(at, at + 10, text="ncclGroupStart"))
        for place, payload in enumerate(calls, start=1):
            text = payload.pop("call")
            ranges.append(nvtx(at + 100 * place, at + 100 * place + 50, text=text, jsonText=json.dumps(payload)))
        ended = at + 100 * len(calls) + 100
        ranges.append(nvtx(ended, ended + 60, text="ncclGroupEnd"))
        launch = call(ended + 10, ended + 50, correlationId=self.correlation, globalTid=GLOBAL_TID)
        self.tables["CUPTI_ACTIVITY_KIND_RUNTIME"].append(launch)
        self.tables["CUPTI_ACTIVITY_KIND_KERNEL"].append(
            kernel(start, end, correlationId=self.correlation, demangledName=name, shortName=name)
        )

    def export(self, folder: Path) -> Path:
        """Write the report."""
        strings = {3: "cudaLaunchKernel_v7000"} | KERNEL_NAMES
        listed = [{"id": key, "value": text} for key, text in strings.items()]
        return export(folder, self.tables | {"StringIds": listed}, name=f"rank{self.rank}.sqlite")


def send(peer: int, size: int, communicator: int = 77) -> dict[str, Any]:
    return _call("ncclSend", communicator, size) | {"Peer rank": peer}


def receive(peer: int, size: int, communicator: int = 77) -> dict[str, Any]:
    return _call("ncclRecv", communicator, size) | {"Peer rank": peer}


def _call(name: str, communicator: int, size: int) -> dict[str, Any]:
    return {"call": name, "NCCL communicator ID": communicator, "Message size [bytes]": size}


def ingest(folder: Path, *ranks: Rank) -> Lab:
    return Lab(ingest_paths(folder, [each.export(folder) for each in ranks]).store)


def pairs(lab: Lab) -> list[tuple[object, ...]]:
    columns = ("rank", "start_ns", "collective", "state", "matched_by", "src_rank", "dst_rank", "number")
    rows = sorted(lab.query("collective_wait").to_pylist(), key=lambda row: (row["rank"], row["start_ns"]))
    return [tuple(row[name] for name in columns) for row in rows]


def test_sends_are_matched_with_receives_in_the_order_of_their_channel(tmp_path: Path) -> None:
    """Rank 0 sends 64 and 128 bytes to rank 1, which sends 32 back between them."""
    first, second = Rank(0), Rank(1)
    first.group(1_000, 2_000, 2_500, send(1, 64))
    first.group(3_000, 4_000, 4_600, receive(1, 32))
    first.group(5_000, 6_000, 6_400, send(1, 128))
    second.group(1_100, 2_200, 2_510, receive(0, 64))
    second.group(3_100, 4_300, 4_610, send(0, 32))
    second.group(5_100, 6_100, 6_410, receive(0, 128))
    assert pairs(ingest(tmp_path, first, second)) == [
        (0, 2_000, "send_recv", "matched", "order", 0, 1, 1),
        (0, 4_000, "send_recv", "matched", "order", 1, 0, 2),
        (0, 6_000, "send_recv", "matched", "order", 0, 1, 3),
        (1, 2_200, "send_recv", "matched", "order", 0, 1, 1),
        (1, 4_300, "send_recv", "matched", "order", 1, 0, 2),
        (1, 6_100, "send_recv", "matched", "order", 0, 1, 3),
    ]


def test_a_peer_is_a_rank_of_the_communicator(tmp_path: Path) -> None:
    """Ranks 1 and 3 are ranks 0 and 1 of communicator 5."""
    one, three = Rank(1), Rank(3)
    one.group(1_000, 2_000, 2_500, send(1, 64, communicator=5))
    three.group(1_100, 2_200, 2_510, receive(0, 64, communicator=5))
    assert pairs(ingest(tmp_path, one, three)) == [
        (1, 2_000, "send_recv", "matched", "order", 1, 3, 1),
        (3, 2_200, "send_recv", "matched", "order", 1, 3, 1),
    ]


def test_a_kernel_of_a_send_and_a_receive_is_of_no_pair(tmp_path: Path) -> None:
    """Both ranks exchange 64 bytes in one group: one kernel does both."""
    first, second = Rank(0), Rank(1)
    first.group(1_000, 2_000, 2_500, send(1, 64), receive(1, 64))
    second.group(1_100, 2_200, 2_510, send(0, 64), receive(0, 64))
    rows = pairs(ingest(tmp_path, first, second))
    assert [(row[0], row[2], *row[5:7]) for row in rows] == [(0, "send_recv", None, None), (1, "send_recv", None, None)]


def test_two_sends_with_one_receive_are_refused(tmp_path: Path) -> None:
    """The recording may lack the first receive or the last one."""
    first, second = Rank(0), Rank(1)
    first.group(1_000, 2_000, 2_500, send(1, 64))
    first.group(3_000, 4_000, 4_500, send(1, 64))
    second.group(1_100, 2_200, 2_510, receive(0, 64))
    assert {row[3] for row in pairs(ingest(tmp_path, first, second))} == {"refused"}


def test_all_reduces_of_a_communicator_are_matched_across_reports(tmp_path: Path) -> None:
    """Each report counts from its own start: the second one's clock is 40 us behind, and rank 1 comes 200 ns later."""
    ranks = (Rank(0), Rank(1))
    for rank in ranks:
        for place in range(6):
            at = 10_000 * (place + 1) + rank.rank * SESSION_SHIFT_NS
            payload = _call("ncclAllReduce", 18446744073709551615, 4096)
            rank.group(at, at + 1_000 + 200 * rank.rank, at + 2_000, payload, name=11)
    rows = ingest(tmp_path, *ranks).query("collective_wait").to_pylist()
    assert {(row["state"], row["collective"], row["ranks"]) for row in rows} == {("matched", "all_reduce", 2)}
    assert {(row["rank"], row["wait_ns"]) for row in rows} == {(0, 200), (1, 0)}
