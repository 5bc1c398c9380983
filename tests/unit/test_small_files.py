"""Many small files of one run become one commit: the same rows as file by file, each source once, and repairable."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.readers.small import kernel, trace
from tests.readers.test_kineto_collectives import NCCL
from tests.readers.test_kineto_launch_ranges import around, collective_kernel, launch
from tests.traces import write_trace
from tracelab import schema
from tracelab.ingest import pipeline
from tracelab.ingest.pipeline import ingest
from tracelab.store import session

RANKS = 20


def write_ranks(folder: Path, ranks: int = RANKS) -> Path:
    folder.mkdir(exist_ok=True)
    for rank in range(ranks):
        write_trace(folder / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_ranks(tmp_path_factory.mktemp("many") / "job")


@pytest.fixture
def store(tmp_path: Path, folder: Path) -> Path:
    store = tmp_path / "lab"
    assert {result.status for result in ingest([folder], store).files} == {"stored"}
    return store


def content(store: Path) -> dict[str, list[dict[str, object]]]:
    """All rows but the time of the ingest, in an order of their own."""
    with session.connect(store) as con:
        tables: dict[str, pa.Table] = {
            name: con.sql(f"from {name}").to_arrow_table() for name in schema.BY_NAME if name != "runs"
        }
    rows = {name: table.to_pylist() for name, table in tables.items()}
    for row in rows["sources"]:
        del row["ingested_at"]
    return {name: sorted(each, key=repr) for name, each in rows.items()}


def kernels(store: Path) -> list[int]:
    """Count the kernels by rank."""
    with session.connect(store, referenced="kernels sources") as con:
        return [n for (n,) in con.sql("select count(*) from kernels group by rank order by rank").fetchall()]


ALL_KERNELS = list(range(3, 3 + RANKS))


def test_one_commit_has_the_rows_that_one_file_after_the_other_has(tmp_path: Path, folder: Path, store: Path) -> None:
    for rank in range(RANKS):
        ingest([folder / f"rank{rank}.json"], tmp_path / "alone", run="job")
    assert content(store) == content(tmp_path / "alone")
    assert len(list(store.glob("kernels/run=job/*"))) == 1
    assert len(list((tmp_path / "alone").glob("kernels/run=job/*"))) == RANKS


def test_many_calls_of_small_files_have_their_api(tmp_path: Path) -> None:
    """The API of so many calls is computed once for each category."""
    categories = {0: "cuda_runtime", 1: "cuda_driver"}
    for rank in range(4):
        calls = [
            {"ph": "X", "cat": categories[at % 2], "name": "call", "pid": 1, "tid": 1, "ts": at, "dur": 1}
            for at in range(2 * (1_100 + rank))
        ]
        (tmp_path / f"rank{rank}.json").write_text(trace(*calls, distributedInfo={"rank": rank, "world_size": 4}))
    ingest(sorted(tmp_path.glob("*.json")), tmp_path / "lab", run="job")
    with session.connect(tmp_path / "lab", referenced="api_calls sources") as con:
        found = con.sql("select rank, api, count(*) from api_calls group by all order by all").fetchall()
    assert found == [(rank, api, 1_100 + rank) for rank in range(4) for api in ("driver", "runtime")]


def test_members_of_large_groups_are_those_of_each_file(tmp_path: Path) -> None:
    """Group 7 of even ranks is 0, 2, …, and that of odd ranks 1, 3, …: events list only the first 30 of them."""
    for rank in range(RANKS):
        members = list(range(rank % 2, 80, 2))
        cut = f"[{', '.join(map(str, members[:30]))}, ...]"
        event = kernel("ncclDevKernel_X", **(NCCL | {"Process Group Name": "7", "Process Group Ranks": cut}))
        info = {"rank": rank, "world_size": 80, "pg_config": [{"pg_name": "7", "ranks": members}]}
        (tmp_path / f"rank{rank}.json").write_text(trace(event, distributedInfo=info))
    ingest(sorted(tmp_path.glob("*.json")), tmp_path / "lab", run="job")
    assert len(list((tmp_path / "lab").glob("collectives/run=job/*"))) == 1
    with session.connect(tmp_path / "lab", referenced="collectives sources") as con:
        rows = con.sql("select rank, group_start, group_stride, group_ranks from collectives order by rank").fetchall()
    assert rows == [(rank, rank % 2, 2, None) for rank in range(RANKS)]


def test_ranges_name_the_collectives_of_their_own_file(tmp_path: Path) -> None:
    """All files have the same correlation and times: the range of each launch is that of its own file."""
    names = ["all_to_all", "gather", "scatter", "all_to_all", "coalesced"]
    for rank, name in enumerate(names):
        events = (around(f"nccl:{name}"), launch(), collective_kernel())
        (tmp_path / f"rank{rank}.json").write_text(trace(*events, distributedInfo={"rank": rank, "world_size": 5}))
        ingest([tmp_path / f"rank{rank}.json"], tmp_path / "alone", run="job")
    ingest(sorted(tmp_path.glob("*.json")), tmp_path / "lab", run="job")
    assert len(list((tmp_path / "lab").glob("collectives/run=job/*"))) == 1
    assert content(tmp_path / "lab") == content(tmp_path / "alone")
    with session.connect(tmp_path / "lab", referenced="collectives sources") as con:
        rows = con.sql("select rank, raw_name from collectives where origin = 'range' order by rank").fetchall()
    assert rows == list(enumerate(names[:4]))


def test_again_is_no_work_also_for_one_of_the_files(folder: Path, store: Path) -> None:
    assert {result.status for result in ingest([folder], store).files} == {"unchanged"}
    (result,) = ingest([folder / "rank7.json"], store).files
    assert (result.status, result.run, kernels(store)) == ("unchanged", "job", ALL_KERNELS)


def test_one_of_the_files_is_replaced_alone(folder: Path, store: Path) -> None:
    before = content(store)
    (result,) = ingest([folder / "rank7.json"], store, replace=True).files
    assert (result.status, kernels(store)) == ("stored", ALL_KERNELS)
    assert content(store) == before
    assert {result.status for result in ingest([folder], store).files} == {"unchanged"}


def test_a_newer_reader_replaces_all(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracelab.readers.kineto.VERSION", "kineto-later")
    assert {result.status for result in ingest([folder], store).files} == {"stored"}
    assert kernels(store) == ALL_KERNELS
    assert {row["reader_version"] for row in content(store)["sources"]} == {"kineto-later"}


def test_a_damaged_commit_is_repaired_by_all_of_its_traces(folder: Path, store: Path) -> None:
    before = content(store)
    (damaged,) = store.glob("kernels/run=job/*")
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (result,) = ingest([folder / "rank7.json"], store).files
    assert (result.status, f"it holds {RANKS} traces: ingest all of them" in result.message) == ("failed", True)
    results = ingest([folder], store).files
    assert [len(result.repaired) for result in results] == [1] + [0] * (RANKS - 1)
    assert content(store) == before


def test_a_damaged_and_an_unreadable_trace_among_them_fail_alone(tmp_path: Path) -> None:
    job = write_ranks(tmp_path / "job")
    cut = job / "rank3.json"
    cut.write_bytes(cut.read_bytes()[:-30])
    (job / "rank4.json").write_text('{"schemaVersion": 1, "traceEvents"')
    results = ingest([job], tmp_path / "lab").files
    by_name = {result.path.name: result.status for result in results}
    expected = dict.fromkeys((f"rank{rank}.json" for rank in range(RANKS)), "stored")
    assert by_name == expected | {"rank3.json": "salvaged", "rank4.json": "not_profiler_data"}


def test_a_trace_that_changes_while_they_are_read_is_not_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = pipeline.stamp_file
    monkeypatch.setattr(pipeline, "stamp_file", lambda path: (0, 0) if path.name == "rank5.json" else stamp(path))
    results = ingest([folder], tmp_path / "lab").files
    failed = [result for result in results if result.status == "failed"]
    assert [result.path.name for result in failed] == ["rank5.json"]
    assert kernels(tmp_path / "lab") == [count for count in ALL_KERNELS if count != 3 + 5]


def test_two_ingests_at_once_store_each_file_once(tmp_path: Path, folder: Path) -> None:
    """The second is given more files, so that its commits are of other sources."""
    more = tmp_path / "more"
    more.mkdir()
    for path in folder.iterdir():
        (more / path.name).write_bytes(path.read_bytes())
    write_trace(more / "rank20.json", kernels=1, rank=20)
    options = ["--run", "job", "--store", str(tmp_path / "lab"), "-q"]
    both = [
        subprocess.Popen([sys.executable, "-m", "tracelab", "ingest", str(paths), *options]) for paths in (folder, more)
    ]
    assert [process.wait() for process in both] == [0, 0]
    assert kernels(tmp_path / "lab") == [*ALL_KERNELS, 1]
