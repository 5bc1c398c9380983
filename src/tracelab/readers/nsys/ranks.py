"""Assign ranks to the processes of an export."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.nsys.export import Array
from tracelab.readers.nsys.string_table import map_distinct


@dataclass(frozen=True)
class Ranks:
    """Ranks by process, for those that used a GPU; other processes have the first rank."""

    by_pid: Mapping[int, int]
    only: int | None
    """Rank of all rows if there is only one."""

    @property
    def first(self) -> int:
        """Return the rank of processes that used no GPU."""
        return self.only if self.only is not None else min(self.by_pid.values())

    def column(self, pids: Array) -> Array:
        """Return the rank of each row."""

        def look_up(distinct: Array) -> Array:
            return pa.array([self.by_pid.get(pid, self.first) for pid in distinct.to_pylist()], pa.int32())

        return map_distinct(pids, look_up).fill_null(self.first)


def assign_ranks(pids: Iterable[int], path: Path, mpi: Mapping[int, int], diagnostics: DiagnosticCounts) -> Ranks:
    """Assign ranks to the processes that used a GPU: MPI's, else by process id.

    For a single one, the rank in the name.
    """
    used = sorted(pids)
    if len(used) > 1:
        mpi_ranks = {pid: mpi[pid] for pid in used if pid in mpi}
        if len(set(mpi_ranks.values())) == len(used):
            return Ranks(mpi_ranks, None)
        diagnostics.note("ranks_by_pid", count=len(used))
        return Ranks({pid: rank for rank, pid in enumerate(used)}, None)
    mpi_rank = mpi.get(used[0]) if used else next(iter(mpi.values()), None) if len(mpi) == 1 else None
    rank = rank_from_name(path) if mpi_rank is None else mpi_rank
    if rank is None:
        diagnostics.note("rank_assumed")
    only = rank or 0
    return Ranks(dict.fromkeys(used, only), only)
