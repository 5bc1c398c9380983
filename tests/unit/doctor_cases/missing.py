"""Checks of what is not recorded: calls, launches, sizes, shapes, and names that a rule knows."""

from tests.unit.doctor_cases.rows import Case, call, kernel

NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"

CASES: list[Case] = [
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
]
