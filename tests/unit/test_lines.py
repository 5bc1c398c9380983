"""Runs as points of lines: what they share, along which axis they differ, and how lines are told from one another."""

from pathlib import Path
from typing import Any

from tests.build import build_store
from tracelab.store import session

RUN = {"sweep": "s", "model": "net", "gpus": 1, "world_size": 1, "batch_size": 8, "gpu": "K80", "parallelism": "none"}


def rows_of(tmp_path: Path, runs: dict[str, dict[str, object]], sql: str) -> list[tuple[Any, ...]]:
    store = build_store(tmp_path / "lab", {"runs": [RUN | {"run": name} | run for name, run in runs.items()]})
    with session.connect(store, referenced=sql) as con:
        return con.execute(sql).fetchall()


def lines(tmp_path: Path, axis: str, **runs: dict[str, object]) -> dict[str, list[tuple[str, int]]]:
    """The runs and points of each line, by what tells it."""
    sql = f"select label, list((run, point) order by run) from lines_along('runs', '{axis}') group by line, label"
    return dict(rows_of(tmp_path, runs, sql))


def test_a_line_of_batch_sizes_shares_all_else_and_holds_repeats(tmp_path: Path) -> None:
    found = lines(
        tmp_path, "batch_size", a={}, b={"batch_size": 16}, c={"batch_size": 16, "repeat": 1}, d={"dataset": "cifar10"}
    )
    assert found == {"net": [("a", 8), ("b", 16), ("c", 16)], "net, dataset=cifar10": [("d", 8)]}


def test_another_machine_sweep_or_layout_is_another_line(tmp_path: Path) -> None:
    found = lines(tmp_path, "batch_size", a={}, b={"gpu": "P40"}, c={"sweep": "t"}, d={"gpus": 2, "parallelism": "dp"})
    assert found == {
        "net, 1 GPU, K80, s": [("a", 8)],
        "net, 1 GPU, P40, s": [("b", 8)],
        "net, 1 GPU, K80, t": [("c", 8)],
        "net, 2 GPUs dp, K80, s": [("d", 8)],
    }


def test_a_cell_on_one_gpu_begins_the_line_of_each_way_to_use_more(tmp_path: Path) -> None:
    found = lines(
        tmp_path,
        "gpus",
        one={},
        dp={"gpus": 2, "parallelism": "dp"},
        ddp={"gpus": 2, "world_size": 2, "parallelism": "ddp"},
        larger={"gpus": 2, "parallelism": "dp", "batch_size": 16},
    )
    assert found == {
        "net, batch 8, dp": [("dp", 2), ("one", 1)],
        "net, batch 8, ddp": [("ddp", 2), ("one", 1)],
        "net, batch 16, dp": [("larger", 2)],
    }


def test_a_gpu_without_a_name_is_no_processor(tmp_path: Path) -> None:
    found = lines(tmp_path, "gpus", cpu={"gpus": 0, "gpu": None, "host": "h"}, gpu={"gpu": None, "host": "h"})
    assert found == {"net, a processor of h": [("cpu", 1)], "net, a GPU of h": [("gpu", 1)]}


def test_ends_are_means_of_repeats_at_the_first_and_the_last_point(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        {"a": {}, "b": {"repeat": 1}, "c": {"batch_size": 16}, "d": {"batch_size": 32}, "alone": {"model": "other"}},
        "with answered(run, study, corrected) as"
        " (values ('a', 1, 5), ('b', 3, 7), ('c', 9, 9), ('d', 4, 8), ('alone', 1, 1))"
        " select label, points, least, most, at_least.study, at_least.corrected, at_most.study, at_most.corrected"
        " from line_ends('answered', 'runs', 'batch_size')",
    )
    assert found == [("net", 3, 8, 32, 2, 6, 4, 8)]


def test_the_best_point_of_equals_is_the_smallest(tmp_path: Path) -> None:
    found = rows_of(
        tmp_path,
        {"a": {}, "b": {"batch_size": 16}, "c": {"batch_size": 32}},
        "with answered(run, corrected) as (values ('a', 1), ('b', 4), ('c', 4))"
        " select label, least, most, best_point, best, worst from line_bests('answered', 'runs', 'batch_size')",
    )
    assert found == [("net", 8, 32, 16, 4, 1)]


def test_texts_beyond_six_are_counted_and_one_figure_is_reported_once(tmp_path: Path) -> None:
    lists = "join_list(['a', 'b']), join_list(list_transform(range(8), lambda n: n::varchar)), join_list([])"
    found = rows_of(tmp_path, {"a": {}}, f"select {lists}, format_range(1, 2.5), format_range(2, 2.0001)")
    assert found == [("a; b", "0; 1; 2; 3; 4; 5; and 2 more", None, "1 to 2.5", "2")]
