"""Events of a trace that wait to be mapped together: a query costs the same to plan however many it is asked of."""

import threading
from dataclasses import dataclass, field

import pyarrow as pa

_MAY_KEEP_BYTES = 64 << 20
"""What events that are alike may keep in memory while they wait."""

_ALL_MAY_KEEP_BYTES = 3 * _MAY_KEEP_BYTES

_WORTH_MAPPING = 20_000
"""Events that take longer to map than their query takes to plan."""

Alike = tuple[int, tuple[str, ...]]
"""What events have in common that are mapped together: their kind, and the types of process and thread."""


@dataclass
class _Alike:
    """Events that are mapped together."""

    parts: list[pa.Table] = field(default_factory=list)
    events: int = 0
    kept_bytes: int = 0

    def add(self, part: pa.Table) -> None:
        self.parts.append(part)
        self.events += len(part)
        self.kept_bytes += part.get_total_buffer_size()


class Waiting:
    """Events that wait, of all threads of a file, until those that are alike, or all, keep too much memory."""

    def __init__(self, readers: int) -> None:
        self._alike: dict[Alike, _Alike] = {}
        self._readers = readers
        self._changed = threading.Condition()

    def add(self, alike: Alike, events: pa.Table) -> tuple[int, list[pa.Table]] | None:
        """Let these events wait; gives those that shall wait no longer, with their kind."""
        with self._changed:
            self._alike.setdefault(alike, _Alike()).add(events)
            self._changed.notify()
            heaviest = max(self._alike, key=lambda key: self._alike[key].kept_bytes)
            kept_bytes = sum(waiting.kept_bytes for waiting in self._alike.values())
            if self._alike[heaviest].kept_bytes >= _MAY_KEEP_BYTES or kept_bytes >= _ALL_MAY_KEEP_BYTES:
                return self._pop(heaviest)
        return None

    def reader_ended(self) -> None:
        """One of the threads that read the file has read its last piece."""
        with self._changed:
            self._readers -= 1
            self._changed.notify_all()

    def take(self) -> tuple[int, list[pa.Table]] | None:
        """The most numerous events that still wait, with their kind; None when there are no more.

        While a piece is still being read, few events are left to wait for more that are like them.
        """
        with self._changed:
            while self._alike or self._readers:
                most = max(self._alike, key=lambda key: self._alike[key].events, default=None)
                if most and (not self._readers or self._alike[most].events >= _WORTH_MAPPING):
                    return self._pop(most)
                self._changed.wait()
        return None

    def _pop(self, alike: Alike) -> tuple[int, list[pa.Table]]:
        return alike[0], self._alike.pop(alike).parts
