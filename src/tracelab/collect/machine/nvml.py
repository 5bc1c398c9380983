"""Cards by NVML, through nvidia-ml-py where it is installed."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from tracelab.collect.machine.gpu import MHZ, Gpu, throttle_reasons, visible_device_entries, visible_gpus


class Nvml:
    """NVML, open until `close`."""

    said_by = "nvml"
    least_interval_s = 0.02  # the driver refreshes its own figures no faster

    def __init__(self, module: Any, environment: Mapping[str, str]) -> None:  # noqa: ANN401  an untyped module
        self._nvml = module
        self._environment = environment
        self._driver = self._asked(lambda nvml: _text(nvml.nvmlSystemGetDriverVersion()))
        self._handles = self._opened()

    def cards(self) -> list[Gpu]:
        """Every visible card as it is now."""
        if _slices(self._environment):
            return [self._card(ordinal, handle) for ordinal, handle in enumerate(self._handles)]
        return visible_gpus(
            [self._card(number, handle) for number, handle in enumerate(self._handles)], self._environment
        )

    def close(self) -> None:
        """Let NVML go."""
        self._asked(lambda nvml: nvml.nvmlShutdown())

    def _opened(self) -> list[Any]:
        """Handles of all cards in the order of the bus; of the visible slices, where MIG cuts cards into such."""

        def of_slice(name: str) -> Any:  # noqa: ANN401
            return self._asked(lambda nvml: nvml.nvmlDeviceGetHandleByUUID(name))

        def of_card(number: int) -> Any:  # noqa: ANN401
            return self._asked(lambda nvml: nvml.nvmlDeviceGetHandleByIndex(number))

        if names := _slices(self._environment):
            return [of_slice(name) for name in names]
        return [of_card(number) for number in range(self._asked(lambda nvml: nvml.nvmlDeviceGetCount()) or 0)]

    def _card(self, number: int, handle: Any) -> Gpu:  # noqa: ANN401
        if handle is None:  # a card that another user may not open, or that fell off the bus
            return Gpu(number, self.said_by, driver=self._driver)

        def ask(question: Callable[[Any], Any]) -> Any:  # noqa: ANN401
            return self._asked(question)

        memory = self._memory(handle)
        return Gpu(
            number,
            self.said_by,
            driver=self._driver,
            uuid=ask(lambda nvml: _text(nvml.nvmlDeviceGetUUID(handle))),
            bus_id=ask(lambda nvml: _text(nvml.nvmlDeviceGetPciInfo(handle).busId)),
            name=ask(lambda nvml: _text(nvml.nvmlDeviceGetName(handle))),
            compute_capability=ask(lambda nvml: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
            total_bytes=memory and int(memory.total),
            used_bytes=memory and int(memory.used),
            util_ratio=ask(lambda nvml: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            power_w=ask(lambda nvml: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            power_limit_w=ask(lambda nvml: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            sm_clock_hz=ask(lambda nvml: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * MHZ),
            sm_clock_max_hz=ask(lambda nvml: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * MHZ),
            sm_clock_set_hz=ask(lambda nvml: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM) * MHZ),
            memory_clock_hz=ask(lambda nvml: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * MHZ),
            memory_clock_max_hz=ask(lambda nvml: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM) * MHZ),
            temperature_c=self._temperature(handle),
            throttle_reasons=throttle_reasons(self._throttling(handle)),
        )

    def _memory(self, handle: Any) -> Any:  # noqa: ANN401
        """As nvidia-smi says it: since driver 510 without what the driver reserves, so version 2 is asked first."""
        second = self._asked(lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2))
        return second or self._asked(lambda nvml: nvml.nvmlDeviceGetMemoryInfo(handle))

    def _temperature(self, handle: Any) -> float | None:  # noqa: ANN401
        """By the function of today; by the one that CUDA 14 is to drop, where the driver is older."""
        found = self._asked(lambda nvml: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU))
        if found is None:
            found = self._asked(lambda nvml: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return None if found is None else float(found)

    def _throttling(self, handle: Any) -> int | None:  # noqa: ANN401
        """By the name of today ("event reasons", driver 535), else by the one before."""
        found = self._asked(lambda nvml: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
        if found is None:
            found = self._asked(lambda nvml: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        return None if found is None else int(found)

    def _asked(self, question: Callable[[Any], Any]) -> Any:  # noqa: ANN401
        """What NVML answers; None where the card, the driver or the module's version has no answer."""
        try:
            return question(self._nvml)
        except (self._nvml.NVMLError, AttributeError, TypeError):  # TypeError: an older module's fewer parameters
            return None


def open_nvml(environment: Mapping[str, str]) -> Nvml | None:
    """NVML, where nvidia-ml-py and a driver are there."""
    try:
        module = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        module.nvmlInit()
    except module.NVMLError:  # no driver, or one that does not fit its library
        return None
    return Nvml(module, environment)


def _slices(environment: Mapping[str, str]) -> list[str]:
    """The visible entries, where they name slices of cards by their own UUIDs."""
    names = visible_device_entries(environment) or []
    return names if any(name.startswith("MIG-") for name in names) else []


def _text(value: str | bytes) -> str:
    """NVML's text; earlier modules gave bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
