"""Gates of a comparison: what fails, passes, is undecided, or is no metric."""

from xml.etree import ElementTree
from zlib import crc32

import pytest

from tests.compare.small_runs import Tables, recording, together
from tests.memory import MemoryStore
from tracelab.compare import writers
from tracelab.compare.comparison import Request, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.gates import Gate, parse_gate
from tracelab.errors import UsageError


def on_cpu(run: str, exposed_ns: int) -> Tables:
    """Five steps of 1,000 ns: an op for 500 ns, and gloo from 400 ns on, of which the op hides 100 ns."""
    place = {"run": run, "rank": 0, "pid": 1, "scope": "cpu"}
    starts = [crc32(run.encode()) + 1_000 * at for at in range(5)]
    return {
        "annotations": [
            place | {"tid": tid, "name": name, "start_ns": start + at, "dur_ns": dur_ns}
            for step, start in enumerate(starts)
            for tid, name, at, dur_ns in (
                (1, f"ProfilerStep#{step}", 0, 1_000),
                (2, "gloo:all_reduce", 400, 100 + exposed_ns),
            )
        ],
        "ops": [
            {"run": run, "rank": 0, "pid": 1, "tid": 1, "name": "aten::mm", "start_ns": start, "dur_ns": 500}
            for start in starts
        ],
    }


def test_a_gate_on_exposed_communication_counts_gloo_on_the_cpu(memory: MemoryStore) -> None:
    """50 ns of a step in the base, 400 ns in the candidate."""
    base, candidate = ([f"{side}{at}" for at in range(4)] for side in "bc")
    memory.filled(together(*(on_cpu(run, 50) for run in base), *(on_cpu(run, 400) for run in candidate)))
    gates = (parse_gate("exposed_communication > 5%"),)
    compared = compare_source(Source(memory.con), Request(tuple(base), tuple(candidate), gates=gates))
    (row,) = (each for each in compared.rows if each.metric == "exposed_communication")
    assert (row.base, row.candidate) == (50, 400)
    assert (compared.gates[0].verdict, compared.exit_code(strict=False)) == ("failed", 1)


def test_gate_on_what_one_side_does_not_record_is_undecided(memory: MemoryStore) -> None:
    tables = together(recording("a"), recording("b"))
    tables["memory_events"] = [
        {"run": "a", "pid": 1, "device": 0, "time_ns": 5, "size_bytes": 8, "allocated_bytes": 8, "address": 1}
    ]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("peak_memory", 3),)))
    assert [each.verdict for each in comparison.gates] == ["undecided"]
    assert (comparison.exit_code(strict=False), comparison.exit_code(strict=True)) == (0, 4)
    sentence = (
        "Gate 'peak_memory > 3%' is undecided: not every recording has peak_memory; record with profile_memory=True."
    )
    assert sentence in writers.write_text(comparison, width=200)
    junit = ElementTree.fromstring(writers.write_junit(comparison, strict=True))  # noqa: S314  ours
    assert [error.get("message") for error in junit.iter("error")] == [sentence]


@pytest.mark.parametrize(
    ("metric", "verdict"),
    [
        ("copy:DtoD", "passed"),
        ("class:attention", "passed"),
        ("op:aten::mm", "undecided"),
        ("op_gpu:aten::mm", "undecided"),
        ("window_time", "undecided"),
    ],
)
def test_gate_on_what_neither_side_has_is_no_wrong_request(memory: MemoryStore, metric: str, verdict: str) -> None:
    """Copies and kernel classes are recorded, so one without rows takes no time; ops are not, so any may have run."""
    tables = together(recording("a"), recording("b"))
    del tables["ops"]
    memory.filled(tables)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate(metric, 3),)))
    assert [each.verdict for each in comparison.gates] == [verdict]


def test_gate_on_what_two_profilers_record_differently_is_undecided(memory: MemoryStore) -> None:
    sides = together(recording("a"), recording("b"))
    sides["sources"] = [{"run": "a", "format": "kineto"}, {"run": "b", "format": "nsys"}]
    memory.filled(sides)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("step_time", 3),)))
    assert "Gate 'step_time > 3%' is undecided: two profilers recorded the sides" in writers.write_text(
        comparison, width=200
    )


@pytest.mark.parametrize("metric", ["class:atention", "copy:HtoE", "kernel:k", "op:aten::nn", "peak_mem"])
def test_gate_on_a_name_of_no_metric_is_a_wrong_request(memory: MemoryStore, metric: str) -> None:
    memory.filled(together(recording("a"), recording("b")))
    with pytest.raises(UsageError, match=f"--fail-on '{metric} > 3%': no metric '{metric}' in these recordings"):
        compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate(metric, 3),)))
