"""The rows of a scope are those of a plain comparison: each row with each stretch."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import build_store
from tests.properties import examples
from tracelab.client import Lab
from tracelab.collect.recording.recorder import PROGRAM_START
from tracelab.errors import NoDataError
from tracelab.store.scope.request import Scope

Recording = dict[str, list[dict[str, Any]]]


def random_recording(seed: int) -> Recording:
    """Return rows of two ranks whose times collide, with NULL where a source may have it."""
    rng = random.Random(seed)

    def place(**values: Any) -> dict[str, Any]:
        rank = rng.randrange(2)
        known = {"source": f"s{rank}", "rank": rank, "pid": 10 + rank}
        return known | {"start_ns": rng.randrange(100), "dur_ns": rng.choice([0, 5, 9, 30])} | values

    def host(**values: Any) -> dict[str, Any]:
        return place(tid=rng.choice([1, 1, 2, 2, None])) | values

    def gpu(**values: Any) -> dict[str, Any]:
        return place(device=0, stream=rng.choice([7, 20, 21]), correlation=rng.choice([*range(25), None])) | values

    steps = [
        {
            "source": f"s{rank}",
            "rank": rank,
            "pid": 10 + rank,
            "tid": 1,
            "start_ns": at * 20 + rank,
            "dur_ns": 15 + 5 * (at % 2),
        }
        | {"name": f"Step {at}", "scope": "cpu"}
        for rank in range(2)
        for at in range(4)
    ]
    names = ["forward", "backward", "aten::mm"]
    start = {"source": "s0", "pid": 10, "tid": 1, "name": PROGRAM_START, "scope": "cpu", "start_ns": 1, "dur_ns": 33}
    return {
        "annotations": [
            start,
            *steps,
            *(host(name=rng.choice(names), scope=rng.choice(["cpu", "gpu"])) for _ in range(12)),
        ],
        "ops": [
            host(name=rng.choice(names), sequence_number=rng.choice([*range(8), None]), forward_tid=rng.choice([0, 1]))
            for _ in range(20)
        ],
        "python_frames": [
            host(name=rng.choice(["nn.Module: Net_0", "nn.Module: Part_1", "a.py: forward"])) for _ in range(10)
        ],
        "api_calls": [host(correlation=rng.choice([*range(20), None]), api="runtime") for _ in range(30)],
        "kernels": [gpu(name="k") for _ in range(40)],
        "memcpys": [gpu(direction="HtoD") for _ in range(10)],
        "collectives": [gpu(origin=rng.choice(["kernel", "op"]), tid=1) for _ in range(10)],
        "counters": [
            {"source": "s0", "pid": rng.choice([10, None]), "time_ns": at, "name": "c"} for at in range(0, 100, 9)
        ],
    }


def test_a_step_of_a_scope_is_that_of_the_whole_recording(tmp_path: Path) -> None:
    lab = Lab(build_store(tmp_path / "lab", random_recording(7)))

    def figures(lab: Lab) -> list[dict[str, Any]]:  # the odd steps end where the next one begins
        return [row for row in lab.query("step_breakdown").to_pylist() if row["step"] in (1, 3)]

    scoped = [row for step in "13" for row in figures(lab.scoped(steps=step))]
    assert sorted(scoped, key=lambda row: row["rank"]) == figures(lab)
    assert sum(row["other_steps_ns"] for row in scoped) > 0


class Oracle:
    """Rows of a scope, in plain Python."""

    def __init__(self, recording: Recording, scope: Scope) -> None:
        self.recording = recording
        self.scope = scope
        timed = [each for name in ("annotations", "ops", "api_calls", "kernels", "memcpys") for each in recording[name]]
        self.zero = min(each["start_ns"] for each in timed)

    def numbers_in(self, text: str | None, number: int | None) -> bool:
        if text is None:
            return True
        for part in text.split(","):
            first, dash, last = part.partition("-")
            if number is not None and int(first) <= number <= (int(last) if last else number if dash else int(first)):
                return True
        return False

    def steps(self, each: Mapping[str, Any]) -> list[tuple[int, int]]:
        marks = sorted(
            (mark["start_ns"], mark["start_ns"] + mark["dur_ns"], int(mark["name"].split()[1]))
            for mark in self.recording["annotations"]
            if mark["name"].startswith("Step ") and self.same(mark, each, ("source",))
        )
        ends = [*(start for start, _, _ in marks[1:]), *(end for _, end, _ in marks[-1:])]
        return [(m[0], end) for m, end in zip(marks, ends, strict=True) if self.numbers_in(self.scope.steps, m[2])]

    def start_of(self, each: Mapping[str, Any]) -> int:
        """Return where the start of a row's program ends."""
        ends = [
            mark["start_ns"] + mark["dur_ns"]
            for mark in self.recording["annotations"]
            if mark["name"] == PROGRAM_START and self.same(mark, each, ("source",))
        ]
        return max(ends, default=-1)

    def same(self, one: Mapping[str, Any], other: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
        return all(one.get(key) == other.get(key) for key in keys)

    def within(self, each: Mapping[str, Any], tid: int | None, *, is_unlinked: bool) -> Iterator[tuple[int, int]]:
        marks = [
            *((mark, True) for mark in self.recording["annotations"] if mark["scope"] == "cpu"),
            *((mark, False) for mark in self.recording["ops"]),
            *((mark, False) for mark in self.recording["python_frames"] if mark["name"].startswith("nn.Module: ")),
        ]
        backward = [piece for mark in self.recording["ops"] for piece in self.backward_of_module(mark)]
        for mark, is_range in [*marks, *((mark, False) for mark in backward)]:
            is_named = str(self.scope.within) in mark["name"].removeprefix("nn.Module: ") or mark in backward
            on_thread = is_range or (tid is None and not is_unlinked) or (tid is not None and mark["tid"] == tid)
            if is_named and on_thread and self.same(mark, each, ("source",)):
                yield mark["start_ns"], mark["start_ns"] + mark["dur_ns"]

    def backward_of_module(self, op: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Return the instants of an op of the backward pass of the module, without what is within it, as rows."""
        if not self.is_backward_of_module(op):
            return
        inner = [
            *(each for each in self.recording["python_frames"] if each["name"].startswith("nn.Module: ")),
            *(each for each in self.recording["ops"] if self.answers(each) and not self.is_backward_of_module(each)),
        ]
        stretch = range(op["start_ns"], op["start_ns"] + op["dur_ns"])
        taken = {
            at
            for each in inner
            if each["start_ns"] in stretch and self.same(each, op, ("source", "tid"))
            for at in range(each["start_ns"], each["start_ns"] + each["dur_ns"])
        }
        yield from (op | {"start_ns": at, "dur_ns": 1} for at in stretch if at not in taken)

    def answers(self, op: Mapping[str, Any]) -> bool:
        return self.forward_of(op) is not None

    def forward_of(self, op: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if not op["forward_tid"] or op["sequence_number"] is None:
            return None
        forward = [
            each
            for each in self.recording["ops"]
            if not each["forward_tid"] and self.same(each, op, ("source", "sequence_number"))
        ]
        if not forward or len({each["tid"] for each in forward} - {None}) > 1:
            return None
        return max(forward, key=lambda each: (each["start_ns"], -each["dur_ns"]))

    def is_backward_of_module(self, op: Mapping[str, Any]) -> bool:
        last = self.forward_of(op)
        return (last is not None and last["tid"] is not None) and any(
            frame["start_ns"] <= last["start_ns"] < frame["start_ns"] + frame["dur_ns"]
            for frame in self.recording["python_frames"]
            if frame["name"].startswith("nn.Module: ")
            and str(self.scope.within) in frame["name"].removeprefix("nn.Module: ")
            and self.same(frame, last, ("source", "tid"))
        )

    def holds(self, table: str, each: Mapping[str, Any]) -> bool:
        on_gpu = table in ("kernels", "memcpys") or each.get("origin") == "kernel" or each.get("scope") == "gpu"
        launches = table in ("kernels", "memcpys") or each.get("origin") == "kernel"
        at, tid = each.get("start_ns", each.get("time_ns")), None if on_gpu else each.get("tid")
        calls = [
            call
            for call in self.recording["api_calls"]
            if launches and call["correlation"] is not None and self.same(call, each, ("source", "correlation"))
        ]
        first = min(calls, key=lambda call: call["start_ns"], default=None)
        if first is not None and self.scope.by == "launch":
            at = first["start_ns"]
            tid = {call["tid"] for call in calls if call["start_ns"] == at}.pop()
        if self.scope.after_start and at < self.start_of(each):
            return False
        if self.scope.linked and launches and first is None:
            return False
        if self.scope.stream is not None and on_gpu and not self.numbers_in(self.scope.stream, each.get("stream")):
            return False
        if self.scope.steps is not None and not any(start <= at < end for start, end in self.steps(each)):
            return False
        is_unlinked = launches and first is None and self.scope.by == "launch"
        if self.scope.within is not None and not any(
            start <= at < end for start, end in self.within(each, tid, is_unlinked=is_unlinked)
        ):
            return False
        stretch = self.scope.stretch
        return stretch is None or (
            at >= stretch.first + self.zero and (stretch.last is None or at < stretch.last + self.zero)
        )


def unambiguous(recording: Recording) -> Recording:
    """Leave out calls that begin together and have the same correlation: which thread launched is then not defined."""
    seen: set[tuple[object, ...]] = set()
    calls = []
    for each in recording["api_calls"]:
        key = (each["source"], each["correlation"], each["start_ns"])
        if key not in seen:
            calls.append(each)
            seen.add(key)
    return recording | {"api_calls": calls}


RECORDINGS = [unambiguous(random_recording(seed)) for seed in range(3)]


@pytest.fixture(scope="module")
def random_stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("random")
    clocks = {"sources": [{"source": f"s{rank}", "clock": "unix"} for rank in range(2)]}
    return [build_store(folder / f"lab{number}", each | clocks) for number, each in enumerate(RECORDINGS)]


SCOPES = st.builds(
    Scope,
    steps=st.sampled_from([None, "0", "1-2", "0,3-"]),
    within=st.sampled_from([None, "forward", "mm", "Net", "Part", "ward"]),
    from_=st.sampled_from([None, None, "0", "10ns", "30ns"]),
    to=st.sampled_from([None, None, "50ns", "90ns"]),
    stream=st.sampled_from([None, None, "7", "20-"]),
    linked=st.booleans(),
    after_start=st.booleans(),
    by=st.sampled_from(["launch", "execution"]),
)


@examples(25)
@given(number=st.integers(0, 2), scope=SCOPES)
def test_the_rows_are_those_of_a_plain_comparison(random_stores: list[Path], number: int, scope: Scope) -> None:
    recording, store = RECORDINGS[number], random_stores[number]
    oracle = Oracle(recording, scope)
    expected = {table: sum(oracle.holds(table, each) for each in rows) for table, rows in recording.items()}
    columns = ", ".join(f"(select count(*) from {table}) as {table}" for table in recording)
    try:
        answer = Lab(store, scope=scope if scope else None).sql(f"select {columns}").to_pylist()
    except NoDataError:
        on_gpu = sum(expected[table] for table in ("kernels", "memcpys"))
        assert not on_gpu if scope.stream is not None else not any(expected.values())
    else:
        assert answer == [expected]
