"""Which rank each process of an export is."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tracelab.readers.diagnostics import DiagnosticCounts, rank_from_name
from tracelab.readers.nsys.export import Array
from tracelab.readers.nsys.string_table import map_distinct


@dataclass(frozen=True)
class Ranks:
    """Ranks by process, of those that used a GPU; other processes have the first of them."""

    by_pid: Mapping[int, int]
    only: int | None
    """The rank of every row, where there is but one."""

    @property
    def first(self) -> int:
        """The rank of a process that used no GPU."""
        return self.only if self.only is not None else min(self.by_pid.values())

    def column(self, pids: Array) -> Array:
        """The rank of each row."""

        def ranked(distinct: Array) -> Array:
            return pa.array([self.by_pid.get(pid, self.first) for pid in distinct.to_pylist()], pa.int32())

        return map_distinct(pids, ranked).fill_null(self.first)


def assign_ranks(pids: Iterable[int], path: Path, mpi: Mapping[int, int], diagnostics: DiagnosticCounts) -> Ranks:
    """The ranks of the processes that used a GPU: MPI's, else by process id; of a single one what the name says."""
    used = sorted(pids)
    if len(used) > 1:
        told = {pid: mpi[pid] for pid in used if pid in mpi}
        if len(set(told.values())) == len(used):
            return Ranks(told, None)
        diagnostics.note("ranks_by_pid", count=len(used))
        return Ranks({pid: rank for rank, pid in enumerate(used)}, None)
    said = mpi.get(used[0]) if used else next(iter(mpi.values()), None) if len(mpi) == 1 else None
    rank = rank_from_name(path) if said is None else said
    if rank is None:
        diagnostics.note("rank_assumed")
    only = rank or 0
    return Ranks(dict.fromkeys(used, only), only)
