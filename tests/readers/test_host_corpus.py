"""The host-side questions on every real Kineto file of the corpus: plain Python agrees, and the identities hold."""

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path

import duckdb
import pytest

from tests import corpus, host
from tests.memory import read_into_memory
from tests.stores import kineto_corpus
from tracelab.query import execute, library
from tracelab.store import session

pytestmark = corpus.needs_traces

GPU = ("kernels", "memcpys", "memsets")


@pytest.fixture(scope="module")
def db(shared_stores: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """All files in one store, on one session, in memory."""
    with session.connect(kineto_corpus(shared_stores)) as con:
        read_into_memory(con)
        yield con
    for cached in (host.rows, answer, nests):
        cached.cache_clear()


@cache
def answer(db: duckdb.DuckDBPyConnection, name: str) -> dict[tuple[str, int], list[host.Row]]:
    """The rows of an answer by (run, rank); of so many files some must answer."""
    found = defaultdict(list)
    for row in execute.run(db, library.find(name), {}).to_pylist():
        found[row["run"], row["rank"]].append(row)
    assert len(found) >= 5
    return found


@cache
def nests(db: duckdb.DuckDBPyConnection, run: str, rank: int) -> dict[tuple, host.Thread]:
    """The ops of a run and rank, nested."""
    return host.threads(host.rows(db, "ops", run, rank))


def gpu_rows(db: duckdb.DuckDBPyConnection, run: str, rank: int) -> list[host.Row]:
    return [row | {"table": table} for table in GPU for row in host.rows(db, table, run, rank)]


def test_ops_take_the_time_that_stacks_of_them_take(db):
    for (run, rank), found in answer(db, "op_summary").items():
        expected = host.op_sums(
            host.rows(db, "ops", run, rank), gpu_rows(db, run, rank), host.rows(db, "api_calls", run, rank)
        )
        actual = {row["op"]: (row["calls"], row["self_ns"], row["total_ns"], row["gpu_self_ns"]) for row in found}
        assert actual == expected, run


def test_self_times_of_ops_add_up_and_so_do_their_shares(db):
    for (run, rank), found in answer(db, "op_summary").items():
        outer = sum(
            row["dur_ns"]
            for nest in nests(db, run, rank).values()
            for row, parent in zip(nest.ranges, nest.parents, strict=True)
            if parent is None
        )
        assert {row["op_self_sum_ns"] for row in found} == {outer}
        assert sum(row["self_ns"] for row in found) == outer
        assert sum(row["of_op_self_sum_ratio"] for row in found) == pytest.approx(1)


def test_kernels_belong_to_the_ops_around_their_launches(db):
    for (run, rank), found in answer(db, "op_kernels").items():
        ops = host.rows(db, "ops", run, rank)
        called = host.launches(host.rows(db, "api_calls", run, rank))
        by_id = {(op["pid"], op["external_id"]): op for op in reversed(ops) if op["external_id"] is not None}
        expected: dict[tuple, int] = defaultdict(int)
        kernels = host.rows(db, "kernels", run, rank)
        for row in kernels:
            op = host.op_of(row, nests(db, run, rank), called, by_id)
            expected[row["device"], op and op["name"], row["name"]] += row["dur_ns"]
        actual: dict[tuple, int] = defaultdict(int)
        for row in found:
            actual[row["device"], row["op"], row["kernel"]] += row["dur_ns"]
        assert actual == expected, run
        assert sum(row["calls"] for row in found) == len(kernels)


def test_forward_ops_have_the_sequence_number_of_the_backward(db):
    """In a file of two threads, one of them autograd's: every kernel of a numbered backward finds its forward op."""
    found = answer(db, "op_kernels")["nccl_data", 0]
    backward = [row for row in found if row["backward_calls"]]
    assert sum(row["backward_calls"] for row in backward) > 0
    pairs = {(row["op"], row["forward_op"]) for row in backward}
    assert ("aten::convolution_backward", "aten::convolution") in pairs


def test_ranges_contain_launches_made_while_they_were_open(db):
    for (run, rank), found in answer(db, "annotation_gpu_time").items():
        marks = [row for row in host.rows(db, "annotations", run, rank) if row["scope"] == "cpu"]
        expected = host.annotation_sums(marks, gpu_rows(db, run, rank), host.rows(db, "api_calls", run, rank))
        actual = {
            (row["annotation"], row["device"]): [row["gpu_ns"], row["exclusive_gpu_ns"]]
            for row in found
            if row["gpu_ns"]
        }
        assert actual == {key: sums for key, sums in expected.items() if sums[0]}, run
        assert all(row["gpu_ns"] <= row["process_gpu_ns"] for row in found)


CPU_PARTS = ("communication", "data_wait", "sync", "api", "op", "os", "range", "frame", "idle_or_unrecorded")


CPU_LAYERS = ("data_wait", "sync", "api", "communication", "op", "os", "range", "frame")
"""What counts before what, of rows without gloo and MPI: communication is calls of torch.distributed."""


def cpu_layer(table: str, name: str) -> int | None:
    """Return the place in CPU_LAYERS of a row; None for a step."""
    if table == "api_calls":
        return 1 if "Synchronize" in name else 2
    if table == "python_frames":
        return 7
    if name.startswith("enumerate(DataLoader)#"):
        return 0
    if name.startswith("c10d::"):
        return 3
    return 4 if table == "ops" else None if name.startswith("ProfilerStep#") else 6


def test_cpu_time_is_divided_as_a_walk_over_starts_and_ends_divides_it(db):
    """In a file of two threads without gloo and MPI; in all files the parts of a thread add up to the rank's window."""
    answers = answer(db, "cpu_breakdown")
    for found in answers.values():
        assert all(sum(row[f"{part}_ns"] for part in CPU_PARTS) == row["window_ns"] for row in found)
        assert [row["place"] for row in found] == list(range(1, len(found) + 1))
    events = defaultdict(list)
    for table in ("ops", "api_calls", "annotations", "python_frames"):
        for row in host.rows(db, table, "df_index_resolver", 1):
            if row.get("scope") != "gpu":
                part = cpu_layer(table, row["name"])
                events[row["tid"]] += [(row["start_ns"], 1, part), (row["start_ns"] + row["dur_ns"], -1, part)]
    expected = {}
    for tid, listed in events.items():
        times, depths, last_ns = [0] * 8, [0] * 8, 0
        for at_ns, step, part in sorted(listed, key=lambda event: event[0]):
            first = next((place for place, depth in enumerate(depths) if depth > 0), None)
            if first is not None:
                times[first] += at_ns - last_ns
            if part is not None:
                depths[part] += step
            last_ns = at_ns
        expected[tid] = times
    found = {row["tid"]: [row[f"{part}_ns"] for part in CPU_LAYERS] for row in answers["df_index_resolver", 1]}
    assert found == expected


def communicates(db: duckdb.DuckDBPyConnection) -> set[str]:
    """Names of communication kernels; in this corpus every name shows it."""
    return {name for (name,) in db.execute("select distinct name from kernels").fetchall() if "nccl" in name.lower()}


def test_steps_are_divided_as_a_walk_over_boundaries_divides_them(db):
    names = communicates(db)
    for (run, rank), found in answer(db, "step_breakdown").items():
        marks = host.rows(db, "annotations", run, rank)
        listed = host.steps(row for row in marks if row["scope"] == "cpu")
        called = host.launches(host.rows(db, "api_calls", run, rank))
        pids = {step["pid"] for step in listed}
        rows = [row for row in gpu_rows(db, run, rank) if row["pid"] in pids]
        gpu_marks = [row for row in marks if row["scope"] == "gpu" and row["pid"] in pids]
        places = [host.step_of(row, listed, called, gpu_marks) for row in rows]
        for device in {row["device"] for row in rows}:
            actual = [row for row in found if row["device"] == device]
            for at, step in enumerate(listed):
                mine = [row for row, place in zip(rows, places, strict=True) if place == at and row["device"] == device]
                others = [
                    row for row, place in zip(rows, places, strict=True) if place != at and row["device"] == device
                ]
                own = (
                    [row for row in mine if row["table"] == "kernels" and row["name"] not in names],
                    [row for row in mine if row["table"] == "kernels" and row["name"] in names],
                    [row for row in mine if row["table"] != "kernels"],
                )
                columns = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "other_steps_ns", "idle_ns")
                assert [actual[at][name] for name in columns] == host.step_parts(step, own, others), run
                assert actual[at]["kernels"] == len(own[0]) + len(own[1])
                assert sum(actual[at][name] for name in columns) == actual[at]["step_ns"]
            lost = sum(place is None and row["device"] == device for row, place in zip(rows, places, strict=True))
            assert sum(row["kernels"] + row["copies"] + row["memsets"] for row in actual if row["step"] is None) == lost


def test_waits_are_the_ranges_of_the_loader(db):
    for (run, rank), found in answer(db, "data_loader_wait").items():
        marks = [row for row in host.rows(db, "annotations", run, rank) if row["scope"] == "cpu"]
        ranges = [row for row in marks + host.rows(db, "ops", run, rank) if row["name"].startswith(host.LOADER)]
        waits = sum(row["dur_ns"] for row in ranges)  # of this corpus none overlap
        devices = {row["device"] for row in found}
        assert sum(row["wait_ns"] or 0 for row in found) == waits * len(devices), run
        assert all((row["wait_ns"] is None) == (not ranges) for row in found)
        assert all(row["gpu_idle_ns"] is None or 0 <= row["gpu_idle_ns"] <= row["wait_ns"] for row in found)


def test_peaks_are_the_largest_totals_or_sums_of_sizes(db):
    for (run, rank), found in answer(db, "memory_peak").items():
        events = host.rows(db, "memory_events", run, rank)
        for row in found:
            mine = sorted((e for e in events if e["device"] == row["device"]), key=lambda event: event["time_ns"])
            if row["counted_from"] == "totals":
                assert row["peak_bytes"] == max(event["allocated_bytes"] for event in mine)
            else:
                assert row["peak_bytes"] == max(accumulate(event["size_bytes"] for event in mine))
            assert row["events"] == len(mine)


def test_live_blocks_are_those_allocated_and_not_released_before_the_peak(db):
    for (run, rank), found in answer(db, "memory_peak").items():
        events = host.rows(db, "memory_events", run, rank)
        for row in (each for each in found if each["live_blocks"] is not None):
            live: dict[int, int] = {}
            mine = sorted((e for e in events if e["device"] == row["device"]), key=lambda event: event["time_ns"])
            for event in mine:
                if event["time_ns"] > row["time_ns"]:
                    break
                live.pop(event["address"], None)
                if event["size_bytes"] > 0:
                    live[event["address"]] = event["size_bytes"]
                if event["time_ns"] == row["time_ns"] and event["allocated_bytes"] == row["peak_bytes"]:
                    break
            assert (row["live_blocks"], row["live_bytes"]) == (len(live), sum(live.values())), run
            assert row["live_bytes"] <= row["peak_bytes"]


def test_calls_of_the_api_are_summed_by_name(db):
    for (run, rank), found in answer(db, "api_summary").items():
        expected: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
        for call in host.rows(db, "api_calls", run, rank):
            expected[call["api"], call["name"]][0] += 1
            expected[call["api"], call["name"]][1] += call["dur_ns"]
        assert {(row["api"], row["name"]): [row["calls"], row["dur_ns"]] for row in found} == expected, run
        assert sum(row["of_api_sum_ratio"] for row in found) == pytest.approx(1)


def test_bandwidths_of_a_real_all_reduce(db):
    (found,) = [row for row in answer(db, "collective_summary")["nccl_data", 0] if row["collective"] == "all_reduce"]
    noted = [row for row in host.rows(db, "collectives", "nccl_data", 0) if row["origin"] == "kernel"]
    mine = [row for row in noted if row["collective"] == "all_reduce"]
    size, dur = (sum(row[name] for row in mine) for name in ("size_bytes", "dur_ns"))
    assert (found["kernels"], found["size_bytes"], found["sized_dur_ns"]) == (15, size, 46_762_159)
    assert found["algbw_gb_per_s"] == pytest.approx(size / dur)
    assert found["busbw_gb_per_s"] == pytest.approx(size / dur)  # two ranks: 2(n-1)/n is 1
    assert found["transfer_ns"] is None  # the other rank is not in the run
