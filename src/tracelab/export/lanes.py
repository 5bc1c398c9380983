"""Assign lanes: events that overlap without nesting move to a lane beside their track; Perfetto would drop them."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Lanes:
    """Open events on the lanes of one track; events arrive track by track, by start, longer first."""

    track: int = -1
    open_until: list[list[int]] = field(default_factory=lambda: [[]])
    """By lane: end times of the open events, innermost last."""
    moved: int = 0
    """Number of events on a lane other than the first."""

    def place(
        self, tracks: Sequence[int], flat: Sequence[bool], starts: Sequence[int], ends: Sequence[int | None]
    ) -> list[tuple[int, int]]:
        """Return the events of a batch that need another lane: index in the batch, and lane."""
        moved = []
        for at, (track, start, end) in enumerate(zip(tracks, starts, ends, strict=True)):
            if track != self.track:
                self.track, self.open_until = track, [[]]
            if end is None:
                continue  # an instant
            first = self.open_until[0]
            while first and first[-1] <= start:
                first.pop()
            if not first or (first[-1] >= end and not flat[at]):
                first.append(end)
            else:
                moved.append((at, self._find_lane(start, end, flat=flat[at])))
        self.moved += len(moved)
        return moved

    def _find_lane(self, start: int, end: int, *, flat: bool) -> int:
        for lane, stack in enumerate(self.open_until[1:], start=1):
            while stack and stack[-1] <= start:
                stack.pop()
            if not stack or (stack[-1] >= end and not flat):
                stack.append(end)
                return lane
        self.open_until.append([end])
        return len(self.open_until) - 1
