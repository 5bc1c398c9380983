"""Which part of a run is recorded: pure arithmetic over steps, the same for every profiler."""

from dataclasses import dataclass

from tracelab.collect.settings import Settings


@dataclass(frozen=True)
class Schedule:
    """Recorded steps: `active` of them after `first`, `cycles` times, with `wait` left out in between."""

    window: str
    first: int
    active: int
    wait: int
    cycles: int

    def cycle(self, step: int) -> range | None:
        """The steps recorded together with this one, or None where it is not recorded."""
        length = self.wait + self.active
        number, place = divmod(step - self.first + self.wait, length)
        if step < self.first or number >= self.cycles or place < self.wait:
            return None
        begin = self.first + number * length
        return range(begin, begin + self.active)

    def begins(self, step: int) -> bool:
        """Whether recording begins with this step, or within it."""
        cycle = self.cycle(step)
        return cycle is not None and (self.window != "step" or step == cycle[0])

    def ends(self, step: int) -> bool:
        """Whether recording ends with this step, or within it."""
        cycle = self.cycle(step)
        return cycle is not None and (self.window != "step" or step == cycle[-1])

    @property
    def files(self) -> int:
        """How many files a profiler makes that writes one each time."""
        if self.window == "all":
            return 1
        return self.cycles * (1 if self.window == "step" else self.active)


def build_schedule(settings: Settings) -> Schedule:
    """The windows of a run; steps are numbered from the first of the warm-up."""
    return Schedule(
        settings.window,
        first=settings.warmup + settings.wait,
        active=settings.active_steps,
        wait=settings.wait,
        cycles=settings.cycles,
    )
