"""A CUDA without a GPU: maps cuda to the CPU and nccl to gloo, logs each call, and enforces CUDA's rules.

Tensors stay on the CPU; those that would be on a GPU carry a mark. The device is a queue per GPU: submitted work ends
`WORK_MS` after the work before it, an event has the time at which the queue reaches it, and is complete once the clock
has passed that time. An error of CUDA is a RuntimeError; what CUDA would compute wrongly, or do at the wrong time,
without an error raises `BrokenRuleError`.

Not modeled: several streams of one GPU, peer access, and the sizes of an allocator's blocks.
"""

import contextlib
import inspect
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.overrides import TorchFunctionMode

GPUS = "FAKE_CUDA_GPUS"
"""Environment variable with the number of GPUs of the node; children with it have the harness."""
LOG = "FAKE_CUDA_LOG"
"""Environment variable with the folder of the logs, a file per process."""
PROFILED = "FAKE_CUDA"
"""Environment variable with the file of the fake nsys and ncu, which reads there what the program does."""
WORK_MS = "FAKE_CUDA_WORK_MS"
"""Environment variable with the duration of one operation on the device, in milliseconds."""
ALLOCATED_BYTES, RESERVED_BYTES, TOTAL_BYTES = 1 << 20, 2 << 20, 80 << 30
"""Memory of the fake allocator before the first operation, and of the card."""
POOL_BYTES, POOL_USED_BYTES = 512 << 10, 64 << 10
"""The private pool of captured graphs, and the part of it that tensors hold after the capture."""
PURE = (
    "is_available",
    "is_initialized",
    "current_device",
    "device_count",
    "is_bf16_supported",
    "is_current_stream_capturing",
)
"""Calls that only read the state of this process, which `read_calls` leaves out."""
_PRODUCTS = {"linear", "conv2d", "matmul", "mm", "bmm", "addmm", "__matmul__", "scaled_dot_product_attention"}
_HOST_READS = {"item", "tolist", "__bool__", "__float__", "__int__", "cpu", "numpy"}


class BrokenRuleError(AssertionError):
    """The program broke a rule that CUDA does not check."""


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
        self.has_pending_work &= name not in ("synchronize", "Stream.synchronize")
        time.sleep(max(0.0, self.queue_ends_ms.get(self.current, 0.0) - now_ms()) / 1000)


state = None


def now_ms():
    """Return the time of the host in milliseconds."""
    return time.perf_counter_ns() / 1e6


def read_calls(path_or_calls):
    """Return the logged calls without those that only read the state of the process."""
    lines = path_or_calls.read_text().splitlines() if isinstance(path_or_calls, Path) else path_or_calls
    return [line for line in lines if line.partition(" ")[0].removeprefix("cuda.") not in PURE]


def install_from_environment(name, patch=None):
    """Install the harness in a child process whose environment requests it."""
    if GPUS not in os.environ:
        return
    log = Path(os.environ[LOG]) / name if LOG in os.environ else None
    install(_visible(int(os.environ[GPUS])), patch or setattr, log=log, work_ms=float(os.environ.get(WORK_MS, "0")))
    mode = CudaOnCpu()
    mode.__enter__()


@contextlib.contextmanager
def installed(monkeypatch, gpus=2, **options):
    """Install the harness in this process for the block; yields its state."""
    with monkeypatch.context() as patch:
        install(gpus, patch.setattr, **options)
        with CudaOnCpu():
            yield state


def _visible(gpus):
    from tracelab.collect.machine.gpu import visible_device_entries

    entries = visible_device_entries(os.environ)
    return gpus if entries is None else len(entries)


class CudaOnCpu(TorchFunctionMode):
    """Map devices in arguments of torch's functions to the CPU, and mark tensors that would be on a GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if func is torch.device or name in ("__get__", "__set__", "_parse_to"):
            return self._property(func, args, kwargs)
        self._check(name, args, pins=kwargs.pop("pin_memory", False))
        if name == "pin_memory":
            return args[0]
        target = self._target(name, args, kwargs)
        was_on_gpu = any(map(is_marked, _flat((args, kwargs))))
        if name == "cuda":
            func, args = torch.Tensor.to, (args[0], "cpu")
        output = func(*map(_to_cpu, args), **{key: _to_cpu(value) for key, value in kwargs.items()})
        if was_on_gpu or target == "cuda":
            state.submit()
        on_gpu = target == "cuda" or (target is None and was_on_gpu and name not in _HOST_READS)
        if name == "copy_":
            on_gpu = is_marked(output)
        elif output is (args or (None,))[0] and target is not None:  # CUDA copies, and the CPU returns the same tensor
            output = output.view_as(output)
        if on_gpu:
            for each in _flat((output,)):
                _mark(each)
        elif was_on_gpu and name in ("copy_", "to") and not kwargs.get("non_blocking"):
            state.wait_for_host(name)
        return output

    def _check(self, name, args, *, pins):
        if name in _HOST_READS and is_marked(args[0]):
            state.wait_for_host(name)
        if name == "pin_memory" or pins:
            if state.capturing:
                raise RuntimeError("CUDA error: operation not permitted when stream is capturing (cudaHostAlloc)")
            state.call("pinned")
        if name in _PRODUCTS:
            self._check_autocast(name)
            state.tell_profiler(f"kernel {name}")

    def _property(self, func, args, kwargs):
        if func == torch.Tensor.is_cuda.__get__:
            return is_marked(args[0])
        output = func(*args, **kwargs)
        if func is torch.device or func.__name__ == "_parse_to":
            return output
        if func.__name__ == "__set__":
            if is_marked(args[1]):
                args[0]._on_gpu = True
        elif is_marked(args[0]) and isinstance(output, torch.Tensor):
            output._on_gpu = True
        return output

    def _target(self, name, args, kwargs):
        """Return cuda or cpu where an argument names a device, else None."""
        devices = [each for each in (kwargs.get("device"), *(args if name == "to" else ())) if _is_device(each)]
        if name in ("cuda", "cpu"):
            devices = [torch.device(name)]
        for each in devices:
            device = torch.device(each) if isinstance(each, str) else each
            if device.type == "cuda":
                state.ordinal(device)
            return device.type
        return None

    def _check_autocast(self, name):
        if threading.current_thread() is threading.main_thread() or not torch.is_autocast_enabled("cuda"):
            return
        dtype = torch.get_autocast_dtype("cuda")
        if state.autocast_dtype is not None and dtype != state.autocast_dtype:
            raise BrokenRuleError(f"a replica computes {name} in {dtype}, and the program in {state.autocast_dtype}")


def is_marked(tensor):
    """Return whether a tensor would be on a GPU."""
    return isinstance(tensor, torch.Tensor) and getattr(tensor, "_on_gpu", False)


def _mark(tensor):
    if not isinstance(tensor, torch.Tensor):
        return
    if not is_marked(tensor) and not state.replaying:
        state.allocated[state.current] = state.allocated.get(state.current, 0) + tensor.nbytes
    tensor._on_gpu = True


def _flat(values):
    for each in values:
        if isinstance(each, list | tuple):
            yield from _flat(each)
        elif isinstance(each, dict):
            yield from _flat(tuple(each.values()))
        else:
            yield each


def _is_device(value):
    return isinstance(value, torch.device) or (isinstance(value, str) and value.partition(":")[0] in ("cuda", "cpu"))


def _to_cpu(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    if isinstance(value, str) and value.partition(":")[0] == "cuda":
        return "cpu"
    return value


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


def _set_device(device):
    state.current = state.ordinal(device)


def _start_window():
    if state.recording:
        raise BrokenRuleError("a window starts within another")
    state.recording = True
    state.tell_profiler("start")


def _stop_window():
    if not state.recording:
        raise BrokenRuleError("a window stops that has not started")
    if state.has_pending_work:
        raise BrokenRuleError("a window stops without waiting for the device: its last kernels are lost")
    state.recording = False
    state.tell_profiler("stop")


def _make_graphed_callables(network, sample_args, **_options):
    """Capture a module: later training calls must repeat the shapes of the sample."""
    shapes = [(tuple(each.shape), each.dtype) for each in sample_args]
    if not all(map(is_marked, sample_args)):
        raise RuntimeError("CUDA error: a graph is captured over tensors that are not on the GPU")
    forward = network.forward
    state.capturing = True
    try:
        forward(*sample_args).sum().backward()
        network.zero_grad(set_to_none=True)
    finally:
        state.capturing = False
    state.graphs += 1

    def replay(*inputs):
        if not network.training:
            return forward(*inputs)
        if [(tuple(each.shape), each.dtype) for each in inputs] != shapes:
            raise RuntimeError(f"a CUDA graph of {shapes} cannot replay {[tuple(each.shape) for each in inputs]}")
        state.call("graph.replay")
        state.replaying = True
        try:
            return forward(*inputs)
        finally:
            state.replaying = False

    network.forward = replay
    return network


def _memory_snapshot(**_options):
    """Return the allocator's segments: one of the default pool, one of the graphs' private pool."""
    default = {"device": state.current, "segment_pool_id": (0, 0), "total_size": RESERVED_BYTES}
    default |= {"allocated_size": ALLOCATED_BYTES}
    private = {"device": state.current, "segment_pool_id": (0, 1), "total_size": POOL_BYTES}
    private |= {"allocated_size": POOL_USED_BYTES}
    return [default] + [private] * bool(state.graphs)


def _functions():
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
        "set_device": _set_device,
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
        "make_graphed_callables": _make_graphed_callables,
        "can_device_access_peer": lambda device, peer: state.ordinal(device) != state.ordinal(peer),
        "_sleep": lambda cycles: state.submit(cycles / 1e6),
    }


def _logged(name, function, words=0):
    def wrapper(*args, **kwargs):
        state.call(f"cuda.{name}", *args[:words])
        return function(*args, **kwargs)

    return wrapper


def _unmodeled(name):
    def wrapper(*_args, **_kwargs):
        raise BrokenRuleError(f"torch.cuda.{name} is called, and tests/collect/fake_cuda.py does not model it")

    return wrapper


def install(gpus, setattr_, *, log=None, work_ms=0.0):
    """Replace torch.cuda and what depends on it in this process; `setattr_` is setattr, or monkeypatch's."""
    global state  # noqa: PLW0603  a process has one CUDA
    state = State(gpus, log, work_ms)
    modeled = _functions()
    for name in vars(torch.cuda).copy():
        value = getattr(torch.cuda, name)
        if name in modeled or name.startswith("_") or not inspect.isfunction(value):
            continue
        if (value.__module__ or "").startswith("torch.cuda"):
            setattr_(torch.cuda, name, _unmodeled(name))
    for name, function in modeled.items():
        words = 1 if name in ("set_device", "_sleep") else 0
        setattr_(torch.cuda, name, _logged(name, function, words))
    kinds = {"Event": Event, "Stream": Stream, "device": OnDevice, "CUDAGraph": Graph, "graph": Capture}
    for name, kind in kinds.items():
        setattr_(torch.cuda, name, kind)
    setattr_(torch.cuda.nvtx, "range", NvtxRange)
    setattr_(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    setattr_(torch.version, "cuda", "13.0")
    setattr_(torch.backends.cudnn, "version", lambda: 91002)
    setattr_(torch.cuda.profiler, "start", lambda: (state.call("profiler.start"), _start_window())[0])
    setattr_(torch.cuda.profiler, "stop", lambda: (_stop_window(), state.call("profiler.stop"))[0])
    _install_accelerator(setattr_)
    _install_autocast(setattr_)
    _install_kineto(setattr_)
    _install_data_parallel(setattr_)
    _install_distributed(setattr_)
    setattr_(torch.nn.Module, "compile", lambda self, *_args, **_options: state.call("compile"))
    run = threading.Thread.run

    def run_with_cuda(self):
        with CudaOnCpu():
            run(self)

    setattr_(threading.Thread, "run", run_with_cuda)


def _install_accelerator(setattr_):
    setattr_(torch.accelerator, "is_available", lambda: state.gpus > 0)
    setattr_(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
    setattr_(torch.accelerator, "current_stream", Stream)
    setattr_(torch.accelerator, "device_index", OnDevice)
    setattr_(torch.accelerator, "current_device_index", lambda: state.current)
    setattr_(torch.accelerator, "set_device_index", _set_device)


def _install_autocast(setattr_):
    """Enter the CPU's autocast with the dtype of the GPU's, which CPU tensors would ignore."""
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__

    def entered(self):
        result = enter(self)
        if self.device == "cuda":
            self._before = state.autocast_dtype
            if threading.current_thread() is threading.main_thread():
                state.autocast_dtype = self.fast_dtype if self._enabled else None
                state.call("autocast", str(self.fast_dtype).removeprefix("torch."))
            self._of_cpu = autocast("cpu", self.fast_dtype, enabled=self._enabled)
            self._of_cpu.__enter__()
        return result

    def left(self, *words):
        if self.device == "cuda":
            self._of_cpu.__exit__(*words)
            if threading.current_thread() is threading.main_thread():
                state.autocast_dtype = self._before
        return leave(self, *words)

    setattr_(autocast, "__enter__", entered)
    setattr_(autocast, "__exit__", left)


def _install_kineto(setattr_):
    """Record the CPU alone, and add a kernel for each matrix product to the exported trace."""
    real, cuda = torch.profiler.profile, torch.profiler.ProfilerActivity.CUDA
    record_function = torch.profiler.record_function

    class Profile(real):
        def __init__(self, *, activities, **options):
            if cuda not in activities:
                raise BrokenRuleError("a profile of a program on a GPU records the GPU")
            super().__init__(activities=[each for each in activities if each != cuda], **options)

        def prepare_trace(self):
            state.call("kineto.prepare_trace")
            super().prepare_trace()

        def start_trace(self):
            state.call("kineto.start_trace")
            super().start_trace()
            _start_window()

        def stop_trace(self):
            _stop_window()
            state.call("kineto.stop_trace")
            super().stop_trace()

        def export_chrome_trace(self, path, **options):
            if state.recording:
                raise BrokenRuleError("a trace is exported while it is recorded")
            super().export_chrome_trace(path, **options)
            _add_kernels(Path(path))

    class RecordFunction(record_function):
        def __enter__(self):
            state.call("mark", self.name)
            state.step_is_open |= self.name.startswith("ProfilerStep#")
            return super().__enter__()

        def __exit__(self, *words):
            state.step_is_open &= not self.name.startswith("ProfilerStep#")
            super().__exit__(*words)

    setattr_(torch.profiler, "profile", Profile)
    setattr_(torch.profiler, "record_function", RecordFunction)


def _add_kernels(path):
    content = json.loads(path.read_text())
    ops = [each for each in content["traceEvents"] if each.get("cat") == "cpu_op" and each["name"] in _KERNELS]
    for number, op in enumerate(ops):
        where = {"device": 0, "context": 1, "stream": 7, "correlation": 1000 + number}
        kernel = {"ph": "X", "cat": "kernel", "name": _KERNELS[op["name"]], "pid": 0, "tid": 7}
        content["traceEvents"].append(kernel | {"ts": op["ts"], "dur": op["dur"], "args": where})
    path.write_text(json.dumps(content))


_KERNELS = {"aten::mm": "gemm", "aten::addmm": "gemm_bias", "aten::bmm": "gemm_batched", "aten::copy_": "copy"}
_KERNELS |= {"aten::convolution": "convolution", "aten::add": "add", "aten::add_": "add"}


def _install_data_parallel(setattr_):
    """Run DataParallel's replicas on the CPU, in its own threads."""
    data_parallel = sys.modules["torch.nn.parallel.data_parallel"]  # the package has a function of this name

    def scatter(inputs, kwargs, device_ids, dim=0):
        for each in device_ids:
            state.ordinal(each)
        parts = [each.chunk(len(device_ids), dim) for each in inputs]
        count = min(map(len, parts))
        return [tuple(part[number] for part in parts) for number in range(count)], [dict(kwargs or {})] * count

    def gather(outputs, device, dim=0):
        if isinstance(outputs[0], tuple):
            return tuple(gather(each, device, dim) for each in zip(*outputs, strict=True))
        if outputs[0].dim() == 0:
            raise BrokenRuleError(
                "replicas return a number each: their mean weighs a small part of a batch like a large one"
            )
        return torch.cat(outputs, dim)

    initialize = data_parallel.DataParallel.__init__

    def initialize_on_cpu(self, module, device_ids=None, **options):
        initialize(self, module, device_ids, **options)
        self.src_device_obj = torch.device("cpu")

    setattr_(data_parallel, "scatter_kwargs", scatter)
    setattr_(data_parallel, "replicate", lambda network, devices, detach=False: [network] * len(devices))
    setattr_(data_parallel, "gather", gather)
    setattr_(data_parallel.DataParallel, "__init__", initialize_on_cpu)


def _install_distributed(setattr_):
    """Run NCCL's collectives through gloo."""
    from torch import distributed
    from torch.nn import parallel

    wrap = parallel.DistributedDataParallel.__init__

    def wrap_on_cpu(self, module, device_ids=None, **options):
        if device_ids != [state.current]:
            raise BrokenRuleError(f"DistributedDataParallel on {device_ids}, and the process on GPU {state.current}")
        wrap(self, module, None, **options)

    setattr_(parallel.DistributedDataParallel, "__init__", wrap_on_cpu)

    join = distributed.init_process_group

    def join_through_gloo(backend=None, *, device_id=None, **options):
        if backend != "nccl":
            raise BrokenRuleError(f"ranks on GPUs communicate through {backend}")
        if device_id is not None and state.ordinal(device_id) != state.current:
            raise BrokenRuleError(f"the process group is of {device_id}, and the process on GPU {state.current}")
        state.call("nccl.init", "with a device" if device_id is not None else "without a device")
        join("gloo", **options)
        cards = [None] * distributed.get_world_size()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        own = visible[state.current] if state.current < len(visible) and visible != [""] else str(state.current)
        distributed.all_gather_object(cards, own)
        if len(set(cards)) < len(cards):
            raise RuntimeError("ncclInvalidUsage: Duplicate GPU detected : two ranks on one CUDA device")

    mesh = distributed.init_device_mesh

    def mesh_of_cpus(device_type, shape, **options):
        return mesh("cpu" if device_type == "cuda" else device_type, shape, **options)

    setattr_(distributed, "init_process_group", join_through_gloo)
    setattr_(distributed, "init_device_mesh", mesh_of_cpus)
