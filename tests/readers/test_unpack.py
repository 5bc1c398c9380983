"""Packed files as streams: all that can be unpacked, by a thread of its own, which ends with the stream."""

import gzip
import random
import threading
from pathlib import Path

import pytest

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts

CONTENT = bytes(random.Random(5).choices(b"0123456789", k=12 << 20))
"""Of twelve megabytes, packed into some five: several chunks either way."""


def written(folder: Path, packed: bytes) -> Path:
    path = folder / "trace.json.gz"
    path.write_bytes(packed)
    return path


def test_all_of_a_packed_file_comes_out_and_what_was_read_is_told(tmp_path: Path) -> None:
    path, told, diagnostics = written(tmp_path, gzip.compress(CONTENT, 1)), [], DiagnosticCounts()
    with decompress.open_decompressed(path, diagnostics, told.append) as stream:
        assert stream.read() == CONTENT
    assert sum(told) == path.stat().st_size
    assert not diagnostics.counts


@pytest.mark.parametrize("part", [0.05, 0.5, 0.95])
def test_a_broken_member_gives_what_stands_before_the_break_however_far_in_it_is(tmp_path: Path, part: float) -> None:
    packed = bytearray(gzip.compress(CONTENT, 1))
    at = int(len(packed) * part)
    packed[at : at + 2000] = bytes(255 - byte for byte in packed[at : at + 2000])
    diagnostics = DiagnosticCounts()
    with decompress.open_decompressed(written(tmp_path, bytes(packed)), diagnostics, lambda _: None) as stream:
        content = stream.read()
    assert CONTENT.startswith(content[: int(len(CONTENT) * (part - 0.01))])
    assert len(content) > len(CONTENT) * (part - 0.01)
    assert diagnostics.counts["gzip_broken"] == 1


def test_the_thread_that_unpacks_ends_with_the_stream(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(CONTENT, 1))
    with decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        stream.read(10)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("decompress")]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decompress")]


def test_what_goes_wrong_while_unpacking_is_raised_where_the_stream_is_read(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise KeyError("progress")

    path = written(tmp_path, gzip.compress(b"a"))
    with (
        decompress.open_decompressed(path, DiagnosticCounts(), fail) as stream,
        pytest.raises(KeyError, match="progress"),
    ):
        stream.read()
