"""Traces at URLs: objects, prefixes and patterns in a bucket of moto's server, and files of a web server."""

import functools
import gzip
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.traces import write_trace
from tests.unit.test_archives import stored, tar
from tracelab import temp_folders
from tracelab.errors import UsageError
from tracelab.ingest import copies
from tracelab.ingest.objects import matches
from tracelab.ingest.pipeline import ingest
from tracelab.store import buckets

obstore = pytest.importorskip("obstore")
pytest.importorskip("moto")

RANKS = 3


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("traces")
    return [write_trace(folder / f"{rank}", kernels=3 + rank, rank=rank).read_bytes() for rank in range(RANKS)]


@pytest.fixture
def place(url: str, traces: list[bytes]) -> str:
    """A prefix with a job of three ranks, one of them gzip, an archive, a text, and a hidden file."""
    objects = {
        "job/rank0.json": traces[0],
        "job/rank1.json.gz": gzip.compress(traces[1]),
        "job/rank2.json": traces[2],
        "job/.hidden.json": traces[0],
        "job/notes.txt": b"nothing to read",
        "packed/all.tar.gz": gzip.compress(tar({f"rank{rank}.json": traces[rank] for rank in range(RANKS)})),
    }
    bucket = buckets.connect(url)
    for key, content in objects.items():
        obstore.put(bucket, key, content)
    return url


def expected(place: str, *ranks: int) -> list[tuple[str, int, int, str]]:
    names = ["rank0.json", "rank1.json.gz", "rank2.json"]
    return [("job", rank, 3 + rank, f"{place}/job/{names[rank]}") for rank in ranks]


def test_all_below_a_prefix_is_read_as_a_folder_is(place: str, tmp_path: Path) -> None:
    report = ingest([f"{place}/job/"], tmp_path / "lab")
    assert stored(tmp_path / "lab") == expected(place, 0, 1, 2)
    first = f"{place.removeprefix('s3://lab/')}/job/notes.txt"
    assert [result.message for result in report.files if result.status == "not_profiler_data"] == [
        f"{place}/job: 1 of its 4 objects holds no profiler data, the first: {first}"
    ]
    assert [result.status for result in ingest([f"{place}/job"], tmp_path / "lab").files].count("unchanged") == RANKS
    assert not list(temp_folders.process_folder().glob("inputs-*"))


def test_an_object_and_a_pattern_are_read(place: str, tmp_path: Path) -> None:
    ingest([f"{place}/job/rank1.json.gz"], tmp_path / "one", run="job")
    assert stored(tmp_path / "one") == expected(place, 1)
    ingest([f"{place}/**/rank?.json"], tmp_path / "lab")
    assert stored(tmp_path / "lab") == expected(place, 0, 2)
    ingest([f"{place}/jo*"], tmp_path / "prefix")
    assert stored(tmp_path / "prefix") == expected(place, 0, 1, 2)


def test_an_archive_at_a_url_is_read(place: str, tmp_path: Path) -> None:
    ingest([f"{place}/packed"], tmp_path / "lab")
    archive = f"{place}/packed/all.tar.gz!"
    assert stored(tmp_path / "lab") == [("all", rank, 3 + rank, f"{archive}/rank{rank}.json") for rank in range(RANKS)]


def test_the_objects_of_a_store_are_no_inputs(place: str, tmp_path: Path) -> None:
    ingest([f"{place}/job"], f"{place}/lab")
    report = ingest([place], tmp_path / "lab")
    assert {result.path.name for result in report.files if result.status == "stored"} == {
        *("rank0.json", "rank1.json.gz", "rank2.json"),
        "rank1.json",  # in the archive, where it is not compressed; the others are copies
    }
    assert not [result for result in report.files if ".parquet" in f"{result.path} {result.message}"]


def test_what_does_not_fit_on_the_disk_is_refused(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies.Copies, "_check_disk", full)
    (result,) = ingest([f"{place}/job"], tmp_path / "lab").files
    problem = "its objects do not fit into half of the free disk for temporary files; set TMPDIR to a larger disk"
    assert (result.status, result.message) == ("failed", f"{place}/job: {problem}")


def full(_: object) -> None:
    raise copies.DiskFullError


def test_mistakes_are_one_sentence(place: str, tmp_path: Path) -> None:
    (result,) = ingest([f"{place}/jub"], tmp_path / "lab").files
    assert result.message == f"{place}/jub: no such object, and none below it; check the address"
    (result,) = ingest(["s3://nosuch/job"], tmp_path / "lab").files
    problem = "no such bucket; check its name, or create it"
    assert (result.status, result.message) == ("failed", f"s3://nosuch/job: {problem}")
    with pytest.raises(UsageError, match="ftp://host/job: inputs are paths, or URLs that begin with file://, s3://"):
        ingest(["ftp://host/job"], tmp_path / "lab")


def test_a_pattern_matches_as_in_folders() -> None:
    def match(pattern: str, key: str) -> bool:
        return matches(pattern.split("/"), key.split("/"))

    assert match("a/*/c", "a/b/c")
    assert not match("a/*/c", "a/b/b/c")
    assert match("a/**/c", "a/c")
    assert match("a/**/c", "a/b/b/c")
    assert not match("a/*", "a/b/c")


@pytest.fixture
def web(tmp_path: Path, traces: list[bytes]) -> Iterator[str]:
    folder = tmp_path / "www" / "job"
    folder.mkdir(parents=True)
    (folder / "rank1.json.gz").write_bytes(gzip.compress(traces[1]))
    handler = functools.partial(Quiet, directory=str(tmp_path / "www"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_a_file_of_a_web_server_is_read_and_its_query_is_not_recorded(web: str, tmp_path: Path) -> None:
    ingest([f"{web}/job/rank1.json.gz?signature=secret"], tmp_path / "lab", run="job")
    assert stored(tmp_path / "lab") == [("job", 1, 4, f"{web}/job/rank1.json.gz")]
    (result,) = ingest([f"{web}/nosuch.json?signature=secret"], tmp_path / "lab").files
    assert result.message == f"{web}/nosuch.json: no such object, and none below it; check the address"


def test_a_file_url_is_a_path(tmp_path: Path, traces: list[bytes]) -> None:
    (tmp_path / "my job").mkdir()
    (tmp_path / "my job" / "rank0.json").write_bytes(traces[0])
    ingest([f"file://{tmp_path}/my%20job"], tmp_path / "lab", run="job")
    assert stored(tmp_path / "lab") == [("job", 0, 3, f"{tmp_path}/my job/rank0.json")]
