"""Group rows that follow each other on a stream into chains, which a replay times as a whole."""

from dataclasses import dataclass

import numpy as np

from tracelab.paths.columns import NONE, Array

_LONG = 64
"""Longer chains are timed one by one, shorter ones together."""


@dataclass(frozen=True)
class Chains:
    """Chains of rows: each row but the first waits for the one before it and for its own launch, and for no other row.

    All launches of a chain follow the same moment of a thread. `head` is the first row of each chain and `length` its
    number of rows.
    """

    head: Array
    length: Array
    stream_ns: Array
    """Of each chain the time from its first row's end to its own, if no launch is late."""
    launch_ns: Array
    """Of each chain the least time from the moment that launches follow to its end; NONE of a single row."""
    behind: Array
    """Of each row the time from the first one's end to its own, if no launch is late."""
    launched: Array
    """Of each row the time from the moment that launches follow to the end by its own launch, less `behind`; NONE of
    the first."""

    def end_rows(self, end: Array, resumed: Array) -> Array:
        """Return the ends of all rows, from those of the first rows and the moments that launches follow, else NONE."""
        latest, step = self.launched.copy(), 1  # the latest launch so far
        place = np.arange(len(end)) - np.repeat(self.head, self.length)
        is_long = self.length > _LONG
        for since, length in zip(self.head[is_long].tolist(), self.length[is_long].tolist(), strict=True):
            some = latest[since : since + length]
            np.maximum.accumulate(some, out=some)
        while step < self.length[~is_long].max(initial=1):  # of twice as many rows each time
            np.maximum(latest[step:], latest[:-step], out=latest[step:], where=place[step:] >= step)
            step *= 2
        first: Array = np.repeat(end[self.head], self.length)
        launched = (place > 0) & (resumed != NONE)
        return self.behind + np.where(launched, np.maximum(first, resumed + latest), first)


def find_chains(follows: Array, own_ns: Array, launched_ns: Array) -> Chains:
    """Return the chains of rows, each with whether it belongs to the chain of the row before it.

    `own_ns` is the time from the end of the row before to a row's own end, `launched_ns` that from the moment which
    its launch follows.
    """
    rows = len(follows)
    head = np.flatnonzero(~follows)
    length = np.diff(head, append=rows)
    total = np.cumsum(np.where(follows, own_ns, 0))
    behind = total - np.repeat(total[head], length)
    launched = np.where(follows, launched_ns - behind, NONE)
    stream_ns = behind[head + length - 1]
    latest = np.maximum.reduceat(launched, head) if rows else stream_ns
    launch_ns = np.where(length > 1, latest + stream_ns, NONE)
    return Chains(head, length, stream_ns, launch_ns, behind, launched)
