"""Small Kineto traces for tests that are not about their text."""

import json
from pathlib import Path


def write_trace(path: Path, *, kernels: int, rank: int | None = None, first_us: int = 1_700_000_000_000_000) -> Path:
    """Write a trace of back-to-back kernels of 10 µs, and return its path."""
    events = [
        {
            "ph": "X",
            "cat": "kernel",
            "name": f"kernel {at % 7}",
            "pid": 0,
            "tid": 7,
            "ts": first_us + 10 * at,
            "dur": 10,
            "args": {"device": 0, "context": 1, "stream": 7, "correlation": at + 1},
        }
        for at in range(kernels)
    ]
    head: dict[str, object] = {"schemaVersion": 1}
    if rank is not None:
        head["distributedInfo"] = {"rank": rank}
    path.write_text(json.dumps({**head, "traceEvents": events}))
    return path
