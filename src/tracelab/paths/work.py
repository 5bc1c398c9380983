"""Measure the work of threads within their bursts, as recorded or with other times of segments."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tracelab.paths.columns import Array
from tracelab.paths.threads import Segments


class Work(Protocol):
    """The work of each burst in its segments, from the end of its wait on."""

    @property
    def total(self) -> Array:
        """Return the work of each burst."""

    def before(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst before each of its segments."""

    def until(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst until the end of each of its segments."""


@dataclass(frozen=True)
class RecordedWork:
    """The work of bursts as recorded: the time since each went on."""

    segments: Segments
    head: Array
    since: Array

    @property
    def total(self) -> Array:
        """Return the work of each burst."""
        if not len(self.head):
            return self.since
        total: Array = self.segments.end[_last_segments(self.head, len(self.segments.end))] - self.since
        return total

    def before(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst before each of its segments."""
        is_head = segments == self.head[bursts]
        return np.where(is_head, 0, self.segments.start[segments] - self.since[bursts])

    def until(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst until the end of each of its segments."""
        work: Array = self.segments.end[segments] - self.since[bursts]
        return work


class ChangedWork:
    """The work of bursts whose segments take other times."""

    def __init__(self, head: Array, own_ns: Array) -> None:
        """Add up the times that segments take by themselves."""
        self._head, self._own_ns = head, own_ns
        self._until = np.cumsum(own_ns)
        self._first = self._until[head] - own_ns[head]

    @property
    def total(self) -> Array:
        """Return the work of each burst."""
        if not len(self._head):
            return self._head
        total: Array = self._until[_last_segments(self._head, len(self._until))] - self._first
        return total

    def before(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst before each of its segments."""
        work: Array = self._until[segments] - self._own_ns[segments] - self._first[bursts]
        return work

    def until(self, segments: Array, bursts: Array) -> Array:
        """Return the work of a burst until the end of each of its segments."""
        work: Array = self._until[segments] - self._first[bursts]
        return work


def _last_segments(head: Array, segments: int) -> Array:
    """Return the last segment of each burst."""
    return np.append(head[1:], segments) - 1


def own_times(segments: Segments, head: Array, since: Array) -> Array:
    """Return the time that each segment takes by itself, behind the wait of the burst that it begins."""
    own_ns = segments.end - segments.start
    own_ns[head] = segments.end[head] - since
    return own_ns
