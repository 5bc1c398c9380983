"""`tracelab compact` and `drop`: fewer files with the same rows, or no rows of a run, also if killed at any moment."""

import errno
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.build import build_store
from tests.traces import write_trace
from tracelab import doctor, schema
from tracelab.cli import main
from tracelab.client import Lab
from tracelab.errors import NoDataError
from tracelab.ingest.pipeline import ingest
from tracelab.store import commit, commit_log, compaction, session, verification
from tracelab.store.files import LocalFiles
from tracelab.store.verification import DamagedStoreError

RANKS = 5


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces") / "job"
    folder.mkdir()
    for rank in range(RANKS):
        write_trace(folder / f"rank{rank}.json", kernels=30 + rank, rank=rank)
    write_trace(folder.parent / "other.json", kernels=7)
    return folder


@pytest.fixture
def store(tmp_path: Path, job: Path) -> Path:
    """A store of two runs, job with five ranks and other with one."""
    first, second, *others = sorted(job.iterdir())
    for paths in ([first, second], *([path] for path in others), [job.parent / "other.json"]):
        ingest(paths, tmp_path / "lab")
    return tmp_path / "lab"


def content(store: Path) -> dict[str, list[dict[str, object]]]:
    """Return all rows, in an order of their own."""
    with session.connect(store) as con:
        names = [name for name in schema.BY_NAME if name != "runs"]
        tables: dict[str, pa.Table] = {name: con.sql(f"from {name}").to_arrow_table() for name in names}
    return {name: sorted(table.to_pylist(), key=repr) for name, table in tables.items()}


def files(store: Path) -> list[str]:
    return sorted(path.relative_to(store).as_posix() for path in store.glob("*/run=*/*.parquet"))


def verified(store: Path) -> list[str]:
    return [row["message"] for row in doctor.verify(store, None)[0].to_pylist()]


def runs(store: Path) -> list[str]:
    return sorted(commit_log.read_snapshot(LocalFiles(store)).runs)


def test_compact_keeps_each_row_in_one_file_a_table(store: Path, job: Path) -> None:
    before, files_before = content(store), files(store)
    (compacted,) = compaction.compact(store)
    assert (compacted.run, compacted.parts_before, compacted.parts) == ("job", RANKS, 1)
    assert compacted.files_before - compacted.files == len(files_before) - len(files(store))
    assert content(store) == before
    (path,) = store.glob("kernels/run=job/*.parquet")
    rows = pq.read_table(path, partitioning=None).select(["rank", "start_ns"]).to_pylist()
    assert rows == sorted(rows, key=lambda row: (row["rank"], row["start_ns"]))
    assert len(rows) == sum(30 + rank for rank in range(RANKS))
    assert (compaction.compact(store), verified(store)) == ([], [])


def test_compacted_rows_are_sorted_by_rank_and_time_and_rows_of_one_time_stay_in_order(tmp_path: Path) -> None:
    rows = [(rank, source, time) for rank, source in ((1, "a"), (0, "b"), (1, "c")) for time in (7, 5, 7)]
    kernels = [
        {"name": f"{at}", "device": 0, "rank": rank, "source": source, "start_ns": time}
        for at, (rank, source, time) in enumerate(rows)
    ]
    store = build_store(tmp_path / "lab", {"kernels": kernels})
    compaction.compact(store)
    (path,) = store.glob("kernels/run=r/*.parquet")
    names = pq.read_table(path, partitioning=None).column("name").to_pylist()
    by_source = {source: [name for name in names if rows[int(name)][1] == source] for source in "abc"}
    assert by_source == {"a": ["1", "0", "2"], "b": ["4", "3", "5"], "c": ["7", "6", "8"]}


def test_a_run_that_changes_while_it_is_compacted_stays_as_it_is(
    store: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source is replaced just before the commit."""
    before, create, changes = content(store), LocalFiles.create, [[job / "rank1.json"]]

    def create_late(files: LocalFiles, key: str, content: bytes, staging: Path) -> bool:
        if changes:
            ingest(changes.pop(), store, replace=True)
        return create(files, key, content, staging)

    monkeypatch.setattr(LocalFiles, "create", create_late)
    assert (compaction.compact(store, "job"), changes) == ([], [])
    for row in (*before["sources"], *(after := content(store))["sources"]):
        del row["ingested_at"]
    assert (after, verified(store)) == (before, [])


def test_what_was_compacted_is_not_stored_again_and_is_replaced_alone(store: Path, job: Path) -> None:
    before = content(store)
    compaction.compact(store)
    assert {result.status for result in ingest([job], store).files} == {"unchanged"}
    assert [result.status for result in ingest([job / "rank3.json"], store).files] == ["unchanged"]
    assert [result.status for result in ingest([job / "rank3.json"], store, replace=True).files] == ["stored"]
    for row in (*before["sources"], *(after := content(store))["sources"]):
        del row["ingested_at"]
    assert (after, verified(store)) == (before, [])


def test_a_damaged_part_is_not_compacted_and_is_repaired_by_its_traces(store: Path, job: Path) -> None:
    before = content(store)
    damaged = sorted(store.glob("kernels/run=job/*.parquet"))[1]
    healthy = damaged.read_bytes()
    damaged.write_bytes(healthy.replace(b"parquet-cpp-arrow", b"parquet-cpp-arros"))
    with pytest.raises(DamagedStoreError, match="is altered"):
        compaction.compact(store)
    damaged.write_bytes(healthy)
    compaction.compact(store)
    (path,) = store.glob("kernels/run=job/*.parquet")
    path.write_bytes(path.read_bytes()[:-9])
    (result,) = ingest([job / "rank0.json"], store).files
    assert (result.status, f"it holds {RANKS} traces: ingest all of them" in result.message) == ("failed", True)
    assert [len(result.repaired) for result in ingest([job], store).files] == [1] + [0] * (RANKS - 1)
    for row in (*before["sources"], *(after := content(store))["sources"]):
        del row["ingested_at"]
    assert (after, verified(store)) == (before, [])


def test_drop_removes_a_run_and_its_files(store: Path) -> None:
    other = [path for path in files(store) if "run=other" in path]
    (dropped,) = compaction.drop(store, {"job"}, None)
    assert (dropped.run, dropped.sources, dropped.size_bytes > 1000) == ("job", RANKS, True)
    assert (files(store), runs(store), verified(store)) == (other, ["other"], [])


def test_drop_by_age_takes_runs_whose_last_ingest_is_older(store: Path, job: Path) -> None:
    between = time.time()
    ingest([write_trace(job.parent / "later.json", kernels=8)], store)
    ingest([job / "rank0.json"], store, replace=True)
    assert [each.run for each in compaction.list_runs(store, None, between)] == ["other"]
    assert [each.run for each in compaction.drop(store, None, between)] == ["other"]
    assert runs(store) == ["job", "later"]


def test_drop_lists_and_removes_the_runs_of_a_pattern(store: Path, job: Path) -> None:
    def run(*arguments: str) -> tuple[int, list[str]]:
        result = CliRunner().invoke(main, ["drop", *arguments, "--store", str(store)])
        return result.exit_code, [line.partition(": 1 source")[0] for line in result.stderr.splitlines()]

    for at, name in enumerate(("nightly-1", "nightly-2", "weekly"), 20):
        (job.parent / name).mkdir()
        ingest([write_trace(job.parent / name / "rank0.json", kernels=at)], store, run=name)
    several = ["nightly-1", "nightly-2"]
    assert run("--run", "nightly-?", "--dry-run") == (0, [*several, "2 runs would be removed"])
    assert run("--run", "nightly-*", "--run", "weekly") == (0, [*several, "weekly", "removed 3 runs"])
    assert (runs(store), run("--run", "nightly-*")[0]) == (["job", "other"], 3)


def test_the_commands_print_what_they_do(store: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        result = CliRunner().invoke(main, [*arguments, "--store", str(store)])
        return result.exit_code, result.stderr

    assert run("compact") == (0, "job: 15 files became 3\n")
    assert run("compact") == (0, "nothing to compact\n")
    code, printed = run("drop", "--run", "other", "--dry-run")
    assert (code, printed.splitlines()[-1], runs(store)) == (0, "1 run would be removed", ["job", "other"])
    assert printed.startswith("other: 1 source, 4 files, ")
    assert run("drop", "--older-than", "90d") == (0, "removed 0 runs\n")
    assert run("drop", "--run", "other")[1].endswith("removed 1 run\n")
    assert runs(store) == ["job"]
    assert run("drop", "--run", "jbo") == (3, "tracelab: the store has no run 'jbo'; nearest: job\n")
    assert run("drop")[1].endswith("name what to remove: --run NAME or --older-than AGE, one of the two\n")
    assert run("drop", "--older-than", "3x")[1].endswith("'3x' is not an age; write 90d, 12h or 4w\n")


@pytest.mark.parametrize("command", [["compact"], ["drop", "--run", "job"]])
def test_a_store_that_cannot_be_written_is_named_in_one_sentence(
    store: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(store / ".staging"))

    monkeypatch.setattr(commit, "transact", fail)
    done = CliRunner().invoke(main, [*command, "--store", str(store)])
    remedy = "make its disk writable, or choose another place"
    assert (done.exit_code, done.stderr) == (1, f"tracelab: {store}/.staging: Read-only file system; {remedy}\n")


def test_an_empty_store_has_nothing_to_compact(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["compact", "--store", str(tmp_path)])
    assert (result.exit_code, "contains no ingested trace" in result.stderr) == (NoDataError.exit_code, True)


def test_readers_and_writers_go_on_while_a_run_is_compacted(store: Path, job: Path) -> None:
    expected = sum(30 + rank for rank in range(RANKS)) + 7
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            ingest([job], store, replace=True)
            compaction.compact(store)
            done.wait(0.2)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        counts = [Lab(store).sql("select count(dur_ns) as n from kernels").arrow()["n"].to_pylist() for _ in range(8)]
    finally:
        done.set()
        thread.join()
    assert (counts, verified(store)) == ([[expected]] * 8, [])


def test_a_session_from_before_reads_its_files_until_the_last_run_is_compacted(
    store: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(job.parent / "again.json", kernels=3)
    ingest([job.parent / "again.json"], store, run="other")
    merge, counts = compaction._merge, []

    def merge_and_read(*arguments: object) -> bool:
        merged = merge(*arguments)  # type: ignore[arg-type]
        counts.append((merged, con.execute("select count(*) from kernels").fetchone()))
        return merged

    monkeypatch.setattr(compaction, "_merge", merge_and_read)
    with session.connect(store) as con:
        kernels = sum(30 + rank for rank in range(RANKS)) + 7 + 3
        assert [each.run for each in compaction.compact(store)] == ["job", "other"]
    assert counts == [(True, (kernels,)), (True, (kernels,))]
    assert verified(store) == []
    assert len(list(store.glob("kernels/run=*/*.parquet"))) == len(("job", "other"))


def test_a_file_that_is_replaced_while_damage_is_looked_for_is_no_damage(
    store: Path, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = commit_log.read_snapshot(LocalFiles(store))
    ingest([job], store, replace=True)
    snapshots = iter([before])
    monkeypatch.setattr(
        verification, "read_snapshot", lambda files: next(snapshots, None) or commit_log.read_snapshot(files)
    )
    assert not all((store / part.key_of(table)).exists() for part in before.parts.values() for table in part.files)
    assert verification.find_damaged_file(store, duckdb.IOException("No files found")) is None


DYING = """
import os, signal, sys
from pathlib import Path
from tracelab.store import compaction
store, left = Path(sys.argv[1]), [int(sys.argv[2])]
def dying(call):
    def wrapped(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **options)
    return wrapped
for owner, name in ((os, "link"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir")):
    setattr(owner, name, dying(getattr(owner, name)))
compaction.compact(store) if sys.argv[3] == "compact" else compaction.drop(store, {"other"}, None)
"""
"""Kills itself before one of the calls that change a store."""


@pytest.mark.parametrize("command", ["compact", "drop"])
def test_a_kill_at_any_moment_loses_nothing(store: Path, job: Path, command: str) -> None:
    job_only = {("job", rank): 30 + rank for rank in range(RANKS)}
    whole = job_only | {("other", 0): 7}

    def kernels() -> dict[tuple[str, int], int]:
        with session.connect(store, referenced="kernels sources") as con:
            rows = con.sql("select run, coalesce(rank, 0), count(dur_ns) from kernels group by all").fetchall()
        return {(run, rank): count for run, rank, count in rows}

    for moment in random.Random(1).sample(range(1, 30), 4):
        child = subprocess.run([sys.executable, "-c", DYING, str(store), str(moment), command], check=False, timeout=60)
        assert child.returncode in (0, -signal.SIGKILL)
        assert kernels() in ([whole] if command == "compact" else [whole, job_only])
    ingest([job, job.parent / "other.json"], store)
    assert (kernels(), verified(store)) == (whole, [])
    listed = {key for part in commit_log.read_snapshot(LocalFiles(store)).parts.values() for key in part.keys}
    assert (set(files(store)), list((store / ".staging").iterdir())) == (listed, [])
