"""Output of nvbandwidth and nccl-tests becomes ceilings, figure by figure."""

import json
from pathlib import Path

from tests.readers.small import Lab, ingest_bytes

COPIES = {
    "nvbandwidth": {
        "CUDA Runtime Version": 12080,
        "Driver Version": "570.1",
        "GPU Device list": ["0: Card X (00000000:01:00)", "1: Card Y (00000000:02:00):(node7)"],
        "git_version": "v0.8",
        "testcases": [
            {
                "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["55.5", "54.25"]],
                "name": "host_to_device_memcpy_ce",
                "status": "Passed",
                "sum": 109.75,
            },
            {
                "bandwidth_description": "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
                "bandwidth_matrix": [["N/A", "276.5"], ["x", "N/A"]],
                "name": "device_to_device_memcpy_read_ce",
                "status": "Passed",
            },
            {
                "bandwidth_description": "memory latency SM CPU(row) <-> GPU(column) (ns)",
                "bandwidth_matrix": [["772.58"]],
                "name": "host_device_latency_sm",
                "status": "Passed",
            },
            {"name": "multinode_device_to_device_memcpy_read_ce", "status": "Waived"},
            {"name": "device_local_copy", "status": "Error", "error": "out of memory"},
        ],
    }
}

ALL_REDUCE = """\
# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 2 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid    115 on      node7 device  0 [0000:0f:00] Card X
#  Rank  1 Group  0 Pid    115 on      node7 device  1 [0000:10:00] Card X
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    10.24    0.10    0.20       0     5.12    0.20    0.40     N/A
  1073741824     268435456     float     sum      -1  10785.    99.6   199.1       3  10700.   100.4   200.7       0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 100.1
"""


def nccl(tmp_path: Path, text: str, name: str = "out.txt") -> Lab:
    return ingest_bytes(tmp_path, text, name)


def test_each_figure_of_nvbandwidth_is_a_ceiling(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, json.dumps(COPIES, indent=2), "bw.json")
    columns = ("metric", "device_name", "gpus", "best", "median", "repeats", "unit", "size_bytes")
    assert [tuple(row[name] for name in columns) for row in lab.rows("ceilings")] == [
        ("h2d_pinned", "Card X", 1, 55.5, 55.5, 3, "gb_per_s", 512 << 20),
        ("h2d_pinned", "Card Y", 1, 54.25, 54.25, 3, "gb_per_s", 512 << 20),
        ("device_to_device_memcpy_read_ce", "Card X", 2, 276.5, 276.5, 3, "gb_per_s", 512 << 20),
        ("host_device_latency_sm", "Card X", 1, 772.58, 772.58, 3, "ns", None),
    ]
    assert lab.diagnostics() == {"value_unfit", "test_failed"}
    assert (lab.counts, lab.source["producer"], lab.source["producer_version"]) == ((5, 4, 1), "nvbandwidth", "v0.8")


def test_both_bandwidths_of_both_placements_are_ceilings(tmp_path: Path) -> None:
    lab = nccl(tmp_path, ALL_REDUCE)
    columns = ("metric", "size_bytes", "gpus", "best", "repeats", "device_name")
    assert [tuple(row[name] for name in columns) for row in lab.rows("ceilings")] == [
        ("all_reduce_algbw", 1024, 2, 0.1, 20, "Card X"),
        ("all_reduce_busbw", 1024, 2, 0.2, 20, "Card X"),
        ("all_reduce_algbw", 1024, 2, 0.2, 20, "Card X"),
        ("all_reduce_busbw", 1024, 2, 0.4, 20, "Card X"),
        ("all_reduce_algbw", 1 << 30, 2, 99.6, 20, "Card X"),
        ("all_reduce_busbw", 1 << 30, 2, 199.1, 20, "Card X"),
        ("all_reduce_algbw", 1 << 30, 2, 100.4, 20, "Card X"),
        ("all_reduce_busbw", 1 << 30, 2, 200.7, 20, "Card X"),
    ]
    assert lab.rows("ceilings")[2]["counting"] == "S / t; in place, float, sum, mean of 20 iterations"
    assert (lab.diagnostics(), lab.source["producer_version"]) == ({"wrong_results"}, "2.17.6")


def test_labels_of_srun_and_lines_of_others_do_not_disturb(tmp_path: Path) -> None:
    noisy = "".join(f"0: {line}\nnode7:115 [0] NCCL INFO Bootstrap\n" for line in ALL_REDUCE.splitlines())
    assert [row["best"] for row in nccl(tmp_path, noisy).rows("ceilings")] == [
        0.1,
        0.2,
        0.2,
        0.4,
        99.6,
        199.1,
        100.4,
        200.7,
    ]


def test_older_text_takes_the_collective_from_the_name_of_the_file(tmp_path: Path) -> None:
    older = "\n".join(ALL_REDUCE.splitlines()[2:])
    assert {row["metric"] for row in nccl(tmp_path / "a", older, "sendrecv_perf.log").rows("ceilings")} == {
        "send_recv_algbw",
        "send_recv_busbw",
    }
    lab = nccl(tmp_path / "b", older)
    assert ("collective_unknown" in lab.diagnostics(), lab.rows("ceilings")[0]["metric"]) == (True, "collective_algbw")


def test_row_that_was_cut_is_counted(tmp_path: Path) -> None:
    lab = nccl(tmp_path, ALL_REDUCE[: ALL_REDUCE.index("100.4")])
    assert (lab.file.status, len(lab.rows("ceilings")), lab.diagnostics()) == (
        "salvaged",
        6,
        {"line_lost", "wrong_results"},
    )
