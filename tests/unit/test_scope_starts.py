"""Scopes that leave out the start of a program, and the sentences about it."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.unit.scope_rows import MAIN, TWO_STEPS, call, mark, on, work
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.collect.recording.recorder import PROGRAM_START
from tracelab.errors import NoDataError
from tracelab.query import execute, library

# Two processes of rank 0, and one of rank 1: the first records its start, to 100.
STARTED: dict[str, list[dict[str, Any]]] = {
    "annotations": [
        mark(0, 100, PROGRAM_START),
        mark(100, 50, "ProfilerStep#1"),
        mark(100, 50, "ProfilerStep#1", pid=20),
        mark(0, 100, PROGRAM_START, pid=30, rank=1),
        mark(10, 20, "step 0", pid=30, rank=1),
    ],
    "ops": [
        on(MAIN, 20, name="aten::randn"),
        on(MAIN, 100, name="aten::mm"),
        on(MAIN, 20, name="aten::randn", pid=20),
        on(MAIN, 20, name="aten::randn", pid=30, rank=1),
    ],
    "api_calls": [call(80, 1), call(100, 2), call(170, 3)],
    "kernels": [
        work(85, "early", 1),
        work(105, "mm", 2),
        work(115, "late", 1, stream=20),
        work(180, "replay", 3),
        work(99, "unlinked"),
        work(100, "unlinked"),
        work(20, "other process") | {"pid": 20},
        work(20, "other rank") | {"pid": 30, "rank": 1},
    ],
    "memory_events": [{"pid": 10, "tid": MAIN, "time_ns": at, "size_bytes": 8} for at in (99, 100)],
}


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("started") / "lab", STARTED)


def count(store: Path, table: str, **scope: Any) -> int:
    return int(Lab(store).scoped(**scope).sql(f"select count(*) as n from {table}").to_pylist()[0]["n"])


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ({}, ["mm", "other process", "other rank", "replay", "unlinked"]),
        ({"by": "execution"}, ["late", "mm", "other process", "other rank", "replay", "unlinked"]),
        ({"steps": "1"}, ["mm", "unlinked"]),
        ({"linked": True}, ["mm", "replay"]),
        ({"stream": "20", "by": "execution"}, ["late"]),
        ({"from_": "10ns", "to": "105ns"}, ["mm", "other process", "other rank", "unlinked"]),
        ({"within": "randn", "by": "execution"}, ["other process", "other rank"]),
    ],
)
def test_the_start_of_a_program_is_left_out_of_its_process(
    started: Path, scope: dict[str, Any], expected: list[str]
) -> None:
    """Kernels count by their launch: `late` runs behind the start that launched it. No step follows rank 1's start."""
    rows = Lab(started).scoped(after_start=True, **scope).sql("select name from kernels order by name").to_pylist()
    assert [each["name"] for each in rows] == expected


def test_rows_of_a_cpu_count_from_the_end_of_the_start(started: Path) -> None:
    counts = {table: count(started, table, after_start=True) for table in ("annotations", "ops", "memory_events")}
    assert counts == {"annotations": 4, "ops": 3, "memory_events": 1}


@pytest.mark.parametrize("by", ["launch", "execution"])
def test_what_is_left_out_with_a_start_and_the_rest_add_up_to_the_whole(started: Path, by: Any) -> None:
    whole, lab = Lab(started), Lab(started).scoped(after_start=True, by=by)
    parts = [
        lab.sql(f"select count(*) as n, sum(dur_ns)::bigint as ns from {table}").to_pylist()[0]
        for table in ("gpu_activity", "out_of_scope_activity")
    ]
    (all_rows,) = whole.sql("select count(*) as n, sum(dur_ns)::bigint as ns from gpu_activity").to_pylist()
    assert {name: parts[0][name] + parts[1][name] for name in all_rows} == all_rows == {"n": 8, "ns": 240}
    assert parts[1]["n"] == {"launch": 3, "execution": 2}[by]


def test_the_sentence_has_the_length_of_the_start(started: Path, tmp_path: Path) -> None:
    def note(store: Path) -> str:
        return Lab(store).scoped(after_start=True).query("kernel_summary").notes[0].partition(";")[0]

    ranks = [{name: [row | {"rank": rank} for row in rows] for name, rows in STARTED.items()} for rank in range(2)]
    both = {name: [*ranks[0][name], *ranks[1][name]] for name in STARTED}
    both["annotations"][0]["dur_ns"] = 90
    assert note(started) == "Scope: after the program's start of 100 ns"
    assert note(build_store(tmp_path / "lab", both)) == "Scope: after the starts of 2 programs of 90 ns to 100 ns"
    assert note(build_store(tmp_path / "two_steps", TWO_STEPS)) == (
        "Scope: after the program's start (none precedes a recorded step)"
    )
    with pytest.raises(NoDataError, match="no row lies in the scope: after the program's start of 100 ns, to 10ns"):
        Lab(started).scoped(after_start=True, to="10ns").query("kernel_summary")


def test_a_query_of_a_run_folder_names_the_start_that_it_includes(started: Path, tmp_path: Path) -> None:
    def notes(store: Path, *options: str) -> str:
        return CliRunner().invoke(main, ["query", "gpu_breakdown", "--store", str(store), *options]).stderr

    steps = [{"phase": "train", "epoch": 0, "step": 0, "start_ns": 0, "dur_ns": 100}]
    recorded = build_store(tmp_path / "lab", STARTED | {"steps": steps})
    sentence = "The answer includes the program's start of r, 100 ns; --after-start leaves it out.\n"
    assert notes(recorded) == notes(recorded, "--run", "r") == sentence
    assert notes(recorded, "--after-start").startswith("Scope: after the program's start of 100 ns; ")
    assert notes(started) == ""


def test_a_query_of_one_run_names_no_start_of_another_whose_counters_it_may_read(tmp_path: Path) -> None:
    tables = {table: [{"run": run} | row for run in ("r", "other") for row in rows] for table, rows in STARTED.items()}
    tables["annotations"] = [
        row for row in tables["annotations"] if row["run"] == "other" or "start" not in row["name"]
    ]
    steps = [{"run": run, "phase": "train", "step": 0, "start_ns": 0, "dur_ns": 100} for run in ("r", "other")]
    store = build_store(tmp_path / "lab", tables | {"steps": steps})

    def notes(run: str) -> str:
        return CliRunner().invoke(main, ["query", "op_flop", "--run", run, "--store", str(store)]).stderr

    assert ("program's start of other" in notes("other"), "program's start" in notes("r")) == (True, False)
    answered = [
        execute.answered_runs(library.library()[name], {"run": "r"}) for name in ("roofline", "module_time", "mfu")
    ]
    assert answered == [["r"]] * 3
    assert execute.answered_runs(library.library()["roofline"], {}) is None
