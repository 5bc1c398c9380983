"""The recorded window of a program: when a recording is due and when it is over; pure arithmetic."""

from dataclasses import asdict, dataclass
from typing import Any

from tracelab.errors import UsageError

LIMIT_STEPS = 20
"""Optimizer steps after which a recording ends that has no end of its own."""
LIMIT_S = 30.0
"""Seconds after which it ends."""


@dataclass(frozen=True)
class Window:
    """Conditions for the begin and the end of a recording; None leaves a condition out."""

    wait: int | None = None
    """Steps to skip before each recording."""
    active: int | None = None
    """Steps to record."""
    cycles: int = 1
    """Number of recordings; without meaning for recordings on demand."""
    after_s: float | None = None
    """Seconds to wait before each recording."""
    for_s: float | None = None
    """Seconds to record."""
    on_demand: bool = False
    """Whether each recording needs a request: a signal, or a file."""

    @property
    def steps_limit(self) -> int | None:
        """Steps after which a recording ends; None if seconds alone end it."""
        return self.active or (None if self.for_s else LIMIT_STEPS)

    @property
    def seconds_limit(self) -> float | None:
        """Seconds after which a recording ends; None if steps alone end it."""
        return self.for_s or (None if self.active else LIMIT_S)

    @property
    def begins_with_program(self) -> bool:
        """Whether the first recording begins before any step."""
        return not self.on_demand and not self.wait and not self.after_s and not self.active

    @property
    def follows_steps(self) -> bool:
        """Whether only the end of a step can begin a recording."""
        return bool(self.wait or self.active)

    @property
    def is_gated(self) -> bool:
        """Whether the start-up hook opens the window of nsys and ncu through the CUDA profiler API."""
        return self.follows_steps or self.on_demand

    @property
    def files(self) -> int | None:
        """Number of files of a process; None if it depends on requests."""
        return None if self.on_demand else self.cycles

    def is_due(self, steps: int, seconds: float, *, requested: bool) -> bool:
        """Return whether a recording begins now: `steps` and `seconds` since the program's begin, or the last one."""
        return steps >= (self.wait or 0) and seconds >= (self.after_s or 0) and (requested or not self.on_demand)

    def is_over(self, steps: int, seconds: float) -> bool:
        """Return whether the recording has ended after so many steps and seconds."""
        return (self.steps_limit is not None and steps >= self.steps_limit) or (
            self.seconds_limit is not None and seconds >= self.seconds_limit
        )

    def describe(self) -> str:
        """Return in words what is recorded."""
        ends = [
            _count_steps(self.steps_limit) if self.steps_limit else "",
            f"{self.seconds_limit:g} s" if self.seconds_limit else "",
        ]
        length = " or ".join(filter(None, ends))
        begins = [
            _count_steps(self.wait) if self.wait else "",
            f"{self.after_s:g} s" if self.after_s else "",
            "a request" if self.on_demand else "",
        ]
        begin = " and ".join(filter(None, begins))
        times = f", {self.cycles} times" if self.cycles > 1 and not self.on_demand else ""
        return f"{length} after {begin}{times}" if begin else f"the first {length}{times}"

    def as_json(self) -> dict[str, Any]:
        """Return the conditions as JSON values."""
        return asdict(self)


def _count_steps(steps: int) -> str:
    return f"{steps} optimizer step{'s' * (steps != 1)}"


def validate_window(window: Window) -> Window:
    """Return the window; raises UsageError for conditions that are impossible or exclude each other."""
    for name in ("wait", "active", "cycles", "after_s", "for_s"):
        value = getattr(window, name)
        kinds, kind = ((int, float), "number") if name.endswith("_s") else ((int,), "whole number")
        if value is None and name != "cycles":
            continue
        if isinstance(value, bool) or not isinstance(value, kinds):
            raise UsageError(f"--{name.replace('_', '-')} {value!r}: must be a {kind}, from 0 on")
        if not 0 <= value < float("inf"):
            raise UsageError(f"--{name.replace('_', '-')} {value}: must be a number from 0 on")
    if window.active == 0 or window.for_s == 0 or window.cycles == 0:
        raise UsageError("--active, --for-s and --cycles must be above 0, or nothing would be recorded")
    if window.on_demand and window.cycles > 1:
        raise UsageError("--on-demand records on each request; remove --cycles")
    if window.cycles > 1 and not (window.wait or window.after_s):
        raise UsageError("--cycles needs --wait or --after-s between the recordings")
    return window
