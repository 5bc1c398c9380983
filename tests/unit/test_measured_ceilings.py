"""Which measurement is a card's ceiling: against plain Python on random rows, and in a store of an older schema."""

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.build import build_store, file_of, rewrite_commits
from tests.memory import MemoryStore
from tracelab.store import session
from tracelab.store.commit_log import Part

Row = dict[str, Any]
TAKEN = """
    with cards as (from card_facts('devices', null))
    select of_run, metric, per_s, basis, best_per_s
    from measured_ceilings('cards', null)
    where run = 'r' and ceiling = 'dram'
"""
LINKED = """
    with cards as (from card_facts('devices', null))
    select of_run, gb_per_s from measured_links('cards') where run = 'r' and direction = 'HtoD'
"""
CARD = {"run": "r", "rank": 0, "device": 0, "uuid": "GPU-1", "name": "Card"}


def some_ceilings(rng: random.Random) -> list[Row]:
    """Return measurements of several runs and cards, with and without each figure."""
    rows = []
    for _ in range(rng.randint(1, 12)):
        best = rng.randint(500, 900)
        median = rng.choice([None, best - rng.randint(0, 9)])
        rows.append(
            {
                "run": rng.choice(["r", "s", "t"]),
                "uuid": rng.choice(["GPU-1", "GPU-2", None]),
                "device_name": rng.choice(["Card", "Card", "Other"]),
                "metric": rng.choice(["dram_copy", "dram_triad", "h2d_pinned"]),
                "best": rng.choice([best, best, None]),
                "median": median,
                "sustained": rng.choice([None, best - rng.randint(9, 20)]) if median else None,
                "gpus": rng.choice([1, None, 2]),
                "unit": "gb_per_s",
            }
        )
    return rows


def rate(row: Row) -> tuple[float, str]:
    """Return the rate that continuous work keeps up, and what it is."""
    for basis in ("sustained", "median", "best"):
        if row[basis] is not None:
            return row[basis], basis
    raise AssertionError(row)


def nearness(row: Row) -> int | None:
    """Return how near a measurement is to the card: 1 of its run, 2 of its UUID, 3 of its model."""
    if row["run"] == "r" and row["uuid"] in ("GPU-1", None) and row["device_name"] == "Card":
        return 1
    if row["uuid"] == "GPU-1":
        return 2
    return 3 if row["device_name"] == "Card" else None


def likeness(row: Row) -> int:
    """Return how like its card is: 1 of the UUID, 2 of the model."""
    return 1 if row["uuid"] == "GPU-1" else 2 if row["device_name"] == "Card" else 3


def taken(rows: list[Row], ages: dict[str, int]) -> list[Row]:
    """Return the measurements of the nearest run, else the newest, else the first by name, on the likest card."""
    near = [row for row in rows if nearness(row) is not None]
    if not near:
        return []
    run = min(near, key=lambda row: (nearness(row), -ages[row["run"]], row["run"]))["run"]
    of_run = [row for row in near if row["run"] == run]
    return [row for row in of_run if likeness(row) == min(map(likeness, of_run))]


@pytest.mark.parametrize("seed", range(25))
def test_a_ceiling_is_what_plain_python_takes(seed: int, memory: MemoryStore) -> None:
    rng = random.Random(seed)
    rows = some_ceilings(rng)
    ages = {"r": 3, "s": rng.choice([1, 2]), "t": rng.choice([1, 2])}
    runs = [{"run": run, "started_at": datetime(2026, 1, age, tzinfo=UTC)} for run, age in ages.items()]
    memory.filled({"ceilings": rows, "devices": [CARD], "runs": runs})
    usable = [row for row in rows if row["best"] is not None]
    dram = taken([row for row in usable if row["metric"] != "h2d_pinned" and row["gpus"] != 2], ages)
    expected = []
    if dram:
        per_s = max(rate(row)[0] for row in dram)
        shapes = {(row["metric"], *rate(row)) for row in dram if rate(row)[0] == per_s}
        expected = [(dram[0]["run"], max(row["best"] for row in dram))]
    answer = memory.con.sql(TAKEN).fetchall()
    assert [(of_run, best) for of_run, _, _, _, best in answer] == expected
    assert all((metric, per_s, basis) in shapes for _, metric, per_s, basis, _ in answer)
    links = taken([row for row in usable if row["metric"] == "h2d_pinned"], ages)
    assert memory.con.sql(LINKED).fetchall() == (
        [(links[0]["run"], max(rate(row)[0] for row in links))] if links else []
    )


def test_a_store_without_sustained_rates_answers_with_medians(tmp_path: Path) -> None:
    ceiling = {
        "uuid": "GPU-1",
        "metric": "dram_copy",
        "best": 900.0,
        "median": 850.0,
        "unit": "gb_per_s",
        "source": "a",
    }
    store = build_store(tmp_path / "lab", {"ceilings": [ceiling], "devices": [CARD | {"source": "b"}]})
    old = file_of(store, "ceilings")
    new = ["sustained", "sustained_s", "warmup_s", "layout", "throttle_reasons", "peer_uuid", "skipped"]
    pq.write_table(pq.read_table(old, partitioning=None).drop_columns(new), old)

    def make_older(part: Part) -> Part:
        files = {**part.files}
        if "ceilings" in files:
            files["ceilings"] = files["ceilings"]._replace(size_bytes=old.stat().st_size)
        return Part.of(part.key, ("3.-1", 0.0), files, part.listed_sources)

    rewrite_commits(store, make_older)
    with session.connect(store) as con:
        assert con.execute(TAKEN).fetchall() == [("r", "dram_copy", 850.0, "median", 900.0)]
