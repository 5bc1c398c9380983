"""Checks of ranks and sources that do not fit together: their clocks, windows, steps, and cards."""

from tests.unit.doctor_cases.rows import Case, kernel, mark, source

CASES: list[Case] = [
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
]
