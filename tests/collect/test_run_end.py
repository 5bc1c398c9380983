"""The last line of a run counts the steps that ranks took and recorded, and notes what is lost."""

from pathlib import Path

import pytest

from tracelab.cli.ingest import _run_line
from tracelab.collect.program.outcomes import choose_records
from tracelab.collect.run_end import _count_recorded
from tracelab.ingest.pipeline import FileResult


@pytest.mark.parametrize(
    ("outcomes", "words"),
    [
        ({0: {}}, ""),
        ({0: {"steps": 1}}, "1 step taken"),
        ({0: {"steps": 40, "recorded_steps": 19, "files": [{}]}}, "40 steps taken, 19 of them recorded, 1 trace"),
        ({0: {"steps": 40, "recorded_steps": 0}}, "40 steps taken, 0 of them recorded"),
        ({0: {"steps": 0, "recorded_steps": 0, "files": [{}]}}, "0 steps taken, 1 trace"),
        (
            {0: {"steps": 9, "recorded_steps": 3, "files": [{}]}, 1: {"steps": 8, "recorded_steps": 4, "files": [{}]}},
            "8 to 9 steps taken on 2 ranks, 3 to 4 of them recorded, 2 traces",
        ),
    ],
)
def test_steps_of_all_ranks_are_counted(outcomes, words):
    assert _count_recorded(outcomes) == words


@pytest.mark.parametrize(
    ("first", "with_start", "words"),
    [
        (1, True, "40 steps taken, 19 of them recorded (not step 0, which begins with the program), 1 trace"),
        (1, False, "40 steps taken, 19 of them recorded, 1 trace"),
        (0, True, "40 steps taken, 19 of them recorded, 1 trace"),
    ],
)
def test_the_step_that_begins_with_the_program_is_named(first, with_start, words):
    ranges = [[first, first + 18]]
    outcome = {"steps": 40, "recorded_steps": 19, "recorded_ranges": ranges, "files": [{}]}
    assert _count_recorded({0: outcome}, with_start=with_start) == words


def test_ingest_counts_the_rows_of_steps_and_not_the_steps_taken():
    results = [FileResult(Path("steps.rank0.jsonl"), "stored", run="r", rows={"ops": 1200, "steps": 39})]
    assert _run_line("r", results) == "r: steps.rank0.jsonl; 1,200 ops, 39 rows of steps"


@pytest.mark.parametrize(
    ("replaced", "lost"),
    [
        ({}, "which left nothing recorded"),
        ({"files": [{"file": "a"}]}, "whose recording is left out"),
        ({"recording": True}, "whose open window is lost"),
        ({"recording": True, "files": [{"file": "a"}]}, "whose open window is lost, and the saved ones are left out"),
    ],
)
def test_a_window_that_was_open_at_exec_is_named(replaced, lost):
    own = {"host": "h", "pid": 7}
    records = [own | {"started": 1, "steps": 3} | replaced, own | {"started": 2, "steps": 9, "ended": 5, "files": [{}]}]
    assert choose_records(records)[0]["note"] == f"the program replaced itself by exec after 3 steps, {lost}"
