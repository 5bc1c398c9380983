"""Verdicts of training_health against the same rule in Python, on both sides of each limit."""

import itertools
import math

from tests.memory import MemoryStore

LOSSES = (0.5, 2.0, 2.1, 2.3, 2.5, 2.6, 70.0, 1e10)
ACCURACIES = (None, 0.1, 0.16, 0.17, 0.9)
CLASSES = (None, 10)
FLAT, SAMPLES = 0.1, 100


def verdict(first: float, last: float, accuracy: float | None, classes: int | None) -> str:
    guess = math.log(classes) if classes else None
    above_chance = accuracy is not None and (
        classes is None or accuracy > 1 / classes + 3 * math.sqrt((1 - 1 / classes) / classes / (2 * SAMPLES))
    )
    if last > first * (1 + FLAT):
        return "diverges"
    if guess and not above_chance and last >= guess * (1 - FLAT):
        return "at_guessing" if last <= guess * (1 + FLAT) else "worse_than_guessing"
    if classes and accuracy is not None and not above_chance:
        return "at_chance"
    return "flat" if abs(last - first) <= FLAT * first else "learns"


def test_verdicts_are_those_of_the_rule(memory: MemoryStore) -> None:
    runs, steps, expected = [], [], {}
    for place, (first, last, accuracy, classes) in enumerate(itertools.product(LOSSES, LOSSES, ACCURACIES, CLASSES)):
        run = f"run{place}"
        expected[run] = verdict(first, last, accuracy, classes)
        runs.append({"run": run, "tags": [("classes", str(classes))] if classes else None})
        own = {"run": run, "phase": "train", "epoch": 0, "dur_ns": 1, "samples": SAMPLES, "accuracy": accuracy}
        steps += [own | {"step": step, "start_ns": step, "loss": loss} for step, loss in enumerate((first, last))]
    rows = memory.filled({"runs": runs, "steps": steps}).query("training_health").to_pylist()
    assert {row["run"]: row["verdict"] for row in rows} == expected
    assert len(set(expected.values())) == 6
