"""Stretches of time by key: of processes and threads, in which a row is in a scope or not."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_NO_TIMES = np.empty(0, np.int64)


class Stretches:
    """Stretches of time by key, made disjoint; each begins at its start and lasts to before its end."""

    def __init__(self, keys: Keys, starts: Times, ends: Times) -> None:
        self._by_key: dict[int, tuple[Times, Times]] = {}
        order = np.lexsort((starts, keys))
        keys, starts, ends = keys[order], starts[order], ends[order]
        changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
        for first, last in pairwise((0, *changes, len(keys)) if len(keys) else ()):
            self._by_key[int(keys[first])] = merge_stretches(starts[first:last], ends[first:last])

    @classmethod
    def from_bytes(cls, content: bytes) -> "Stretches":
        """Return the stretches that `to_bytes` wrote."""
        keys, starts, ends = np.frombuffer(content, np.int64).reshape(3, -1)
        return cls(keys.view(np.uint64), starts, ends)

    def to_bytes(self) -> bytes:
        """Return keys, starts and ends of all stretches."""
        keys = [np.full(len(starts), key, np.uint64) for key, (starts, _) in self._by_key.items()]
        times = [np.concatenate([_NO_TIMES, *each]) for each in zip(*self._by_key.values(), strict=True)]
        return b"".join(each.tobytes() for each in (*keys, *times))

    def of(self, key: int) -> tuple[Times, Times]:
        """Return starts and ends of the stretches of a key, in order."""
        return self._by_key.get(key, (_NO_TIMES, _NO_TIMES))

    def know(self, keys: Keys) -> Flags:
        """Return for each row whether its key has a stretch."""
        return np.isin(keys, np.array(list(self._by_key), np.uint64))

    def hold(self, keys: Keys, at_ns: Times) -> Flags:
        """Return for each row whether its instant lies in a stretch of its key."""
        held = np.zeros(len(keys), np.bool_)
        for key in np.unique(keys):
            starts, ends = self.of(int(key))
            if not len(starts):
                continue
            mine = keys == key
            at = at_ns[mine]
            place = np.searchsorted(starts, at, side="right") - 1
            held[mine] = (place >= 0) & (at < ends[place])
        return held


def merge_stretches(starts: Times, ends: Times) -> tuple[Times, Times]:
    """Return the union of stretches in the order of their starts."""
    latest = np.maximum.accumulate(ends)
    begins = np.r_[True, starts[1:] > latest[:-1]]
    return starts[begins], latest[np.r_[begins[1:], True]]
