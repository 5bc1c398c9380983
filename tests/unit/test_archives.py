"""Members of tar and zip archives are sources as files are; hostile archives cost one sentence and little else."""

import gzip
import io
import resource
import tarfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.traces import write_trace
from tracelab import temp_folders
from tracelab.cli.ingest import _render_report
from tracelab.ingest import archives
from tracelab.ingest.pipeline import FileResult, Report, ingest
from tracelab.store import session

Members = Mapping[str, bytes]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Members:
    """Three ranks, plain, gzip and zstd, and a text."""
    folder = tmp_path_factory.mktemp("job")
    traces = [write_trace(folder / f"{rank}", kernels=3 + rank, rank=rank).read_bytes() for rank in range(3)]
    return {
        "job/rank0.json": traces[0],
        "job/rank1.json.gz": gzip.compress(traces[1]),
        "job/rank2.json.zst": pa.compress(traces[2], codec="zstd", asbytes=True),
        "job/notes.txt": b"nothing to read\n",
    }


def tar(members: Members) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def zipped(members: Members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


def stored(store: Path) -> list[tuple[str, int, int, str]]:
    """Return run, rank, kernels and path of the sources."""
    with session.connect(store, referenced="kernels sources") as con:
        return con.sql(
            "select s.run, rank, count(*), path from kernels join sources s using (run, source) group by all order by 2"
        ).fetchall()


def ingest_archive(folder: Path, content: bytes, name: str = "a.tar") -> Report:
    (folder / name).write_bytes(content)
    return ingest([folder / name], folder / "lab")


def problems(report: Report) -> list[str]:
    return [result.message.partition(": ")[2] for result in report.files if result.status not in ("stored", "salvaged")]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.tar", tar),
        ("a.tar.gz", lambda members: gzip.compress(tar(members))),
        ("a.tgz", lambda members: gzip.compress(tar(members))),
        ("a.tar.zst", lambda members: zstd(tar(members))),
        ("a.zip", zipped),
        ("renamed", zipped),
    ],
)
def test_members_are_the_ranks_of_a_run(tmp_path: Path, job: Members, name, pack) -> None:
    report = ingest_archive(tmp_path, pack(job), name)
    place = f"{tmp_path}/{name}!/job"
    names = ["rank0.json", "rank1.json.gz", "rank2.json.zst"]
    assert stored(tmp_path / "lab") == [("job", rank, 3 + rank, f"{place}/{names[rank]}") for rank in range(3)]
    assert problems(report) == ["1 of its 4 members holds no profiler data, the first: job/notes.txt"]
    assert report.exit_code == 0


def test_the_same_traces_in_a_folder_and_in_an_archive_are_stored_once(tmp_path: Path, job: Members) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rank0.json").write_bytes(job["job/rank0.json"])
    (folder / "all.tar").write_bytes(tar(job))
    assert [result.status for result in ingest([folder], tmp_path / "lab").files].count("stored") == 3
    again = ingest([folder / "all.tar"], tmp_path / "lab")
    assert [result.status for result in again.files].count("unchanged") == 3


def test_members_at_the_top_have_the_run_of_the_archive_s_name(tmp_path: Path, job: Members) -> None:
    ingest_archive(tmp_path, tar({Path(name).name: content for name, content in job.items()}), "mordred.tar.gz")
    assert {run for run, *_ in stored(tmp_path / "lab")} == {"mordred"}


def test_a_run_folder_in_an_archive_is_its_run(tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "data" / "smoke"
    folder = next(path.parent for path in sorted(run.rglob("run.json")))
    files = {f"x/{file.name}": file.read_bytes() for file in (folder / "run.json", *folder.glob("steps*.jsonl"))}
    assert len(files) > 1
    copy = tmp_path / "x"
    copy.mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ingest([copy], tmp_path / "folder")
    report = ingest_archive(
        tmp_path,
        tar(files | {"x/rank0.log": b"printed", "checks.json": b"[{}]", "checks.md": b"x", "facts.json": b"{}"}),
    )
    assert problems(report) == []
    assert count_rows(tmp_path / "lab") == count_rows(tmp_path / "folder")


def count_rows(store: Path) -> list[tuple[object, ...]]:
    with session.connect(store) as con:
        return con.sql("select run, format, events_read, events_kept, source from sources order by all").fetchall()


def test_nothing_of_an_archive_stays_on_the_disk(tmp_path: Path, job: Members) -> None:
    ingest_archive(tmp_path, tar(job))
    assert not list(temp_folders.process_folder().glob("inputs-*"))


# ---------------------------------------------------------------------------------------------------- hostile archives


def special(kind: bytes, target: str = "/etc/passwd") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("rank0.json")
        info.type, info.linkname = kind, target
        archive.addfile(info)
    return file.getvalue()


def long_header(kind: bytes, size: int) -> bytes:
    """A header that claims to be followed by that many bytes of attributes."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def encrypted(members: Members) -> bytes:
    """Set the mark of encryption in both headers of the only member."""
    content = bytearray(zipped(members))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def lzma(members: Members) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


TRACE = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 1, "pid": 0}]}'
ALLOWED_BYTES = 4 << 20
BOMB = TRACE[:-2] + b"," + b" " * 2 * ALLOWED_BYTES
OUTSIDE = "named with paths that lead out of the archive; pack it with relative names"
HOSTILE = {
    "a path that leads out": (tar({"../../x/rank0.json": TRACE}), f"1 member (../../x/rank0.json): {OUTSIDE}"),
    "an absolute path": (tar({"/x/rank0.json": TRACE}), f"1 member (/x/rank0.json): {OUTSIDE}"),
    "such a path in a zip": (zipped({"../rank0.json": TRACE}), f"1 member (../rank0.json): {OUTSIDE}"),
    "a symbolic link": (
        special(tarfile.SYMTYPE),
        "1 member (rank0.json): links, devices or sparse files, which are not read",
    ),
    "a device": (
        special(tarfile.CHRTYPE),
        "1 member (rank0.json): links, devices or sparse files, which are not read",
    ),
    "an archive in an archive": (
        tar({"a.zip": zipped({"rank0.json": TRACE})}),
        "1 member (a.zip): archives in an archive; unpack the outer one to read them",
    ),
    "encryption": (
        encrypted({"rank0.json": TRACE}),
        "1 member (rank0.json): encrypted; unpack it with its password",
    ),
    "lzma": (
        lzma({"rank0.json": TRACE}),
        "1 member (rank0.json): compressed with a method other than deflate and bzip2; unpack it",
    ),
    "a name of 300 letters": (
        tar({"x" * 300 + ".json": TRACE}),
        f"1 member ({'x' * 300}.json): named with paths that no file can have here; pack it with other names",
    ),
    "gigabytes of attributes": (
        long_header(tarfile.XHDTYPE, 7 << 30),
        "has headers that are too long, and was read up to there; unpack it",
    ),
    "a chain of headers": (
        b"".join(long_header(tarfile.XHDTYPE, 512) + b"10 path=x\n".ljust(512, b" ") for _ in range(2000)),
        "has headers that are too long, and was read up to there; unpack it",
    ),
    "a file within a file": (
        tar({"rank0.json": b"text", "rank0.json/rank1.json": b"text"}),
        "none of its 2 members holds profiler data",
    ),
    "a bomb": (
        gzip.compress(tar({"rank0.json": BOMB}), 9),
        "unpacks to more than 250 times its size, and was read no further; unpack it",
    ),
    "a zip without its list": (
        zipped({"rank0.json": TRACE})[:-30],
        "is a zip archive without its list of members; copy it again",
    ),
    "nothing": (zipped({}), "an archive without members"),
    "only text": (tar({"a.txt": b"a", "b.txt": b"b"}), "none of its 2 members holds profiler data"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_costs_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(archives, "_ALWAYS_ALLOWED_BYTES", ALLOWED_BYTES)
    content, sentence = HOSTILE[kind]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    report = ingest_archive(tmp_path, content)
    assert sentence in problems(report)
    assert len([result for result in report.files if result.status not in ("stored", "salvaged")]) == 1
    assert time.process_time() - begin < 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    outside = {path.name for path in tmp_path.iterdir()} | {path.name for path in tmp_path.parent.iterdir()}
    assert not outside & {"rank0.json", "x"}


def test_many_members_are_counted(tmp_path: Path) -> None:
    report = ingest_archive(tmp_path, tar({f"{at}.txt": b"text" for at in range(500)} | {"rank0.json": TRACE}))
    assert problems(report) == ["500 of its 501 members hold no profiler data, the first: 0.txt"]
    assert "1 stored, 500 no profiler data: " in [*_render_report(report, problems_only=False)][-1]
    assert [result.status for result in report.files].count("stored") == 1


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
@pytest.mark.parametrize("cut", ["in the last member", "between two members"])
def test_of_a_truncated_archive_what_precedes_the_end_is_stored(tmp_path: Path, job: Members, pack, cut: str) -> None:
    whole = tar(job)
    end = whole.index(b"nothing to read") + 4 if cut == "in the last member" else whole.index(b"job/notes.txt")
    report = ingest_archive(tmp_path, pack(whole[:end]), "a.tar.gz")
    assert "is truncated or damaged, and was read up to there; copy it again" in problems(report)
    assert report.exit_code == 1
    assert [row[:3] for row in stored(tmp_path / "lab")] == [("job", rank, 3 + rank) for rank in range(3)]


def test_a_corrupt_member_of_a_zip_is_named_and_costs_no_other(tmp_path: Path) -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("rank0.json", TRACE)
        archive.writestr("rank1.json", TRACE.replace(b'"k"', b'"l"'))
    content = file.getvalue().replace(b'"l"', b'"m"')
    report = ingest_archive(tmp_path, content, "a.zip")
    assert problems(report) == ["1 member (rank1.json): corrupt, and kept up to the damage; copy the archive again"]
    assert [result.status for result in report.files].count("stored") >= 1


def test_a_name_that_occurs_twice_is_reported(tmp_path: Path) -> None:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for content in (TRACE, TRACE.replace(b'"k"', b'"last"')):
            info = tarfile.TarInfo("rank0.json")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    report = ingest_archive(tmp_path, file.getvalue())
    assert problems(report) == ["1 member (rank0.json): named twice or more, of which the last counts"]
    with session.connect(tmp_path / "lab", referenced="kernels") as con:
        assert con.sql("select name from kernels").fetchall() == [("last",)]


def test_an_error_of_a_reader_names_the_member(tmp_path: Path) -> None:
    broken = b'{"schemaVersion": 1, "traceEvents": []}'.decode().encode("utf-16")
    (result,) = ingest_archive(tmp_path, tar({"rank0.json": broken})).files
    assert isinstance(result, FileResult)
    assert result.message == f"{tmp_path}/a.tar!/rank0.json: is UTF-16 text from its first byte on; re-save it as UTF-8"
    assert result.path == tmp_path / "a.tar!" / "rank0.json"
