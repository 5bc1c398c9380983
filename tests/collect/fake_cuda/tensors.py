"""Tensors that would be on a GPU: they stay on the CPU and carry a mark, which what is computed from them inherits."""

import threading

import torch
from torch.overrides import TorchFunctionMode

from tests.collect.fake_cuda import BrokenRuleError, device

_PRODUCTS = {"linear", "conv2d", "matmul", "mm", "bmm", "addmm", "__matmul__", "scaled_dot_product_attention"}
_HOST_READS = {"item", "tolist", "__bool__", "__float__", "__int__", "cpu", "numpy"}


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
            device.state.submit()
        on_gpu = target == "cuda" or (target is None and was_on_gpu and name not in _HOST_READS)
        if name == "copy_":
            on_gpu = is_marked(output)
        elif output is (args or (None,))[0] and target is not None:  # CUDA copies, and the CPU returns the same tensor
            output = output.view_as(output)
        if on_gpu:
            for each in _flat((output,)):
                _mark(each)
        elif was_on_gpu and name in ("copy_", "to") and not kwargs.get("non_blocking"):
            device.state.wait_for_host(name)
        return output

    def _check(self, name, args, *, pins):
        if name in _HOST_READS and is_marked(args[0]):
            device.state.wait_for_host(name)
        if name == "pin_memory" or pins:
            if device.state.capturing:
                raise RuntimeError("CUDA error: operation not permitted when stream is capturing (cudaHostAlloc)")
            device.state.call("pinned")
        if name in _PRODUCTS:
            self._check_autocast(name)
            device.state.tell_profiler(f"kernel {name}")

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
            target = torch.device(each) if isinstance(each, str) else each
            if target.type == "cuda":
                device.state.ordinal(target)
            return target.type
        return None

    def _check_autocast(self, name):
        if threading.current_thread() is threading.main_thread() or not torch.is_autocast_enabled("cuda"):
            return
        dtype = torch.get_autocast_dtype("cuda")
        if device.state.autocast_dtype is not None and dtype != device.state.autocast_dtype:
            raise BrokenRuleError(
                f"a replica computes {name} in {dtype}, and the program in {device.state.autocast_dtype}"
            )


def is_marked(tensor):
    """Return whether a tensor would be on a GPU."""
    return isinstance(tensor, torch.Tensor) and getattr(tensor, "_on_gpu", False)


def _mark(tensor):
    if not isinstance(tensor, torch.Tensor):
        return
    if not is_marked(tensor) and not device.state.replaying:
        device.state.allocated[device.state.current] = (
            device.state.allocated.get(device.state.current, 0) + tensor.nbytes
        )
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


def make_graphed_callables(network, sample_args, **_options):
    """Capture a module: later training calls must repeat the shapes of the sample."""
    shapes = [(tuple(each.shape), each.dtype) for each in sample_args]
    if not all(map(is_marked, sample_args)):
        raise RuntimeError("CUDA error: a graph is captured over tensors that are not on the GPU")
    forward = network.forward
    device.state.capturing = True
    try:
        forward(*sample_args).sum().backward()
        network.zero_grad(set_to_none=True)
    finally:
        device.state.capturing = False
    device.state.graphs += 1

    def replay(*inputs):
        if not network.training:
            return forward(*inputs)
        if [(tuple(each.shape), each.dtype) for each in inputs] != shapes:
            raise RuntimeError(f"a CUDA graph of {shapes} cannot replay {[tuple(each.shape) for each in inputs]}")
        device.state.call("graph.replay")
        device.state.replaying = True
        try:
            return forward(*inputs)
        finally:
            device.state.replaying = False

    network.forward = replay
    return network
