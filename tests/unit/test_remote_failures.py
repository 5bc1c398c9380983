"""Failures of stores in object storage: writers that compete or die, responses that are lost, and files that vanish."""

import errno
import functools
import resource
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.object_storage import ALL, RANKS, count_kernels, list_keys
from tracelab import temp_folders
from tracelab.cli import main
from tracelab.errors import NoDataError, StoreError, UsageError
from tracelab.ingest import run_grouping
from tracelab.ingest.pipeline import ingest
from tracelab.store import buckets, commit_log, compaction, remote, rollups, session
from tracelab.store.commit import Staged, Store, commit

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")
LocalStore = obstore.store.LocalStore

WRITERS = 16


def test_objects_that_are_gone_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 deletes what is not there; Azure, Google and a folder report it."""
    monkeypatch.setattr(buckets, "connect", lambda _url: LocalStore(tmp_path))
    files = remote.BucketFiles("az://container/lab")
    for name in ("first", "last"):
        (tmp_path / name).write_bytes(b"")
    files.delete(["first", "missing", "last"])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_vanishes_does_not_stop_the_ingest_there(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assign = run_grouping.assign_runs

    def assign_and_delete(*arguments: Any) -> Any:
        assignments = assign(*arguments)
        (job / "rank1.json").unlink()
        return assignments

    monkeypatch.setattr(run_grouping, "assign_runs", assign_and_delete)
    done = CliRunner().invoke(main, ["ingest", str(job), "--store", url])
    assert (done.exit_code, f"{job}/rank1.json: No such file or directory" in done.stderr) == (1, True), done.output
    assert count_kernels(url) == [("job", 0, 3), ("job", 2, 5)]


def test_a_full_disk_for_temporary_files_is_one_sentence_there(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stops writing as a full disk does."""
    ingest([job / "rank0.json"], url)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, limits[1]))
    try:
        done = CliRunner().invoke(main, ["ingest", str(job), "--run", "job", "--store", url])
        queried = CliRunner().invoke(main, ["query", "kernel_summary", "--store", url])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    problem = "no temporary file can be written (File too large); free space, or set TMPDIR to another folder"
    assert (done.exit_code, done.stderr) == (1, f"tracelab: {tempfile.gettempdir()}: {problem}; stored files stay\n")
    assert (queried.exit_code, queried.stderr) == (1, f"tracelab: {tempfile.gettempdir()}: {problem}\n")
    monkeypatch.setattr(temp_folders, "process_folder", functools.cache(temp_folders._create_locked))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_get_default_tempdir", no_folder)
    done = CliRunner().invoke(main, ["ingest", str(job), "--store", url])
    assert (done.exit_code, done.stderr.partition(": no temp")[0]) == (1, "tracelab: TMPDIR"), done.output


def no_folder() -> str:
    raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")


def test_a_file_that_a_writer_removes_after_the_log_was_read_costs_one_more_reading(url: str, job: Path) -> None:
    ingest([job], url)
    store = session.open_store(url)
    ingest([job], url, replace=True)
    removed = [key for key in list_keys(url) if key.startswith("kernels/")]
    with session.connect(store, referenced="kernels sources") as con:
        assert con.sql("select rank, count(*) from kernels group by all order by all").fetchall() == [
            (rank, 3 + rank) for rank in range(RANKS)
        ]
    assert removed


def test_two_names_for_one_content_are_one_run(url: str, job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.json"
    copy.write_bytes((job / "rank0.json").read_bytes())
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda path: ingest([path], url), (job / "rank0.json", copy)))
    assert sorted(report.files[0].status for report in reports) == ["stored", "unchanged"]
    assert [count for _, _, count in count_kernels(url)] == [3]


@pytest.fixture
def scratch(job: Path, tmp_path: Path) -> Path:
    """A local store of one source."""
    assert ingest([job / "rank0.json"], tmp_path / "scratch", run="job").exit_code == 0
    return tmp_path / "scratch"


def put(scratch: Path, url: str, *, replace: bool) -> bool:
    """Commit the source of a local store to another; return whether this writer did."""
    store = Store(url)
    with store.staging_folder() as folder:
        for path in scratch.glob("*/run=job/*.parquet"):
            (folder / f"{path.parts[-3]}.parquet").write_bytes(path.read_bytes())
        (row,) = pq.read_table(folder / "sources.parquet").to_pylist()
        return not commit(store, Staged(folder, [row]), replace=replace)


def test_of_16_writers_one_commits(url: str, scratch: Path) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(lambda _: put(scratch, url, replace=False), range(WRITERS)))
    assert sum(won) == 1
    assert count_kernels(url) == [("job", 0, 3)]
    assert len([key for key in list_keys(url) if key.startswith("kernels/")]) == 1


def test_a_commit_whose_response_was_lost_is_the_writers_own(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry of a conditional put, as of one that timed out, finds what the first try put."""
    put = obstore.put

    def put_twice(*arguments: Any, **options: Any) -> Any:
        put(*arguments, **options)
        return put(*arguments, **options)

    monkeypatch.setattr(obstore, "put", put_twice)
    for replace in (False, True):
        assert [file.status for file in ingest([job], url, replace=replace).files] == ["stored"] * RANKS
    assert [run.parts for run in compaction.compact(url)] == [1]
    assert count_kernels(url) == ALL
    assert [run.sources for run in compaction.drop(url, {"job"}, None)] == [RANKS]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_drops_within_a_commit_costs_another_try(url: str, job: Path, moment: str) -> None:
    """Whether the commit is there is unknown until it is read back."""
    place = f"{url}/drop-2-{moment}"
    assert [file.status for file in ingest([job], place).files] == ["stored"] * RANKS
    assert count_kernels(place) == ALL
    numbers = [key for key in list_keys(place) if key.startswith("commits/")]
    assert numbers == [f"commits/{number:010d}.json" for number in range(1, len(numbers) + 1)]
    assert [file.status for file in ingest([job], place).files] == ["unchanged"] * RANKS


def drop_puts(
    monkeypatch: pytest.MonkeyPatch, number: int, put_first: Callable[..., Any] = lambda *_, **__: None
) -> None:
    """Raise what obstore does as a response times out, for the first conditional puts of each object."""
    put = obstore.put
    dropped: Counter[str] = Counter()

    def limited(bucket: Any, key: str, content: Any, **options: Any) -> Any:
        if options and dropped[key] < number:
            dropped[key] += 1
            put_first(bucket, key, content, **options)
            raise obstore.exceptions.GenericError("operation timed out")
        return put(bucket, key, content, **options)

    monkeypatch.setattr(obstore, "put", limited)


@pytest.mark.parametrize("is_put", [True, False])
def test_a_commit_that_times_out_is_read_back(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch, is_put: bool
) -> None:
    drop_puts(monkeypatch, 2, *([obstore.put] if is_put else []))
    assert [file.status for file in ingest([job], url).files] == ["stored"] * RANKS
    assert count_kernels(url) == ALL


def test_a_commit_that_always_times_out_is_one_sentence_and_leaves_nothing(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_puts(monkeypatch, 100)
    with pytest.raises(StoreError, match=f"{url}: operation timed out; check the address"):
        ingest([job], url)
    assert list_keys(url) == {}


def test_a_commit_that_times_out_while_another_writer_commits_has_lost(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = obstore.put
    drop_puts(monkeypatch, 1, lambda bucket, key, _, **options: put(bucket, key, b"another's", **options))
    files = remote.BucketFiles(url)
    assert not files.create("commits/0000000001.json", b"own", Path())
    assert files.read("commits/0000000001.json") == b"another's"


def test_of_two_that_remove_a_run_one_did(url: str, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest([job], url)
    others: list[list[compaction.DroppedRun]] = []
    create = remote.BucketFiles.create

    def create_late(files: Any, *arguments: Any) -> bool:
        if not others:
            others.append([])
            others[0] = compaction.drop(url, {"job"}, None)
        return create(files, *arguments)

    monkeypatch.setattr(remote.BucketFiles, "create", create_late)
    assert [len(runs) for runs in (compaction.drop(url, {"job"}, None), *others)] == [0, 1]


def test_a_commit_that_exists_and_is_not_found_is_one_sentence(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote.BucketFiles, "create", lambda *_: False)
    monkeypatch.setattr(commit_log, "_CONFLICT_S", 0.0)
    with pytest.raises(StoreError, match=r"commits/0000000001\.json exists, but a read does not find it"):
        ingest([job], url)


def test_16_writers_that_replace_commit_one_after_another(url: str, scratch: Path) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(lambda _: put(scratch, url, replace=True), range(WRITERS)))
    listed = list_keys(url)
    assert won == [True] * WRITERS
    assert len([key for key in listed if key.startswith("commits/")]) == WRITERS
    assert len([key for key in listed if key.startswith("kernels/")]) == 1
    assert count_kernels(url) == [("job", 0, 3)]


class KilledError(BaseException):
    """The writer dies."""


def die_at(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let a writer die before its request of this number, counted from 0, that changes the store."""
    left = [number]

    def limited(request: Callable[..., Any]) -> Callable[..., Any]:
        def send(*args: Any, **options: Any) -> Any:
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
            return request(*args, **options)

        return send

    for name in ("put", "delete"):
        monkeypatch.setattr(obstore, name, limited(getattr(obstore, name)))


@pytest.mark.parametrize("replace", [False, True])
def test_a_writer_that_dies_between_any_two_requests_loses_nothing(url: str, scratch: Path, replace: bool) -> None:
    expected = [("job", 0, 3)]
    visible = []
    for number in range(20):
        place = f"{url}/{number}"
        if replace:
            put(scratch, place, replace=False)
        with pytest.MonkeyPatch.context() as patch:
            die_at(patch, number)
            try:
                put(scratch, place, replace=replace)
                break
            except KilledError:
                pass
        try:
            visible.append(count_kernels(place) == expected)
        except NoDataError:
            visible.append(False)
        put(scratch, place, replace=replace)
        assert count_kernels(place) == expected
    tables = len(list(scratch.glob("*/run=job/*.parquet")))
    # the tables are put first, then the commit; a replacement deletes what it replaced at last
    assert visible == ([True] * (tables + 2) if replace else [False] * (tables + 1))


@pytest.mark.parametrize("command", ["compact", "drop"])
def test_a_compaction_or_a_drop_that_dies_between_any_two_requests_is_whole_or_none(
    url: str, job: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = {"compact": compaction.compact, "drop": lambda place: compaction.drop(place, {"job"}, None)}[command]
    ingest([job], url)
    outcomes = []
    for number in range(60):
        with pytest.MonkeyPatch.context() as patch:
            die_at(patch, number)
            try:
                call(url)
                break
            except KilledError:
                pass
        try:
            outcomes.append(count_kernels(url))
        except NoDataError:
            outcomes.append([])
        if command == "drop":
            ingest([job], url)
    allowed = [ALL] if command == "compact" else [ALL, []]
    assert len(outcomes) > 1
    assert all(outcome in allowed for outcome in outcomes)
    if command == "compact":
        assert count_kernels(url) == ALL
        monkeypatch.setattr(compaction, "_UNLISTED_S", -60.0)  # what dead writers have put is deleted after a day
        call(url)
        assert len([key for key in list_keys(url) if key.startswith("kernels/")]) == 1


def test_a_reader_who_may_not_write_there_keeps_its_rollups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise StoreError("Access Denied")

    monkeypatch.setattr(remote, "put_below", refuse)
    segment = tmp_path / rollups.FOLDER / "definition" / "segment"
    segment.mkdir(parents=True)
    rollups._publish(tmp_path, segment, ())
    assert segment.exists()


@pytest.mark.parametrize(
    "path",
    ["x#a", "x?a", "a%2fb", "a/../x", "./x", "..", "a//x", "x//", "a\\x", "a\tx", "x ", "a\nb"],
)
def test_an_address_that_means_another_path_is_refused(url: str, job: Path, path: str) -> None:
    """Two addresses of one store would let its owner drop what others stored under the other name."""
    for words in (["ingest", str(job)], ["drop", "--run", "a*"], ["query", "mfu"]):
        done = CliRunner().invoke(main, [*words, "--store", f"{url}/{path}"])
        assert (done.exit_code, "the path of a store has no part that is empty" in done.stderr) == (2, True), (
            done.stderr
        )
    with pytest.raises(NoDataError, match="contains no ingested trace"):
        session.open_store(url)


def test_mistakes_are_one_sentence(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoDataError, match="contains no ingested trace; run `tracelab ingest"):
        session.open_store(url)
    for words in (["compact"], ["drop", "--run", "job"], ["query", "kernel_summary"]):
        done = CliRunner().invoke(main, [*words, "--store", url])
        remedy = f"run `tracelab ingest PATH --store {url}` first"
        assert (done.exit_code, done.stderr) == (3, f"tracelab: the store {url} contains no ingested trace; {remedy}\n")
    with pytest.raises(UsageError, match="not the address of a store; write a folder, or s3://"):
        session.open_store("ftp://host/lab")
    with pytest.raises(StoreError, match="nosuch"):
        session.open_store("s3://nosuch/lab")
    with monkeypatch.context() as patch, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and does not listen
        server = f"http://127.0.0.1:{closed.getsockname()[1]}"
        patch.setenv("AWS_ENDPOINT_URL", server)
        with pytest.raises(StoreError) as raised:
            session.open_store(url)
    assert str(raised.value) == f"{url}: no connection to {server}; check the address and its credentials"
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(UsageError, match=r"pip install 'tracelab\[cloud\]'"):
        session.open_store(url)
