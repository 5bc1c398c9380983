"""The GPUs of a process: their queues, events, streams, graphs and memory, and the functions of torch.cuda on them."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import torch

from tests.collect.fake_cuda import (
    ALLOCATED_BYTES,
    POOL_BYTES,
    POOL_USED_BYTES,
    PROFILED,
    RESERVED_BYTES,
    TOTAL_BYTES,
    BrokenRuleError,
)

_SETTLE_MS = 90.0
"""Time that Kineto needs to begin to detach CUPTI, and as much to end."""


class State:
    """The devices of one process."""

    def __init__(self, gpus, log=None, work_ms=0.0):
        self.gpus = gpus
        self.current = 0
        self.initialized = False
        self.has_pending_work = False
        self.capturing = False
        self.replaying = False
        self.recording = False
        self.prepared = False
        self.step_is_open = False
        self.teardown_ms = self.detached_ms = None
        self.graphs = 0
        self.allocated = {}
        self.queue_ends_ms = {}
        self.work_ms = work_ms
        self.autocast_dtype = None
        self.calls = []
        self.modes = []
        self._log = log and log.open("a", buffering=1)

    def call(self, name, *words):
        """Log a call."""
        line = " ".join(map(str, (name, *words)))
        self.calls.append(line)
        if self._log:
            self._log.write(line + "\n")

    def request_teardown(self, *, detaches):
        """Note whether CUPTI detaches after a window, which is at the end of a synchronization a while later."""
        self.teardown_ms, self.detached_ms = now_ms() if detaches else None, None

    def refuse_teardown(self):
        """Refuse a window of Kineto that begins while CUPTI may be detaching."""
        is_detached = self.detached_ms is not None and now_ms() - self.detached_ms >= _SETTLE_MS
        if self.teardown_ms is not None and not is_detached:
            raise BrokenRuleError("a window begins while Kineto may be detaching CUPTI")

    def tell_profiler(self, line):
        """Write a line for the fake nsys or ncu around this process."""
        if PROFILED in os.environ:
            with Path(os.environ[PROFILED]).open("a") as file:
                file.write(line + "\n")

    def ordinal(self, device=None):
        """Return the ordinal of a device; raises CUDA's error for one that does not exist."""
        if device is None:
            return self.current
        if isinstance(device, str):
            device = torch.device(device)
        index = device.index if isinstance(device, torch.device) else int(device)
        index = self.current if index is None else index
        if not 0 <= index < self.gpus:
            raise RuntimeError(f"CUDA error: invalid device ordinal ({index} of {self.gpus})")
        return index

    def submit(self, work_ms=None):
        """Append work to the queue of the current GPU and return the time at which it ends."""
        self.initialized = self.has_pending_work = True
        begin = max(now_ms(), self.queue_ends_ms.get(self.current, 0.0))
        self.queue_ends_ms[self.current] = begin + (self.work_ms if work_ms is None else work_ms)
        return self.queue_ends_ms[self.current]

    def wait_for_host(self, name):
        """Let the host wait for the device: an error in a capture, a broken rule within a recorded step."""
        if self.capturing:
            raise RuntimeError(f"CUDA error: operation not permitted when stream is capturing ({name})")
        if self.recording and self.step_is_open:
            raise BrokenRuleError(f"{name} within a recorded step: the profile shows a wait that the program has not")
        self.call("host-wait", name)
        if self.teardown_ms is not None and now_ms() - self.teardown_ms >= _SETTLE_MS:
            self.detached_ms = self.detached_ms or now_ms()
        self.has_pending_work &= name not in ("synchronize", "Stream.synchronize")
        time.sleep(max(0.0, self.queue_ends_ms.get(self.current, 0.0) - now_ms()) / 1000)


state = None


def open_devices(gpus, log, work_ms):
    """Begin with new GPUs in this process, and return their state."""
    global state  # noqa: PLW0603  a process has one CUDA
    state = State(gpus, log, work_ms)
    return state


def now_ms():
    """Return the time of the host in milliseconds."""
    return time.perf_counter_ns() / 1e6


class Event:
    """A CUDA event: its time is that at which the device reaches it."""

    def __init__(self, enable_timing=False, **_options):
        self.timed = enable_timing
        self.time_ms = None

    def record(self, stream=None):
        """Append the event to the queue."""
        state.call("Event.record")
        self.time_ms = state.submit(0.0)

    def query(self):
        """Return whether the device has reached it; True if it was never recorded, as CUDA does."""
        return self.time_ms is None or self.time_ms <= now_ms()

    def synchronize(self):
        """Wait for it."""
        state.wait_for_host("Event.synchronize")

    def wait(self, stream=None):
        """Do nothing: there is one stream."""

    def elapsed_time(self, other):
        """Return milliseconds between two complete events."""
        for each in (self, other):
            if not each.timed or each.time_ms is None:
                raise RuntimeError("CUDA error: invalid resource handle (an event without timing, or not recorded)")
            if not each.query():
                raise RuntimeError("CUDA error: device not ready (synchronize before elapsed_time)")
        state.call("Event.elapsed_time")
        return other.time_ms - self.time_ms


class Stream:
    """A stream; all of them are one queue."""

    def __init__(self, device=None, **_options):
        self.device = torch.device("cuda", state.ordinal(device))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def wait_stream(self, _other):
        """Do nothing: there is one queue."""

    def wait_event(self, _event):
        """Do nothing: there is one queue."""

    def synchronize(self):
        """Wait for the device."""
        state.wait_for_host("Stream.synchronize")

    def record_event(self, event=None):
        """Record an event."""
        event = event or Event()
        event.record()
        return event

    def is_capturing(self):
        """Return whether a graph is being captured."""
        return state.capturing


class Graph:
    """A CUDA graph: its replay takes as long as the work that was captured."""

    def __init__(self):
        self.work_ms = 0.0

    def replay(self):
        """Append the captured work to the queue."""
        state.call("graph.replay")
        state.submit(self.work_ms)


class Capture:
    """The context manager torch.cuda.graph: a stream of another GPU would capture nothing."""

    def __init__(self, graph, stream=None):
        if stream is None or stream.device.index != state.current:
            raise BrokenRuleError("a graph is captured on a stream of another GPU than the work's")
        self._graph = graph

    def __enter__(self):
        state.capturing, self._begin_ms = True, state.queue_ends_ms.get(state.current, 0.0)
        state.queue_ends_ms[state.current] = now_ms()
        self._first_ms = state.queue_ends_ms[state.current]

    def __exit__(self, *_):
        state.capturing = False
        self._graph.work_ms = state.queue_ends_ms[state.current] - self._first_ms
        state.queue_ends_ms[state.current] = self._begin_ms


class OnDevice:
    """The context manager torch.cuda.device."""

    def __init__(self, device):
        self._index = state.current if device is None or device == -1 else state.ordinal(device)

    def __enter__(self):
        self._before, state.current = state.current, self._index

    def __exit__(self, *_):
        state.current = self._before


class NvtxRange:
    """An NVTX range that knows steps."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        state.call("nvtx.push", self.name)
        state.step_is_open |= self.name.startswith("ProfilerStep#")

    def __exit__(self, *_):
        state.step_is_open &= not self.name.startswith("ProfilerStep#")
        state.call("nvtx.pop", self.name)


def _properties(device=None):
    index = state.ordinal(device)
    return SimpleNamespace(
        name="NVIDIA H100 80GB HBM3",
        major=9,
        minor=0,
        total_memory=TOTAL_BYTES,
        multi_processor_count=132,
        uuid=f"aaaaaaaa-0000-0000-0000-{index:012d}",
        pci_bus_id=0x40 + index,
        pci_domain_id=0,
        pci_device_id=0,
        L2_cache_size=50 << 20,
    )


def set_device(device):
    state.current = state.ordinal(device)


def start_window():
    if state.recording:
        raise BrokenRuleError("a window starts within another")
    state.recording = True
    state.tell_profiler("start")


def stop_window():
    if not state.recording:
        raise BrokenRuleError("a window stops that has not started")
    if state.has_pending_work:
        raise BrokenRuleError("a window stops without waiting for the device: its last kernels are lost")
    state.recording = False
    state.tell_profiler("stop")


def _memory_snapshot(**_options):
    """Return the allocator's segments: one of the default pool, one of the graphs' private pool."""
    default = {"device": state.current, "segment_pool_id": (0, 0), "total_size": RESERVED_BYTES}
    default |= {"allocated_size": ALLOCATED_BYTES}
    private = {"device": state.current, "segment_pool_id": (0, 1), "total_size": POOL_BYTES}
    private |= {"allocated_size": POOL_USED_BYTES}
    return [default] + [private] * bool(state.graphs)


def functions():
    """Return the functions of torch.cuda by name."""

    def peak(device=None):
        pool = POOL_USED_BYTES if state.graphs else 0
        return ALLOCATED_BYTES + pool + state.allocated.get(state.ordinal(device), 0)

    def reset_peak(device=None):
        state.allocated[state.ordinal(device)] = 0

    def synchronize(device=None):
        with OnDevice(device):
            state.wait_for_host("synchronize")

    return {
        "is_available": lambda: state.gpus > 0,
        "is_initialized": lambda: state.initialized,
        "init": lambda: None,
        "device_count": lambda: state.gpus,
        "current_device": lambda: state.current,
        "set_device": set_device,
        "synchronize": synchronize,
        "current_stream": Stream,
        "default_stream": Stream,
        "stream": lambda stream: stream,
        "get_device_name": lambda device=None: _properties(device).name,
        "get_device_capability": lambda device=None: (_properties(device).major, _properties(device).minor),
        "get_device_properties": _properties,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_current_stream_capturing": lambda: state.capturing,
        "mem_get_info": lambda device=None: (TOTAL_BYTES - 3 * RESERVED_BYTES - state.ordinal(device), TOTAL_BYTES),
        "max_memory_allocated": peak,
        "max_memory_reserved": lambda device=None: RESERVED_BYTES + state.ordinal(device) * 0,
        "memory_allocated": lambda device=None: ALLOCATED_BYTES + state.ordinal(device) * 0,
        "memory_reserved": lambda device=None: RESERVED_BYTES + state.ordinal(device) * 0,
        "reset_peak_memory_stats": reset_peak,
        "memory_snapshot": _memory_snapshot,
        "empty_cache": lambda: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "can_device_access_peer": lambda device, peer: state.ordinal(device) != state.ordinal(peer),
        "_sleep": lambda cycles: state.submit(cycles / 1e6),
    }
