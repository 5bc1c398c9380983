"""Ranks that a launcher started find each other in the run folder, and never in that of another launch."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tracelab.collect.process import rendezvous
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.process.placement import Placement
from tracelab.collect.run_folder import RUN_JSON, write_json
from tracelab.collect.settings import Settings
from tracelab.errors import TracelabError

ASKED = Settings("gemm", device="cpu", parallel="ddp")
BEGUN = {"tracelab": "run/1", "status": "not_run", "launch": {"token": "same"}}


def rank(number: int) -> Placement:
    return Placement(ASKED, Job(number, number, 2, 2, "torchrun", "same"), (number,))


def both(folder: Path) -> list[dict[str, Any]]:
    """What the two ranks take for their run.json."""
    found: list[dict[str, Any]] = [{}, {}]

    def second() -> None:
        found[1] = rendezvous.join_rank_zero(folder, rank(1))

    waiting = threading.Thread(target=second)
    waiting.start()
    found[0] = rendezvous.gather_ranks(folder, rank(0), dict(BEGUN))
    waiting.join()
    return found


def test_ranks_of_one_launch_agree_and_leave_nothing_behind(tmp_path: Path) -> None:
    first, second = both(tmp_path)
    assert first == second == json.loads((tmp_path / RUN_JSON).read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == [RUN_JSON]


def test_a_run_of_yesterday_that_looks_the_same_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(tmp_path)
    monkeypatch.setattr(rendezvous, "RANK_TIMEOUT_S", 0.5)
    with pytest.raises(TracelabError, match="rank 0 did not start within 0 s"):
        rendezvous.join_rank_zero(tmp_path, rank(1))
    assert [path.name for path in tmp_path.iterdir()] == [RUN_JSON]


def test_a_run_that_ended_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / RUN_JSON, BEGUN | {"status": "ok"})
    monkeypatch.setattr(rendezvous, "RANK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(rendezvous, "write_atomically", pytest.fail)
    with pytest.raises(TracelabError, match="rank 0 did not start"):
        rendezvous.join_rank_zero(tmp_path, rank(1))


def test_a_rank_that_never_begins_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "RANK_TIMEOUT_S", 0.5)
    with pytest.raises(TracelabError, match=r"rank 1 did not start within 0 s; check that all nodes share this folder"):
        rendezvous.gather_ranks(tmp_path, rank(0), dict(BEGUN))


def test_a_rank_that_stays_silent_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "RANK_TIMEOUT_S", 0.5)
    write_json(tmp_path / RUN_JSON, BEGUN)
    assert rendezvous.collect_outcomes(tmp_path, rank(0))[1]["error"] == "its process ended without writing an outcome"
