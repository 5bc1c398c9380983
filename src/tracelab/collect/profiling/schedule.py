"""The schedule of recorded steps: pure arithmetic, the same for every profiler."""

from dataclasses import dataclass

from tracelab.collect.settings import Settings


@dataclass(frozen=True)
class Schedule:
    """Recorded steps: `active` of them from `first` on, `cycles` times, skipping `wait` steps in between."""

    window: str
    first: int
    active: int
    wait: int
    cycles: int

    def cycle(self, step: int) -> range | None:
        """Return the steps recorded together with this one, or None if it is not recorded."""
        length = self.wait + self.active
        number, position = divmod(step - self.first + self.wait, length)
        if step < self.first or number >= self.cycles or position < self.wait:
            return None
        begin = self.first + number * length
        return range(begin, begin + self.active)

    def begins(self, step: int) -> bool:
        """Return whether recording begins with this step or within it."""
        cycle = self.cycle(step)
        return cycle is not None and (self.window != "step" or step == cycle[0])

    def ends(self, step: int) -> bool:
        """Return whether recording ends with this step or within it."""
        cycle = self.cycle(step)
        return cycle is not None and (self.window != "step" or step == cycle[-1])

    def describe_unfilled(self, steps: int, requested: int) -> str | None:
        """Return in words what a run of so many steps did not record of the requested steps; None if nothing."""
        begins = [self.first + number * (self.wait + self.active) for number in range(self.cycles)]
        begun = [step for step in begins if step < steps]
        if self.window == "all" or not begun:
            return None
        recorded = min(steps - begun[-1], self.active)
        if recorded < requested:
            of = f" of recording {len(begun)} of {self.cycles}" if self.cycles > 1 else ""
            return f"only {recorded} of {requested} steps{of} were recorded before the run ended"
        if len(begun) < self.cycles:
            return f"only {len(begun)} of {self.cycles} recordings began before the run ended"
        return None

    @property
    def files(self) -> int:
        """Number of files of a profiler that writes one per recording."""
        if self.window == "all":
            return 1
        return self.cycles * (1 if self.window == "step" else self.active)


def build_schedule(settings: Settings) -> Schedule:
    """Return the schedule of a run; steps count from the first warm-up step."""
    return Schedule(
        settings.window,
        first=settings.warmup + settings.wait,
        active=settings.active_steps,
        wait=settings.wait,
        cycles=settings.cycles,
    )
