"""Recordings of equal content, which count once."""

import pytest

from tests.compare.small_runs import Tables, recording, together
from tests.memory import MemoryStore
from tracelab.compare.comparison import Comparison, Request, compare_source
from tracelab.compare.copies import find_copies, list_contents
from tracelab.compare.fetch import Source
from tracelab.errors import UsageError

BASE, CANDIDATE = tuple(f"base{at}" for at in range(4)), tuple(f"new{at}" for at in range(4))


def test_a_run_is_a_copy_of_the_first_one_with_its_files_and_unknown_files_are_none() -> None:
    contents = {"a": "1", "b": "2", "c": "1", "d": None, "e": None, "f": "1"}
    assert find_copies(["a", "b", "c", "d", "e", "f"], contents) == {"c": "a", "f": "a"}


def test_a_run_with_other_files_and_the_same_rows_is_a_copy(memory: MemoryStore) -> None:
    """Such as of a trace and the compressed one; rows that differ in a nanosecond are another recording."""
    hashes = {"base0": "plain", "base1": "gzip", "base2": "late"}
    tables = together(recording("base0"), recording("base0"), recording("base0", gemm_ns=4_001))
    for rows in tables.values():
        third = len(rows) // 3
        for at, row in enumerate(rows):
            row["run"] = f"base{at // third}"
    memory.filled(tables | {"sources": [{"run": run, "sha256": each} for run, each in hashes.items()]})
    contents = list_contents(Source(memory.con).facts())
    assert find_copies([*hashes], contents) == {"base1": "base0"}
    assert contents == {"base0": "plain", "base1": "plain", "base2": "late"}


def recordings(**sha256: str) -> Tables:
    """Return four recordings of each side, the candidate's 1,000 ns slower; some with these hashes of their files."""
    runs = [*(recording(run) for run in BASE), *(recording(run, slower=1_000) for run in CANDIDATE)]
    return together(*runs, {"sources": [{"run": run, "sha256": each} for run, each in sha256.items()]})


def compare(memory: MemoryStore, tables: Tables, *noise: str) -> Comparison:
    memory.filled(tables)
    return compare_source(Source(memory.con), Request(BASE, CANDIDATE, noise))


def test_copies_of_a_recording_count_once(memory: MemoryStore) -> None:
    """Of four recordings of the base two are one, so three are left, which prove nothing; of one file each they do."""
    assert compare(memory, recordings()).verdict == "slower"
    copied = compare(memory, recordings(base0="same", base2="same"))
    assert (copied.verdict, copied.request.base) == ("undecided", ("base0", "base1", "base3"))
    assert copied.warnings == (
        "1 of 4 recordings of the base is a copy of another one, with the same content, and counts once: base2 (of "
        "base0). Record the program again for each recording.",
    )
    shared = compare(memory, recordings(base0="same", new1="same"))
    assert shared.verdict == "slower"
    assert shared.warnings == ("Base and candidate have recordings with the same content: new1.",)


def test_noise_runs_that_are_those_of_a_side_are_noted_and_copies_measure_no_noise(memory: MemoryStore) -> None:
    (warning,) = compare(memory, recordings(), *BASE).warnings
    assert warning.startswith("Noise runs are recordings of the compared sides, too (base0, base1, base2, base3), so")
    with pytest.raises(UsageError, match="--noise-runs n0, n1 hold the same content, one recording; the noise"):
        compare(memory, together(recordings(n0="same", n1="same"), recording("n0"), recording("n1")), "n0", "n1")
