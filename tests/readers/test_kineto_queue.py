"""Events of a kind are queued to be mapped together: how much may be queued, and who takes the rest."""

import threading

import pyarrow as pa
import pytest

from tracelab.readers.kineto import chunk_reader
from tracelab.readers.kineto.chunk_reader import EventQueue

OPS, CALLS = (0, ("int64",)), (2, ("int64",))
EVENTS = pa.table({"ts": pa.array(range(100), pa.int64())})  # of 800 bytes


def size_of(taken: tuple[int, list[pa.Table]] | None) -> tuple[int, int] | None:
    """The kind of the batch, and its number of tables."""
    return (taken[0], len(taken[1])) if taken else None


def test_events_of_one_key_are_queued_until_they_hold_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reader, "_MAX_KIND_BYTES", 1_700)
    queue = EventQueue(1)
    assert [size_of(queue.add(OPS, EVENTS)) for _ in range(4)] == [None, None, (0, 3), None]


def test_a_slice_counts_for_all_memory_that_it_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reader, "_MAX_KIND_BYTES", 1_600)
    queue = EventQueue(1)
    assert [size_of(queue.add(OPS, EVENTS.slice(at, 1))) for at in range(2)] == [None, (0, 2)]


def test_the_heaviest_batch_is_returned_when_all_together_hold_too_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reader, "_MAX_QUEUED_BYTES", 2_400)
    queue = EventQueue(1)
    assert [size_of(queue.add(key, EVENTS)) for key in (OPS, OPS, CALLS)] == [None, None, (0, 2)]


def test_small_batches_are_taken_when_all_readers_have_finished() -> None:
    queue = EventQueue(2)
    queue.add(OPS, EVENTS)
    queue.finish_reader()
    taken: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: taken.extend(size_of(queue.take()) for _ in range(2)), daemon=True)
    thread.start()
    queue.add(OPS, EVENTS)
    assert taken == []
    queue.finish_reader()
    thread.join(timeout=60)
    assert taken == [(0, 2), None]


def test_a_large_batch_is_taken_while_another_reader_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_reader, "_MIN_BATCH_EVENTS", 200)
    queue = EventQueue(2)
    queue.finish_reader()
    taken: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: taken.append(size_of(queue.take())), daemon=True)
    thread.start()
    queue.add(OPS, EVENTS)
    queue.add(OPS, EVENTS)
    thread.join(timeout=60)
    assert taken == [(0, 2)]
