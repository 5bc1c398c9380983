"""Why a rank comes late to a collective: an exact sum over what it did, compared with a brute-force oracle."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import groupby, pairwise
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from job_simulator import Job as SimulatedJob
from job_simulator import LoaderStall, SlowCompute, simulate
from tests.memory import MemoryStore
from tests.properties import examples
from tests.ranks import kernel, note
from tests.simulated import stored_tables

GROUPS = ((0, 1, 2, 3), (0, 1), (2, 3), (0, 2), (1, 3))
NAMES = {"gemm": "volta_sgemm_128x32_nt", "attention": "flash_fwd_kernel", "norm": "layer_norm_kernel"}
MIN_GAP_NS = 5
Charges = Counter[tuple[int, str, str | None]]


@dataclass(frozen=True)
class Row:
    """A row of a device: compute (layer 0), communication (1) or copies (2)."""

    start: int
    end: int
    layer: int
    detail: str
    launched: int | None


@dataclass
class Job:
    """Ranks whose clocks agree: what each device runs, and the collectives with each rank's entry."""

    rows: dict[int, list[Row]] = field(default_factory=lambda: defaultdict(list))
    collectives: list[dict[int, int]] = field(default_factory=list)
    kernels: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    known: dict[tuple[int, int], Charges] = field(default_factory=dict)
    states: dict[tuple[int, int], tuple[str, str | None]] = field(default_factory=dict)

    def add(
        self, rank: int, start: int, end: int, detail: str, launched: int | None, stream: int = 7
    ) -> dict[str, Any]:
        """Add a row, with the call that launched it, and return it as a row of its table."""
        correlation = len(self.kernels) + len(self.copies)
        layer = {"memcpy": 2, "all_reduce": 1}.get(detail, 0)
        self.rows[rank].append(Row(start, end, layer, detail, launched))
        placed = {"pid": rank, "correlation": correlation, "stream": stream}
        if launched is not None:
            call = {"rank": rank, "pid": rank, "tid": 1, "api": "runtime", "correlation": correlation}
            self.calls.append(call | {"name": "cudaLaunchKernel", "start_ns": launched - 3, "dur_ns": 3})
        if detail == "memcpy":
            self.copies.append(
                {"rank": rank, "device": 0, "start_ns": start, "dur_ns": end - start, "direction": "HtoD"} | placed
            )
            return self.copies[-1]
        name = {"name": NAMES[detail]} if detail in NAMES else {}
        self.kernels.append(kernel(rank, start, end) | placed | name)
        return self.kernels[-1]

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        return {"kernels": self.kernels, "collectives": self.notes, "api_calls": self.calls, "memcpys": self.copies}

    @cached_property
    def last(self) -> list[int]:
        return [min(rank for rank, at in each.items() if at == max(each.values())) for each in self.collectives]

    def begin(self, number: int, waiter: int) -> int:
        """When the waiting rank and the last one were together; without a meeting, the first row of either."""
        pair = {waiter, self.last[number]}
        met = [
            max(other.values())
            for other in self.collectives
            if pair <= set(other) and max(other.values()) < self.collectives[number][waiter]
        ]
        return max(met, default=min(row.start for rank in pair for row in self.rows[rank]))

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Return all waits, as collective and waiting rank."""
        return [
            (number, rank)
            for number, each in enumerate(self.collectives)
            for rank, entry in each.items()
            if entry < max(each.values())
        ]

    @cached_property
    def all_cuts(self) -> dict[int, set[int]]:
        cuts: dict[int, set[int]] = {rank: set() for rank in range(4)}
        for number, waiter in self.pairs:
            entries = self.collectives[number]
            for rank in (waiter, self.last[number]):
                cuts[rank] |= {self.begin(number, waiter), entries[rank]}
            cuts[waiter].add(max(entries.values()))
        return cuts

    def state(self, rank: int, at: int) -> tuple[str, str | None]:
        """Return what the rank does in the nanosecond from `at` on."""
        if (rank, at) not in self.states:
            self.states[rank, at] = self._state(rank, at)
        return self.states[rank, at]

    def _state(self, rank: int, at: int) -> tuple[str, str | None]:
        order = sorted(self.rows[rank], key=lambda row: (row.layer, row.start, -row.end))
        running = [row for row in order if row.start <= at < row.end]
        if running:
            layer = running[0].layer
            return ("compute", "communication", "copies")[layer], running[0].detail
        coming = min(row.start for row in order if row.start > at)
        edges = self.all_cuts[rank] | {row.end for row in order}
        start, end = max(edge for edge in edges if edge <= at), min({coming, *(edge for edge in edges if edge > at)})
        if end <= min(row.start for row in order):
            return "start", None
        launches = [row.launched for row in order if row.start == coming and row.launched is not None]
        if not launches:
            return "unknown", None
        if min(launches) > start:
            return "host", None
        return ("dependency" if end - start > MIN_GAP_NS else "overhead"), None

    def computes_across(self, rank: int, at: int) -> bool:
        return {self.state(rank, at - 1)[0], self.state(rank, at)[0]} == {"compute"}

    @cached_property
    def inherited(self) -> dict[int, list[tuple[int, int, int]]]:
        """Return the waits that delayed each rank: entry, end and collective."""
        kept: dict[int, list[tuple[int, int, int]]] = {}
        for rank in range(4):
            ended = sorted(
                (max(each.values()), each[rank], number)
                for number, each in enumerate(self.collectives)
                if rank in each and self.last[number] != rank and each[rank] < max(each.values())
            )
            open_waits = [
                wait for wait in ended if wait[0] == max(self.all_cuts[rank]) or not self.computes_across(rank, wait[0])
            ]
            kept[rank] = [
                (entry, end, number)
                for place, (end, entry, number) in enumerate(open_waits)
                if all(later[1] >= end for later in open_waits[place + 1 :])
            ]
        return kept

    def charges(self, number: int, waiter: int) -> Charges:
        """Return what one rank's wait is charged to, back through the waits that it inherited."""
        if (number, waiter) in self.known:
            return self.known[number, waiter]
        charges: Charges = Counter()
        for rank, weight in ((self.last[number], 1), (waiter, -1)):
            begin, end = self.begin(number, waiter), self.collectives[number][rank]
            carried = [wait for wait in self.inherited[rank] if begin <= wait[0] and wait[1] <= end]
            for at in range(begin, end):
                if any(entry <= at < until for entry, until, _ in carried):
                    continue
                inside = any(entry <= at < until for entry, until, _ in self.inherited[rank])
                cause, detail = ("wait", None) if inside else self.state(rank, at)
                charges[self.last[number], cause, detail] += weight
            for _, _, source in carried:
                for key, value in self.charges(source, rank).items():
                    charges[key] += weight * value
        self.known[number, waiter] = charges
        return charges


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    job = Job()
    now, busy = [draw(st.integers(100, 104)) for _ in range(4)], Counter[tuple[int, ...]]()
    for number in range(draw(st.integers(2, 6))):
        members = draw(st.sampled_from(GROUPS))
        for rank in members:
            for _ in range(draw(st.integers(0, 2))):
                start = now[rank] + draw(st.sampled_from((0, 0, 3, 8)))
                now[rank] = start + draw(st.integers(1, 9))
                launched = draw(st.sampled_from((None, start - 2, start - 40)))
                job.add(rank, start, now[rank], draw(st.sampled_from((*NAMES, "memcpy"))), launched)
        _enter(job, members, now, busy, number, computes=draw(st.booleans()))
    _enter(job, GROUPS[0], now, busy, 99, computes=False)
    return job


def _enter(
    job: Job, members: tuple[int, ...], now: list[int], busy: Counter[tuple[int, ...]], seq: int, *, computes: bool
) -> None:
    """Add a collective; with `computes`, the ranks go on meanwhile."""
    entries = {rank: max(now[rank], busy[members]) for rank in members}
    busy[members] = max(entries.values()) + 4
    job.collectives.append(entries)
    for rank, entry in entries.items():
        row = job.add(rank, entry, busy[members], "all_reduce", entry - 30, 20 + GROUPS.index(members))
        noted = {"group_name": str(GROUPS.index(members)), "group_ranks": list(members), "pid": rank}
        job.notes.append(note(row, seq, len(members), **noted))
        if not computes:
            now[rank] = busy[members]


def answers(memory: MemoryStore, job: Job) -> list[dict[str, Any]]:
    return memory.filled(job.tables()).query("straggler_causes", min_gap_ns=MIN_GAP_NS).to_pylist()


def charged(rows: Sequence[dict[str, Any]]) -> Charges:
    return Counter({(row["rank"], row["cause"], row["detail"]): row["cost_ns"] for row in rows if row["cost_ns"]})


@given(jobs())
@examples(8)
def test_causes_are_those_of_a_walk_through_every_nanosecond(memory: MemoryStore, job: Job) -> None:
    expected: Charges = Counter()
    for number, rank in job.pairs:
        for key, value in job.charges(number, rank).items():
            expected[key] += value
    rows = answers(memory, job)
    assert charged(rows) == {key: value for key, value in expected.items() if value}
    waits = sum(max(each.values()) - entry for each in job.collectives for entry in each.values())
    assert sum(row["cost_ns"] for row in rows) == waits
    assert_waits_are_divided(rows)


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Divide a total in proportion to weights, rounded by the largest remainders."""
    exact = [Fraction(total * weight, sum(weights)) if sum(weights) else Fraction(0) for weight in weights]
    shares = [int(each) for each in exact]
    largest = sorted(range(len(weights)), key=lambda at: (shares[at] - exact[at], at))
    for at in largest[: total - sum(shares)] if sum(weights) else []:
        shares[at] += 1
    return shares


def assert_waits_are_divided(rows: Sequence[dict[str, Any]]) -> None:
    """All waits are divided among the causes of ranks above 0, and what a cause has among its rows above 0."""
    ordered = sorted(
        (row for row in rows if row["cause"]),
        key=lambda row: (row["rank"], row["cause"], row["detail"] is None, row["detail"]),
    )
    causes = [list(each) for _, each in groupby(ordered, key=lambda row: (row["rank"], row["cause"]))]
    waits = sum(row["cost_ns"] for row in ordered)
    weights = [max(0, sum(row["cost_ns"] for row in cause)) for cause in causes]
    for cause, share in zip(causes, apportion(waits, weights), strict=True):
        assert {row["cause_charged_ns"] for row in cause} == {share}
        assert [row["charged_ns"] for row in cause] == apportion(share, [max(0, row["cost_ns"]) for row in cause])
    assert sum(row["charged_ns"] for row in rows) == waits


def test_a_wait_in_another_group_is_charged_to_the_rank_that_caused_it(memory: MemoryStore) -> None:
    """Rank 1 computes 50 ns longer, rank 0 waits for it, and ranks 2 and 3 wait for both: all because of rank 1."""
    job = Job()
    now, busy = [0, 0, 0, 0], Counter[tuple[int, ...]]()
    for seq in (1, 2):
        for rank in range(4):
            long = 50 if rank == 1 and seq == 2 else 0
            job.add(rank, now[rank], now[rank] + 100 + long, "gemm", now[rank] - 60)
            now[rank] += 100 + long
        for members in GROUPS[1:3]:
            _enter(job, members, now, busy, seq, computes=False)
        for rank in range(4):
            job.add(rank, now[rank], now[rank] + 20, "norm", now[rank] - 60)
            now[rank] += 20
        _enter(job, GROUPS[0], now, busy, seq, computes=False)
    row = answers(memory, job)[0]
    assert (row["rank"], row["cause"], row["detail"], row["cost_ns"]) == (1, "compute", "gemm", 3 * 50)
    assert (row["direct_ns"], row["inherited_ns"]) == (50, 100)


def test_causes_of_a_simulated_job_are_those_that_the_simulator_accounts_for(memory: MemoryStore) -> None:
    """Without subgroups no wait is inherited.

    What is before a rank's first row is the host's in the simulator, and so is waiting for data: three ranks wait for
    the stall of the loader.
    """
    simulation = simulate(
        SimulatedJob(ranks=4, steps=2, layers=1, seed=3, delays=(SlowCompute(2, 130), LoaderStall(1, 1, 10**7)))
    )
    expected = Counter[tuple[int, str]]()
    for collective in simulation.collectives:
        approaches = simulation.approaches(collective)
        for rank, wait_ns in collective.waits_ns.items():
            for cause in ("compute", "communication", "copies", "host", "dependency", "overhead") if wait_ns else ():
                late, waiting = (getattr(approaches[each], f"{cause}_ns") for each in (collective.last_rank, rank))
                expected[collective.last_rank, cause] += late - waiting
    answer = Counter[tuple[int, str]]()
    rows = memory.filled(stored_tables(simulation)).query("straggler_causes").to_pylist()
    for row in rows:
        if row["cause"]:
            answer[row["rank"], "host" if row["cause"] in ("start", "data") else row["cause"]] += row["cost_ns"]
    assert {row["rank"]: row["cost_ns"] for row in rows if row["cause"] == "data" and row["cost_ns"] > 10**6} == {
        1: pytest.approx(3 * 10**7, rel=0.01)
    }
    assert +answer == +expected
    assert -answer == -expected


@given(st.lists(st.tuples(*[st.integers(0, 30)] * 4), min_size=1, max_size=4))
@examples(8)
def test_what_stages_add_to_the_frontier_adds_up_to_the_step(
    memory: MemoryStore, ranks: list[tuple[int, int, int, int]]
) -> None:
    tables: dict[str, list[dict[str, Any]]] = {"kernels": [], "memcpys": [], "annotations": []}
    for rank, (idle, copies, compute, communication) in enumerate(ranks):
        at = [1000 * rank + sum((idle + 1, copies, compute, communication)[:stage]) for stage in range(1, 5)]
        placed = {"rank": rank, "device": 0, "stream": 7}
        tables["memcpys"].append(placed | {"start_ns": at[0], "dur_ns": copies, "direction": "HtoD"})
        tables["kernels"] += [kernel(rank, at[1], at[2], name=NAMES["gemm"]), kernel(rank, at[2], at[3])]
        step = {"scope": "cpu", "name": "ProfilerStep#3", "start_ns": 1000 * rank, "dur_ns": at[3] - 1000 * rank}
        tables["annotations"].append({"rank": rank} | step)
    so_far = [
        [idle + 1, idle + 1 + copies, idle + 1 + copies + compute, 1 + sum(ranks[rank])]
        for rank, (idle, copies, compute, _) in enumerate(ranks)
    ]
    frontier = [0, *(max(each[stage] for each in so_far) for stage in range(4))]
    answer = memory.filled(tables).query("step_frontier").to_pylist()
    assert [row["exposed_ns"] for row in answer] == [later - before for before, later in pairwise(frontier)]
    leaders = [max(range(len(ranks)), key=lambda rank: (so_far[rank][stage], -rank)) for stage in range(4)]
    assert [row["leader"] for row in answer] == leaders
    assert {row["step_ns"] for row in answer} == {frontier[-1]}


@pytest.mark.parametrize(
    ("job", "rank", "cause"),
    [
        (SimulatedJob(tensor=2, layers=2, seed=1, delays=(SlowCompute(5, 140),)), 5, "compute"),
        (SimulatedJob(pipeline=2, tensor=2, layers=1, seed=3, delays=(LoaderStall(2, 1, 4_000_000),)), 2, "data"),
    ],
)
def test_a_cause_costs_about_the_waits_that_vanish_without_it(
    memory: MemoryStore, job: SimulatedJob, rank: int, cause: str
) -> None:
    """Also through tensor groups and the sends of a pipeline; the rest are delays that it had hidden."""
    simulation = simulate(job)
    waits, without = (
        sum(totals.wait_ns for totals in each.totals().values())
        for each in (simulation, simulation.without(*job.delays))
    )
    rows = memory.filled(stored_tables(simulation)).query("straggler_causes").to_pylist()
    assert (rows[0]["rank"], rows[0]["cause"]) == (rank, cause)
    assert sum(row["cost_ns"] for row in rows) == waits
    assert_waits_are_divided(rows)
    cost = sum(row["cost_ns"] for row in rows if (row["rank"], row["cause"]) == (rank, cause))
    assert cost == pytest.approx(waits - without, rel=0.05)
