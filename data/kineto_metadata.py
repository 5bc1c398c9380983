"""Describe the devices, tracks and recording of a generated trace as Kineto does."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from kineto_writer import Event, metadata

SMS = 108
"""Multiprocessors of the devices that do not exist."""

Track = tuple[int, str]
"""The id of a thread, and its name."""


def device_properties(number: int) -> dict[str, object]:
    """Return the properties of a device that does not exist."""
    return {
        "id": number,
        "name": "Generated GPU (not a real device)",
        "totalGlobalMem": 85_899_345_920,
        "computeMajor": 8,
        "computeMinor": 0,
        "maxThreadsPerBlock": 1_024,
        "maxThreadsPerMultiprocessor": 2_048,
        "regsPerBlock": 65_536,
        "warpSize": 32,
        "sharedMemPerBlock": 49_152,
        "numSms": SMS,
        "regsPerMultiprocessor": 65_536,
        "sharedMemPerBlockOptin": 166_912,
        "sharedMemPerMultiprocessor": 167_936,
    }


def versions() -> dict[str, object]:
    """Return the versions of the profiler's libraries."""
    return {"cupti_version": 28, "cuda_runtime_version": 12090, "cuda_driver_version": 13000}


def comms_id(group_name: str, seq: int, ranks: Sequence[int], *, is_p2p: bool = False) -> int:
    """Return an id of one operation, equal on all its ranks, from what torch hashes: unsigned 64 bits."""
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    hashed = repr((group_name, seq, is_p2p, ranks[0], stride, len(ranks)))
    return int.from_bytes(blake2b(hashed.encode(), digest_size=8).digest(), "little")


def describe_tracks(
    pid: int, devices: Iterable[int], streams: Iterable[tuple[int, int]], threads: Iterable[Track], at_ns: int
) -> Iterator[str]:
    """Yield the metadata events of a process, its devices, its streams (device, stream) and its threads."""
    yield from _process(pid, "CPU", pid, at_ns)
    for device in devices:
        yield from _process(device, f"GPU {device}", 5_000_000 + device, at_ns)
    for device, stream in streams:
        yield metadata("thread_name", (device, stream), at_ns, ("name", f"stream {stream} "))
        yield metadata("thread_sort_index", (device, stream), at_ns, ("sort_index", stream))
    for tid, name in threads:
        yield metadata("thread_name", (pid, tid), at_ns, ("name", f"thread {tid} ({name})"))
        yield metadata("thread_sort_index", (pid, tid), at_ns, ("sort_index", tid))
    yield metadata("process_sort_index", ("Spans", 0), at_ns, ("sort_index", 536_870_912))


def _process(pid: int, label: str, sort_index: int, at_ns: int) -> Iterator[str]:
    yield metadata("process_name", (pid, 0), at_ns, ("name", "python"))
    yield metadata("process_labels", (pid, 0), at_ns, ("labels", label))
    yield metadata("process_sort_index", (pid, 0), at_ns, ("sort_index", sort_index))


def recording(start_ns: int, end_ns: int) -> Iterator[Event]:
    """Yield the events of the profiler itself."""
    yield Event(
        "Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", start_ns, end_ns - start_ns, {"Op count": 0}
    )
    yield Event("", "Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", start_ns, phase="i")
    yield Event("", "Record Window End", "", "", end_ns + 612_345, phase="i")
