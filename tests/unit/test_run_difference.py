"""Two runs side by side, against plain Python that looks at every instant; and which two runs a question means."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.build import Rows, build_store
from tests.properties import examples
from tracelab.client import Lab
from tracelab.errors import NoDataError, UsageError
from tracelab.query import library, spec

Row = dict[str, object]

COMPUTE, COMMUNICATION = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"
LISTED = ("kernels", "memcpys", "collectives", "annotations")
PARTS = ("compute", "exposed_communication", "exposed_copies", "idle")
NAMES = ("window_time", *PARTS, "communication", "overlapped_communication")

placed = {
    "run": st.sampled_from(["r", "s"]),
    "source": st.sampled_from(["a", "b"]),
    "rank": st.sampled_from([0, 1]),
    "start_ns": st.one_of(st.none(), st.integers(0, 12)),
    "dur_ns": st.one_of(st.none(), st.integers(-2, 12)),
}
device = {"device": st.sampled_from([0, None])}
kernels = st.fixed_dictionaries(placed | device | {"name": st.sampled_from([COMPUTE, COMMUNICATION, "step", None])})
copies = st.fixed_dictionaries(placed | device | {"direction": st.sampled_from(["HtoD", "DtoD", None])})
memsets = st.fixed_dictionaries(placed | device)
ranges = st.fixed_dictionaries(placed | {"name": st.sampled_from(["step 1", "step 22", "load 3", "load 44"])})


def is_timed(row: Row) -> bool:
    return None not in (row["start_ns"], row["dur_ns"]) and row["dur_ns"] >= 0


def breakdown(tables: dict[str, list[Row]], run: str) -> dict[str, int]:
    """What the time of every lane of a run goes into, by looking at each nanosecond."""
    lanes: dict[tuple, list[tuple]] = defaultdict(list)
    for table, rows in tables.items():
        for row in rows:
            if table != "annotations" and row["run"] == run and is_timed(row):
                kind = (
                    "copies" if table != "kernels" else "communication" if row["name"] == COMMUNICATION else "compute"
                )
                lanes[row["source"], row["rank"], row["device"]].append(
                    (kind, row["start_ns"], row["start_ns"] + row["dur_ns"])
                )
    found = dict.fromkeys(NAMES, 0)
    for spans in lanes.values():
        for at in range(min(start for _, start, _ in spans), max(end for _, _, end in spans)):
            kinds = {kind for kind, start, end in spans if start <= at < end}
            found["window_time"] += 1
            found["communication"] += "communication" in kinds
            found["overlapped_communication"] += kinds >= {"communication", "compute"}
            first = next((kind for kind in ("compute", "communication", "copies") if kind in kinds), "idle")
            found[first if first in found and first != "communication" else f"exposed_{first}"] += 1
    return found


def listed(tables: dict[str, list[Row]], run: str) -> dict[tuple, list[Row]]:
    """The rows of a run behind each row of the answer's long sections."""
    found: dict[tuple, list[Row]] = defaultdict(list)
    names: dict[str, Callable[[Row], Iterable[tuple]]] = {
        "kernels": lambda row: [
            ("kernels", row["name"]),
            *([("collectives", "all_reduce")] if row["name"] == COMMUNICATION else []),
        ],
        "memcpys": lambda row: [("memcpys", row["direction"] or "unknown")],
        "memsets": lambda _: [("memcpys", "memset")],
        "annotations": lambda row: [
            ("annotations", re.sub(r"\d+", "#", name)) for name in [row["name"]] if "step" not in name
        ],
    }
    for table, rows in tables.items():
        for row in rows:
            for key in names[table](row) if row["run"] == run else ():
                found[key].append(row)
    return found


def per_rank(rows: list[Row]) -> float:
    return len(rows) / len({row["rank"] for row in rows}) if rows else 0


def divisors(tables: dict[str, list[Row]], *, by_kernel: bool) -> dict[tuple, float]:
    """By what the times of each run are divided: of the device sections, and of the annotations."""
    seen: dict[str, set[tuple]] = defaultdict(set)
    for row in (row for name in tables if name != "annotations" for row in tables[name]):
        seen[row["run"]].add((row["rank"], row["device"]))
    steps = {
        run: per_rank(
            [row for row in tables["kernels"] if row["run"] == run and is_timed(row) and row["name"] == "step"]
        )
        for run in seen
    }
    is_per_step = by_kernel and all(steps.get(run) for run in "rs")
    found = {}
    for run, lanes in seen.items():
        by = steps[run] if is_per_step else 1
        found[run, "gpu"] = len(lanes) * by
        found[run, "cpu"] = len({rank for rank, _ in lanes}) * by
    return found


@examples(40)
@given(
    st.lists(kernels, min_size=1, max_size=10),
    st.lists(copies, max_size=4),
    st.lists(memsets, max_size=3),
    st.lists(ranges, max_size=6),
    st.booleans(),
)
def test_both_runs_are_as_plain_python_counts_them(memory, executed, copied, filled, noted, by_kernel):
    tables = {"kernels": executed, "memcpys": copied, "memsets": filled, "annotations": noted}
    stored: dict[str, Rows] = tables | {"annotations": [row | {"scope": "cpu"} for row in noted]}
    stored |= {"sources": [{"run": "r", "source": "a"}, {"run": "s", "source": "a"}]}
    values = {"top_rows": 99} | ({"step_kernel": "^step"} if by_kernel else {})
    lab = memory.filled(stored)
    answer = lab.run_query(library.find("run_difference"), values).to_pylist()
    by = divisors(tables, by_kernel=by_kernel)
    expected = {}
    for section in ("window", "breakdown"):
        for place, run in enumerate("rs"):
            for name, measure in breakdown(tables, run).items():
                if (name == "window_time") == (section == "window"):
                    expected.setdefault((section, name), [0, 0])[place] = measure
    for place, run in enumerate("rs"):
        for key, rows in listed(tables, run).items():
            expected.setdefault(key, [0, 0])[place] = sum(row["dur_ns"] for row in rows if is_timed(row))
    found = {(row["section"], row["name"]): row for row in answer if row["section"] != "comparability"}
    assert {key: [row["before_ns"], row["after_ns"]] for key, row in found.items()} == expected
    for (section, _), row in found.items():
        what = "cpu" if section == "annotations" else "gpu"
        for side, run in (("before", "r"), ("after", "s")):
            each = row[f"{side}_each_ns"]
            assert each is None if (run, what) not in by else abs(each - row[f"{side}_ns"] / by[run, what]) <= 0.5
    for side, run in (("before", "r"), ("after", "s")):
        counts = {key: len(rows) for key, rows in listed(tables, run).items()}
        said = {key: row[f"{side}_count"] for key, row in found.items() if key[0] in LISTED}
        assert said == {key: counts.get(key, 0) for key in said}


NESTED = (
    ("aten::linear", 0, 12),
    ("aten::mm", 0, 6),
    ("aten::add", 2, 5),
    ("c10d::allreduce_", 6, 12),
    ("aten::mm", 7, 9),
)
"""Ops that lie in each other or side by side, so that the shortest open one is the innermost."""
on_cpu = {"run": st.sampled_from(["r", "s"]), "rank": st.sampled_from([0, 1]), "tid": st.sampled_from([1, 2])}
cpu_ranges = st.fixed_dictionaries(
    on_cpu
    | {
        "name": st.sampled_from(["train", "gloo:all_reduce", "enumerate(DataLoader)#_Iter.__next__"]),
        "start_ns": st.integers(0, 12),
        "dur_ns": st.integers(1, 6),
    }
)


def open_at(rows: Iterable[Row], at: int) -> list[Row]:
    return [row for row in rows if row["start_ns"] <= at < row["start_ns"] + row["dur_ns"]]


def cpu_times(executed: list[Row], noted: list[Row], run: str) -> dict[tuple, int]:
    """Return window, breakdown and own times of ops of a run without a GPU, by looking at each nanosecond."""
    found: dict[tuple, int] = defaultdict(int)
    own = [row for row in executed if row["run"] == run]
    for row in own:
        found["ops", row["name"]] += 0
    for rank, thread in {(row["rank"], row["tid"]) for row in own}:
        for at in range(20):
            running = open_at([row for row in own if (row["rank"], row["tid"]) == (rank, thread)], at)
            if running:
                found["ops", min(running, key=lambda row: row["dur_ns"])["name"]] += 1
    for rank in (0, 1):
        ops, ranges = ([row for row in rows if (row["run"], row["rank"]) == (run, rank)] for rows in (executed, noted))
        ends = [row["start_ns"] + row["dur_ns"] for row in ops + ranges]
        for at in range(min((row["start_ns"] for row in ops + ranges), default=0), max(ends, default=0)):
            names = {row["name"] for row in open_at(ops + ranges, at)}
            loads = any(name.startswith("enumerate") for name in names)
            computes = any(name.startswith("aten") for name in names)
            communicates = "gloo:all_reduce" in names
            is_exposed = communicates and not computes
            first = "data_wait" if loads else "compute" if computes else "idle"
            found["window", "window_time"] += 1
            found["breakdown", "communication"] += communicates
            found["breakdown", "overlapped_communication"] += communicates and computes
            found["breakdown", "exposed_communication" if is_exposed else first] += 1
    return found


@examples(20)
@given(
    st.lists(st.tuples(*on_cpu.values(), st.sampled_from(NESTED)), min_size=1, max_size=12, unique=True),
    st.lists(cpu_ranges, max_size=8),
)
def test_runs_without_a_gpu_are_as_plain_python_counts_them(memory, listed, noted):
    executed = [
        {"run": run, "rank": rank, "pid": rank, "tid": tid, "name": name, "start_ns": at, "dur_ns": end_ns - at}
        for run, rank, tid, (name, at, end_ns) in listed
    ]
    sources = [{"run": run, "source": "a"} for run in "rs"]
    stored = {"ops": executed, "annotations": [row | {"scope": "cpu"} for row in noted], "sources": sources}
    stored = {name: [row | {"source": "a"} for row in rows] for name, rows in stored.items()}
    answer = memory.filled(stored).run_query(library.find("run_difference"), {"top_rows": 99}).to_pylist()
    found = {(row["section"], row["name"]): row for row in answer}
    for side, run in (("before", "r"), ("after", "s")):
        expected = cpu_times(executed, noted, run)
        measured = {key: row[f"{side}_ns"] for key, row in found.items() if key[0] in ("window", "breakdown", "ops")}
        assert {key: ns for key, ns in measured.items() if ns} == {key: ns for key, ns in expected.items() if ns}
        calls = sum(row[f"{side}_count"] for row in answer if row["section"] == "ops")
        assert calls == sum(row["run"] == run for row in executed)


def test_a_run_with_a_gpu_has_no_sections_of_the_cpu(tmp_path: Path) -> None:
    """Ops are compared where neither run used a GPU: beside kernels they are the cost of launching."""
    tables = {
        "kernels": [GPU | {"run": "a"}],
        "ops": [{"run": run, "name": "aten::mm", "start_ns": 0, "dur_ns": 5} for run in ("a", "b")],
    }
    sections = {row["section"] for row in ask(build_store(tmp_path / "lab", tables))}
    assert sections == {"comparability", "window", "breakdown", "kernels"}


GPU = {"name": "gemm", "device": 0, "start_ns": 0, "dur_ns": 100}


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return build_store(tmp_path / "lab", {"kernels": [GPU | {"run": run} for run in ("a", "b", "c")]})


def ask(store: Path, **values: spec.Value) -> list[Row]:
    return Lab(store).run_query(library.find("run_difference"), values).to_pylist()


@pytest.mark.parametrize(
    ("values", "sides"),
    [
        ({}, ("a", "b")),
        ({"before": "b"}, ("b", "a")),
        ({"after": "a"}, ("b", "a")),
        ({"after": "b"}, ("a", "b")),
        ({"before": "b", "after": "b"}, ("b", "b")),
    ],
)
def test_of_two_runs_the_other_one_is_meant(tmp_path: Path, values: dict[str, spec.Value], sides: tuple) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [GPU | {"run": run} for run in ("a", "b")]})
    assert {(row["before"], row["after"]) for row in ask(store, **values)} == {sides}


@pytest.mark.parametrize("values", [{}, {"before": "a"}, {"after": "c"}])
def test_of_more_runs_both_are_to_be_named(three: Path, values: dict[str, spec.Value]) -> None:
    with pytest.raises(UsageError, match="takes 2 of the store's 3 runs, so name --before and --after: a, b, c"):
        ask(three, **values)


def test_one_run_has_no_difference(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [GPU]})
    with pytest.raises(NoDataError, match="takes 2 runs, and the store has r; ingest another"):
        ask(store)


def test_a_run_that_is_not_there_is_named_with_the_nearest(three: Path) -> None:
    with pytest.raises(NoDataError, match="the store has no run 'bb'; nearest: b"):
        ask(three, before="a", after="bb")


def test_a_run_does_not_differ_from_itself(three: Path) -> None:
    rows = ask(three, before="a", after="a")
    assert {row["difference_ns"] for row in rows if row["section"] != "comparability"} == {0}
    assert {row["change"] for row in rows} <= {"same", "similar", "unknown"}


def test_kernels_of_two_profilers_or_by_wish_go_by_their_own_names(tmp_path: Path) -> None:
    names = {"a": "void blur<3>(float*)", "b": "void blur<(int)3>(T1 *)"}
    store = build_store(
        tmp_path / "lab", {"kernels": [GPU | {"run": run, "name": name} for run, name in names.items()]}
    )
    spelled, short = (
        {row["name"] for row in ask(store, short_names=wish) if row["section"] == "kernels"} for wish in (False, True)
    )
    assert (spelled, short) == (set(names.values()), {"blur"})
