"""Kernels that are launched in the place of others, of steps that a person can align."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from tests.build import build_store
from tests.compare.small_runs import ALL_REDUCE, Tables, recording, together
from tests.compare.test_kernel_matching import launch
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.compare import sentences, writers
from tracelab.compare.comparison import Comparison, Request, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.gates import Gate
from tracelab.compare.kernel_groups import group_kernels
from tracelab.compare.kernel_matching import Kernel, KernelMatch, UnmatchedClass, match_kernels
from tracelab.compare.replacements import Replaced, Replacement, find_replacements
from tracelab.plot.joined import join_rows, join_table
from tracelab.query import library
from tracelab.report.charts.chart import build_chart


def find(base: str, candidate: str, **classes: str) -> list[tuple[list[Replaced], list[Replaced]]]:
    """Return the replacements of two steps: each letter is a kernel of 10 ns, of class gemm or that in `classes`."""
    steps = tuple([launch(name) for name in step] for step in (base, candidate))
    kernels = tuple(
        [Kernel(name, name, classes.get(name, "gemm"), 10.0 * step.count(name)) for name in dict.fromkeys(step)]
        for step in (base, candidate)
    )
    times = {name: (10.0 * base.count(name), 10.0 * candidate.count(name)) for name in base + candidate}
    found = find_replacements(match_kernels(kernels[0], kernels[1]), (kernels[0], kernels[1]), times, steps)
    return [(list(each.went), list(each.came)) for each in found]


def test_a_kernel_that_is_launched_less_often_is_replaced_by_that_at_its_place() -> None:
    assert find("axbxcx", "axbxcy", y="fused") == [([Replaced("x", "gemm", -10)], [Replaced("y", "fused", 10)])]


def test_two_kernels_may_be_replaced_by_one() -> None:
    ((went, came),) = find("apqbpqc", "arbrc", p="elementwise", q="norm", r="reduction")
    assert ([each.name for each in went], [each.name for each in came]) == (["p", "q"], ["r"])
    assert sum(each.difference_ns for each in went + came) == -20


def test_a_product_is_replaced_by_no_kernel_that_computes_none() -> None:
    """Nor is communication by computing; a convolution may be by one of another class."""
    assert find("axbxcx", "axbxcy", x="convolution", y="elementwise") == []
    assert find("axbxcx", "axbxcy", x="communication", y="copy") == []
    assert len(find("axbxcx", "axbxcy", x="convolution", y="implicit_gemm")) == 1


def test_another_order_replaces_nothing() -> None:
    assert find("axbyc", "aybxc") == []


def test_what_only_one_side_launches_replaces_nothing() -> None:
    assert find("axbxc", "abc") == []
    assert find("abc", "axbc") == []


def test_kernels_at_different_places_replace_each_other_only_within_a_class() -> None:
    assert find("xabc", "abcy", y="fused") == []
    assert find("xabc", "abcy") == [([Replaced("x", "gemm", -10)], [Replaced("y", "gemm", 10)])]


def test_a_long_gap_shows_no_places() -> None:
    assert find("a" + "x" * 9 + "b", "a" + "y" * 9 + "b", y="fused") == []


def with_convolution(run: str) -> Tables:
    """Return a recording of which each step has a convolution of 5,500 ns for the product of 4,000 ns."""
    tables = recording(run)
    other = {"gemm_kernel": "cudnn_convolve_kernel"}
    tables["kernels"] = [
        row | {"name": other.get(str(row["name"]), row["name"])}
        | ({"dur_ns": 5_500} if row["name"] in other else {})
        for row in tables["kernels"]
    ]  # fmt: skip
    return tables


@pytest.fixture
def swapped(memory: MemoryStore) -> Comparison:
    """Each step of the candidate launches the convolution in place of the matrix product."""
    memory.filled(together(recording("a"), with_convolution("b")))
    return compare_source(Source(memory.con), Request(("a",), ("b",)))


@pytest.mark.parametrize("name", ["gemm_kernel", "cudnn_convolve_kernel"])
def test_a_gate_on_a_kernel_of_one_side_is_on_those_that_replace_each_other(memory: MemoryStore, name: str) -> None:
    """4,000 ns become 5,500: 37.5 % more, in each of four recordings a side."""
    base, candidate = [f"a{at}" for at in range(4)], [f"b{at}" for at in range(4)]
    memory.filled(together(*map(recording, base), *map(with_convolution, candidate)))
    gates = tuple(Gate(f"kernel:{name}", percent) for percent in (5, 40))
    compared = compare_source(Source(memory.con), Request(tuple(base), tuple(candidate), gates=gates))
    assert [each.verdict for each in compared.gates] == ["failed", "passed"]
    row = compared.gates[0].row
    assert row is not None
    assert (row.base, row.candidate, row.effect) == (4_000, 5_500, pytest.approx(0.375))
    assert compared.notes[0] == (
        f"The gate on kernel:{name} is on kernels that replace each other, added up: gemm_kernel, "
        "cudnn_convolve_kernel."
    )


def test_a_gate_on_a_kernel_of_one_side_that_none_replaces_is_undecided(memory: MemoryStore) -> None:
    candidate = recording("b")
    candidate["kernels"] = [row for row in candidate["kernels"] if row["name"] != "gemm_kernel"]
    memory.filled(together(recording("a"), candidate))
    gates = (Gate("kernel:gemm_kernel", 5),)
    compared = compare_source(Source(memory.con), Request(("a",), ("b",), gates=gates))
    assert [compared.exit_code(strict=strict) for strict in (False, True)] == [0, 4]
    assert sentences.gate_sentence(compared.gates[0]) == (
        "Gate 'kernel:gemm_kernel > 5%' is undecided: only the base launches this kernel, and no kernel of the other "
        "side is known to do its work."
    )


def test_sentence_names_both_kernels_once_and_their_classes_not_again(swapped: Comparison) -> None:
    (replacement,) = swapped.replacements
    assert (replacement.went_ns, replacement.came_ns) == (-4_000, 5_500)
    assert sentences.explanation(swapped) == (
        "Largest differences per step: kernel gemm_kernel (−4.000 µs) replaced by cudnn_convolve_kernel (+5.500 µs), "
        "net +1.500 µs; exposed_communication −1.000 µs; idle −500 ns."
    )


def test_replaced_kernels_are_not_listed_as_unmatched_again(swapped: Comparison) -> None:
    assert (
        swapped.matching.unmatched()
        == [
            UnmatchedClass("gemm", 4_000, 0, ("gemm_kernel",)),
            UnmatchedClass("convolution", 0, 5_500, ("cudnn_convolve_kernel",)),
        ][::-1]
    )
    assert swapped.unmatched == []
    assert sentences.matching_sentences(swapped) == [
        "Kernels matched: 33.3 % of the base's and 26.7 % of the candidate's kernel time (by name 26.7 %), the rest "
        "replaces other kernels."
    ]
    text = writers.write_text(swapped, width=200)
    assert (text.count("cudnn_convolve_kernel"), text.count("Not matched")) == (1, 0)
    assert json.loads(writers.write_json(swapped, strict=False))["kernels"]["unmatched"] == []


def test_a_replacement_that_is_not_among_the_largest_differences_is_listed_below(memory: MemoryStore) -> None:
    """A kernel of 20 ns in a step of 10 µs gives way to another one of 30 ns: below 1 % of the step."""
    sides = [recording("a"), recording("b")]
    for side, name, dur_ns in zip(sides, ("tiny_gemm", "tiny_convolve_kernel"), (20, 30), strict=True):
        side["kernels"] += [
            row | {"name": name, "start_ns": row["start_ns"] + 5_000, "dur_ns": dur_ns}
            for row in side["kernels"]
            if row["name"] == "gemm_kernel"
        ]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert sentences.matching_sentences(comparison)[1:] == [
        "Smaller differences: kernel tiny_gemm (−20 ns) replaced by tiny_convolve_kernel (+30 ns), net +10 ns."
    ]


def test_a_kernel_that_is_launched_less_often_is_listed_with_what_replaces_it_alone(memory: MemoryStore) -> None:
    """Each step of the base launches the matrix product twice, of the candidate once, and then a convolution."""
    sides = [recording("a"), recording("b")]
    for side, name in zip(sides, ("gemm_kernel", "cudnn_convolve_kernel"), strict=True):
        side["kernels"] += [
            row | {"name": name, "start_ns": row["start_ns"] + 5_000, "dur_ns": 900}
            for row in side["kernels"]
            if row["name"] == "gemm_kernel"
        ]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    (replacement,) = comparison.replacements
    assert [(each.name, each.difference_ns) for each in replacement.went] == [("gemm_kernel", -900)]
    (row,) = (row for row in comparison.rows if row.metric == "kernel:gemm_kernel")
    assert row.difference == pytest.approx(-900)
    shown, whole = (
        [row.metric for details in sentences.list_details(comparison, everything=each) for row in details.rows]
        for each in (False, True)
    )
    assert ("kernel:gemm_kernel" in shown, "kernel:gemm_kernel" in whole) == (False, True)


def test_a_large_swap_of_small_effect_comes_behind_what_matters(memory: MemoryStore) -> None:
    """The kernels differ by 50 ns: less than 1 % of the step, which a copy of 300 ns makes 3 % longer."""
    base, candidate = recording("a"), recording("b")
    matrix = [row for row in candidate["kernels"] if row["name"] == "gemm_kernel"]
    candidate["memcpys"] = [row | {"dur_ns": 800} for row in candidate["memcpys"]]
    for row in matrix:
        row |= {"name": "cudnn_convolve_kernel", "dur_ns": row["dur_ns"] + 50}
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert str(sentences.explanation(comparison)).startswith(
        "Largest differences per step: exposed_copies +300 ns (copy:HtoD +300 ns in all)"
    )
    assert "net +50 ns" in sentences.matching_sentences(comparison)[1]


def test_kernels_without_a_counterpart_are_in_the_lead(memory: MemoryStore) -> None:
    base, candidate = recording("a"), recording("b")
    for name, dur_ns in (("indexSelectLargeIndex", 500), ("tiny_softmax_forward", 20)):
        base["kernels"] += [
            row | {"name": name, "start_ns": row["start_ns"] + 5_000, "dur_ns": dur_ns}
            for row in base["kernels"]
            if row["name"] == "gemm_kernel"
        ]
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert str(sentences.explanation(comparison)).endswith(
        " Kernels without a counterpart: embedding_index, 500 ns in the base (indexSelectLargeIndex)."
    )
    assert [each for each in sentences.matching_sentences(comparison) if "Not matched" in each] == [
        "Not matched: softmax, 20 ns in the base (tiny_softmax_forward)."
    ]


def test_kernels_that_replace_each_other_are_one_bar_of_their_difference(swapped: Comparison) -> None:
    """A name that both sides have is in no group; others of the section, and of other sections, remain."""
    groups = group_kernels(swapped)
    assert groups == {"gemm_kernel → cudnn_convolv…kernel": frozenset({"gemm_kernel", "cudnn_convolve_kernel"})}
    listed = [("kernels", "gemm_kernel", -4_000), ("kernels", ALL_REDUCE, 7), ("ops", "gemm_kernel", 5)]
    listed += [("kernels", "cudnn_convolve_kernel", 5_500)]
    rows = [dict(zip(("section", "name", "difference_ns"), each, strict=True)) for each in listed]
    chart = library.find("run_difference").chart
    assert chart is not None
    assert [(row["name"], row["difference_ns"]) for row in join_rows(rows, chart, groups)] == [
        ("gemm_kernel → cudnn_convolv…kernel", 1_500),
        (ALL_REDUCE, 7),
        ("gemm_kernel", 5),
    ]
    answer = pa.Table.from_pylist(
        [row | {"run": None, "before_each_ns": 1_000, "change_ratio": 0.5, "per": "step"} for row in rows]
    )
    first, *_ = join_table(answer, chart, groups).to_pylist()
    assert (first["before_each_ns"], first["change_ratio"], first["per"]) == (2_000, None, "step")
    drawn = build_chart(library.find("run_difference"), answer, range(4), several=True, joined=groups)
    assert drawn is not None
    labels = [label for panel in drawn["panels"] for label in panel["labels"]]
    assert "gemm_kernel → cudnn_convolv…kernel" in labels
    assert labels.count("cudnn_convolve_kernel") == 0


def test_a_matched_kernel_that_replaces_another_brings_its_names_of_both_sides(swapped: Comparison) -> None:
    """Its difference of 490 ns is that between 128x64_nn and the two of the base, and not all of 128x64_nn."""
    match = KernelMatch("key", ("sgemm_64x64_nn", "sgemm_32x128_nn"), ("sgemm_128x64_nn",), "sgemm_nn")
    came = (Replaced(match.label, "gemm", 490.0),)
    replaced = (Replacement((Replaced("winograd_tile", "winograd", -1_000.0),), came),)
    matching = replace(swapped.matching, matches=(match,))
    groups = group_kernels(replace(swapped, matching=matching, replacements=replaced))
    names = frozenset({"winograd_tile", *match.base, *match.candidate})
    assert groups == {"winograd_tile → sgemm_128x64_nn": names}


def test_a_plot_of_two_runs_joins_them_and_other_plots_join_nothing(tmp_path: Path) -> None:
    other = recording("b", gemm="cudnn_convolve_kernel", gemm_ns=3_000)
    query = library.find("run_difference")
    lab = Lab(build_store(tmp_path / "lab", together(recording("a"), other)))
    (label,) = lab.joined_kernels(query, lab.run_query(query, {}), {})
    assert label == "gemm_kernel → cudnn_convolv…kernel"
    assert lab.joined_kernels(library.find("gpu_breakdown"), lab.run_query(query, {}), {}) == {}


def test_exposed_copies_are_named_once_with_the_copies_that_they_are_of(memory: MemoryStore) -> None:
    base, candidate = recording("a"), recording("b")
    candidate["memcpys"] = [row | {"dur_ns": 900} for row in candidate["memcpys"]]
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert sentences.explanation(comparison) == (
        "Largest differences per step: exposed_copies +400 ns (copy:HtoD +400 ns in all); idle −400 ns."
    )


def test_ops_explain_runs_without_a_gpu(memory: MemoryStore) -> None:
    sides = [recording("a"), recording("b")]
    for side in sides:
        side["kernels"] = side["memcpys"] = []
    sides[1]["ops"] = [row | ({"dur_ns": 700} if row["name"] == "aten::empty" else {}) for row in sides[1]["ops"]]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert sentences.explanation(comparison) == ("Largest differences per step: aten::empty +300 ns; aten::mm −300 ns.")
