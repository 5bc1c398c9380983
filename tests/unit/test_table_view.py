"""Which rows and columns of an answer a table has, and the notes on those it leaves out."""

import pyarrow as pa
import pytest

from tracelab.errors import UsageError
from tracelab.output.table_view import MOST_COLUMNS, Selection, reduce_columns, view_lines
from tracelab.output.text_table import table_lines
from tracelab.query import library

WIDE = pa.table({f"n{at}": [at + 1, at + 2] for at in range(9)} | {"run": ["a", "b"], "rank": [0, 1]})
OPS = pa.table(
    {
        "run": ["a", "a", "a"],
        "op": ["mm", "add", "copy"],
        "dur_ns": [2**53 + 1, None, 7],
        "failed": [0, 0, 0],
        "stream": pa.array([None, None, None], pa.int64()),
    }
)


def test_the_columns_of_the_header_are_shown_and_the_others_counted() -> None:
    table, notes = reduce_columns(WIDE, ("run", "n8", "n0"), "--all shows them")
    assert table.column_names == ["run", "n8", "n0"]
    assert notes == ["8 more columns: --all shows them."]


def test_a_table_of_steps_has_all_parts_that_add_up_to_a_step() -> None:
    """Of one run, whose name is in a note."""
    query = library.find("step_breakdown")
    shown = [name for name in query.show if name != "run"][:MOST_COLUMNS]
    assert query.chart is not None
    assert {"step_ns", *query.chart.y} <= set(shown)


def test_without_a_header_identity_and_the_first_others_make_eight() -> None:
    table, notes = reduce_columns(WIDE, (), "--all shows them")
    assert table.column_names == ["run", "rank", "n0", "n1", "n2", "n3", "n4", "n5"]
    assert notes == ["3 more columns: --all shows them."]


def test_columns_without_information_move_to_one_note() -> None:
    table, notes = reduce_columns(OPS, (), "--all shows them")
    assert table.column_names == ["op", "dur_ns"]
    assert notes == ["In every row above: run = a, failed = 0, stream = NULL."]


def test_a_reason_that_no_row_has_is_in_no_note() -> None:
    table, notes = reduce_columns(OPS.append_column("reason", pa.nulls(3, pa.string())), (), "--all shows them")
    assert table.column_names == ["op", "dur_ns"]
    assert notes[0] == "In every row above: run = a, failed = 0, stream = NULL."


def test_the_time_of_the_run_that_each_row_repeats_moves_to_the_note_where_the_header_lists_it() -> None:
    rows = pa.table({"class": ["gemm", "copy", "idle"], "before_ns": [4, 5, 6], "window_ns": [20, 20, 20]})
    table, notes = reduce_columns(rows, rows.column_names, "")
    assert (table.column_names, notes) == (["class", "before_ns"], ["In every row above: window_ns = 20 ns."])
    assert (
        reduce_columns(rows.slice(1), rows.column_names, "")[0].column_names == rows.column_names
    )  # two rows may agree
    assert reduce_columns(rows, (), "")[0].column_names == rows.column_names


@pytest.mark.parametrize(
    ("units", "shown"),
    [
        (("ns", "ns"), ["12.35 µs", "1.000 s"]),
        (("samples/s", "samples/s"), ["12,346 samples/s", "1,000,000,000 samples/s"]),
        (("ns", "kernels"), ["12,346", "1,000,000,000"]),
        ((None, None), ["12,346", "1,000,000,000"]),
    ],
)
def test_values_have_the_unit_that_all_rows_share(units: tuple[str | None, ...], shown: list[str]) -> None:
    answer = pa.table({"run": ["a", "b"], "level_value": [12_346.0, 1e9], "unit": pa.array(units, pa.string())})
    lines = list(view_lines(answer, ("run", "level_value"), width=80))
    assert [line.split("  ", 1)[1].strip() for line in lines[2:4]] == shown


def test_a_share_is_a_percentage() -> None:
    answer = pa.table({"run": ["a", "b"], "value": [0.5, 0.25], "unit": ["ratio", "ratio"]})
    assert [line.split()[1:] for line in view_lines(answer, ("run", "value"), width=80)][2:4] == [
        ["50.00", "%"],
        ["25.00", "%"],
    ]


def test_a_value_beside_null_and_another_constant_stay() -> None:
    table = pa.table({"rank": [0, None], "step": [3, 3], "lost": [0, None], "state": ["late", "late"]})
    assert reduce_columns(table, (), "")[0].column_names == table.column_names


@pytest.mark.parametrize("table", [OPS.slice(0, 0), pa.table({"failed": [0, 0]}), pa.table({})])
def test_a_table_keeps_its_columns_without_rows_and_where_none_would_be_left(table: pa.Table) -> None:
    assert reduce_columns(table, (), "")[0].column_names == table.column_names


def test_notes_follow_the_table() -> None:
    assert list(view_lines(OPS.slice(2), ("op", "dur_ns", "run"), width=50)) == [
        "op    dur_ns",
        "────  ──────",
        "copy    7 ns",
        "",
        "In every row above: run = a.",
        "2 more columns: --all shows them.",
    ]


def test_the_reasons_of_several_runs_follow_the_table_once_each_and_complete() -> None:
    early = "the clocks of CPU and GPU are apart, as kernels begin before their launch"
    table = pa.table(
        {
            "run": ["a", "a", "b", "b", "c", "d"],
            "class": ["cpu", "gemm"] * 3,
            "reason": [early, early, None, None, early, "1 rank is left out: no collective aligns its clock"],
        }
    )
    lines = list(view_lines(table, (), width=50))
    assert lines[:3] == ["run  class", "───  ─────", "a    cpu"]
    assert lines[8:] == [
        "",
        "reason of a, c: the clocks of CPU and GPU are",
        "apart, as kernels begin before their launch",
        "",
        "reason of d: 1 rank is left out: no collective",
        "aligns its clock",
    ]
    of_rows = table.set_column(2, "reason", pa.array([early, None] * 3))
    assert not any("reason of" in line for line in view_lines(of_rows, (), width=50))
    assert not any("reason of" in line for line in view_lines(table, (), width=None))


RUNS = ["base", "generated-scaling-alexnet-b128-g2-ddp", "generated-scaling-alexnet-b128-g4-ddp"]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_name_of_a_run_is_whole_in_a_narrow_table(width: int) -> None:
    rows = len(RUNS)
    answer = pa.table(
        {
            "run": RUNS,
            "began_at": [f"2026-11-20 09:24:0{at}" for at in range(rows)],
            "host": [f"node{at}, node{at + 1}, node{at + 2} and 12 more" for at in range(rows)],
            **{name: [10**at + 123 for at in range(rows)] for name in ("step_ns", "idle_ns", "wait_ns")},
            "notes": ["idle, exposed communication", "idle", "stragglers, exposed communication"],
        }
    )
    lines = list(table_lines(answer, width=width))
    assert all(len(line) <= width for line in lines)
    assert {name for name in RUNS if any(name in line.split() for line in lines)} == set(RUNS)
    assert sum("2026-11-20" in line for line in lines) == rows  # the line of a long name is followed by its row


def test_hosts_are_whole_where_a_table_has_no_runs() -> None:
    hosts = ["rack-12-node-0001.cluster.example.org", "rack-12-node-0002.cluster.example.org"]
    answer = pa.table({"host": hosts, "gpu": ["GPU-12345678-1234"] * 2, "step_ns": [1, 2]})
    lines = list(table_lines(answer, width=48))
    assert [line for line in lines if line in hosts] == hosts


def test_different_texts_stay_different_when_shortened() -> None:
    series = [f"image_classification --model alexnet · {gpus} GPUs · batch 128 · fp32 · dp" for gpus in (2, 4)]
    lines = list(table_lines(pa.table({"series": series, "step_ns": [1, 1]}), width=40))
    assert len(set(lines[-2:])) == len(series)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_selection_keeps_values_exact(chunked: bool) -> None:
    rows = pa.RecordBatchReader.from_batches(OPS.schema, OPS.to_batches(max_chunksize=1)) if chunked else OPS
    selected, total = Selection(columns=("dur_ns", "op"), sort="-dur_ns", limit=2).apply(rows)
    assert isinstance(selected, pa.Table)
    assert (selected.to_pylist(), total) == ([{"dur_ns": 2**53 + 1, "op": "mm"}, {"dur_ns": 7, "op": "copy"}], 3)


def test_columns_alone_stay_a_stream_and_a_limit_counts_all_rows() -> None:
    reader = pa.RecordBatchReader.from_batches(OPS.schema, OPS.to_batches(max_chunksize=1))
    selected, total = Selection(columns=("op",)).apply(reader)
    assert isinstance(selected, pa.RecordBatchReader)
    assert (selected.read_all().to_pydict(), total) == ({"op": ["mm", "add", "copy"]}, None)
    first, total = Selection(limit=1).apply(
        pa.RecordBatchReader.from_batches(OPS.schema, OPS.to_batches(max_chunksize=2))
    )
    assert isinstance(first, pa.Table)
    assert (first.column("op").to_pylist(), total) == (["mm"], 3)


@pytest.mark.parametrize("order", [("dur_ns", ["copy", "mm", "add"]), ("-dur_ns", ["mm", "copy", "add"])])
def test_null_is_last_in_both_orders(order: tuple[str, list[str]]) -> None:
    rows, _ = Selection(sort=order[0]).apply(OPS)
    assert isinstance(rows, pa.Table)
    assert rows.column("op").to_pylist() == order[1]


@pytest.mark.parametrize("selection", [Selection(columns=("opp",)), Selection(sort="opp"), Selection(sort="-opp")])
def test_an_unknown_column_is_refused_with_the_list(selection: Selection) -> None:
    with pytest.raises(UsageError, match=r"no column 'opp' \(did you mean 'op'\?\); the answer has run, op, dur_ns"):
        selection.apply(OPS)


def test_a_column_of_lists_has_no_order() -> None:
    with pytest.raises(UsageError, match="column 'tags' has no order"):
        Selection(sort="tags").apply(pa.table({"tags": [["a"], ["b"]]}))
