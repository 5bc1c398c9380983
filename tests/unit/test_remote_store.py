"""Stores in object storage, against moto's server: one process that answers S3's requests from its memory.

It checks conditional puts, and lists what was put at once. It shows neither latency, nor throttling, nor lost
connections, nor credentials that expire, and nothing of Google's and Azure's services.
"""

import errno
import functools
import http.server
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tracelab
from tests.traces import write_trace
from tracelab import doctor, temp_folders
from tracelab.cli import main
from tracelab.errors import NoDataError, StoreError, TracelabError, UsageError
from tracelab.ingest import run_grouping
from tracelab.ingest.pipeline import ingest
from tracelab.sql import sandbox
from tracelab.store import buckets, commit_log, compaction, integrity, remote, rollups, session
from tracelab.store.commit import Staged, Store, commit

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")
LocalStore = obstore.store.LocalStore

RANKS = 3
WRITERS = 16


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.s3_server", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                make_bucket = urllib.request.Request(f"{url}/lab", method="PUT")  # noqa: S310 - a URL of our own
                urllib.request.urlopen(make_bucket).close()  # noqa: S310
                break
            except OSError:
                time.sleep(0.1)
        yield url
        server.terminate()


@pytest.fixture
def url(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty store."""
    values = {"ENDPOINT_URL": endpoint, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret", "REGION": "us-east-1"}
    for name, value in values.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return f"s3://lab/{tmp_path.name}"


def test_objects_that_are_gone_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 deletes what is not there; Azure, Google and a folder report it."""
    monkeypatch.setattr(buckets, "connect", lambda _url: LocalStore(tmp_path))
    files = remote.BucketFiles("az://container/lab")
    for name in ("first", "last"):
        (tmp_path / name).write_bytes(b"")
    files.delete(["first", "missing", "last"])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(RANKS):
        write_trace(folder / f"rank{rank}.json", kernels=3 + rank, rank=rank)
    return folder


def kernels(url: str) -> list[tuple[str, int, int]]:
    """Count the kernels by run and rank."""
    with session.connect(session.open_store(url), referenced="kernels sources") as con:
        return con.sql("select run, rank, count(*) from kernels group by all order by all").fetchall()


def keys(url: str) -> dict[str, int]:
    """Return size by key of all objects."""
    return {file.key: file.size_bytes for file in remote.BucketFiles(url).walk("")}


ALL = [("job", rank, 3 + rank) for rank in range(RANKS)]


def read_delta(url: str) -> list[str]:
    """Return the run of each kernel of a Delta table at a URL, by the library's own object store."""
    deltalake = pytest.importorskip("deltalake")
    options = {"aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "aws_allow_http": "true"}
    table = deltalake.DeltaTable(f"{url}/kernels", storage_options=options)
    rows = deltalake.QueryBuilder().register("kernels", table).execute("select run from kernels").read_all()
    return [str(run) for run in pa.table(rows)["run"].to_pylist()]


def test_a_delta_table_beside_the_files_at_a_url_follows_its_store(
    url: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("deltalake")
    words = ["export", "--store", url, "--delta", url]
    ingest([job], url)
    done = [CliRunner().invoke(main, words) for _ in range(2)]
    assert [each.exit_code for each in done] == [0, 0], done[0].output
    assert " 0 removed" in done[0].stderr
    assert " 0 added, 0 removed" in done[1].stderr
    assert read_delta(url) == ["job"] * (3 + 4 + 5)
    assert compaction.drop(url, {"job"}, None)
    monkeypatch.setattr(remote, "_FOOTER_BYTES", 64)  # shorter than any footer
    ingest([write_trace(tmp_path / "second.json", kernels=2, rank=0)], url)
    assert CliRunner().invoke(main, words).exit_code == 0
    assert read_delta(url) == ["second"] * 2
    assert kernels(url) == [("second", 0, 2)]


def test_an_iceberg_catalog_on_the_disk_names_the_files_at_a_url(url: str, tmp_path: Path) -> None:
    sql = pytest.importorskip("pyiceberg.catalog.sql")
    ingest([write_trace(tmp_path / "job.json", kernels=3, rank=0)], url)
    done = CliRunner().invoke(main, ["export", "--store", url, "--iceberg", str(tmp_path / "catalog")])
    assert done.exit_code == 0, done.output
    options = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": os.environ["AWS_REGION"]}
    options["uri"] = f"sqlite:///{tmp_path / 'catalog' / 'catalog.db'}"
    catalog = sql.SqlCatalog("tracelab", **options)
    assert catalog.load_table("tracelab.kernels").scan().to_arrow()["run"].to_pylist() == ["job"] * 3
    catalog.close()


def peak_mib() -> int:
    """Return the most memory that this process had since the peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="only Linux resets the peak of a process")
def test_large_files_are_copied_in_pieces(url: str, tmp_path: Path) -> None:
    """Four files of 24 MiB, copied at once, would be 96 MiB."""
    paths = [tmp_path / str(number) for number in range(4)]
    for path in paths:
        path.write_bytes(bytes(24 << 20))
    files = remote.BucketFiles(url)
    files.place({path: f"kernels/{path.name}" for path in paths})
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_mib()
    remote._copy_objects(files, tmp_path / "copy", [f"kernels/{path.name}" for path in paths])
    assert peak_mib() - before < 48
    assert [path.stat().st_size >> 20 for path in sorted((tmp_path / "copy" / "kernels").iterdir())] == [24] * 4
    with pytest.raises(FileNotFoundError):
        remote._copy_objects(files, tmp_path / "copy", ["kernels/none"])
    assert len([*(tmp_path / "copy" / "kernels").iterdir()]) == 4


def test_a_store_at_a_url_is_ingested_into_queried_and_checked(url: str, job: Path) -> None:
    assert [result.status for result in ingest([job], url).files] == ["stored"] * RANKS
    assert [result.status for result in ingest([job], url).files] == ["unchanged"] * RANKS
    lab = tracelab.open(url)
    assert lab.query("kernel_summary").arrow()["calls"].to_pylist().count(1) > 0
    assert lab.sql("select count(*) as n from kernels").arrow()["n"].to_pylist() == [3 + 4 + 5]
    assert "damaged_file" not in doctor.examine_store(session.open_store(url), None)["code"].to_pylist()
    assert kernels(url) == ALL


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
    assert kernels(url) == [("job", 0, 3), ("job", 2, 5)]


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


def test_commands_and_messages_name_the_url(url: str, job: Path) -> None:
    ingest([job], url, match=False)
    for words in (["summary"], ["summary", "--format", "json"], ["report", "-o", "-"], ["doctor", "--format", "json"]):
        done = CliRunner().invoke(main, [*words, "--store", url])
        assert (done.exit_code, "/store-" in done.stdout) == (0, False), done.output
        assert f"--store {url}" in done.stdout or words[0] == "doctor"
    done = CliRunner().invoke(main, ["sql", "--init", "--store", url])
    problem = "is at a URL, and views would name temporary copies of its files; copy it to a folder, and name that"
    assert (done.exit_code, done.stderr) == (2, f"tracelab: --init: the store {url} {problem}\n")
    changed = integrity.StoreChangedError(session.open_store(url))
    assert str(changed).startswith(f"{url}: files were replaced")


def test_the_client_ingests_into_the_store_there(url: str, job: Path) -> None:
    ingest([job / "rank0.json"], url, run="job")
    lab = tracelab.open(url)
    assert lab.ingest(job, run="job").arrow()["status"].to_pylist() == ["unchanged", "stored", "stored"]
    assert kernels(url) == ALL
    assert lab.sql("select count(*) as n from kernels").to_pylist() == [{"n": 3 + 4 + 5}]


def test_the_sandbox_of_sql_holds_there(url: str, job: Path) -> None:
    ingest([job], url)
    with pytest.raises(UsageError, match="reads only the store"):
        tracelab.open(url).sql("from read_text('/etc/passwd')")
    with pytest.raises(UsageError):
        tracelab.open(url).sql("from read_parquet('s3://lab/other/kernels/*/*.parquet')")


class Counted(http.server.BaseHTTPRequestHandler):
    """Counts requests, and answers none with content."""

    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_error(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


def test_no_statement_there_reaches_a_file_or_the_network(url: str, job: Path, tmp_path: Path) -> None:
    """Each is tried with the credentials in the environment, where a free DuckDB would succeed."""
    ingest([job], url)
    other = session.open_store(url)  # the copy of another session, in the same folder for temporary files
    (tmp_path / "secret.csv").write_text("secret\n1\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Counted) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        web = f"http://127.0.0.1:{server.server_address[1]}"
        lab = tracelab.open(url)
        statements = (
            f"from read_csv('{tmp_path}/secret.csv')",
            f"from '{tmp_path}/secret.csv'",
            "from read_text('/proc/self/environ')",
            f"from read_text('{other}/.origin')",
            f"from read_text('{lab.store}/../{other.name}/.origin')",
            f"from glob('{tmp_path}/*')",
            f"from read_parquet('{url}/sources/*/*.parquet')",
            f"from '{url}/sources/x.parquet'",
            f"from read_csv('{web}/x.csv')",
            f"from read_parquet('{web}/x.parquet')",
            f"copy kernels to '{url}/stolen.parquet'",
            f"copy kernels to '{tmp_path}/stolen.parquet'",
            "install httpfs",
            "load httpfs",
            "create secret s (type s3, provider credential_chain)",
            "set enable_external_access = true",
            f"attach '{web}/x.duckdb'",
            "select getenv('AWS_SECRET_ACCESS_KEY')",
        )
        with sandbox.connect(lab.store) as con:
            for statement in statements:
                with pytest.raises(TracelabError), sandbox.stream(con, statement) as rows:
                    rows.read_all()
        for statement in statements[:2]:  # `Lab` opens such a session for each statement
            with pytest.raises(TracelabError):
                lab.sql(statement).arrow()
        server.shutdown()
    assert Counted.requests == []
    assert not [key for key in keys(url) if "stolen" in key]
    assert not list(tmp_path.glob("stolen*"))


def test_only_the_files_that_a_query_names_are_copied(
    url: str, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run in ("one", "two"):
        ingest([job / "rank0.json"], url, run=run, replace=True)
    read: list[str] = []
    get = obstore.get
    monkeypatch.setattr(obstore, "get", lambda bucket, key: (read.append(key), get(bucket, key))[1])
    store = session.open_store(url)
    assert {key.partition("/")[0] for key in read} == {"commits"}
    read.clear()
    with session.connect(store, referenced="kernels", runs=["one"]) as con:
        assert con.sql("select run, count(*) from kernels group by run").fetchall() == [("one", 3)]
    assert {key.rpartition("/")[0] for key in read} == {"kernels/run=one"}
    read.clear()
    with session.connect(store, referenced="kernels") as con:
        assert con.sql("select count(*) from kernels").fetchall() == [(6,)]
    assert {key.rpartition("/")[0] for key in read} == {"kernels/run=two"}


def test_a_file_that_a_writer_removes_after_the_log_was_read_costs_one_more_reading(url: str, job: Path) -> None:
    ingest([job], url)
    store = session.open_store(url)
    ingest([job], url, replace=True)
    removed = [key for key in keys(url) if key.startswith("kernels/")]
    with session.connect(store, referenced="kernels sources") as con:
        assert con.sql("select rank, count(*) from kernels group by all order by all").fetchall() == [
            (rank, 3 + rank) for rank in range(RANKS)
        ]
    assert removed


def test_a_rank_that_comes_later_is_added(url: str, job: Path) -> None:
    ingest([job / "rank0.json"], url, run="job")
    ingest([job], url, run="job")
    assert kernels(url) == ALL


def test_a_replacement_takes_the_place_of_what_it_replaces(url: str, job: Path) -> None:
    ingest([job], url)
    before = keys(url)
    assert [result.status for result in ingest([job], url, replace=True).files] == ["stored"] * RANKS
    after = keys(url)
    assert kernels(url) == ALL
    assert {key for key in before if key in after} == {key for key in before if key.startswith("commits/")}
    assert len([key for key in after if key.startswith("kernels/")]) == RANKS


def test_two_names_for_one_content_are_one_run(url: str, job: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere.json"
    copy.write_bytes((job / "rank0.json").read_bytes())
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda path: ingest([path], url), (job / "rank0.json", copy)))
    assert sorted(report.files[0].status for report in reports) == ["stored", "unchanged"]
    assert [count for _, _, count in kernels(url)] == [3]


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
    assert kernels(url) == [("job", 0, 3)]
    assert len([key for key in keys(url) if key.startswith("kernels/")]) == 1


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
    assert kernels(url) == ALL
    assert [run.sources for run in compaction.drop(url, {"job"}, None)] == [RANKS]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_connection_that_drops_within_a_commit_costs_another_try(url: str, job: Path, moment: str) -> None:
    """Whether the commit is there is unknown until it is read back."""
    place = f"{url}/drop-2-{moment}"
    assert [file.status for file in ingest([job], place).files] == ["stored"] * RANKS
    assert kernels(place) == ALL
    numbers = [key for key in keys(place) if key.startswith("commits/")]
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
    assert kernels(url) == ALL


def test_a_commit_that_always_times_out_is_one_sentence_and_leaves_nothing(
    url: str, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop_puts(monkeypatch, 100)
    with pytest.raises(StoreError, match=f"{url}: operation timed out; check the address"):
        ingest([job], url)
    assert keys(url) == {}


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
    listed = keys(url)
    assert won == [True] * WRITERS
    assert len([key for key in listed if key.startswith("commits/")]) == WRITERS
    assert len([key for key in listed if key.startswith("kernels/")]) == 1
    assert kernels(url) == [("job", 0, 3)]


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
            visible.append(kernels(place) == expected)
        except NoDataError:
            visible.append(False)
        put(scratch, place, replace=replace)
        assert kernels(place) == expected
    tables = len(list(scratch.glob("*/run=job/*.parquet")))
    # the tables are put first, then the commit; a replacement deletes what it replaced at last
    assert visible == ([True] * (tables + 2) if replace else [False] * (tables + 1))


def test_a_run_there_is_compacted_beside_a_reader_and_dropped(url: str, job: Path) -> None:
    ingest([job], url, replace=True)  # one part for each of so few files
    ingest([job / "rank0.json"], url, run="other", replace=True)
    reader = session.open_store(url)
    tables = [key for key in keys(url) if key.startswith("kernels/run=job/")]
    (compacted,) = compaction.compact(url)
    assert (compacted.run, compacted.parts_before, compacted.parts) == ("job", RANKS, 1)
    assert compacted.files_before == RANKS * compacted.files
    assert len(tables) == RANKS
    assert len([key for key in keys(url) if key.startswith("kernels/run=job/")]) == 1
    with session.connect(reader, referenced="kernels") as con:  # its copy of the log names the files that are gone
        assert con.sql("select count(*) from kernels").fetchall() == [(3 + 3 + 4 + 5,)]
    assert kernels(url) == [*ALL, ("other", 0, 3)]
    assert [result.status for result in ingest([job], url, run="job").files] == ["unchanged"] * RANKS
    done = CliRunner().invoke(main, ["drop", "--run", "job", "--store", url])
    assert (done.exit_code, f"{RANKS} sources" in done.output) == (0, True), done.output
    done = CliRunner().invoke(main, ["compact", "--store", url])
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert kernels(url) == [("other", 0, 3)]
    assert not [key for key in keys(url) if key.startswith("kernels/run=job/")]


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
            outcomes.append(kernels(url))
        except NoDataError:
            outcomes.append([])
        if command == "drop":
            ingest([job], url)
    allowed = [ALL] if command == "compact" else [ALL, []]
    assert len(outcomes) > 1
    assert all(outcome in allowed for outcome in outcomes)
    if command == "compact":
        assert kernels(url) == ALL
        monkeypatch.setattr(compaction, "_UNLISTED_S", -60.0)  # what dead writers have put is deleted after a day
        call(url)
        assert len([key for key in keys(url) if key.startswith("kernels/")]) == 1


def test_rollups_are_kept_there(url: str, job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []
    original = rollups.compute_rollups

    def compute(relations: Mapping[str, pa.Table], *rest: Any) -> dict[str, pa.Table]:
        computed.extend(relations["files"].column("run").to_pylist())
        return original(relations, *rest)

    monkeypatch.setattr(rollups, "compute_rollups", compute)
    monkeypatch.setattr(rollups, "_MOST_SEGMENTS", 1)
    text = "select run, count(*) from rollup_ranks group by run order by run"
    for run in ("one", "two"):
        ingest([job / "rank0.json"], url, run=run, replace=True)
        rows = tracelab.open(url).sql(text).to_pylist()
    assert ([row["run"] for row in rows], computed) == (["one", "two"], ["one", "two"])
    kept = [key for key in keys(url) if key.startswith(".rollups/")]
    assert len({key.rpartition("/")[0] for key in kept}) == 1  # two segments became one

    read: list[str] = []
    get = obstore.get
    monkeypatch.setattr(obstore, "get", lambda bucket, key: (read.append(key), get(bucket, key))[1])
    assert (tracelab.open(url).sql(text).to_pylist(), computed) == (rows, ["one", "two"])
    assert {key.partition("/")[0] for key in read} == {"commits", "sources", ".rollups"}


def test_a_reader_who_may_not_write_there_keeps_its_rollups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise StoreError("Access Denied")

    monkeypatch.setattr(remote, "put_below", refuse)
    segment = tmp_path / rollups.FOLDER / "definition" / "segment"
    segment.mkdir(parents=True)
    rollups._publish(tmp_path, segment, ())
    assert segment.exists()


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


def test_a_file_url_is_a_folder(tmp_path: Path, job: Path) -> None:
    ingest([job], f"file://{tmp_path}/my%20lab")
    assert session.open_store(f"file://{tmp_path}/my%20lab") == tmp_path / "my lab"
    assert kernels(str(tmp_path / "my lab")) == ALL
    for url in ("file://lab", "file://lab/x"):  # a relative path has no such URL
        with pytest.raises(UsageError, match="write file:///PATH with three slashes"):
            session.open_store(url)
