"""Each check of the doctor finds what it is for, counts it, and leaves what is sound alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.build import build_store
from tests.memory import MemoryStore
from tracelab import doctor
from tracelab.errors import NoDataError, UsageError
from tracelab.readers.base import diagnostic_codes
from tracelab.store import session

DAY_NS = 1_700_000_000_000_000_000
KERNEL = {"name": "volta_sgemm_128x32_nt", "pid": 1, "device": 0, "context": 1, "stream": 7}
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
CALL = {"api": "runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2}
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
SOUND: dict[str, list[dict[str, object]]] = {
    "sources": [{"path": "traces/rank-0.json", "clock": "unix", "complete": True, "events_read": 9}],
    "devices": [{"rank": 0, "device": 0, "uuid": "GPU-a"}],
    "api_calls": [CALL | {"start_ns": DAY_NS, "dur_ns": 5, "correlation": 1}],
    "kernels": [KERNEL | {"start_ns": DAY_NS + 10, "dur_ns": 20, "correlation": 1, "grid_x": 1, "block_x": 32}],
    "memcpys": [{"direction": "HtoD", "device": 0, "pid": 1, "start_ns": DAY_NS + 40, "dur_ns": 5}],
    "ops": [{"name": "aten::mm", "pid": 1, "tid": 2, "start_ns": DAY_NS, "dur_ns": 9}],
    "annotations": [
        {"name": name, "scope": "cpu", "pid": 1, "tid": 2, "start_ns": DAY_NS, "dur_ns": duration}
        for name, duration in (("ProfilerStep#1", 90), (LOADER, 5))
    ],
}


def source(label: str, **columns: object) -> dict[str, object]:
    return {"source": label, "path": f"traces/{label}.json", "clock": "unix", "complete": True} | columns


MS = 1_000_000


def kernel(start: int, duration: int | None = 10, **columns: object) -> dict[str, object]:
    return KERNEL | {"start_ns": DAY_NS + start, "dur_ns": duration} | columns


def call(start: int, **columns: object) -> dict[str, object]:
    return CALL | {"start_ns": DAY_NS + start, "dur_ns": 5} | columns


def mark(name: str, start: int, duration: int, **columns: object) -> dict[str, object]:
    return {"name": name, "scope": "cpu", "pid": 1, "tid": 2, "start_ns": start, "dur_ns": duration} | columns


def mark_op(name: str, start: int, duration: int, **columns: object) -> dict[str, object]:
    return {"name": name, "pid": 1, "tid": 2, "start_ns": DAY_NS + start, "dur_ns": duration} | columns


def host_samples(run: str, *readings: tuple[float | int | None, ...]) -> list[dict[str, object]]:
    """Return samples of a host of two cores, one a second: its utilization, and ms on cores and of waits for one."""
    rows = []
    for second, (*util, cpu_ms, wait_ms) in enumerate(readings):
        times = {
            name: None if ms is None else round(ms * MS)
            for name, ms in (("own_cpu_ns", cpu_ms), ("own_wait_ns", wait_ms))
        }
        place = {"run": run, "source": f"samples of {run}", "host": "node", "time_ns": DAY_NS + second * 1_000 * MS}
        rows.append(place | times | {"cores": 2, "util_ratio": util[0] if util else None})
    return rows


def timed_steps(
    rank: int, durations: Sequence[int], states: Sequence[str | None] = (), waits: Sequence[int] = ()
) -> list[dict[str, object]]:
    """Return rows of a run folder, a microsecond apart."""
    return [
        {"rank": rank, "phase": "train", "step": n, "start_ns": DAY_NS + 1000 * n, "dur_ns": duration}
        | ({"profiler_state": states[n]} if states else {})
        | ({"data_wait_ns": waits[n]} if waits else {})
        for n, duration in enumerate(durations)
    ]


Case = tuple[str, dict[str, list[dict[str, object]]], list[tuple[object, ...]]]
CASES: list[Case] = [
    (
        "source_incomplete",
        {
            "sources": [
                source("cut", complete=False, events_skipped=0),
                source("bad", complete=False, events_skipped=12, events_read=1000),
                source("whole"),
            ]
        },
        [
            ("error", None, 1, "bad.json was stored in part: 12 of 1,000 events could not be read."),
            ("error", None, 1, "cut.json was stored in part: it is cut off or damaged."),
        ],
    ),
    (
        "run_failed",
        {"runs": [{"status": "oom", "error": "Out of memory."}, {"run": "fine", "source": "b", "status": "ok"}]},
        [("warning", None, 1, "The run ended with status oom: Out of memory.")],
    ),
    (
        "run_failed",
        {"runs": [{"status": "not_run"}]},
        [
            (
                "warning",
                None,
                1,
                "The run has no end: it still recorded when it was read, never began, or was killed.",
            )
        ],
    ),
    (
        "recording_differs",
        {
            "runs": [
                {
                    "world_size": 3,
                    "tags": {
                        "ranks.0.note": "only 3 of 30 steps",
                        "ranks.2.note": "only 3 of 30 steps",
                        "ranks.1.note": "left out 1 recording.",
                        "ranks.1.status": "failed",
                        "short_epoch": "the epoch ended",
                        "rack": "7",
                    },
                },
            ]
        },
        [
            ("warning", 1, 1, "Rank 1: left out 1 recording."),
            ("warning", None, 1, "The epoch ended."),
            ("warning", None, 2, "Ranks 0, 2: only 3 of 30 steps."),
        ],
    ),
    (
        "cores_busy",
        {
            "steps": [{"phase": "train", "start_ns": DAY_NS + 1_200 * MS, "dur_ns": 1_300 * MS}],
            "host_samples": [
                *host_samples("r", (0, 900), (0.5, 0, 900), (0.75, 500, 300), (1.0, 300, 100), (1.0, 1, 900)),
                *host_samples("quiet", (0, 0), (1.0, 760, 240)),
                *host_samples("older", (None, None), (1.0, None, None)),
            ],
        },
        [
            (
                "warning",
                None,
                1,
                "On node, its threads waited for a core for 33.3 % of the time in which they could run, while its "
                "processes kept 0.4 of 2 cores busy and others 1.4: times include these waits.",
            )
        ],
    ),
    (
        "no_gpu_activity",
        {
            "api_calls": [call(0), call(9), call(0, rank=1, name="cudaMalloc"), call(0, rank=2)],
            "kernels": [kernel(5, rank=2)],
        },
        [
            ("info", 1, 1, "No GPU activity: none ran, or none was recorded."),
            ("warning", 0, 2, "2 kernel launches, and no GPU activity."),
        ],
    ),
    (
        "calls_missing",
        {"kernels": [kernel(0), kernel(0, rank=1)], "api_calls": [call(0, rank=1)]},
        [("info", 0, 1, "1 kernel and no API call: launches are unknown.")],
    ),
    (
        "clock_mixed",
        {"sources": [source("a"), source("b", clock="session"), source("c", clock="session")]},
        [
            (
                "warning",
                None,
                3,
                "Times count from 1970 in 1 source, and from the start of the capture in 2 sources: "
                "they cannot be compared.",
            )
        ],
    ),
    (
        "clock_unshared",
        {
            "sources": [
                source("a", clock="session"),
                source("b", clock="session"),
                source("c", run="alone", clock="session"),
                source("d", run="unix"),
                source("e", run="unix"),
            ]
        },
        [
            (
                "warning",
                None,
                2,
                "Times of each of its 2 sources count from the start of its own capture: they cannot be compared.",
            )
        ],
    ),
    (
        "windows_apart",
        {
            "sources": [source("a"), source("b"), source("c")],
            "kernels": [
                kernel(0, source="a"),
                kernel(0, 5_000_000, source="b", rank=1),
                kernel(2_000_010, source="c", rank=2),
            ],
        },
        [
            (
                "warning",
                2,
                3,
                "The recordings of its 3 ranks share no instant: rank 2 begins 2 ms after rank 0 ends.",
            )
        ],
    ),
    *(
        (
            "steps_apart",
            {
                "annotations": [
                    mark(f"ProfilerStep#{at + n}", n, 1, rank=rank) for rank, at in enumerate(first) for n in range(3)
                ]
            },
            [("warning", 0, 3, message)] * bool(message),
        )
        for first, message in (
            ((4, 2, 0), "No step is recorded on all of its 3 ranks: rank 2 has steps 0 to 2, rank 0 has 4 to 6."),
            ((4, 3, 2), ""),  # step 4 is
        )
    ),
    (
        "ranks_missing",
        {"runs": [{"world_size": 8}], "kernels": [kernel(0), kernel(0, rank=3)]},
        [("info", None, 6, "The job had 8 ranks, and 2 are in the store.")],
    ),
    (
        "rank_twice",
        {
            "sources": [source("a"), source("b"), source("later")],
            "kernels": [
                kernel(0, 100, source="a"),
                kernel(90, 100, source="b"),
                kernel(500, source="later"),
                kernel(0, 100, source="b", rank=1),
            ],
        },
        [("error", 0, 1, "a.json and b.json both name this rank and overlap for 10 ns, which counts twice.")],
    ),
    (
        "source_twice",
        {
            "sources": [source("a", run=run, path="x.json", sha256="same") for run in ("r", "s", "t", "u", "v", "w")]
            + [source("b", sha256="other")]
        },
        [("warning", None, 6, "x.json is also in s, t, u and 2 runs more.")],
    ),
    (
        "card_shared",
        {
            "devices": [
                {"source": label, "rank": rank, "device": 0, "uuid": uuid, "name": "H100"}
                for label, rank, uuid in (("a", 0, "GPU-a"), ("b", 1, "GPU-a"), ("c", 2, "GPU-b"))
            ]
            + [{"source": "c", "rank": 2, "device": 1, "uuid": "GPU-a"}],  # seen, and not used
            "kernels": [kernel(0, source=label, rank=rank) for label, rank in (("a", 0), ("b", 1), ("c", 2))],
        },
        [("warning", 0, 2, "Ranks 0, 1 ran on one card (H100).")],
    ),
    (
        "device_unknown",
        {"kernels": [kernel(0, device=None), kernel(20)], "memsets": [{"device": None}]},
        [("warning", 0, 2, "2 GPU events are without a device.")],
    ),
    (
        "process_unknown",
        {"kernels": [kernel(0, pid=None), kernel(20)], "api_calls": [call(0)]},
        [("warning", 0, 1, "1 kernel names no process, so no launch can be matched.")],
    ),
    (
        "unmeasured",
        {"kernels": [kernel(0, None), kernel(0)], "memcpys": [{"device": 0, "dur_ns": 4}]},
        [("warning", 0, 2, "2 GPU events have no start or no duration.")],
    ),
    (
        "negative_duration",
        {"kernels": [kernel(0, -3), kernel(0, -2000), kernel(0, 0)], "ops": [{"start_ns": 5, "dur_ns": -1}]},
        [("warning", 0, 3, "3 events with a duration below 0 (down to -2 µs): 2 kernels, 1 ops.")],
    ),
    (
        "zero_duration",
        {"kernels": [kernel(0, 0), kernel(0, 1)], "memcpys": [{"device": 0, "start_ns": 1, "dur_ns": 0}]},
        [("info", 0, 2, "2 kernels, copies or memsets last 0 ns.")],
    ),
    (
        "stream_overlap",
        {
            "kernels": [
                kernel(0, 100),
                kernel(10, 5),  # inside the first
                kernel(90, 20),  # 10 ns of it under the first, though the second ended long ago
                kernel(110, 10),  # back to back
                kernel(0, 100, stream=8),
                kernel(0, 100, pid=2),
                kernel(50, 5, graph=1),
                kernel(60, 0),
            ]
        },
        [
            (
                "warning",
                0,
                2,
                "2 of 6 kernels begin before the previous one of their stream has ended, by 10 ns at most "
                "and 15 ns in all, 4.48 % of the kernel time; 1 of them wholly within it.",  # of 335 ns
            )
        ],
    ),
    (  # prologues of kernels that depend on the one before: 20 of 2,000 ns are still by design, 21 of 2,000 no more
        "stream_overlap",
        {
            "kernels": [
                row
                for rank, start, duration in ((0, 980, 1000), (1, 979, 1000), (2, 990, 5))
                for row in (kernel(0, 1000, rank=rank), kernel(start, duration, rank=rank))
            ]
        },
        [
            (
                "info",
                0,
                1,
                "1 of 2 kernels begin before the previous one of their stream has ended, by 20 ns at most "
                "and 20 ns in all, 1 % of the kernel time.",
            ),
            (
                "warning",
                1,
                1,
                "1 of 2 kernels begin before the previous one of their stream has ended, by 21 ns at most "
                "and 21 ns in all, 1.05 % of the kernel time.",
            ),
            (
                "warning",
                2,
                1,
                "1 of 2 kernels begin before the previous one of their stream has ended, by 5 ns at most "
                "and 5 ns in all, 0.498 % of the kernel time; 1 of them wholly within it.",
            ),
        ],
    ),
    (
        "kernel_before_launch",
        {
            "api_calls": [
                call(100, correlation=1),
                call(90, correlation=1, api="driver"),
                call(0, correlation=2),
                call(500, correlation=3, pid=2),
                call(500, correlation=3, api="cublas"),
            ],
            "kernels": [
                kernel(50, correlation=1),
                kernel(95, correlation=1),
                kernel(5, correlation=2),
                kernel(5, correlation=3),
            ],
        },
        [("warning", 0, 1, "1 of 3 kernels begin before the call that launched them, by 40 ns at most.")],
    ),
    (
        "sync_before_end",
        {
            "api_calls": [
                call(100 * MS * each, correlation=2 * each + 1, name="cudaStreamSynchronize") for each in range(5)
            ],
            "syncs": [
                {"pid": 1, "stream": 7, "correlation": 2 * each + 1, "kind": "Stream Sync", "start_ns": 0, "dur_ns": 5}
                for each in range(5)
            ],
            "kernels": [  # the first four end 3 ms after the synchronization with them has returned, the last does not
                kernel(100 * MS * each, dur, correlation=2 * each, stream=7)
                for each, dur in enumerate([3 * MS + 5] * 4 + [4])
            ],
        },
        [
            (
                "warning",
                0,
                4,
                "4 of 5 synchronizations return before the work ends that they wait for, by 3 ms: the clocks of CPU "
                "and GPU are apart by at least that.",
            )
        ],
    ),
    (
        "launch_unrecorded",
        {
            "api_calls": [call(0, correlation=1), call(0, correlation=5, pid=9)],
            "kernels": [
                kernel(5, correlation=1),
                kernel(5, correlation=5),
                kernel(5),
                kernel(5, pid=None),
                kernel(5, rank=1),
            ],
        },
        [("info", 0, 2, "2 of 3 kernels have no launch in the recording.")],
    ),
    (
        "steps_twice",
        {
            "steps": [{"phase": "train", "epoch": 0, "step": step} for step in (0, 1, 1, 1)],
            "annotations": [{"name": "ProfilerStep#4", "scope": scope, "tid": 1} for scope in ("cpu", "gpu", "cpu")]
            + [{"name": "forward", "scope": "cpu", "tid": 1}] * 3,
        },
        [("warning", 0, 2, "2 steps are recorded more than once: train 1, epoch 0, 3 times.")],
    ),
    (
        "steps_twice",
        {"steps": [{"phase": "train", "step": step} for step in (0, 0, 1, 2, 2, 2)]},  # of a program: without an epoch
        [("warning", 0, 2, "2 steps are recorded more than once: train 2, 3 times.")],
    ),
    (
        "steps_nested",
        {
            "annotations": [
                *(mark(f"ProfilerStep#{number}", 100 * number, 100) for number in range(3)),
                *(mark(f"step {number}", 100 * number, 90) for number in range(3)),
                mark("step 9", 250, 100),
                mark("forward", 0, 50),
                mark("step 1", 0, 50, rank=1),
                mark("step 2", 40, 10, rank=1, pid=2),
                mark("step 3", 50, 10, rank=1),
                mark("step 1", 0, 50, rank=2),
                mark("Step #1", 0, 50, rank=2),
            ]
        },
        [
            (
                "warning",
                0,
                3,
                "3 ranges are named like steps and lie inside others, as step 0 does; the 4 outermost are the steps.",
            ),
            (
                "warning",
                2,
                1,
                "1 range is named like steps and lies inside others, as step 1 does; the outermost is the step.",
            ),
        ],
    ),
    (
        "steps_unmarked",
        {
            "ops": [{"name": "aten::mm", "rank": rank} for rank in (0, 1, 3, 4)],
            "kernels": [kernel(0), kernel(0, rank=1), kernel(0, rank=2)],
            "annotations": [
                mark("forward", 0, 9),
                mark("step 7", 0, 9, rank=1),
                mark("step 7", 0, 9, rank=2, scope="gpu"),
                mark("execute_context_1(888)_generation_8(8)", 0, 9, rank=3),  # the step of an inference server
                mark("capture_32_FULL", 0, 9, rank=4),
            ],
        },
        [
            ("info", 0, 2, "2 ops and GPU events, and no range marks a step."),
            ("info", 2, 1, "1 op or GPU event, and no range marks a step."),
        ],
    ),
    (
        "loader_missing",
        {
            "annotations": [
                *(
                    mark(f"ProfilerStep#{number}", 100 * number, 100, rank=rank)
                    for number in (1, 2)
                    for rank in range(4)
                ),
                mark(LOADER, 0, 9, rank=1),
            ],
            "ops": [{"name": LOADER, "rank": 2}],
            "steps": [{"rank": 3, "step": 1, "data_wait_ns": 0}, {"rank": 0, "step": 1}],
        },
        [("info", 0, 2, "2 steps and no range of a data loader.")],
    ),
    (
        "collectives_unsized",
        {
            "kernels": [kernel(9 * at, rank=rank, name=NCCL) for rank in (0, 1) for at in (1, 2)] + [kernel(0, rank=2)],
            "collectives": [{"origin": "op", "rank": rank, "size_bytes": size} for rank, size in ((0, None), (1, 8))],
        },
        [("info", 0, 2, "2 communication kernels and no collective with a recorded size.")],
    ),
    (
        "shapes_missing",
        {
            "kernels": [
                kernel(0, grid_x=1, block_x=32),
                kernel(20, grid_x=1),
                kernel(40),
                kernel(0, rank=1, grid_x=1, block_x=32),
            ]
        },
        [("info", 0, 2, "2 of 3 kernels have no grid or no block.")],
    ),
    (
        "memory_incomplete",
        {
            "memory_events": [
                {"size_bytes": 8},
                {"size_bytes": 8, "address": 1},
                {"size_bytes": 8, "address": 1, "allocated_bytes": 8},
                {"size_bytes": 8, "address": 1, "allocated_bytes": 8, "rank": 1},
            ]
        },
        [
            (
                "info",
                0,
                2,
                "Of 3 memory events, 1 without an address, and 2 without the total allocated.",
            )
        ],
    ),
    (
        "graph_hidden",
        {"graph_launches": [{"device": 0, "start_ns": 5, "dur_ns": 1500}, {"device": 0, "start_ns": 5, "dur_ns": -1}]},
        [("warning", 0, 2, "2 CUDA graphs were recorded as a whole, 1.5 µs in all; the kernels inside are unknown.")],
    ),
    (
        "unclassified",
        {
            "kernels": [
                kernel(0, 95),
                kernel(100, 2, name="mystery"),
                kernel(110, 3, name=f"riddle{'e' * 74}r"),  # 81 characters
                kernel(0, 60, name="mystery", rank=1),
                kernel(0, 40, rank=1),
            ]
        },
        [
            (
                "info",
                0,
                2,
                f"5 ns of 100 ns of kernel time (5 %) is unclassified, in 2 names; the longest: riddle{'e' * 74}….",
            ),
            (
                "warning",
                1,
                1,
                "60 ns of 100 ns of kernel time (60 %) is unclassified, in 1 name; the longest: mystery.",
            ),
        ],
    ),
    (
        "compiling_measured",
        {
            "ops": [
                mark_op("entire_frame_compile", 0, 300),
                mark_op("compile_inner (dynamo_timed)", 10, 200),
                *(
                    mark_op(name, 20_000_000 * at, duration, rank=1)
                    for name in ("Torch-Compiled Region: 0/0", "CompiledFunction")
                    for at, duration in enumerate((10_000_223, 222, 222))
                ),
                *(mark_op("CompiledFunction", 20_000_000 * at, 9_000_000, rank=2) for at in range(3)),
            ],
            "kernels": [kernel(0, 1000)],
            "python_frames": [
                mark_op("/env/torch/_dynamo/convert_frame.py(1633): _compile", 0, 40, rank=3, tid=9),
                mark_op("/env/torch/_dynamo/convert_frame.py(490): maybe_cprofile", 50, 40, rank=3, tid=9),
            ],
            "api_calls": [call(0, rank=3)],
        },
        [
            (
                "info",
                1,
                2,
                "The first call of Torch-Compiled Region: 0/0 took 10 ms, the others 222 ns: "
                "it may have compiled, tuned kernels or captured a graph.",
            ),
            (
                "warning",
                0,
                1,
                "1 compilation took 300 ns of 1 µs recorded (30 %): the steps that compile measure the compiler.",
            ),
            (
                "warning",
                3,
                1,
                "1 compilation took 40 ns of 5 ns recorded (800 %): the steps that compile measure the compiler.",
            ),
        ],
    ),
    (
        "profiler_overhead",
        {
            "other_events": [
                {"category": category, "rank": rank, "start_ns": DAY_NS + start, "dur_ns": duration}
                for category, rank, start, duration in (
                    ("overhead", 0, 0, 10),
                    ("overhead", 0, 1000, 500),  # the last flush
                    ("PROFILER_OVERHEAD", 1, 0, 200),
                    ("PROFILER_OVERHEAD", 1, 100, 100),  # within that one
                    ("other", 0, 0, 99),
                )
            ],
            "kernels": [kernel(0, 1000), kernel(0, 1000, rank=1)],
        },
        [
            ("info", 0, 1, "The profiler reports 10 ns of its own overhead in 1 µs of recording (1 %)."),
            ("warning", 1, 2, "The profiler reports 200 ns of its own overhead in 1 µs of recording (20 %)."),
        ],
    ),
    (
        "recording_slow",
        {
            "steps": [
                # 210, of two the shorter, against 120 before, above 100 after; 30 and 99 of them wait for data
                *timed_steps(
                    0,
                    (150, 100, 120, 900, 210, 100, 199, 90),
                    (*["off"] * 3, *["recording"] * 2, *["off"] * 3),
                    (30, 0, 0, 0, 0, 0, 99, 0),
                ),
                # of a program of its own, where ranges name the recorded steps: 120 against 100 after
                *timed_steps(1, (90, 90, 120, 100, 300)),
                *timed_steps(
                    2, (60, 60, 90, 60), ("off", "off", "recording", "off"), (0, 0, 30, 0)
                ),  # the rest is waiting
                *timed_steps(3, (99, 99, 50, 50, 50), ("recording", "recording", *["off"] * 3)),  # a slow start
                *timed_steps(4, (50, 99, 50), ("off", "recording", "attached")),  # too few
                *timed_steps(5, (50, 60, 50, 100, 100), ("off", "recording", *["off"] * 3)),  # it slows down itself
                *timed_steps(
                    6, (50, 60, 50, 50, 70, 70), ("off", "recording", *["off"] * 4)
                ),  # others take longer, too
            ],
            "annotations": [mark("ProfilerStep#2", DAY_NS + 2000, 9, rank=1)],
            "kernels": [kernel(0, rank=rank) for rank in range(7)],
        },
        [
            (
                "info",
                1,
                1,
                "1 recorded step takes a median of 120 ns without waits for data, "
                "1.20 times the 100 ns of the 2 after the recording: "
                "idle time and waits for the host include what recording costs.",
            ),
            (
                "warning",
                0,
                2,
                "2 recorded steps take a median of 210 ns without waits for data, "
                "1.75 times the 120 ns of the 3 before the recording: "
                "idle time and waits for the host include what recording costs.",
            ),
        ],
    ),
    (
        "stacks_recorded",
        {"python_frames": [{"name": "main"}] * 1234},
        [
            (
                "info",
                0,
                1234,
                "1,234 Python calls were recorded, which slows the CPU: the profiler may cause the idle time.",
            )
        ],
    ),
]


def examined(memory: MemoryStore, *, run: str | None = None, codes: Sequence[str] = ()) -> list[dict[str, Any]]:
    return doctor.examine(memory.con, run, codes).to_pylist()


def found(memory: MemoryStore, code: str) -> list[dict[str, Any]]:
    return [row for row in examined(memory, codes=[code]) if row["run"] == "r"]


@pytest.mark.parametrize(("code", "tables", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_check_finds_what_it_is_for(
    code: str, tables: Mapping[str, list[dict[str, object]]], expected: list[tuple[object, ...]], memory: MemoryStore
) -> None:
    rows = found(memory.filled(tables), code)
    assert sorted(((row["severity"], row["rank"], row["count"], row["message"]) for row in rows), key=str) == expected


def test_every_check_has_a_case() -> None:
    assert {check.code for check in doctor.checks()} - {case[0] for case in CASES} == {"reader_note"}


def test_a_sound_run_has_no_finding(memory: MemoryStore) -> None:
    assert [row for row in examined(memory.filled(SOUND)) if row["code"] != "not_answerable"] == []


def test_what_readers_noticed_is_reported_with_their_own_words_once_a_run(memory: MemoryStore) -> None:
    note = {
        "severity": "info",
        "code": "rank_assumed",
        "count": 1,
        "message": "Rank 0 was assumed.",
        "how_to_fix": "X.",
    }
    tables = {
        "sources": [source("a"), source("b"), source("c", run="s")],
        "diagnostics": [
            note | {"source": "a"},
            note | {"source": "b", "count": 4},
            note | {"source": "c", "run": "s", "severity": "error", "how_to_fix": None},
            note | {"source": "c", "run": "s", "code": "negative_duration"},
        ],
    }
    rows = examined(memory.filled(tables), codes=["reader_note"])
    assert [
        (row["severity"], row["code"], row["run"], row["count"], row["message"], row["how_to_fix"]) for row in rows
    ] == [
        ("error", "rank_assumed", "s", 1, "c.json: Rank 0 was assumed.", None),
        ("info", "rank_assumed", "r", 5, rows[1]["message"], "X."),
    ]
    assert (
        rows[1]["message"].removeprefix(rows[1]["message"][0])
        == ".json: Rank 0 was assumed. (The same of 1 more source.)"
    )


def test_queries_without_rows_are_named_with_the_way_to_get_them(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0), kernel(0, run="s", source="b")], "memcpys": [{"run": "s", "source": "b"}]}
    rows = examined(memory.filled(tables))
    lacking = [row for row in rows if row["code"] == "not_answerable" and "memcpy_throughput" in row["message"]]
    assert [(row["severity"], row["run"]) for row in lacking] == [("info", "r")]
    assert "tables are empty: memcpys" in lacking[0]["message"]
    assert "kernel_summary" not in "".join(row["message"] for row in rows)
    assert lacking[0]["how_to_fix"]


def test_a_query_that_no_run_can_answer_is_reported_once(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0), kernel(0, run="s", source="b")]}
    rows = examined(memory.filled(tables))
    (lacking,) = [row for row in rows if "nvtx_sum" in row["message"]]
    assert (lacking["run"], "no data of all 2 runs" in lacking["message"]) == (None, True)


def test_of_several_runs_that_cannot_answer_a_query_the_first_are_named(memory: MemoryStore) -> None:
    runs = [kernel(0, run=run, source=run) for run in ("a", "b", "c", "d")]
    tables = {"kernels": runs, "ops": [{"run": "e", "source": "e", "start_ns": 0, "dur_ns": 5}]}
    messages = [row["message"] for row in examined(memory.filled(tables)) if row["code"] == "not_answerable"]
    assert any("no data of 4 of 5 runs (a, b, c, …), because" in message for message in messages)


def test_findings_are_of_the_run_that_is_requested(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0, -1), kernel(0, -1, run="s", source="b")]}
    assert {row["run"] for row in examined(memory.filled(tables), run="s")} == {"s"}


def test_the_worst_comes_first(memory: MemoryStore) -> None:
    tables = {"sources": [source("a", complete=False)], "kernels": [kernel(0, 0), kernel(5, -1)]}
    severities = [row["severity"] for row in examined(memory.filled(tables))]
    assert severities == sorted(severities, key=doctor.SEVERITIES.index)
    assert set(severities) == {"error", "warning", "info"}


def test_an_unknown_run_is_no_data(memory: MemoryStore) -> None:
    with pytest.raises(NoDataError, match="no run 'rr'; nearest: r"):
        examined(memory.filled(SOUND), run="rr")


def test_every_printed_code_selects_its_findings(memory: MemoryStore) -> None:
    note = {"severity": "warning", "count": 1, "message": "M.", "how_to_fix": None}
    noted = ("ncu_rule", "cut_off", "device_unknown")  # the last is a check too
    tables = {
        "sources": [source("a", complete=False)],
        "kernels": [kernel(0, -1), kernel(0, 0, rank=1, device=None)],
        "diagnostics": [note | {"source": "a", "code": code} for code in noted],
    }
    rows = examined(memory.filled(tables))
    codes = [row["code"] for row in rows]
    assert {*noted, "source_incomplete", "not_answerable"} <= set(codes)
    assert codes.count("device_unknown") == 2
    for code in codes:
        selected = examined(memory, codes=[code])
        assert sorted(row["message"] for row in selected) == sorted(r["message"] for r in rows if r["code"] == code)


def test_a_code_of_a_reader_or_of_verify_is_no_unknown_check() -> None:
    codes = {*diagnostic_codes(), *doctor.BUILT_IN_CHECKS}
    assert {"ncu_rule", "compressed_cut_off", "rank_assumed", "damaged_file"} <= codes
    assert "reader_note" in {check.code for check in doctor.find_checks(sorted(codes))}


def test_an_unknown_check_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'rank_twice'"):
        doctor.find_checks(["rank_twise"])


def test_of_names_that_took_equally_long_the_last_is_reported(memory: MemoryStore) -> None:
    names = [f"mystery{number}" for number in (3, 9, 1, 7, 5)]
    kernels = [
        {"name": name, "device": 0, "stream": 7, "start_ns": 10 * at, "dur_ns": 10} for at, name in enumerate(names)
    ]
    (row,) = found(memory.filled({"kernels": kernels}), "unclassified")
    assert row["message"].endswith("unclassified, in 5 names; the longest: mystery9.")


def test_the_unclassified_share_is_that_of_the_breakdown(memory: MemoryStore) -> None:
    memory.filled(next(case[1] for case in CASES if case[0] == "unclassified"))
    ratios = memory.query("gpu_breakdown").column("unclassified_ratio").to_pylist()
    assert ratios == [0.05, 0.6]
    assert [row["message"].split("(")[1].split(")")[0] for row in found(memory, "unclassified")] == ["60 %", "5 %"]


@pytest.mark.parametrize("check", doctor.checks(), ids=[check.code for check in doctor.checks()])
def test_rendered_sql_finds_the_same(check: doctor.Check, memory: MemoryStore) -> None:
    memory.filled(next((case[1] for case in CASES if case[0] == check.code), SOUND))
    for run in (None, "r"):
        rendered = memory.con.sql(doctor.render_sql(check, run)).to_arrow_table().to_pylist()
        assert sorted(row["message"] for row in rendered) == sorted(
            row["message"] for row in examined(memory, run=run, codes=[check.code])
        )


def test_rendered_sql_runs_in_another_client_after_init(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", SOUND)
    with duckdb.connect() as other:
        other.execute(session.init_sql(store))
        for check in doctor.checks():
            other.sql(doctor.render_sql(check, "r")).fetchall()


@pytest.mark.parametrize("check", doctor.checks(), ids=[check.code for check in doctor.checks()])
def test_a_check_states_what_a_row_is_and_what_to_do(check: doctor.Check) -> None:
    assert "A row is" in check.prose
    assert check.how_to_fix.endswith(".") or check.code == "reader_note"
    assert check.sql.splitlines()[-1].startswith("order by")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 1", "c.sql:1: no header; write one between the lines `-- /// check`"),
        ('-- /// check\n-- title = "T"\n-- ///\nselect 1', "c.sql:2: the header of a check has title, severity, how"),
        (
            '-- /// check\n-- title = "T"\n-- severity = "bad"\n-- how_to_fix = "X."\n-- ///\nselect 1',
            "c.sql:2: severity is one of error, warning, info",
        ),
    ],
)
def test_a_malformed_check_names_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.sql"
    path.write_text(text)
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        doctor.parse_check(path)


def test_no_value_of_64_bits_makes_the_doctor_fail(memory: MemoryStore) -> None:
    numbers = (-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1)
    times = [
        {"source": label, "pid": 1, "correlation": 1, "start_ns": start_ns, "dur_ns": dur_ns}
        for label in "ab"
        for start_ns in numbers
        for dur_ns in numbers
    ]
    spans = [{name: time[name] for name in ("source", "pid", "start_ns", "dur_ns")} for time in times]
    tables = {
        "sources": [source("a"), source("b")],
        "kernels": [time | {"device": 0, "stream": 7, "name": "what"} for time in times]
        + [kernel(-DAY_NS - 2**62, correlation=2)],
        "graph_launches": [time | {"device": 0} for time in times],
        "api_calls": [time | {"api": "runtime"} for time in times] + [call(2**62 - DAY_NS - 6, correlation=2)],
        "other_events": [span | {"category": "overhead"} for span in spans],
        "ops": spans,
        "diagnostics": [{"source": "a", "severity": "info", "code": "x", "count": 2**63 - 1, "message": "M."}] * 2,
    }
    codes = {row["code"] for row in examined(memory.filled(tables))}
    assert {"negative_duration", "kernel_before_launch", "stream_overlap", "profiler_overhead"} <= codes
