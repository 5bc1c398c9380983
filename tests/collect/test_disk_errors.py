"""Which disk is full, or which file may grow no further, is known where the system or torch do not say it."""

import contextlib
import errno
import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracelab.collect.disk_errors import (
    KeptTraceError,
    WritePaths,
    describe_disk_error,
    describe_full_scratch,
    keep_where_full,
    missing_export_error,
)
from tracelab.collect.run_folder import JsonLines, write_gzip, write_json


@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Files of this process have at most 2000 bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_scratch_folder_that_takes_nothing_is_the_reason_of_a_rank_s_silence(tmp_path: Path) -> None:
    with small_files():
        said = describe_full_scratch(WritePaths(tmp_path / "r", tmp_path))
    assert said == (
        "a file in the scratch folder (TMPDIR) reached the file size limit; raise it (ulimit -f) and run again"
    )


def test_a_scratch_folder_with_room_is_no_reason(tmp_path: Path) -> None:
    assert (describe_full_scratch(WritePaths(tmp_path / "r", tmp_path)), list(tmp_path.iterdir())) == (None, [])


@pytest.mark.parametrize(("left_bytes", "number"), [(2000, errno.EFBIG), (1999, errno.ENOSPC)])
def test_what_torch_left_of_a_trace_shows_why_there_is_none_and_goes(
    tmp_path: Path, left_bytes: int, number: int
) -> None:
    (tmp_path / "trace.json.tmp").write_bytes(b"x" * left_bytes)
    with small_files():
        error = missing_export_error(tmp_path / "trace.json")
    assert (error.errno, error.filename, list(tmp_path.iterdir())) == (number, str(tmp_path / "trace.json"), [])


def test_a_write_that_fails_names_its_file(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "steps.rank0.jsonl", "steps/1", "r", 0)
    with small_files():
        with pytest.raises(OSError, match="File too large") as whole:
            write_json(tmp_path / "run.json", "x" * 3000)
        with pytest.raises(OSError, match="File too large") as growing:
            lines.append({"note": "x" * 3000})
    lines.close()
    named = [Path(each.value.filename).name for each in (whole, growing)]
    assert (named[0].startswith(".run.json."), named[1]) == (True, "steps.rank0.jsonl")


def test_a_scratch_folder_that_is_gone_is_no_full_disk(tmp_path: Path) -> None:
    error = missing_export_error(tmp_path / "gone" / "trace.json")
    assert (type(error), error.strerror) == (
        FileNotFoundError,
        "the scratch folder (TMPDIR) was deleted while it was in use",
    )


def test_a_trace_that_does_not_fit_into_the_run_folder_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch, folder = tmp_path / "scratch", tmp_path / "r"
    scratch.mkdir()
    folder.mkdir()
    trace = os.urandom(4000)
    (scratch / "trace.json").write_bytes(trace)
    kept = tmp_path / "trace-of-r-rank0.json"
    with pytest.raises(KeptTraceError) as raised, small_files(), keep_where_full(scratch / "trace.json", kept.name):
        write_gzip(scratch / "trace.json", folder / "rank0.json.gz")
    assert kept.read_bytes() == trace
    assert not list(folder.iterdir())
    assert describe_disk_error(raised.value, WritePaths(folder, scratch)) == (
        "a file in the run folder reached the file size limit; raise it (ulimit -f) and run again; "
        f"or ingest the trace, which is kept as {kept}"
    )
