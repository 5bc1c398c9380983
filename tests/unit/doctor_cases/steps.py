"""Checks of the marks of steps and of waits for data."""

from tests.unit.doctor_cases.rows import LOADER, Case, kernel, mark

CASES: list[Case] = [
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
]
