"""Critical paths fill their windows, and threads are divided among their innermost rows."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given

from tests.memory import MemoryStore
from tests.properties import examples
from tests.ranks import kernel, note
from tracelab.errors import UsageError
from tracelab.paths.chosen_rows import SHORT_GAP_NS
from tracelab.paths.columns import array_memory, join_keys
from tracelab.paths.graph import Graph, build_graph
from tracelab.paths.recording import Relations
from tracelab.paths.replay import Replay, no_change, replay
from tracelab.paths.scope import PathScope
from tracelab.paths.threads import SILENT, divide_threads, enclosing_rows
from tracelab.paths.walk import NodePath, Window, divide_path, find_path, join_paths, whole_window
from tracelab.paths.windows import find_windows, start_within, walk_windows
from tracelab.paths.work import ChangedWork, own_times
from tracelab.query.library import library
from tracelab.store import shared_relations

Rows = dict[str, list[dict[str, Any]]]

intervals = st.tuples(st.integers(0, 60), st.integers(0, 25))


@st.composite
def nested_rows(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Rows (thread, start, end) that nest, with some of equal times, in the order of `enclosing_rows`."""
    rows = []
    for thread in range(draw(st.integers(1, 2))):
        pending = [(0, 40)]
        while pending and len(rows) < 20:
            start, end = pending.pop()
            first = draw(st.integers(start, end))
            last = draw(st.integers(first, end))
            if draw(st.booleans()) and last > first:
                rows.append((thread, first, last))
                middle = draw(st.integers(first, last))
                pending += [(first, middle), (middle, last)]
    return sorted(rows, key=lambda row: (row[0], row[1], -row[2]))


@given(nested_rows())
@examples(200)
def test_each_ns_of_a_thread_belongs_to_its_innermost_row(rows: list[tuple[int, int, int]]) -> None:
    if not rows:
        return
    thread, start, end = (np.array(column) for column in zip(*rows, strict=True))
    segments = divide_threads(thread, start, end, 0)
    found = {}
    for each in zip(segments.thread, segments.start, segments.end, segments.row, strict=True):
        for ns in range(each[1], each[2]):
            assert (each[0], ns) not in found
            found[each[0], ns] = each[3]
    expected = {}
    for number, (of, since, until) in enumerate(rows):  # a later row lies inside an earlier one
        for ns in range(until):
            expected.setdefault((of, ns), SILENT)
        for ns in range(since, until):
            expected[of, ns] = number
    assert found == expected


def test_segments_are_found_in_recordings_of_seconds() -> None:
    """Threads have 32 bits, and a thread's number times the length of such a recording has more."""
    second = 1_000_000_000
    thread, start, end = np.array([0, 2]), np.array([second, 2 * second]), np.array([4 * second, 3 * second])
    segments = divide_threads(thread, start, end, 0)
    assert segments.start.tolist() == [0, second, 0, 2 * second]
    assert segments.end.tolist() == [second, 4 * second, 2 * second, 3 * second]
    threads, times = segments.thread, segments.start
    assert segments.at(threads, times).tolist() == [0, 1, 2, 3]
    assert segments.before(threads, times).tolist() == [-1, 0, -1, 2]
    before, at = segments.around(threads, times + 1)
    assert before.tolist() == at.tolist() == [0, 1, 2, 3]
    before, at = segments.around(threads, times)
    assert (before.tolist(), at.tolist()) == ([-1, 0, -1, 2], [0, 1, 2, 3])


def test_rows_lie_in_others_in_recordings_of_seconds() -> None:
    """Threads have 32 bits here, too."""
    thread, ms = np.array([0, 3, 3], dtype=np.int32), 1_000_000
    start, end = np.array([0, 1000, 1200]) * ms, np.array([1500, 1400, 1300]) * ms
    assert enclosing_rows(thread, start, end).tolist() == [-1, -1, 1]
    assert join_keys(thread, 2_000 * ms, start).tolist() == [0, 7_000 * ms, 7_200 * ms]


@given(nested_rows())
@examples(100)
def test_the_row_around_one_is_the_nearest_before_it_that_ends_no_earlier(rows: list[tuple[int, int, int]]) -> None:
    if not rows:
        return
    thread, start, end = (np.array(column) for column in zip(*rows, strict=True))
    expected = [
        max(
            (near for near in range(each) if rows[near][0] == rows[each][0] and rows[near][2] >= rows[each][2]),
            default=-1,
        )
        for each in range(len(rows))
    ]
    assert enclosing_rows(thread, start, end).tolist() == expected


@st.composite
def any_run(draw: st.DrawFn) -> Rows:
    """Rows of two ranks without any sense: overlapping, equal and empty ones, wrong links, events of nothing."""
    kernels, calls, ops, syncs, notes = [], [], [], [], []
    links = st.integers(1, 6)
    for rank in range(draw(st.integers(1, 2))):
        for start, dur in draw(st.lists(intervals, max_size=6)):
            link = draw(links)
            name = draw(st.sampled_from(["all_reduce", "all_gather"]))
            each = kernel(rank, start, start + dur, name, pid=rank, correlation=link)
            each["stream"] = draw(st.integers(7, 8))
            kernels.append(each)
            if draw(st.booleans()):
                notes.append({**note(each, draw(links), 2), "pid": rank, "rank": rank})
        for start, dur in draw(st.lists(intervals, max_size=6)):
            name = draw(
                st.sampled_from(["cudaLaunchKernel", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaMemcpy"])
            )
            where = {"rank": rank, "pid": rank, "tid": draw(st.integers(1, 2)), "start_ns": start, "dur_ns": dur}
            calls.append({**where, "api": "runtime", "name": name, "correlation": draw(links)})
        for start, dur in draw(st.lists(intervals, max_size=4)):
            where = {"rank": rank, "pid": rank, "tid": draw(st.integers(1, 2)), "start_ns": start, "dur_ns": dur}
            ops.append({**where, "name": "op", "sequence_number": draw(links), "forward_tid": draw(st.integers(0, 1))})
        for start, dur in draw(st.lists(intervals, max_size=3)):
            kind = draw(st.sampled_from(["Stream Wait Event", "Event Sync", "Stream Sync", "Context Sync"]))
            where = {
                "rank": rank,
                "pid": rank,
                "device": 0,
                "stream": draw(st.integers(7, 8)),
                "start_ns": start,
                "dur_ns": dur,
            }
            waits = {"waits_for_stream": draw(st.integers(7, 8)), "waits_for_correlation": draw(links)}
            syncs.append({**where, **waits, "kind": kind, "correlation": draw(links)})
    return {"kernels": kernels, "api_calls": calls, "ops": ops, "syncs": syncs, "collectives": notes}


@given(rows=any_run())
@examples(24)
def test_the_stretches_of_a_path_fill_its_window_whatever_the_rows_are(memory: MemoryStore, rows: Rows) -> None:
    timed = [*rows["kernels"], *(each for each in (*rows["api_calls"], *rows["ops"]) if each["dur_ns"] > 0)]
    if not timed:
        return
    stretches = memory.filled(rows).query("critical_path_rows").to_pylist()
    now = 0
    for number, each in enumerate(stretches, start=1):
        assert (each["number"], each["at_ns"]) == (number, now)
        assert each["dur_ns"] > 0
        now += each["dur_ns"]
    totals = memory.query("critical_path").to_pylist()
    assert sum(each["dur_ns"] for each in totals) == now
    assert {each["window_ns"] for each in totals} <= {now}


def read_relations(memory: MemoryStore) -> Relations:
    (computation,) = shared_relations.named_computations("what_if_runs")
    return memory.read_relations(computation, computation.params | {"run": "r"})


def read_graph(memory: MemoryStore) -> Graph:
    return build_graph(read_relations(memory), lambda: None)


@given(rows=any_run(), begin=st.integers(0, 84), length=st.integers(1, 84))
@examples(60)
def test_a_window_between_two_times_has_the_path_of_the_whole_recording(
    memory: MemoryStore, rows: Rows, begin: int, length: int
) -> None:
    relations = read_relations(memory.filled(rows))
    graph = build_graph(relations, lambda: None)
    whole = whole_window(graph)
    if whole.end <= whole.start:
        return
    expected = [
        (int(node), max(int(since), begin), min(int(until), begin + length))
        for path in find_path(graph, whole, lambda: None)
        for node, since, until in zip(path.node, path.start, path.end, strict=True)
        if since < begin + length and until > begin
    ]
    bounds = {"from_ns": [begin + graph.recording.base_ns], "to_ns": [begin + length + graph.recording.base_ns]}
    relations["times"] = pa.table({"source": list(set(graph.recording.sources.values())), **bounds})
    windows = find_windows(graph, relations, None, PathScope(is_timed=True), lambda: None).of(graph)
    if windows:
        path = join_paths(walk_windows(graph, windows, lambda: None))
        assert list(zip(*(each.tolist() for each in (path.node, path.start, path.end)), strict=True)) == expected
    else:
        reaches = [graph.recording.reach(rank) for rank in graph.recording.clocks]
        assert not expected or not any(first < begin + length and begin < last for first, last in reaches)


@given(rows=any_run(), begin=st.integers(0, 84), length=st.integers(1, 84), factor=st.sampled_from([0.0, 0.4]))
@example(  # its launch was not recorded
    rows={"kernels": [{"rank": 0, "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 0, "name": "k", "pid": 0}]},
    begin=0,
    length=1,
    factor=0.0,
)
@examples(60)
def test_a_step_takes_no_less_time_in_a_replay_than_its_gpus_are_busy(
    memory: MemoryStore, rows: Rows, begin: int, length: int, factor: float
) -> None:
    mark = {"tid": 1, "name": "ProfilerStep#0", "scope": "cpu", "start_ns": begin, "dur_ns": length}
    ranks = {each["rank"] for each in rows["kernels"]}
    relations = read_relations(memory.filled(rows | {"annotations": [mark | {"rank": at, "pid": at} for at in ranks]}))
    graph = build_graph(relations, lambda: None)
    windows = find_windows(graph, relations, 0, PathScope(), lambda: None)
    if not (recorded := windows.of(graph)) or not Replay(graph).is_exact():
        return
    assert recorded[0].end - recorded[0].start == length
    segments, is_begun = (
        start_within(recorded, each) for each in (graph.segments.start, graph.start[graph.gpu_from :])
    )
    change = replace(no_change(graph), segment_factor=np.where(segments, factor, 1.0))
    changed = replay(graph, change, lambda: None)
    (moved,) = windows.of(changed) or [Window(0, 0, -1)]
    for rank in ranks:
        own = np.flatnonzero(is_begun & (graph.end[graph.gpu_from :] <= recorded[0].end)) + graph.gpu_from
        own = own[graph.ranks(own) == rank]
        spans = zip(changed.start[own].tolist(), changed.end[own].tolist(), strict=True)
        assert len({ns for start, end in spans for ns in range(start, end)}) <= moved.end - moved.start


@given(rows=any_run())
@examples(40)
def test_a_replay_that_is_taken_to_be_exact_gives_the_recorded_times(memory: MemoryStore, rows: Rows) -> None:
    memory.filled(rows)
    graph = read_graph(memory)
    replayed = replay(graph, no_change(graph), lambda: None)
    if Replay(graph).is_exact():
        rows_of_gpus = slice(graph.gpu_from, None)
        assert replayed.start[rows_of_gpus].tolist() == graph.start[rows_of_gpus].tolist()
        assert replayed.end[rows_of_gpus].tolist() == graph.end[rows_of_gpus].tolist()
        assert whole_window(replayed).end == whole_window(graph).end


@given(rows=any_run())
@examples(24)
def test_stretches_on_threads_lie_in_their_segments(memory: MemoryStore, rows: Rows) -> None:
    memory.filled(rows)
    graph = read_graph(memory)
    segments, head, since = graph.segments, graph.head, graph.since[: graph.gpu_from]
    every = np.arange(len(segments.start))
    bursts = graph.bursts(every)
    again = ChangedWork(head, own_times(segments, head, since))  # the recorded times, added up
    assert again.total.tolist() == graph.work.total.tolist()
    for name in ("before", "until"):
        added, recorded = (getattr(work, name)(every, bursts) for work in (again, graph.work))
        assert added.tolist() == recorded.tolist()
    assert graph.starts(every).tolist() == segments.start.tolist()
    assert graph.ends(every).tolist() == segments.end.tolist()
    for burst, (begin, end) in enumerate(zip(graph.start.tolist(), graph.end[: graph.gpu_from].tolist(), strict=False)):
        middle = (begin + end) // 2
        path = divide_path(graph, NodePath(*(np.array([each]) for each in (burst, middle, end, 0, 0))))
        expected = [
            (each, max(int(segments.start[each]), middle), int(segments.end[each]))
            for each in np.flatnonzero(bursts == burst).tolist()
            if segments.end[each] > middle
        ]
        assert list(zip(path.segment.tolist(), path.start.tolist(), path.end.tolist(), strict=True)) == expected


@pytest.mark.parametrize(("second_start_ns", "is_exact"), [(100, True), (90, False)])
def test_a_replay_is_not_exact_where_rows_of_a_stream_overlap(
    memory: MemoryStore, second_start_ns: int, is_exact: bool
) -> None:
    call = {"api": "runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "dur_ns": 5}
    gemm = {"name": "gemm", "device": 0, "stream": 7, "pid": 1}
    starts = {1: 30, 2: second_start_ns}
    memory.filled(
        {
            "kernels": [gemm | {"correlation": each, "start_ns": at, "dur_ns": 70} for each, at in starts.items()],
            "api_calls": [call | {"correlation": each, "start_ns": 10 * each} for each in starts],
        }
    )
    assert Replay(read_graph(memory)).is_exact() == is_exact


def test_offsets_of_clocks_move_rows_onto_one_clock(memory: MemoryStore) -> None:
    ahead = 5_000_000
    kernels, notes = [], []
    for seq in range(6):
        for rank in (0, 1):
            start = 1_000_000 * seq + (200_000 if rank == seq % 2 else 0) + ahead * rank
            end = 1_000_000 * seq + 500_000 + ahead * rank
            each = kernel(rank, start, end, pid=rank, correlation=seq)
            kernels.append(each)
            notes.append({**note(each, seq, 2), "pid": rank})
    stretches = memory.filled({"kernels": kernels, "collectives": notes}).query("critical_path_rows").to_pylist()
    transfers = [
        (each["rank"], each["at_ns"], each["dur_ns"]) for each in stretches if each["class"] == "communication"
    ]
    assert [each[2] for each in transfers][-1] == 300_000
    assert stretches[-1]["at_ns"] + stretches[-1]["dur_ns"] == 5_500_000
    own = {each["rank"]: each["start_ns"] - each["at_ns"] for each in stretches}
    assert own[1] - own[0] == ahead if len(own) == 2 else own in ({0: 0}, {1: ahead})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"class": "unknown"},
            "--class unknown: no replay scales this time, for what it is spent on is not known; choose another class",
        ),
        ({"kernel": "("}, "--kernel '(' is no regular expression: missing ): ("),
        ({"layer": "[z-a]"}, "--layer '[z-a]' is no regular expression: invalid character class range: z-a"),
        ({"factor": -1}, "--factor -1.0: --change scale takes a finite number of 0 or more"),
        ({"change": "bandwidth", "factor": 0}, "--factor 0.0: --change bandwidth takes a finite number above 0"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused(memory: MemoryStore, values: dict[str, Any], message: str) -> None:
    op = {"pid": 1, "tid": 1, "name": "op", "start_ns": 0, "dur_ns": 10}
    memory.filled({"ops": [op], "kernels": [kernel(0, 0, 10, pid=1)]})
    with pytest.raises(UsageError) as raised:
        memory.query("what_if", **values)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("step_lateness", {"step_name": "("}),
        ("critical_path", {"step_name": "(", "step": 1}),
        ("data_loader_wait", {"loader_name": "("}),
    ],
)
def test_an_invalid_expression_is_refused_with_its_option(
    memory: MemoryStore, query: str, values: dict[str, Any]
) -> None:
    mark = {"pid": 1, "tid": 1, "name": "ProfilerStep#1", "scope": "cpu", "start_ns": 0, "dur_ns": 10}
    memory.filled({"annotations": [mark], "kernels": [kernel(0, 0, 10, pid=1)]})
    with pytest.raises(UsageError) as raised:
        memory.query(query, **values)
    option = next(iter(values)).replace("_", "-")
    assert str(raised.value) == f"--{option} '(' is no regular expression: missing ): ("


def test_a_rank_that_nothing_aligns_is_named(memory: MemoryStore) -> None:
    memory.filled({"kernels": [kernel(rank, 0, 10 + rank, pid=rank, name="gemm") for rank in range(3)]})
    for query in ("critical_path", "what_if"):
        reasons = {row["reason"] for row in memory.query(query).to_pylist()}
        assert reasons == {"2 ranks are left out: no collective aligns their clocks"}
    memory.filled({"kernels": [kernel(rank, 0, 10 + rank, pid=rank, name="gemm") for rank in range(2)]})
    assert {row["reason"] for row in memory.query("what_if").to_pylist()} == {
        "1 rank is left out: no collective aligns its clock"
    }


def test_a_replay_of_a_step_waits_for_the_work_of_its_window_on_gpus(memory: MemoryStore) -> None:
    """Step 1 lasts from 100 to 200 ns. Within it, the kernel of step 0 runs until 145, and its own one from 160 on.

    That is launched at 150, and half of it lies behind the step. Without time on threads it is launched at 100, runs
    behind the kernel of step 0 from 145 on, and 40 ns later has done what it had by the end of the step.
    """
    thread = {"pid": 1, "tid": 1}
    call = {**thread, "api": "runtime", "name": "cudaLaunchKernel", "dur_ns": 4}
    memory.filled(
        {
            "annotations": [
                {**thread, "name": f"ProfilerStep#{at}", "scope": "cpu", "start_ns": 100 * at, "dur_ns": 100}
                for at in range(2)
            ],
            "api_calls": [{**call, "start_ns": at, "correlation": at} for at in (30, 150)],
            "kernels": [
                kernel(0, at + 10, end, name="gemm", pid=1, correlation=at) for at, end in ((30, 145), (150, 240))
            ],
        }
    )
    answer = memory.query("what_if", change="scale", factor=0, step=1, **{"class": "cpu_side"}).to_pylist()
    assert {row["time_before_ns"] for row in answer} == {100}
    assert {row["time_after_ns"] for row in answer} == {85}


@pytest.mark.parametrize(
    ("values", "after_ns", "changed_rows"),
    [
        ({"change": "no_copies"}, 120, 2),  # a copy and its call
        ({"change": "no_copies", "class": "memory"}, 120, 2),
        ({"change": "scale", "factor": 0, "class": "memory"}, 130, 1),
        ({"change": "scale", "factor": 0, "class": "compute"}, 120, 2),
        ({"change": "scale", "factor": 0, "class": "copy"}, 160, 1),
    ],
)
def test_kernels_that_copy_are_computing_kernels(
    memory: MemoryStore, values: dict[str, Any], after_ns: int, changed_rows: int
) -> None:
    """The copy runs from 20 to 120, and behind it the kernels, of 60 and 40 ns; none starts within 20 of its launch."""
    call = {"pid": 1, "tid": 1, "api": "runtime", "dur_ns": 10}
    names = ("void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(", "gemm")
    memory.filled(
        {
            "api_calls": [
                call | {"name": name, "start_ns": 10 * at, "correlation": at}
                for at, name in enumerate(("cudaMemcpyAsync", "cudaLaunchKernel", "cudaLaunchKernel"))
            ],
            "memcpys": [
                {"pid": 1, "device": 0, "stream": 7, "direction": "HtoD", "start_ns": 20, "dur_ns": 100}
                | {"correlation": 0}
            ],
            "kernels": [
                kernel(0, start, end, name=name, pid=1, correlation=at)
                for at, (start, end, name) in enumerate(zip((120, 180), (180, 220), names, strict=True), start=1)
            ],
        }
    )
    before = {row["class"]: row["dur_ns"] for row in memory.query("critical_path").to_pylist()}
    assert (before["memcpy"], before["copy"], before["gemm"]) == (100, 60, 40)
    answer = memory.query("what_if", **values).to_pylist()
    assert {(row["time_before_ns"], row["time_after_ns"], row["changed_rows"], row["reason"]) for row in answer} == {
        (220, after_ns, changed_rows, None)
    }


def test_a_change_of_rows_that_a_run_lacks_is_refused_with_their_class(memory: MemoryStore) -> None:
    memory.filled({"kernels": [kernel(0, 0, 10, name="gemm", pid=1)]})
    (reason,) = {row["reason"] for row in memory.query("what_if", change="no_data_waits").to_pylist()}
    assert reason == "no_data_waits is about rows of class data_loader, and the run, step or scope has none"


def test_a_call_that_returns_before_its_row_starts_waits_for_it_in_a_replay(memory: MemoryStore) -> None:
    """By the device's clock the copy starts 4 us after the call that waits for it returns.

    With all work in half the time the copy is launched at 450 us and starts 104 us later, as recorded: at 554 us
    the call returns. The thread goes on for 2.5 us; the kernel starts 30 us after its launch and takes 500 us.
    """
    thread = {"pid": 1, "tid": 1}
    call = {**thread, "api": "runtime"}
    memory.filled(
        {
            "ops": [{**thread, "name": "work", "start_ns": 0, "dur_ns": 900_000}],
            "api_calls": [
                {**call, "name": "cudaMemcpyAsync", "start_ns": 900_000, "dur_ns": 10_000, "correlation": 1},
                {**call, "name": "cudaStreamSynchronize", "start_ns": 910_000, "dur_ns": 90_000, "correlation": 2},
                {**call, "name": "cudaLaunchKernel", "start_ns": 1_005_000, "dur_ns": 10_000, "correlation": 3},
            ],
            "memcpys": [
                {"pid": 1, "device": 0, "stream": 8, "direction": "HtoD", "start_ns": 1_004_000, "dur_ns": 1_000}
                | {"correlation": 1}
            ],
            "kernels": [kernel(0, 1_035_000, 2_035_000, name="gemm", pid=1, correlation=3)],
        }
    )
    answer = memory.query("what_if", change="scale", factor=0.5).to_pylist()
    assert {row["time_before_ns"] for row in answer} == {2_035_000}
    assert {row["time_after_ns"] for row in answer} == {1_086_500}


def test_freed_memory_is_kept_within_the_block_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[object, ...]] = []
    libc = SimpleNamespace(
        mallopt=lambda *args: calls.append(("mallopt", *args)), malloc_trim=lambda kept: calls.append(("trim", kept))
    )
    monkeypatch.setattr("tracelab.allocator.sys.platform", "linux")
    monkeypatch.setattr("tracelab.allocator.ctypes.CDLL", lambda _: libc)
    with pytest.raises(ValueError, match="within"), array_memory():
        assert calls == [("mallopt", -3, 32 << 20), ("mallopt", -1, 1 << 30)]
        raise ValueError("within")
    assert calls[2:] == [("mallopt", -3, 32 << 20), ("mallopt", -1, 64 << 20), ("trim", 64 << 20)]


@pytest.mark.parametrize(("platform", "libc"), [("darwin", None), ("linux", SimpleNamespace())])
def test_other_allocators_stay_as_they_are(monkeypatch: pytest.MonkeyPatch, platform: str, libc: object) -> None:
    monkeypatch.setattr("tracelab.allocator.sys.platform", platform)
    monkeypatch.setattr("tracelab.allocator.ctypes.CDLL", lambda _: libc)
    with array_memory():
        assert np.ones(3).sum() == 3


def test_advice_for_pages_ends_with_the_block() -> None:
    advise = np._core.multiarray._set_madvise_hugepage  # type: ignore[attr-defined]  # returns the setting that it replaces
    was_advised = advise(True)
    with array_memory():
        inside = advise(False)
    assert (inside, advise(was_advised)) == (False, True)


def test_arrow_allocates_as_numpy_does_within_the_block_alone() -> None:
    outside = pa.default_memory_pool().backend_name
    with pytest.raises(ValueError, match="within"), array_memory():
        assert pa.default_memory_pool().backend_name == "system"
        raise ValueError("within")
    assert pa.default_memory_pool().backend_name == outside


def test_a_short_gap_is_what_idle_causes_calls_overhead() -> None:
    (default,) = [each.default for each in library()["idle_causes"].params if each.name == "min_gap_ns"]
    assert default == SHORT_GAP_NS
