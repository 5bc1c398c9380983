"""Rows of a small recording, for tests of scopes: one process with a main thread and one of the backward pass."""

from typing import Any

MAIN, ENGINE = 1, 2


def event(start: int, dur: int | None = 10, **values: Any) -> dict[str, Any]:
    return {"pid": 10, "start_ns": start, "dur_ns": dur} | values


def on(tid: int, start: int, dur: int | None = 10, **values: Any) -> dict[str, Any]:
    return event(start, dur, tid=tid) | values


def mark(start: int, dur: int, name: str, **values: Any) -> dict[str, Any]:
    return on(MAIN, start, dur, name=name, scope="cpu") | values


def call(start: int, correlation: int, tid: int = MAIN) -> dict[str, Any]:
    return on(tid, start, api="runtime", name="cudaLaunchKernel", correlation=correlation)


def work(start: int, name: str, correlation: int | None = None, stream: int = 7) -> dict[str, Any]:
    return event(start, 30, device=0, stream=stream, name=name, correlation=correlation)


TWO_STEPS: dict[str, list[dict[str, Any]]] = {
    "annotations": [
        mark(0, 90, "ProfilerStep#0"),
        mark(100, 90, "ProfilerStep#1"),
        mark(110, 20, "forward"),
        mark(140, 40, "backward"),
    ],
    "ops": [
        on(MAIN, 10, 20, name="aten::mm"),
        on(MAIN, 112, 15, name="aten::mm"),
        on(ENGINE, 145, 30, name="MmBackward"),
    ],
    "python_frames": [on(MAIN, 111, 18, name="nn.Module: Linear_0"), on(MAIN, 108, 30, name="train.py(3): forward")],
    "api_calls": [call(15, 1), call(115, 2), call(150, 3, ENGINE), call(170, 4, ENGINE)],
    "kernels": [
        work(5, "unlinked", 99),
        work(105, "late", 1),
        work(125, "mm", 2),
        work(185, "mm_backward", 3, stream=20),
        work(220, "sum", 4),
    ],
    "memcpys": [event(130, 5, device=0, stream=7, direction="HtoD")],
    "memory_events": [{"pid": 10, "tid": MAIN, "time_ns": 113, "size_bytes": 8}],
}
