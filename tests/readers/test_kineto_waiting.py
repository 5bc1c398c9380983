"""Events of a kind wait to be mapped together: how much may wait, and who takes what is left."""

import threading

import pyarrow as pa
import pytest

from tracelab.readers.kineto import waiting as module
from tracelab.readers.kineto.waiting import Waiting

OPS, CALLS = (0, ("int64",)), (2, ("int64",))
EVENTS = pa.table({"ts": pa.array(range(100), pa.int64())})  # of 800 bytes


def slices(taken: tuple[int, list[pa.Table]] | None) -> tuple[int, int] | None:
    """The kind that was let go, and of how many parts it was."""
    return (taken[0], len(taken[1])) if taken else None


def test_events_that_are_alike_wait_until_they_keep_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAY_KEEP_BYTES", 1_700)
    waiting = Waiting(1)
    assert [slices(waiting.add(OPS, EVENTS)) for _ in range(4)] == [None, None, (0, 3), None]


def test_a_slice_counts_for_all_that_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAY_KEEP_BYTES", 1_600)
    waiting = Waiting(1)
    assert [slices(waiting.add(OPS, EVENTS.slice(at, 1))) for at in range(2)] == [None, (0, 2)]


def test_the_heaviest_are_let_go_when_all_together_keep_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ALL_MAY_KEEP_BYTES", 2_400)
    waiting = Waiting(1)
    assert [slices(waiting.add(alike, EVENTS)) for alike in (OPS, OPS, CALLS)] == [None, None, (0, 2)]


def test_few_events_are_taken_when_all_readers_have_ended() -> None:
    waiting = Waiting(2)
    waiting.add(OPS, EVENTS)
    waiting.reader_ended()
    taken: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: taken.extend(slices(waiting.take()) for _ in range(2)), daemon=True)
    thread.start()
    waiting.add(OPS, EVENTS)
    assert taken == []
    waiting.reader_ended()
    thread.join(timeout=60)
    assert taken == [(0, 2), None]


def test_many_events_are_taken_while_another_reader_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_MAPPING", 200)
    waiting = Waiting(2)
    waiting.reader_ended()
    taken: list[tuple[int, int] | None] = []
    thread = threading.Thread(target=lambda: taken.append(slices(waiting.take())), daemon=True)
    thread.start()
    waiting.add(OPS, EVENTS)
    waiting.add(OPS, EVENTS)
    thread.join(timeout=60)
    assert taken == [(0, 2)]
