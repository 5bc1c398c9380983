"""Two run folders are two runs, whatever they are called; one folder, and its copies, are one."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.readers.run_folder import RUN, lines, step, write
from tracelab.ingest.pipeline import Report, ingest
from tracelab.query import execute, library
from tracelab.store import session

CELLS = ("two-n32", "two-n64")


def sweep(out: Path, machine: str, *, hour: int, dur_ns: int = 1_000_000, steps: int = 2) -> Path:
    """What the same sweep leaves on a machine."""
    for at, cell in enumerate(CELLS):
        described = RUN | {"run": cell, "sweep": "two", "batch_size": 32 << at, "world_size": 1, "expects": None}
        described |= {"host": "lab", "started_at": f"2026-01-02T{hour:02}:0{at}:00+00:00", "tags": {"machine": machine}}
        rows = (step(number, dur_ns=dur_ns) for number in range(steps))
        write(out / "two" / cell, run__json=described, steps__rank0__jsonl=lines("steps", *rows, rank=0, run=cell))
    return out


def steps(store: Path) -> list[tuple[str, str, int]]:
    """Every run with its machine and its steps."""
    count = "(select count(*) from steps as s where s.run = r.run)"
    sql = f"select run, tags['machine'], {count} from runs as r order by run"
    return session.connect(store, referenced=sql).execute(sql).fetchall()


TWO = [("runsB-two-n32", "B", 2), ("runsB-two-n64", "B", 2), ("two-n32", "A", 2), ("two-n64", "A", 2)]


def together(a: Path, b: Path, store: Path) -> list[Report]:
    return [ingest([a, b], store)]


def one_after_the_other(a: Path, b: Path, store: Path) -> list[Report]:
    return [ingest([a], store), ingest([b], store)]


@pytest.mark.parametrize("way", [together, one_after_the_other])
def test_one_sweep_on_two_machines_are_runs_of_their_own(
    tmp_path: Path, way: Callable[[Path, Path, Path], list[Report]]
) -> None:
    a, b = sweep(tmp_path / "runsA", "A", hour=3), sweep(tmp_path / "runsB", "B", hour=5)
    way(a, b, tmp_path / "lab")
    assert steps(tmp_path / "lab") == TWO


def test_machines_of_one_sweep_compare(tmp_path: Path) -> None:
    a = sweep(tmp_path / "runsA", "A", hour=3)
    b = sweep(tmp_path / "runsB", "B", hour=5, dur_ns=500_000)
    ingest([a, b], tmp_path / "lab")
    query = library.find("machine_comparison")
    con = session.connect(tmp_path / "lab", referenced=execute.referenced_sql(query))
    answer = execute.run(con, query, {"sweep": "two"})
    columns = ("base_run", "this_run", "base_ns", "this_ns", "speedup_factor")
    assert [tuple(row[name] for name in columns) for row in answer.to_pylist()] == [
        ("two-n32", "runsB-two-n32", 1_000_000, 500_000, 2.0),
        ("two-n64", "runsB-two-n64", 1_000_000, 500_000, 2.0),
    ]


@pytest.mark.parametrize("order", [("runsA", "runsB"), ("runsB", "runsA"), ("runsB",)])
def test_folders_of_one_name_find_their_runs_again(tmp_path: Path, order: tuple[str, ...]) -> None:
    ingest([sweep(tmp_path / "runsA", "A", hour=3), sweep(tmp_path / "runsB", "B", hour=5)], tmp_path / "lab")
    again = ingest([tmp_path / name for name in order], tmp_path / "lab")
    assert ({result.status for result in again.files}, steps(tmp_path / "lab")) == ({"unchanged"}, TWO)


def test_a_distinguished_folder_is_replaced_by_its_later_state(tmp_path: Path) -> None:
    ingest([sweep(tmp_path / "runsA", "A", hour=3), sweep(tmp_path / "runsB", "B", hour=5)], tmp_path / "lab")
    ingest([sweep(tmp_path / "runsB", "B", hour=7, steps=3)], tmp_path / "lab")
    assert steps(tmp_path / "lab") == [("runsB-two-n32", "B", 3), ("runsB-two-n64", "B", 3), *TWO[2:]]


def test_folders_of_one_name_in_other_working_directories_are_not_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, hour in (("runsA", 3), ("runsB", 5)):
        monkeypatch.chdir(sweep(tmp_path / name, name[-1], hour=hour))
        ingest(["two"], tmp_path / "lab")
    assert steps(tmp_path / "lab") == TWO


def test_a_copy_of_a_folder_is_the_same_run(tmp_path: Path) -> None:
    ingest([sweep(tmp_path / "runsA", "A", hour=3)], tmp_path / "lab")
    shutil.copytree(tmp_path / "runsA", tmp_path / "copy")
    again = ingest([tmp_path / "copy", tmp_path / "runsA"], tmp_path / "lab")
    assert ({result.status for result in again.files}, len(steps(tmp_path / "lab"))) == ({"unchanged"}, 2)


def test_two_copies_given_at_once_are_stored_once(tmp_path: Path) -> None:
    shutil.copytree(sweep(tmp_path / "runsA", "A", hour=3), tmp_path / "copy")
    ingest([tmp_path / "runsA", tmp_path / "copy"], tmp_path / "lab")
    assert steps(tmp_path / "lab") == TWO[2:]


def test_a_cell_that_has_not_run_here_is_another_than_the_one_that_ran_there(tmp_path: Path) -> None:
    a, b = sweep(tmp_path / "runsA", "A", hour=3), tmp_path / "runsB"
    unborn = RUN | {"run": "two-n32", "sweep": "two", "status": "not_run", "started_at": None, "host": None}
    write(b / "two" / "two-n32", run__json=unborn | {"tags": {"machine": "B"}})
    ingest([a, b], tmp_path / "lab")
    sweep(b, "B", hour=5)
    ingest([a, b], tmp_path / "lab")
    assert steps(tmp_path / "lab") == TWO


def test_folders_that_no_part_of_the_path_distinguishes_are_numbered(tmp_path: Path) -> None:
    for at, place in enumerate(("a/b", "b/a", "a/a", "b/b")):
        folder = tmp_path / place / "x"
        write(folder, run__json=RUN | {"run": "x", "started_at": f"2026-01-0{at + 1}T00:00:00+00:00"})
    found = [ingest([tmp_path / place], tmp_path / "lab").files[0].run for place in ("a/b", "b/a", "a/a", "b/b")]
    assert found == ["x", "a-x", "x-2", "x-3"]


def test_a_name_that_leaves_no_room_is_numbered(tmp_path: Path) -> None:
    long = "n" * 99
    for at, place in enumerate("ab"):
        write(tmp_path / place / "x", run__json=RUN | {"run": long, "started_at": f"2026-01-0{at + 1}T00:00:00+00:00"})
    assert [ingest([tmp_path / place], tmp_path / "lab").files[0].run for place in "abab"] == [
        long,
        "n" * 95 + "-2",
    ] * 2


def test_folders_of_one_name_ingested_at_once_are_two_runs(tmp_path: Path) -> None:
    folders = [sweep(tmp_path / f"runs{name}", name, hour=at, steps=20_000) for at, name in enumerate("AB")]
    both = [threading.Thread(target=ingest, args=([folder], tmp_path / "lab")) for folder in folders]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sorted(machine for _, machine, count in steps(tmp_path / "lab") if count == 20_000) == ["A", "A", "B", "B"]
