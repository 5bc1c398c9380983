"""Map torch's users of CUDA to the fake one: autocast, Kineto, DataParallel, DDP, NCCL's collectives, threads."""

import inspect
import os
import re
import sys
import threading
from pathlib import Path

import torch

from tests.collect.fake_cuda import BrokenRuleError, device, tensors


def install(gpus, setattr_, *, log=None, work_ms=0.0):
    """Replace torch.cuda and what depends on it in this process; `setattr_` is setattr, or monkeypatch's."""
    state = device.open_devices(gpus, log, work_ms)
    modeled = device.functions() | {"make_graphed_callables": tensors.make_graphed_callables}
    for name in vars(torch.cuda).copy():
        value = getattr(torch.cuda, name)
        if name in modeled or name.startswith("_") or not inspect.isfunction(value):
            continue
        if (value.__module__ or "").startswith("torch.cuda"):
            setattr_(torch.cuda, name, _unmodeled(name))
    for name, function in modeled.items():
        words = 1 if name in ("set_device", "_sleep") else 0
        setattr_(torch.cuda, name, _logged(name, function, words))
    kinds = {
        "Event": device.Event,
        "Stream": device.Stream,
        "device": device.OnDevice,
        "CUDAGraph": device.Graph,
        "graph": device.Capture,
    }
    for name, kind in kinds.items():
        setattr_(torch.cuda, name, kind)
    setattr_(torch.cuda.nvtx, "range", device.NvtxRange)
    setattr_(torch.cuda.nccl, "version", lambda: (2, 27, 5))
    setattr_(torch.version, "cuda", "13.0")
    setattr_(torch.backends.cudnn, "version", lambda: 91002)
    setattr_(torch.cuda.profiler, "start", lambda: (device.state.call("profiler.start"), device.start_window())[0])
    setattr_(torch.cuda.profiler, "stop", lambda: (device.stop_window(), device.state.call("profiler.stop"))[0])
    _install_accelerator(setattr_)
    _install_autocast(setattr_)
    _install_kineto(setattr_)
    _install_data_parallel(setattr_)
    _install_distributed(setattr_)
    # On GPUs, optimizers update many parameters in one call, which takes no mix of tensors and DTensors.
    setattr_(sys.modules["torch.optim.optimizer"], "_get_foreach_kernels_supported_devices", lambda: ["cuda", "cpu"])
    setattr_(torch.nn.Module, "compile", lambda self, *_args, **_options: device.state.call("compile"))
    run = threading.Thread.run

    def run_with_cuda(self):
        with tensors.CudaOnCpu():
            run(self)

    setattr_(threading.Thread, "run", run_with_cuda)
    return state


def _logged(name, function, words=0):
    def wrapper(*args, **kwargs):
        device.state.call(f"cuda.{name}", *args[:words])
        return function(*args, **kwargs)

    return wrapper


def _unmodeled(name):
    def wrapper(*_args, **_kwargs):
        raise BrokenRuleError(f"torch.cuda.{name} is called, and tests/collect/fake_cuda does not model it")

    return wrapper


def _install_accelerator(setattr_):
    setattr_(torch.accelerator, "is_available", lambda: device.state.gpus > 0)
    setattr_(torch.accelerator, "current_accelerator", lambda check_available=False: torch.device("cuda"))
    setattr_(torch.accelerator, "current_stream", device.Stream)
    setattr_(torch.accelerator, "device_index", device.OnDevice)
    setattr_(torch.accelerator, "current_device_index", lambda: device.state.current)
    setattr_(torch.accelerator, "set_device_index", device.set_device)


def _install_autocast(setattr_):
    """Enter the CPU's autocast with the dtype of the GPU's, which CPU tensors would ignore."""
    autocast = torch.amp.autocast_mode.autocast
    enter, leave = autocast.__enter__, autocast.__exit__

    def entered(self):
        result = enter(self)
        if self.device == "cuda":
            self._before = device.state.autocast_dtype
            if threading.current_thread() is threading.main_thread():
                device.state.autocast_dtype = self.fast_dtype if self._enabled else None
                device.state.call("autocast", str(self.fast_dtype).removeprefix("torch."))
            self._of_cpu = autocast("cpu", self.fast_dtype, enabled=self._enabled)
            self._of_cpu.__enter__()
        return result

    def left(self, *words):
        if self.device == "cuda":
            self._of_cpu.__exit__(*words)
            if threading.current_thread() is threading.main_thread():
                device.state.autocast_dtype = self._before
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
            _note_settings(**options)
            super().__init__(activities=[each for each in activities if each != cuda], **options)

        def prepare_trace(self):
            device.state.call("kineto.prepare_trace")
            super().prepare_trace()

        def start_trace(self):
            device.state.refuse_teardown()
            device.state.call("kineto.start_trace")
            super().start_trace()
            device.start_window()

        def stop_trace(self):
            device.stop_window()
            detaches = os.environ.get("TEARDOWN_CUPTI") == "1"
            device.state.request_teardown(detaches=detaches)
            device.state.call("kineto.stop_trace", *["detaches CUPTI"] * detaches)
            super().stop_trace()

        def export_chrome_trace(self, path, **options):
            if device.state.recording:
                raise BrokenRuleError("a trace is exported while it is recorded")
            super().export_chrome_trace(path, **options)
            _add_kernels(Path(path))

    class RecordFunction(record_function):
        def __enter__(self):
            device.state.call("mark", self.name)
            device.state.step_is_open |= self.name.startswith("ProfilerStep#")
            return super().__enter__()

        def __exit__(self, *words):
            device.state.step_is_open &= not self.name.startswith("ProfilerStep#")
            super().__exit__(*words)

    setattr_(torch.profiler, "profile", Profile)
    setattr_(torch.profiler, "record_function", RecordFunction)


def _note_settings(experimental_config=None, **_options):
    """Note the experimental settings of a profile, where it has some."""
    if experimental_config is not None:
        device.state.call("kineto.experimental_config", *map(str, experimental_config.__getstate__()))


def _add_kernels(path):
    """Add a kernel for each operator that launches one, as text: to decode a trace takes longer than to record it."""
    before, start, events = path.read_text().partition('"traceEvents": [')
    kernels = []
    for name, ts, dur in _OP.findall(events):
        if name in _KERNELS:
            where = f'"pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}'
            args = f'{{"device": 0, "context": 1, "stream": 7, "correlation": {1000 + len(kernels)}}}'
            kernels.append(f'{{"ph": "X", "cat": "kernel", "name": "{_KERNELS[name]}", {where}, "args": {args}}},')
    path.write_text("".join([before, start, *kernels, events]))


_OP = re.compile(
    r'"cat":\s*"cpu_op",\s*"name":\s*"([^"]*)",\s*"pid":\s*\d+,\s*"tid":\s*\d+,\s*"ts":\s*([\d.]+),\s*"dur":\s*([\d.]+)'
)
_KERNELS = {"aten::mm": "gemm", "aten::addmm": "gemm_bias", "aten::bmm": "gemm_batched", "aten::copy_": "copy"}
_KERNELS |= {"aten::convolution": "convolution", "aten::add": "add", "aten::add_": "add"}


def _install_data_parallel(setattr_):
    """Run DataParallel's replicas on the CPU, in its own threads."""
    data_parallel = sys.modules["torch.nn.parallel.data_parallel"]  # the package has a function of this name

    def scatter(inputs, kwargs, device_ids, dim=0):
        for each in device_ids:
            device.state.ordinal(each)
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
        if device_ids != [device.state.current]:
            raise BrokenRuleError(
                f"DistributedDataParallel on {device_ids}, and the process on GPU {device.state.current}"
            )
        wrap(self, module, None, **options)

    setattr_(parallel.DistributedDataParallel, "__init__", wrap_on_cpu)

    join = distributed.init_process_group

    def join_through_gloo(backend=None, *, device_id=None, **options):
        if backend != "nccl":
            raise BrokenRuleError(f"ranks on GPUs communicate through {backend}")
        if device_id is not None and device.state.ordinal(device_id) != device.state.current:
            raise BrokenRuleError(f"the process group is of {device_id}, and the process on GPU {device.state.current}")
        device.state.call("nccl.init", "with a device" if device_id is not None else "without a device")
        join("gloo", **options)
        cards = [None] * distributed.get_world_size()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        own = (
            visible[device.state.current]
            if device.state.current < len(visible) and visible != [""]
            else str(device.state.current)
        )
        distributed.all_gather_object(cards, own)
        if len(set(cards)) < len(cards):
            raise RuntimeError("ncclInvalidUsage: Duplicate GPU detected : two ranks on one CUDA device")

    mesh = distributed.init_device_mesh

    def mesh_of_cpus(device_type, shape, **options):
        return mesh("cpu" if device_type == "cuda" else device_type, shape, **options)

    setattr_(distributed, "init_process_group", join_through_gloo)
    setattr_(distributed, "init_device_mesh", mesh_of_cpus)
