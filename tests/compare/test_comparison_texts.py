"""The texts of a comparison: long and hostile names, limits, and what explains a difference."""

import html
import json
from xml.etree import ElementTree

from tests.compare.small_runs import recording, together, with_facts
from tests.memory import MemoryStore
from tracelab.compare import sentences, writers
from tracelab.compare.comparison import Request, compare_source
from tracelab.compare.fetch import Source
from tracelab.compare.gates import Gate


def test_idle_time_copies_and_memory_are_more_or_less(memory: MemoryStore) -> None:
    base, candidate = recording("a", steps=8), recording("b", steps=8)
    candidate["memcpys"] = [row | {"dur_ns": 400} for row in candidate["memcpys"]]
    candidate["kernels"] = [row | ({"dur_ns": 4_500} if row["dur_ns"] == 4_000 else {}) for row in candidate["kernels"]]
    memory.filled(together(base, candidate))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    words = {row.metric: sentences.format_verdict(row) for row in comparison.rows}
    assert {name: words[name] for name in ("exposed_copies", "copy:HtoD", "exposed_communication", "class:gemm")} == {
        "exposed_copies": "undecided (less)",
        "copy:HtoD": "undecided (less)",
        "exposed_communication": "undecided (less)",
        "class:gemm": "undecided (slower)",
    }
    content = json.loads(writers.write_json(comparison, strict=False))
    assert {row["metric"]: row["tendency"] for row in content["metrics"]}["copy:HtoD"] == "less"


def test_folded_tables_of_a_comment_have_names_that_a_gate_takes(memory: MemoryStore) -> None:
    name = f"void cutlass::Kernel<{', '.join(['Tile128'] * 20)}>(Params)"
    sides = [recording(run, gemm=name, gemm_ns=dur_ns) for run, dur_ns in (("a", 3_000), ("b", 4_000))]
    memory.filled(together(*sides))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    (cell,) = [
        line.split(" | ")[0]
        for line in writers.write_markdown(comparison, everything=True).partition("<details>")[2].splitlines()
        if "Tile128" in line and "µs" in line
    ]
    assert html.unescape(cell) == f"| kernel:{name}"
    assert name not in writers.write_text(comparison, everything=True, width=100)


def test_a_name_of_a_thousand_characters_is_shortened_in_a_comment(memory: MemoryStore) -> None:
    name = f"void kernel<{'float, ' * 200}int>(Params)"
    memory.filled(together(*(recording(run, gemm=name, gemm_ns=ns) for run, ns in (("a", 3_000), ("b", 4_000)))))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(Gate("gpu_time", 3),)))
    markdown = writers.write_markdown(comparison, everything=True)
    (cell,) = [
        line.split(" | ")[0] for line in markdown.splitlines() if line.startswith("| kernel:void kernel&lt;float")
    ]
    assert (len(html.unescape(cell)), cell[-18:]) == (302, "float, int>(Params)"[-18:])
    assert "Gate 'gpu_time > 3%' is undecided" in markdown


def test_a_limit_is_one_of_each_kind_of_details(memory: MemoryStore) -> None:
    memory.filled(together(recording("a"), recording("b")))
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",)))
    whole = sentences.list_details(comparison, everything=True)
    limited = sentences.list_details(comparison, everything=True, most=1)
    assert max(len(each.rows) for each in whole) > 1
    assert [(each.title, len(each.rows)) for each in limited] == [(each.title, 1) for each in whole]
    assert [each.rows[0] for each in limited] == [each.rows[0] for each in whole]


def test_hostile_names_are_text_in_every_format(memory: MemoryStore) -> None:
    hostile = "<script>alert(1)</script> | `x` ](http://a) \x1b[2J\x00"
    sides = [recording(run, gemm=hostile, gemm_ns=dur_ns) for run, dur_ns in (("a", 3_000), ("b", 4_000))]
    memory.filled(together(*sides))
    gate = Gate(f"kernel:{hostile}", 3)
    comparison = compare_source(Source(memory.con), Request(("a",), ("b",), gates=(gate,)))
    markdown, junit = writers.write_markdown(comparison), writers.write_junit(comparison, strict=False)
    assert "<script>" not in markdown
    assert "](http" not in markdown.replace("\\]", "")
    for text in (markdown, junit, writers.write_text(comparison, width=100)):
        assert not {"\x1b", "\x00"} & set(text)
    cases = ElementTree.fromstring(junit).iter("testcase")  # noqa: S314  ours
    assert r"kernel:<script>alert(1)</script> | `x` ](http://a) \x1b[2J\x00 > 3%" in {
        case.get("name") for case in cases
    }
    assert json.loads(writers.write_json(comparison, strict=False))["gates"][0]["metric"] == gate.metric


def test_what_explains_another_speed_is_the_first_line_below_the_tables(memory: MemoryStore) -> None:
    sides = [with_facts(recording(run), git_commit=run, precision=each) for run, each in (("a", "fp16"), ("b", "tf32"))]
    memory.filled(together(*sides))
    compared = compare_source(Source(memory.con), Request(("a",), ("b",)))
    assert writers.closing_lines(compared)[0] == "The sides differ in: precision: fp16 → tf32; commit: a → b."


def test_facts_that_both_sides_mix_are_no_difference_of_the_sides(memory: MemoryStore) -> None:
    runs = [("a", "old"), ("b", "new"), ("c", "new"), ("d", "old")]
    memory.filled(together(*(with_facts(recording(run), git_commit=commit) for run, commit in runs)))
    compared = compare_source(Source(memory.con), Request(("a", "b"), ("c", "d")))
    assert writers.closing_lines(compared)[0] == "Recordings within a side differ in: commit: new, old on both sides."
