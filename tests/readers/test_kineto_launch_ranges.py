"""A process group's range around the launch names the collective of a kernel without metadata."""

from pathlib import Path

import pytest

from tests import corpus
from tests.readers.small import event, given, ingest_bytes, ingest_paths, kernel, trace
from tracelab.client import Lab

SEND_RECV = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t"


def around(name: str, ts: int = 900, dur: int = 50, tid: int = 101) -> dict:
    return event("user_annotation", name, ts=ts, dur=dur, tid=tid)


def launch(ts: int = 910, correlation: int = 5, tid: int = 101) -> dict:
    return event("cuda_runtime", "cudaLaunchKernel", ts=ts, dur=2, tid=tid, args={"correlation": correlation})


def collective_kernel(name: str = SEND_RECV, correlation: int = 5, **args: object) -> dict:
    return kernel(name, correlation=correlation, device=0, stream=84, **args)


def test_the_range_around_the_launch_names_the_collective(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, trace(around("nccl:all_to_all"), launch(), collective_kernel()))
    expected = {
        "origin": "range",
        "collective": "all_to_all",
        "raw_name": "all_to_all",
        "pid": 100,
        "device": 0,
        "stream": 84,
        "start_ns": 1_000_000,
        "correlation": 5,
        "size_bytes": None,
        "rank": 0,
    }
    assert given(lab.one("collectives"), expected) == expected
    rows = Lab(lab.store).query("nccl_share").arrow().to_pylist()
    assert [(row["collective"], row["kernels"]) for row in rows] == [("all", 1), ("all_to_all", 1)]


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        *[("nccl:_all_gather_base", "all_gather"), ("nccl:_reduce_oop", "reduce"), ("nccl:send 0->1", "send_recv")],
        *[("nccl:gather", "other"), ("rccl:all_reduce", "all_reduce")],
    ],
)
def test_ranges_of_process_groups_have_many_names(tmp_path: Path, name: str, collective: str) -> None:
    lab = ingest_bytes(tmp_path, trace(around(name), launch(), collective_kernel()))
    assert lab.one("collectives")["collective"] == collective


@pytest.mark.parametrize(
    "events",
    [
        [around("nccl:all_to_all", tid=7), launch()],
        [around("nccl:all_to_all", dur=10), launch(ts=910)],
        [around("nccl:all_to_all", ts=911), launch(ts=910)],
        [around("nccl:all_to_all"), launch(correlation=6)],
        [around("nccl:coalesced"), launch()],
        [around("my nccl:all_to_all"), launch()],
    ],
    ids=["another thread", "ended before", "begins after", "another launch", "no collective", "no range of a group"],
)
def test_other_ranges_name_nothing(tmp_path: Path, events: list[dict]) -> None:
    assert ingest_bytes(tmp_path, trace(*events, collective_kernel())).rows("collectives") == []


def test_a_range_that_ends_beyond_64_bits_names_nothing(tmp_path: Path) -> None:
    endless = around("nccl:all_to_all", dur=9_223_372_036_854_775)
    lab = ingest_bytes(tmp_path, trace(endless, launch(), collective_kernel()))
    assert (lab.rows("collectives"), len(lab.kernels)) == ([], 1)


def test_metadata_of_the_kernel_itself_and_other_kernels_stay_as_they_are(tmp_path: Path) -> None:
    own = collective_kernel(**{"Collective name": "broadcast"})
    copy = kernel("copy_kernel", ts=2000, correlation=6, device=0, stream=7)
    lab = ingest_bytes(tmp_path, trace(around("nccl:all_to_all"), launch(), launch(912, 6), own, copy))
    assert (lab.one("collectives")["origin"], lab.one("collectives")["collective"]) == ("kernel", "broadcast")


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_send_recv_of_eight_ranks_is_all_to_all(tmp_path: Path) -> None:
    lab = ingest_paths(tmp_path, [corpus.ROOT / "kineto" / "param_dlrm_8ranks"])
    for query in ("nccl_share", "collective_summary"):
        kernels: dict[str, int] = {}
        for row in Lab(lab.store).query(query).arrow().to_pylist():
            kernels[row["collective"]] = kernels.get(row["collective"], 0) + row["kernels"]
        assert {name: count for name, count in kernels.items() if name != "all"} == {"all_to_all": 40, "all_reduce": 24}
