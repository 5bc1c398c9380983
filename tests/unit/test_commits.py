"""Commits need no lock: whichever writers meet or die, each source is stored whole, and once."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.build import build_store
from tests.traces import write_trace
from tracelab.ingest.pipeline import ingest
from tracelab.store import commit as stores
from tracelab.store import commit_log, session
from tracelab.store import files as store_files
from tracelab.store.commit import Store, fold_commits
from tracelab.store.commit_log import Change, Reservation, Snapshot
from tracelab.store.files import LocalFiles

KERNEL = {"name": "k", "device": 0, "start_ns": 5, "dur_ns": 10}
WRITERS = 4


def rows(store: Path) -> list[tuple[str, int, int]]:
    """Count the kernels by run and rank."""
    with session.connect(store, referenced="kernels sources") as con:
        return con.sql("select run, rank, count(*) from kernels group by all order by all").fetchall()


def unlisted(store: Path) -> set[str]:
    """Return the files of tables that no commit lists."""
    listed = {key for part in commit_log.read_snapshot(LocalFiles(store)).parts.values() for key in part.keys}
    return {path.relative_to(store).as_posix() for path in store.glob("*/run=*/*.parquet")} - listed


def start(store: Path, *arguments: object, locks: str = "") -> "subprocess.Popen[bytes]":
    """Start an ingest, in a process whose locks do nothing."""
    program = (
        "import fcntl, sys\n"
        "fcntl.flock = fcntl.lockf = lambda *_: None\n"
        "from tracelab.cli import run\n"
        "sys.exit(run())\n"
    )
    command = [sys.executable, "-c", program, "ingest", *map(str, arguments), "--store", str(store), "-q"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_link_whose_response_was_lost_is_the_writers_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS sends the request again, and finds what the first one linked."""
    link = os.link

    def link_twice(*paths: Path) -> None:
        link(*paths)
        link(*paths)

    files = LocalFiles(tmp_path)
    with store_files.staging_folder(tmp_path) as staging, monkeypatch.context() as patch:
        patch.setattr(os, "link", link_twice)
        assert files.create("commits/1.json", b"1", staging)
        assert not files.create("commits/1.json", b"1", staging)


def test_killed_writers_without_locks_lose_nothing_and_store_nothing_twice(tmp_path: Path) -> None:
    job, store = tmp_path / "job", tmp_path / "lab"
    job.mkdir()
    for rank in range(6):
        write_trace(job / f"rank{rank}.json", kernels=2000 + rank, rank=rank)
    moments = random.Random(3)
    for _ in range(3):
        both = [start(store, job, *options) for options in ((), ("--replace",))]
        time.sleep(moments.uniform(0.5, 1.2))
        for process in both:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if store.is_dir() and commit_log.read_snapshot(LocalFiles(store)).parts:
            assert set(rows(store)) <= {("job", rank, 2000 + rank) for rank in range(6)}
    assert [process.wait() for process in (start(store, job), start(store, job))] == [0, 0]
    ingest([job], store)
    assert rows(store) == [("job", rank, 2000 + rank) for rank in range(6)]
    assert (unlisted(store), list((store / ".staging").iterdir())) == (set(), [])


def test_writers_at_once_take_one_number_after_another(tmp_path: Path) -> None:
    """Sixteen commits of each of four writers, through a checkpoint."""

    def write(writer: int) -> None:
        for at in range(16):
            build_store(tmp_path / "lab", {"kernels": [KERNEL | {"rank": writer, "source": f"{writer}.{at}"}]})

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    assert rows(tmp_path / "lab") == [("r", writer, 16) for writer in range(WRITERS)]
    snapshot = commit_log.read_snapshot(LocalFiles(tmp_path / "lab"))
    assert (snapshot.number, snapshot.checkpoint and snapshot.checkpoint.number) == (64, 64)


def test_one_process_writes_a_checkpoint_each_64_commits(tmp_path: Path) -> None:
    paths = [write_trace(tmp_path / f"{at}.json", kernels=1 + at) for at in range(66)]
    ingest(paths, tmp_path / "lab", jobs=1)
    assert len(list((tmp_path / "lab/commits").glob("*.state.json"))) == 1


def test_a_file_is_created_by_one_of_many_writers(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    (tmp_path / "staging").mkdir()
    with ThreadPoolExecutor(16) as pool:
        won = list(pool.map(lambda at: files.create("commits/1", b"%d" % at, tmp_path / "staging"), range(16)))
    assert sum(won) == 1
    assert files.read("commits/1") == b"%d" % won.index(True)
    assert list((tmp_path / "staging").iterdir()) == []


def test_the_files_of_a_living_writer_stay_and_those_of_a_dead_one_go(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [KERNEL]})
    (kernels,) = store.glob("kernels/*/*")
    orphan = kernels.with_name("dead-part.parquet")
    orphan.write_bytes(kernels.read_bytes())
    with Store(store).staging_folder() as alive:
        dead = alive.with_name(alive.name.replace(f"~{alive.name.split('~')[2]}~", "~999999999~"))
        far = alive.with_name(f"elsewhere{alive.name}")
        for folder in (dead, far):
            folder.mkdir()
        store_files.note_placed(dead, [("r", "dead-part", ["kernels/run=r/dead-part.parquet"])])
        assert stores.remove_leftovers(store) == 2
        assert sorted(folder.name for folder in (store / ".staging").iterdir()) == sorted([alive.name, far.name])
        assert unlisted(store) == set()
    assert rows(store) == [("r", 0, 1)]


def test_a_writer_whose_folder_was_taken_away_cannot_commit(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    (tmp_path / "staging").mkdir()

    def decide(_: Snapshot) -> Change:
        (tmp_path / "staging").rename(tmp_path / "taken")
        return Change()

    with pytest.raises(FileNotFoundError):
        commit_log.append(files, tmp_path / "staging", Snapshot(), decide)
    assert files.names("commits") == []


def test_copies_under_two_names_are_stored_once_also_by_two_ingests_at_once(tmp_path: Path) -> None:
    store, paths = tmp_path / "lab", []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(write_trace(tmp_path / name / f"{name}.json", kernels=20_000))
    both = [start(store, path) for path in paths]
    assert [process.wait() for process in both] == [0, 0]
    assert [count for _, _, count in rows(store)] == [20_000]
    assert unlisted(store) == set()
    (result,) = ingest([paths[0]], store, run="requested").files
    assert (result.status, len(rows(store))) == ("stored", 2)


def test_ranks_of_later_ingests_join_their_run(tmp_path: Path) -> None:
    job, store = tmp_path / "job", tmp_path / "lab"
    job.mkdir()
    first = [write_trace(job / f"rank{rank}.json", kernels=3 + rank, rank=rank) for rank in range(2)]
    assert {result.run for result in ingest(first, store).files} == {"job"}
    for rank in range(2, 4):
        (result,) = ingest([write_trace(job / f"rank{rank}.json", kernels=3 + rank, rank=rank)], store).files
        assert (result.status, result.run) == ("stored", "job")
    later = write_trace(job / "rank5.json", kernels=9, rank=5, first_us=1_900_000_000_000_000)
    again = write_trace(job / "rank1_again.json", kernels=9, rank=1)
    assert [ingest([path], store).files[0].run for path in (later, again)] == ["rank5", "rank1_again"]
    assert rows(store)[:4] == [("job", rank, 3 + rank) for rank in range(4)]


def test_a_reserved_name_is_for_one_folder_while_its_ingest_lives(tmp_path: Path) -> None:
    store, paths = Store(tmp_path / "lab"), []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        paths.append(write_trace(tmp_path / name / "same.json", kernels=len(paths) + 1))
    with store.staging_folder() as other:
        stores.reserve(store, other, lambda _: [Reservation("same", "another folder", other.name, time.time())])
        assert ingest([paths[0]], tmp_path / "lab").files[0].run == "same-2"
    assert ingest([paths[1]], tmp_path / "lab").files[0].run == "same"


def test_old_commits_go_once_two_checkpoints_have_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_KEPT_S", -60.0)
    store = Store(tmp_path / "lab")
    for at in range(3):
        build_store(tmp_path / "lab", {"kernels": [KERNEL | {"source": f"{at}"}]})
        with store.staging_folder() as staging:
            fold_commits(store.files, staging, store.snapshot(), most=1)
    names = sorted(name[:10] + name[10:].partition(".")[2] for name in store.files.names("commits"))
    assert [name for name in names if name.endswith("json")] == [
        "0000000002state.json",
        "0000000003json",
        "0000000003state.json",
    ]
    assert rows(tmp_path / "lab") == [("r", 0, 3)]


def test_a_signal_right_after_the_creation_of_a_staging_folder_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Path.mkdir

    def create_and_end(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        create(path, mode, parents, exist_ok)
        if path.parent.name == store_files.STAGING:
            raise SystemExit(143)

    monkeypatch.setattr(Path, "mkdir", create_and_end)
    with pytest.raises(SystemExit), store_files.staging_folder(tmp_path):
        pass
    assert list((tmp_path / store_files.STAGING).iterdir()) == []
