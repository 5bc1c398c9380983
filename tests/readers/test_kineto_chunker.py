"""Where the events of a Kineto file end, by the brackets at its end and by all events before."""

import io
from pathlib import Path

import pytest

from tests.readers.small import ingest_bytes
from tracelab.readers.kineto.chunker import Chunk, ChunkBuffer, Chunker, Trace, decode_end

EVENT = '{"ph": "X", "cat": "kernel", "name": "a ]", "ts": 1, "dur": 2, "args": {"list": [{"a": 1}], "last": 1}}'


def read_last_chunk(text: str) -> Chunk:
    chunker, buffer = Chunker(io.BytesIO(text.encode()), Trace()), ChunkBuffer()  # type: ignore[arg-type]
    chunk = chunker.next_chunk(buffer)
    assert chunk is not None
    assert chunk.is_last
    return chunk


@pytest.mark.parametrize(
    "text",
    [
        f'{{"traceEvents": [{EVENT}]}}',
        f'{{"traceEvents": [{EVENT}, {EVENT}\n  ],\n  "traceName": "a", "baseTimeNanoseconds": 1\n}}\n',
        f'{{"traceEvents": [{EVENT}], "groups": [{{"ranks": [0, 1]}}, {{"ranks": []}}], "note": "}}], {{"}}',
    ],
)
def test_brackets_show_where_the_events_of_an_undamaged_file_end(text: str) -> None:
    chunk = read_last_chunk(text)
    assert chunk.is_end_guessed
    assert bytes(chunk.events).decode() == text[text.index("[") + 1 : text.rindex(EVENT) + len(EVENT)]
    decoded = decode_end(chunk, array_form=False)
    assert (decoded.is_end_known, decoded.events_end) == (True, chunk.events_end)


@pytest.mark.parametrize(
    "end", ["", ",", "]", "],", "]]}", ",]}", '], "a": 1', '], "a" 1}', '], "traceEvents": [{"ph": "X"}]']
)
def test_brackets_show_nothing_where_the_end_of_a_file_is_damaged(end: str) -> None:
    assert not read_last_chunk(f'{{"traceEvents": [{EVENT}{end}').is_end_guessed


def test_an_event_cut_off_behind_a_list_does_not_end_the_events(tmp_path: Path) -> None:
    lab = ingest_bytes(tmp_path, f'{{"traceEvents": [{EVENT}, {EVENT[:-1]}'.encode())
    (result,) = lab.report.files
    assert (result.status, result.events_kept, result.events_skipped) == ("salvaged", 1, 1)
