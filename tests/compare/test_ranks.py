"""The rank that a difference is of."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.build import build_store
from tests.compare.small_runs import Tables, recording, together
from tracelab.compare.comparison import Request, compare_runs
from tracelab.compare.ranks import RankDifference, find_rank_differences, fullest_rank
from tracelab.compare.recordings import Recording, StepCounts
from tracelab.compare.sentences import fullest_sentence, rank_sentence
from tracelab.compare.verdicts import judge
from tracelab.compare.writers import write_json, write_markdown


def of_ranks(run: str, *gemm_ns: int) -> Tables:
    """Return a recording whose ranks multiply for different times."""
    ranks = [recording(run, gemm_ns=each) for each in gemm_ns]
    for rank, tables in enumerate(ranks):
        for rows in tables.values():
            for row in rows:
                row |= {"rank": rank, "pid": rank + 1}
    return together(*ranks)


def test_a_comment_names_the_rank_whose_kernels_are_slower(tmp_path: Path) -> None:
    """Rank 2 multiplies for 4.1 in place of 2 us, the others for 2.01 to 2.03: 2.1 us against a median of 20 ns."""
    sides = of_ranks("base", 2_000, 2_000, 2_000, 2_000), of_ranks("new", 2_010, 2_020, 4_100, 2_030)
    comparison = compare_runs(build_store(tmp_path / "lab", together(*sides)), Request(("base",), ("new",)))
    gemm = next(each for each in comparison.rank_differences if each.metric == "class:gemm")
    assert (gemm.rank, gemm.base, gemm.candidate, gemm.others) == (2, 2_000, 4_100, 20)
    sentence = rank_sentence(comparison)
    assert sentence is not None
    assert "class:gemm +2.100 µs on rank 2" in sentence
    assert "+20 ns" in sentence
    assert "on rank 2" in write_markdown(comparison)
    assert '"metric": "class:gemm", "rank": 2, "base_ns": 2000, "candidate_ns": 4100' in write_json(
        comparison, strict=False
    )


def of_memory(*peaks: float) -> Recording:
    by_rank = {"peak_memory": dict(enumerate(peaks)), "step_time": dict.fromkeys(range(len(peaks)), 1e6)}
    series = {"step_time": np.array([1e6] * 3), "peak_memory": np.array([max(peaks)])}
    return Recording("r", StepCounts(3, 3, {}), series, None, None, frozenset({"headline"}), frozenset(), by_rank)


def rank_differences(base: Recording, candidate: Recording) -> list[RankDifference]:
    rows = judge(["step_time", "peak_memory"], [base.series], [candidate.series])
    return find_rank_differences(rows, [base], [candidate])


def test_a_rank_within_what_the_others_vary_by_is_not_named() -> None:
    """The others change by 0, 100 and 200: 3.5 scaled deviations of 100 are 519."""
    base = of_memory(10_000, 10_000, 10_000, 10_000)
    assert rank_differences(base, of_memory(10_000, 10_100, 10_200, 10_618)) == []
    (memory,) = rank_differences(base, of_memory(10_000, 10_100, 10_200, 10_620))
    assert (memory.rank, memory.candidate - memory.base, memory.others) == (3, 620, 100)
    assert rank_differences(base, of_memory(10_000, 10_000, 10_000, 10_099)) == []  # below 1 %
    assert rank_differences(base, of_memory(10_000, 10_000, 10_500)) == []  # other ranks


def test_the_rank_that_peak_memory_is_of_is_named_where_it_is_one(tmp_path: Path) -> None:
    assert fullest_rank([of_memory(5, 9, 7), of_memory(1, 2, 1)]) == 1
    assert fullest_rank([of_memory(5, 9, 7), of_memory(3, 2, 1)]) is None  # not in all recordings
    assert fullest_rank([of_memory(9, 9)]) is None
    assert fullest_rank([of_memory(9)]) is None
    runs = together(*(recording(name) for name in ("base", "new")))
    comparison = compare_runs(build_store(tmp_path / "lab", runs), Request(("base",), ("new",)))
    assert fullest_sentence(replace(comparison, fullest_ranks=(1, 0))) is None  # no memory is compared
    row = replace(comparison.rows[0], metric="peak_memory")
    assert fullest_sentence(replace(comparison, rows=(row,), fullest_ranks=(1, 0))) == (
        "Peak memory is of the fullest device, that of rank 1 in the base and of rank 0 in the candidate."
    )
