"""Compressed files as streams, decompressed by a thread that ends with the stream; corrupt ones up to the damage."""

import gzip
import random
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts

CONTENT = random.Random(5).randbytes(12 << 20).translate(bytes(b"0123456789"[byte % 10] for byte in range(256)))
"""Twelve megabytes, compressed about five: several chunks either way."""


def written(folder: Path, compressed: bytes) -> Path:
    path = folder / "trace.json.gz"
    path.write_bytes(compressed)
    return path


def test_all_of_a_compressed_file_is_read_and_counted_as_progress(tmp_path: Path) -> None:
    path, progress, diagnostics = written(tmp_path, gzip.compress(CONTENT, 1)), [], DiagnosticCounts()
    with decompress.open_decompressed(path, diagnostics, progress.append) as stream:
        assert stream.read() == CONTENT
    assert sum(progress) == path.stat().st_size
    assert not diagnostics.counts


@pytest.mark.parametrize("part", [0.05, 0.5, 0.95])
def test_a_corrupt_member_keeps_everything_before_the_corruption(tmp_path: Path, part: float) -> None:
    compressed = bytearray(gzip.compress(CONTENT, 1))
    at = int(len(compressed) * part)
    compressed[at : at + 2000] = bytes(255 - byte for byte in compressed[at : at + 2000])
    diagnostics = DiagnosticCounts()
    with decompress.open_decompressed(written(tmp_path, bytes(compressed)), diagnostics, lambda _: None) as stream:
        content = stream.read()
    assert CONTENT.startswith(content[: int(len(CONTENT) * (part - 0.01))])
    assert len(content) > len(CONTENT) * (part - 0.01)
    assert diagnostics.counts["compressed_broken"] == 1


def test_the_thread_that_decompresses_ends_with_the_stream(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress(CONTENT, 1))
    with decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
        stream.read(10)
        assert [thread for thread in threading.enumerate() if thread.name.startswith("decompress")]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decompress")]


def test_an_error_of_the_thread_is_raised_where_the_stream_is_read(tmp_path: Path) -> None:
    def fail(_: int) -> None:
        raise KeyError("progress")

    path = written(tmp_path, gzip.compress(b"a"))
    with (
        decompress.open_decompressed(path, DiagnosticCounts(), fail) as stream,
        pytest.raises(KeyError, match="progress"),
    ):
        stream.read()


def zstd(data: bytes) -> bytes:
    return pa.compress(data, codec="zstd", asbytes=True)  # type: ignore[no-any-return]


SKIPPABLE = bytes.fromhex("50 2a 4d 18 04 00 00 00") + b"skip"
"""A frame that decoders skip, as parallel compressors write it first."""


def read_zstd(folder: Path, compressed: bytes) -> tuple[bytes, dict[str, int]]:
    """Return content and counts of diagnostics."""
    diagnostics = DiagnosticCounts()
    with decompress.open_decompressed(written(folder, compressed), diagnostics, lambda _: None) as stream:
        return stream.read(), dict(diagnostics.counts)


def test_all_frames_of_zstd_are_read_and_counted_as_progress(tmp_path: Path) -> None:
    compressed, progress = SKIPPABLE + zstd(CONTENT) + SKIPPABLE + zstd(b"second"), []
    path = written(tmp_path, compressed)
    with decompress.open_decompressed(path, DiagnosticCounts(), progress.append) as stream:
        assert stream.read() == CONTENT + b"second"
    assert sum(progress) == len(compressed)
    assert decompress.is_compressed(path)


@pytest.mark.parametrize("part", [0.05, 0.5, 0.95])
def test_a_corrupt_frame_keeps_everything_before_the_corruption(tmp_path: Path, part: float) -> None:
    compressed = bytearray(zstd(CONTENT))
    at = int(len(compressed) * part)
    compressed[at : at + 300_000] = bytes(len(compressed[at : at + 300_000]))
    content, counts = read_zstd(tmp_path, bytes(compressed))
    assert CONTENT.startswith(content)
    assert len(CONTENT) * (part - 0.04) < len(content) < len(CONTENT)  # a block is 128 KiB
    assert counts == {"compressed_broken": 1}


def test_a_zstd_file_that_is_cut_off_keeps_its_whole_blocks(tmp_path: Path) -> None:
    content, counts = read_zstd(tmp_path, zstd(CONTENT)[:-10])
    assert CONTENT.startswith(content)
    assert len(content) >= len(CONTENT) - (128 << 10)
    assert counts == {"compressed_cut_off": 1}


def test_what_follows_the_last_frame_is_counted(tmp_path: Path) -> None:
    assert read_zstd(tmp_path, zstd(CONTENT) + b"appended") == (CONTENT, {"compressed_trailing": 1})
