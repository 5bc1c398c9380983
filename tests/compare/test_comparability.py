"""Facts of two sides, and shares of ops with inputs of the same shapes."""

import polars as pl
import pytest

from tracelab.compare.comparability import FactRow, NotComparableError, alike_shapes, compare_facts

NO_SHAPES = pl.DataFrame()


def shapes(*rows: tuple[str, str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["run", "op", "input_shapes", "calls"], orient="row")


def test_versions_that_differ_are_listed() -> None:
    rows = compare_facts([{"run": "a", "torch_version": "2.12"}], [{"run": "b", "torch_version": "2.13"}], NO_SHAPES)
    assert rows == [FactRow("torch_version", "different", "2.12", "2.13", allowed=False)]


def test_what_one_side_does_not_record_is_unknown() -> None:
    (row,) = compare_facts([{"run": "a", "gpu": "A100"}], [{"run": "b", "gpu": None}], NO_SHAPES)
    assert (row.verdict, row.base, row.candidate) == ("unknown", "A100", None)


def test_facts_that_are_no_text_are_formatted() -> None:
    commit = "0123456789abcdef"
    sides = ({"complete": True, "git_commit": commit}, {"complete": False, "git_commit": commit})
    rows = compare_facts([{"run": "a"} | sides[0]], [{"run": "b"} | sides[1]], NO_SHAPES)
    assert {row.fact: (row.verdict, row.base, row.candidate) for row in rows} == {
        "complete": ("different", "yes", "no"),
        "git_commit": ("same", "0123456789", "0123456789"),
    }


@pytest.mark.parametrize(("hz", "verdict"), [(1.42e9, "same"), (1.2e9, "different")])
def test_clocks_differ_beyond_2_percent(hz: float, verdict: str) -> None:
    (row,) = compare_facts([{"run": "a", "sm_clock_hz": 1.41e9}], [{"run": "b", "sm_clock_hz": hz}], NO_SHAPES)
    assert (row.verdict, row.base) == (verdict, "1410 MHz")


@pytest.mark.parametrize(("ratio", "verdict"), [(0.06, "same"), (0.54, "different")])
def test_waits_for_cores_differ_beyond_5_points(ratio: float, verdict: str) -> None:
    sides = [{"run": run, "core_wait_ratio": value} for run, value in (("a", 0.0137), ("b", ratio))]
    (row,) = compare_facts(sides[:1], sides[1:], NO_SHAPES)
    assert (row.verdict, row.base, row.candidate) == (verdict, "1.37 %", f"{100 * ratio:.0f} %")


def test_waits_for_cores_differ_where_the_medians_of_the_sides_do() -> None:
    sides = [
        [{"run": f"{side}{number}", "core_wait_ratio": value} for number, value in enumerate(values)]
        for side, values in (("a", (0.7, 0.7, 0.72)), ("b", (0.6, 0.74, 0.8)))
    ]
    assert [row.verdict for row in compare_facts(*sides, NO_SHAPES)[0:1]] == ["same"]
    sides[1][0]["core_wait_ratio"] = 0.79
    assert [row.verdict for row in compare_facts(*sides, NO_SHAPES)[0:1]] == ["different"]


@pytest.mark.parametrize(
    ("fact", "base", "candidate", "verdict"),
    [
        ("git_commit", ("old", "new"), ("new", "old"), "mixed"),
        ("git_commit", ("old", "new"), ("new", "new"), "different"),
        ("sm_clock_hz", (1.2e9, 1.4e9, 1.41e9), (1.3e9, 1.41e9, 1.41e9), "mixed"),
        ("sm_clock_hz", (1.2e9, 1.2e9, 1.41e9), (1.2e9, 1.41e9, 1.41e9), "different"),
    ],
)
def test_facts_are_mixed_where_only_recordings_of_one_side_differ(
    fact: str, base: tuple[object, ...], candidate: tuple[object, ...], verdict: str
) -> None:
    sides = [[{"run": f"{side}{i}", fact: value} for i, value in enumerate(side)] for side in (base, candidate)]
    assert [row.verdict for row in compare_facts(*sides, NO_SHAPES)] == [verdict]


def test_recordings_of_one_side_must_agree_too() -> None:
    base = [{"run": "a", "batch_size": 8}, {"run": "b", "batch_size": 16}]
    with pytest.raises(NotComparableError, match="batch size 8, 16 against 8; record both with one batch size"):
        compare_facts(base, [{"run": "c", "batch_size": 8}], NO_SHAPES)
    with pytest.raises(NotComparableError, match="batch size 8, 16 against 8, 16; record both with one batch size"):
        compare_facts(base, base, NO_SHAPES)


def test_what_follows_from_another_difference_is_not_named() -> None:
    base = [{"run": "a", "ranks": 1, "world_size": 1, "global_batch_size": 4}]
    candidate = [{"run": "b", "ranks": 2, "world_size": 2, "global_batch_size": 8}]
    with pytest.raises(NotComparableError) as refusal:
        compare_facts(base, candidate, NO_SHAPES)
    assert str(refusal.value) == (
        "base and candidate cannot be compared: ranks 1 against 2; record both with as many ranks, or add "
        "--allow-different ranks"
    )
    rows = compare_facts(base, candidate, NO_SHAPES, ["ranks"])
    assert all(row.allowed for row in rows)


def test_shapes_are_compared_for_common_ops_by_shares_of_calls() -> None:
    calls = shapes(
        ("a", "mm", "[2]", 30), ("a", "mm", "[3]", 10), ("a", "old", "[1]", 60),
        ("b", "mm", "[2]", 50), ("b", "mm", "[4]", 50), ("b", "new", "[1]", 900),
    )  # fmt: skip
    assert alike_shapes(calls, ["a"], ["b"]) == 0.5  # of mm, 75 % and 50 % have [2]
    assert alike_shapes(calls, ["a"], ["none"]) is None


def test_a_refusal_names_all_that_is_to_be_allowed_also_for_recordings_of_noise() -> None:
    calls = shapes(*((run, "mm", f"[{size}]", 10) for run, size in (("a", 2), ("b", 3), ("n", 4))))
    base = [{"run": "a", "gpus": 1, "ranks": 1, "batch_size": 8}]
    candidate = [{"run": "b", "gpus": 2, "ranks": 2, "batch_size": 8}]
    noise = [{"run": "n", "gpus": 1, "ranks": 1, "batch_size": 16}]
    with pytest.raises(NotComparableError) as refusal:
        compare_facts(base, candidate, calls, noise=noise)
    assert str(refusal.value) == (
        "base and candidate cannot be compared: GPUs 1 against 2; only 0 % of the calls of common ops have inputs of "
        "the same shapes; base and noise runs cannot be compared: batch size 8 against 16; only 0 % of the calls of "
        "common ops have inputs of the same shapes; record both with as many GPUs, record the same inputs, record both "
        "with one batch size, or add --allow-different gpus --allow-different shapes --allow-different batch_size"
    )
    allowed = str(refusal.value).partition("or add ")[2].replace("--allow-different ", "").split()
    assert compare_facts(base, candidate, calls, allowed, noise)


HALF = {"fp16": 98.0, "fp32": 2.0}


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        ({"tf32": 60.0, "fp32": 40.0}, ("different", "fp16 98 %, fp32 2 %", "tf32 60 %, fp32 40 %")),
        ({"fp16": 89.0, "fp32": 11.0}, ("same", "fp16 98 %, fp32 2 %", "fp16 89 %, fp32 11 %")),
        ({"fp16": 99.5, "fp32": 0.5}, ("same", "fp16 98 %, fp32 2 %", "fp16 100 %")),
        ({}, ("unknown", "fp16 98 %, fp32 2 %", None)),
    ],
)
def test_precisions_by_kernel_names_come_first_and_differ_beyond_10_points(
    candidate: dict[str, float], expected: tuple[str, str, str | None]
) -> None:
    rows = [(run, *each) for run, side in (("a", HALF), ("b", candidate)) for each in side.items()]
    precisions = pl.DataFrame(rows, schema=["run", "precision", "dur_ns"], orient="row")
    sides = [[{"run": run, "torch_version": "2.12", "precision": None}] for run in ("a", "b")]
    first, *others = compare_facts(sides[0], sides[1], NO_SHAPES, precisions=precisions)
    assert (first.label, first.verdict, first.base, first.candidate) == ("precision by kernel names", *expected)
    assert [each.fact for each in others] == ["torch_version"]
    recorded = [[each | {"precision": "fp16"} for each in side] for side in sides]
    rows_of_recorded = compare_facts(recorded[0], recorded[1], NO_SHAPES, precisions=precisions)
    assert "product_precision" not in {each.fact for each in rows_of_recorded}
