"""Stores in object storage: written, read, queried and compacted, against moto's server.

One process answers S3's requests from its memory. It checks conditional puts, and lists what was put at once. It shows
neither latency, nor throttling, nor credentials that expire, and nothing of Google's and Azure's services.
"""

import http.server
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from click.testing import CliRunner

import tracelab
from tests.object_storage import ALL, RANKS, count_kernels, list_keys
from tests.traces import write_trace
from tracelab import doctor
from tracelab.cli import main
from tracelab.errors import TracelabError, UsageError
from tracelab.ingest.pipeline import ingest
from tracelab.sql import sandbox
from tracelab.store import compaction, integrity, remote, rollups, session

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")


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
    assert count_kernels(url) == [("second", 0, 2)]


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
    assert count_kernels(url) == ALL


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
    assert count_kernels(url) == ALL
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
    assert not [key for key in list_keys(url) if "stolen" in key]
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


def test_a_rank_that_comes_later_is_added(url: str, job: Path) -> None:
    ingest([job / "rank0.json"], url, run="job")
    ingest([job], url, run="job")
    assert count_kernels(url) == ALL


def test_a_replacement_takes_the_place_of_what_it_replaces(url: str, job: Path) -> None:
    ingest([job], url)
    before = list_keys(url)
    assert [result.status for result in ingest([job], url, replace=True).files] == ["stored"] * RANKS
    after = list_keys(url)
    assert count_kernels(url) == ALL
    assert {key for key in before if key in after} == {key for key in before if key.startswith("commits/")}
    assert len([key for key in after if key.startswith("kernels/")]) == RANKS


def test_a_run_there_is_compacted_beside_a_reader_and_dropped(url: str, job: Path) -> None:
    ingest([job], url, replace=True)  # one part for each of so few files
    ingest([job / "rank0.json"], url, run="other", replace=True)
    reader = session.open_store(url)
    tables = [key for key in list_keys(url) if key.startswith("kernels/run=job/")]
    (compacted,) = compaction.compact(url)
    assert (compacted.run, compacted.parts_before, compacted.parts) == ("job", RANKS, 1)
    assert compacted.files_before == RANKS * compacted.files
    assert len(tables) == RANKS
    assert len([key for key in list_keys(url) if key.startswith("kernels/run=job/")]) == 1
    with session.connect(reader, referenced="kernels") as con:  # its copy of the log names the files that are gone
        assert con.sql("select count(*) from kernels").fetchall() == [(3 + 3 + 4 + 5,)]
    assert count_kernels(url) == [*ALL, ("other", 0, 3)]
    assert [result.status for result in ingest([job], url, run="job").files] == ["unchanged"] * RANKS
    done = CliRunner().invoke(main, ["drop", "--run", "job", "--store", url])
    assert (done.exit_code, f"{RANKS} sources" in done.output) == (0, True), done.output
    done = CliRunner().invoke(main, ["compact", "--store", url])
    assert (done.exit_code, done.exception) == (0, None), done.output
    assert count_kernels(url) == [("other", 0, 3)]
    assert not [key for key in list_keys(url) if key.startswith("kernels/run=job/")]


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
    kept = [key for key in list_keys(url) if key.startswith(".rollups/")]
    assert len({key.rpartition("/")[0] for key in kept}) == 1  # two segments became one

    read: list[str] = []
    get = obstore.get
    monkeypatch.setattr(obstore, "get", lambda bucket, key: (read.append(key), get(bucket, key))[1])
    assert (tracelab.open(url).sql(text).to_pylist(), computed) == (rows, ["one", "two"])
    assert {key.partition("/")[0] for key in read} == {"commits", "sources", ".rollups"}


def test_a_file_url_is_a_folder(tmp_path: Path, job: Path) -> None:
    ingest([job], f"file://{tmp_path}/my%20lab")
    assert session.open_store(f"file://{tmp_path}/my%20lab") == tmp_path / "my lab"
    assert count_kernels(str(tmp_path / "my lab")) == ALL
    for url in ("file://lab", "file://lab/x"):  # a relative path has no such URL
        with pytest.raises(UsageError, match="write file:///PATH with three slashes"):
            session.open_store(url)
