"""GPU states from NVML, through nvidia-ml-py if installed."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tracelab.collect.machine.gpu import MHZ, Gpu, throttle_reasons, visible_device_entries, visible_gpus


class Nvml:
    """An open NVML session."""

    source = "nvml"
    least_interval_s = 0.02  # the driver updates its figures no faster

    def __init__(self, module: Any, environment: Mapping[str, str]) -> None:  # noqa: ANN401  an untyped module
        self._nvml = module
        self._environment = environment
        self._driver = self._query(lambda nvml: _text(nvml.nvmlSystemGetDriverVersion()))
        self._handles = self._open_handles()
        self._gpus = [self._describe_gpu(number, handle) for number, handle in enumerate(self._handles)]

    def cards(self) -> list[Gpu]:
        """Return the current state of every visible GPU."""
        gpus = [self._read_gpu(gpu, handle) for gpu, handle in zip(self._gpus, self._handles, strict=True)]
        return gpus if _slices(self._environment) else visible_gpus(gpus, self._environment)

    def close(self) -> None:
        """Shut NVML down."""
        self._query(lambda nvml: nvml.nvmlShutdown())

    def _open_handles(self) -> list[Any]:
        """Return the handles of all GPUs in bus order, or of the visible slices under MIG."""

        def of_slice(name: str) -> Any:  # noqa: ANN401
            return self._query(lambda nvml: nvml.nvmlDeviceGetHandleByUUID(name))

        def of_card(number: int) -> Any:  # noqa: ANN401
            return self._query(lambda nvml: nvml.nvmlDeviceGetHandleByIndex(number))

        if names := _slices(self._environment):
            return [of_slice(name) for name in names]
        return [of_card(number) for number in range(self._query(lambda nvml: nvml.nvmlDeviceGetCount()) or 0)]

    def _describe_gpu(self, number: int, handle: Any) -> Gpu:  # noqa: ANN401
        """Return what is read once of a GPU: each call goes to the driver, and samples need only what changes."""
        if handle is None:  # a GPU that this user may not open, or that fell off the bus
            return Gpu(number, self.source, driver=self._driver)

        get = self._query
        return Gpu(
            number,
            self.source,
            driver=self._driver,
            uuid=get(lambda nvml: _text(nvml.nvmlDeviceGetUUID(handle))),
            bus_id=get(lambda nvml: _text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
            name=get(lambda nvml: _text(nvml.nvmlDeviceGetName(handle))),
            compute_capability=get(lambda nvml: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            power_limit_w=get(lambda nvml: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            sm_clock_max_hz=get(lambda nvml: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * MHZ),
            sm_clock_set_hz=get(lambda nvml: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM) * MHZ),
            memory_clock_max_hz=get(lambda nvml: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM) * MHZ),
        )

    def _read_gpu(self, gpu: Gpu, handle: Any) -> Gpu:  # noqa: ANN401
        """Return a GPU with its current figures."""
        if handle is None:
            return gpu

        get = self._query
        memory = self._memory(handle)
        return replace(
            gpu,
            total_bytes=memory and int(memory.total),
            used_bytes=memory and int(memory.used),
            util_ratio=get(lambda nvml: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            power_w=get(lambda nvml: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            energy_j=get(lambda nvml: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000),
            sm_clock_hz=get(lambda nvml: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * MHZ),
            memory_clock_hz=get(lambda nvml: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * MHZ),
            temperature_c=self._temperature(handle),
            throttle_reasons=throttle_reasons(self._throttling(handle)),
        )

    def _memory(self, handle: Any) -> Any:  # noqa: ANN401
        """Return memory as nvidia-smi reports it: version 2 first, which since driver 510 excludes reserved memory."""
        second = self._query(lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
        return second or self._query(lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle))

    def _temperature(self, handle: Any) -> float | None:  # noqa: ANN401
        """Return the temperature from the current function, or with an older driver from the one CUDA 14 removes."""
        value = self._query(lambda nvml: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
        if value is None:
            value = self._query(lambda nvml: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return None if value is None else float(value)

    def _throttling(self, handle: Any) -> int | None:  # noqa: ANN401
        """Return the throttle bits by their current name ("event reasons", driver 535), or by the older one."""
        value = self._query(lambda nvml: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if value is None:
            value = self._query(lambda nvml: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return None if value is None else int(value)

    def _query(self, call: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """Return the result of an NVML call; None if GPU, driver or module version do not support it."""
        try:
            return call(self._nvml)
        except (self._nvml.NVMLError, AttributeError, TypeError):  # TypeError: an older module's fewer parameters
            return None


def open_nvml(environment: Mapping[str, str]) -> Nvml | None:
    """Open NVML; returns None without nvidia-ml-py or a driver."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        module.nvmlInit()
    except module.NVMLError:  # no driver, or one that does not match its library
        return None
    return Nvml(module, environment)


def _slices(environment: Mapping[str, str]) -> list[str]:
    """Return the visible entries if they name MIG slices by UUID."""
    names = visible_device_entries(environment) or []
    return names if any(name.startswith("MIG-") for name in names) else []


def _text(value: str | bytes) -> str:
    """Decode NVML's text; older modules return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
