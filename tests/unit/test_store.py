"""The store's promises: a source is there whole or not at all, once, and under a legal name."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.traces import write_trace
from tracelab import schema
from tracelab.errors import StoreError, UsageError
from tracelab.ingest.pipeline import ingest
from tracelab.store import commit_log, session
from tracelab.store.files import LocalFiles
from tracelab.store.writer import TableWriter

EVENTS = 40_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace that takes a while to read."""
    return write_trace(tmp_path_factory.mktemp("trace") / "rank0.json", kernels=EVENTS)


def command(trace: Path, store: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "tracelab", "ingest", str(trace), "--store", str(store), *options]


def parts(store: Path) -> list[commit_log.Part]:
    return list(commit_log.read_snapshot(LocalFiles(store)).parts.values())


def kernels(store: Path) -> int:
    count: int = (
        session.connect(store, referenced="kernels sources").execute("select count(*) from kernels").fetchall()[0][0]
    )
    return count


@pytest.mark.parametrize("after_s", [0.3, 0.45, 0.6, 0.8, 1.0, 1.3])
def test_a_killed_ingest_leaves_all_or_nothing_and_the_next_one_cleans_up(
    tmp_path: Path, trace: Path, after_s: float
) -> None:
    store = tmp_path / "lab"
    process = subprocess.Popen(command(trace, store, "-q"))
    time.sleep(after_s)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [kernels(store) for _ in parts(store)] in ([], [EVENTS])
    ingest([trace], store)
    assert kernels(store) == EVENTS
    assert list((store / ".staging").iterdir()) == []


def test_two_ingests_at_once_store_a_file_once(tmp_path: Path, trace: Path) -> None:
    store = tmp_path / "lab"
    both = [subprocess.Popen(command(trace, store, "-q")) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert kernels(store) == EVENTS
    assert len(list(store.glob("kernels/run=*/*.parquet"))) == len(parts(store)) == 1


def test_two_ingests_at_once_of_two_files_store_both(tmp_path: Path) -> None:
    store = tmp_path / "lab"
    files = [write_trace(tmp_path / f"part{at}.json", kernels=1000 + at) for at in range(2)]
    both = [subprocess.Popen(command(file, store, "-q")) for file in files]
    assert [process.wait() for process in both] == [0, 0]
    assert kernels(store) == 2001


def test_two_ingests_at_once_of_files_of_one_name_are_two_runs(tmp_path: Path) -> None:
    store = tmp_path / "lab"
    for at, folder in enumerate(("n1", "n2")):
        (tmp_path / folder).mkdir()
        write_trace(tmp_path / folder / "x.json", kernels=30_000 + at)
    both = [subprocess.Popen(command(tmp_path / folder / "x.json", store, "-q")) for folder in ("n1", "n2")]
    assert [process.wait() for process in both] == [0, 0]
    found = (
        session.connect(store, referenced="kernels sources")
        .execute("select count(*) from kernels group by run order by 1")
        .fetchall()
    )
    assert found == [(30_000,), (30_001,)]


def test_the_same_file_twice_in_one_call_is_stored_once(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "a.json", kernels=3)
    (tmp_path / "link.json").symlink_to(file)
    copy = tmp_path / "b.json"
    copy.write_bytes(file.read_bytes())
    report = ingest([file, file.resolve(), tmp_path / "link.json", copy], tmp_path / "lab")
    assert [result.status for result in report.files] == ["stored", "unchanged"]
    assert kernels(tmp_path / "lab") == 3


def test_two_profiler_cycles_of_one_folder_are_numbered_runs(tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    for cycle in range(2):
        for rank in range(2):
            name = f"rank{rank}.step{cycle}.json"
            write_trace(folder / name, kernels=3 + rank, rank=rank, first_us=1_700_000_000_000_000 + 10**6 * cycle)
    report = ingest([folder], tmp_path / "lab")
    assert {result.path.name: result.run for result in report.files} == {
        "rank0.step0.json": "steps-1",
        "rank1.step0.json": "steps-1",
        "rank0.step1.json": "steps-2",
        "rank1.step1.json": "steps-2",
    }


def test_the_store_inside_an_ingested_folder_is_left_out(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.json", kernels=1)
    reports = [ingest([tmp_path], tmp_path / "lab") for _ in range(2)]
    assert [len(report.files) for report in reports] == [1, 1]


def test_a_pattern_without_a_match_fails_alone(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "a.json", kernels=1)
    report = ingest([file, tmp_path / "nosuch*.json"], tmp_path / "lab")
    assert ([result.status for result in report.files], report.exit_code) == (["stored", "failed"], 1)


def test_a_name_that_is_no_text_is_stored_readably(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "a.json", kernels=1).rename(tmp_path / os.fsdecode(b"bad\xff.json"))
    assert ingest([file], tmp_path / "lab").files[0].status == "stored"
    found = session.connect(tmp_path / "lab", referenced="sources").execute("select path from sources").fetchall()
    assert found == [(str(tmp_path / "bad\\xff.json"),)]


def test_a_trace_that_changes_while_it_is_read_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_trace(tmp_path / "a.json", kernels=3)
    stamps = iter([(1, 1), (1, 2)])
    monkeypatch.setattr("tracelab.ingest.discovery.stamp_file", lambda _: next(stamps))
    monkeypatch.setattr("tracelab.ingest.pipeline.stamp_file", lambda _: next(stamps))
    (result,) = ingest([file], tmp_path / "lab").files
    assert (result.status, "changed while it was read" in result.message) == ("failed", True)


def test_a_file_of_a_run_folder_that_grows_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run.json").write_text('{"tracelab": "run/1", "run": "r", "status": "not_run"}')
    file = tmp_path / "steps.rank0.jsonl"
    file.write_text('{"tracelab": "steps/1", "run": "r", "rank": 0}\n{"step": 1}\n')
    stamps = iter([(1, 1), (1, 2), (1, 2), (1, 3), (1, 4), (1, 4)])
    monkeypatch.setattr("tracelab.ingest.discovery.stamp_file", lambda _: next(stamps))
    monkeypatch.setattr("tracelab.ingest.pipeline.stamp_file", lambda _: next(stamps))
    (result,) = ingest([file], tmp_path / "lab").files
    assert (result.status, result.rows["steps"], next(stamps, None)) == ("stored", 1, None)


def test_again_is_no_work_and_replace_is(tmp_path: Path) -> None:
    store, file = tmp_path / "lab", write_trace(tmp_path / "a.json", kernels=3)
    statuses = [
        ingest([file], store).files[0].status,
        ingest([file], store).files[0].status,
        ingest([file], store, replace=True).files[0].status,
    ]
    assert (statuses, kernels(store)) == (["stored", "unchanged", "stored"], 3)


def test_another_reader_version_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, file = tmp_path / "lab", write_trace(tmp_path / "a.json", kernels=3)
    ingest([file], store)
    monkeypatch.setattr("tracelab.readers.kineto.VERSION", "kineto-later")
    assert ingest([file], store).files[0].status == "stored"
    (row,) = store.glob("sources/run=*/*.parquet")
    assert pq.read_table(row, partitioning=None).column("reader_version").to_pylist() == ["kineto-later"]


def test_a_file_that_moved_is_the_same_source(tmp_path: Path) -> None:
    store, file = tmp_path / "lab", write_trace(tmp_path / "a.json", kernels=3)
    ingest([file], store)
    moved = file.rename(tmp_path / "b.json")
    (result,) = ingest([moved], store).files
    assert (result.status, result.run) == ("unchanged", "a")


def test_a_store_of_another_major_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, file = tmp_path / "lab", write_trace(tmp_path / "a.json", kernels=3)
    ingest([file], store)
    monkeypatch.setattr(schema, "SCHEMA_VERSION", "4.0")
    with pytest.raises(StoreError, match="re-ingest"):
        ingest([file], store)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("a=b", "a-b"), ("../x", "x"), ("", "run"), (".hidden", "hidden"), ("x" * 101, "x" * 100), ("täglich", "t-glich")],
)
def test_an_illegal_run_name_is_refused_with_the_nearest_legal_one(tmp_path: Path, name: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=f"try '{nearest}'"):
        ingest([tmp_path], tmp_path / "lab", run=name)


@pytest.mark.parametrize("name", ["2024-01-05", "12", "a.b_c-d", "0"])
def test_a_legal_run_name_is_text_in_every_answer(tmp_path: Path, name: str) -> None:
    store, file = tmp_path / "lab", write_trace(tmp_path / "a.json", kernels=1)
    ingest([file], store, run=name)
    assert session.connect(store, referenced="kernels sources").execute(
        "select run, typeof(run) from kernels"
    ).fetchall() == [(name, "VARCHAR")]


def test_runs_are_called_by_the_shortest_end_of_their_path_that_distinguishes_them(tmp_path: Path) -> None:
    files = []
    for at, folder in enumerate(("mordred", "cardiac", "solo")):
        (tmp_path / folder).mkdir()
        files.append(write_trace(tmp_path / folder / ("alone.json" if at == 2 else "report1.json"), kernels=at + 1))
    assert [result.run for result in ingest(files, tmp_path / "lab").files] == [
        "mordred-report1",
        "cardiac-report1",
        "alone",
    ]


def test_a_store_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    file = write_trace(tmp_path / "a.json", kernels=1)
    with pytest.raises(StoreError, match="cannot be used as a store"):
        ingest([file], file)


@pytest.mark.usefixtures("modes_bind")
def test_a_file_that_may_not_be_read_fails_alone(tmp_path: Path) -> None:
    closed, fine = write_trace(tmp_path / "a.json", kernels=1), write_trace(tmp_path / "b.json", kernels=2)
    closed.chmod(0)
    report = ingest([closed, fine], tmp_path / "lab")
    assert ([result.status for result in report.files], report.exit_code) == (["failed", "stored"], 1)


def test_the_exit_code_follows_from_the_outcomes(tmp_path: Path) -> None:
    fine, other, empty = write_trace(tmp_path / "a.json", kernels=1), tmp_path / "b.csv", tmp_path / "c.json"
    other.write_text("a,b\n1,2\n")
    empty.touch()
    codes = [
        ingest(paths, tmp_path / "lab").exit_code for paths in ([fine, other], [other, empty], [fine, tmp_path / "no"])
    ]
    assert codes == [0, 3, 1]


def test_rows_whose_columns_come_in_another_order_are_written_under_their_names(tmp_path: Path) -> None:
    table = schema.BY_NAME["kernels"]
    rows = table.rows([{"run": "r", "source": "s", "rank": 0, "name": "k", "start_ns": 1, "dur_ns": 2, "device": 3}])
    swapped = {"start_ns": "dur_ns", "dur_ns": "start_ns"}  # of one type
    writer = TableWriter(tmp_path / "kernels.parquet", table)
    writer.write(rows)
    writer.write(rows.select([swapped.get(name, name) for name in rows.column_names]))
    writer.close()
    written = pq.read_table(tmp_path / "kernels.parquet", partitioning=None)
    assert (written["start_ns"].to_pylist(), written["dur_ns"].to_pylist()) == ([1, 1], [2, 2])
