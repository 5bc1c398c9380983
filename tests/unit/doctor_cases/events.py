"""Checks of events whose times, order, or device cannot be."""

from tests.unit.doctor_cases.rows import MS, Case, call, kernel

CASES: list[Case] = [
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
]
