"""Checks of a recording: whether it is whole, how its run ended, and what it cost."""

from collections.abc import Sequence

from tests.unit.doctor_cases.rows import DAY_NS, MS, Case, call, kernel, mark, source


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


def mark_op(name: str, start: int, duration: int, **columns: object) -> dict[str, object]:
    return {"name": name, "pid": 1, "tid": 2, "start_ns": DAY_NS + start, "dur_ns": duration} | columns


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
