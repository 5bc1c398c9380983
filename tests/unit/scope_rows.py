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
