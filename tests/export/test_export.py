"""What an export holds: literal rows in, the text of a trace out."""

import io
import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from tests.build import build_store
from tests.stores import four_ranks
from tracelab.errors import NoDataError, UsageError
from tracelab.export import ExportResult, Request, write
from tracelab.export.clocks import Span, arrange_clocks, clock_notes
from tracelab.export.lanes import Lanes

UNIX = 1_700_000_000_000_000_000


def exported(tmp_path: Path, tables: dict, **asked: object) -> tuple[dict, ExportResult]:
    """A store of these rows as a trace, read by Python's own JSON reader with its fractions as text."""
    stream = io.BytesIO()
    done = write(build_store(tmp_path / "lab", tables), Request(**asked), stream)
    return json.loads(stream.getvalue(), parse_float=str), done


def of_phase(trace: dict, phase: str, category: str | None = None) -> list[dict]:
    return [event for event in trace["traceEvents"] if event["ph"] == phase and category in (None, event.get("cat"))]


def names(trace: dict, what: str) -> dict[tuple, str]:
    return {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in of_phase(trace, "M")
        if event["name"] == what
    }


def kernel(start: int, dur: int | None, **columns: object) -> dict[str, object]:
    return {"name": "gemm", "device": 0, "stream": 7, "pid": 40, "start_ns": start, "dur_ns": dur, **columns}


SOURCE = [{"source": "a", "clock": "unix"}]


Rows = dict[str, list[dict[str, object]]]
CASES: list[Rows] = []
"""Rows that are exported together, because an export takes as long for one case as for all."""


def case(**tables: list[dict[str, object]]) -> int:
    """Put rows on a device and into a process of their own; return the number of both."""
    number = len(CASES) + 1
    own = {"device": number, "pid": number}
    for rows in tables.values():
        for row in rows:
            row |= {name: value for name, value in own.items() if name in row}
            if "correlation" in row:
                row["correlation"] = 100 * number + int(str(row["correlation"]))
    CASES.append(tables)
    return number


@dataclass(frozen=True)
class Cases:
    """The export of all cases."""

    trace: dict
    done: ExportResult

    def of(self, number: int) -> dict:
        """The events of one case."""
        own = {f"rank 0 · GPU {number}", f"rank 0 · host, process {number}"}
        pids = {pid for (pid, _), name in names(self.trace, "process_name").items() if name in own}
        return {"traceEvents": [event for event in self.trace["traceEvents"] if event["pid"] in pids]}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    tables: Rows = defaultdict(list)
    for each in CASES:
        for table, rows in each.items():
            tables[table] += rows
    return Cases(*exported(tmp_path_factory.mktemp("cases"), tables))


def test_times_are_exact_to_the_nanosecond_and_count_from_the_first_event(tmp_path):
    tables = {"kernels": [kernel(UNIX + 1, 1_234_567), kernel(UNIX + 3_600_000_000_123, 999)], "sources": SOURCE}
    trace, _ = exported(tmp_path, tables)
    assert trace["baseTimeNanoseconds"] == UNIX + 1
    assert [(event["ts"], event["dur"]) for event in of_phase(trace, "X")] == [
        ("0.000", "1234.567"),
        ("3600000000.122", "0.999"),
    ]


def call(api: str, name: str, start: int, dur: int, correlation: int) -> dict[str, object]:
    return {
        "api": api,
        "name": name,
        "pid": 40,
        "tid": 41,
        "start_ns": start,
        "dur_ns": dur,
        "correlation": correlation,
    }


LAUNCHES = case(
    api_calls=[
        call("runtime", "cudaLaunchKernel", 0, 9, 5),
        call("driver", "cuLaunchKernel", 2, 3, 5),
        call("runtime", "cudaEventRecord", 20, 1, 6),
    ],
    kernels=[kernel(30, 5, correlation=5), kernel(40, 5, correlation=5, stream=8)],
)


def test_a_launch_and_its_kernels_share_an_arrow_and_the_outer_call_begins_it(cases):
    ends = [
        (event["name"], event["bind_id"], event.get("flow_out"), event.get("flow_in"))
        for event in of_phase(cases.of(LAUNCHES), "X")
        if "bind_id" in event
    ]
    assert sorted(ends, key=str) == [
        ("cudaLaunchKernel", "0x1", True, None),
        ("gemm", "0x1", None, True),
        ("gemm", "0x1", None, True),
    ]


OVERLAPPING = case(kernels=[kernel(0, 10), kernel(9, 10), kernel(19, 5), kernel(2, 3)])


def test_kernels_of_one_stream_that_overlap_stand_beside_each_other(cases):
    trace = cases.of(OVERLAPPING)
    threads = names(trace, "thread_name")
    placed = sorted((event["ts"], threads[event["pid"], event["tid"]]) for event in of_phase(trace, "X"))
    assert placed == [
        ("0.000", "stream 7"),
        ("0.002", "stream 7, beside it 1"),
        ("0.009", "stream 7, beside it 1"),
        ("0.019", "stream 7"),
    ]
    assert cases.done.moved == 2 + 2  # besides, an op that crosses another one, and a copy beside another one


OPS = [("outer", 0, 100), ("inner", 0, 40), ("late", 90, 20), ("after", 110, 5)]
NESTED = case(ops=[{"name": name, "pid": 1, "tid": 2, "start_ns": start, "dur_ns": dur} for name, start, dur in OPS])


def test_ops_that_lie_in_each_other_share_a_track_and_one_that_crosses_does_not(cases):
    lanes = {event["name"]: event["tid"] for event in of_phase(cases.of(NESTED), "X")}
    assert lanes["outer"] == lanes["inner"] == lanes["after"] == 2
    assert lanes["late"] != 2


def test_ranks_with_one_process_number_are_two_processes_and_every_track_has_a_name(tmp_path):
    ops = [{"rank": rank, "name": "op", "pid": 9, "tid": 9, "start_ns": rank, "dur_ns": 5} for rank in (0, 1)]
    devices = [{"rank": 1, "device": 0, "name": "H200"}]
    trace, done = exported(tmp_path, {"ops": ops, "kernels": [kernel(3, 1, rank=1)], "devices": devices})
    assert sorted(names(trace, "process_name").values()) == [
        "rank 0 · host, process 9",
        "rank 1 · GPU 0 · H200",
        "rank 1 · host, process 9",
    ]
    assert len({event["pid"] for event in of_phase(trace, "X")}) == 3
    assert {(event["pid"], event["tid"]) for event in of_phase(trace, "X")} <= names(trace, "thread_name").keys()
    assert done.ranks == 2


LARGE_TIDS = case(
    ops=[{"name": "op", "pid": 9, "tid": 139_820_000_000_000 + tid, "start_ns": 0, "dur_ns": 5} for tid in (0, 1)]
)


def test_thread_numbers_that_perfetto_would_cut_get_others(cases):
    threads = [event["tid"] for event in of_phase(cases.of(LARGE_TIDS), "X")]
    assert len(set(threads)) == 2
    assert max(threads) < 1 << 31


REDUCE = {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", "grid_x": 8, "grid_y": 1, "grid_z": 2}
COPY = {"direction": "HtoD", "src_memory": "Pinned", "dst_memory": "Device", "device": 0, "stream": 7}
COPIED = COPY | {"size_bytes": 3_000, "start_ns": 50, "dur_ns": 100, "args": '{"memory bandwidth (GB/s)": 30}'}
ARGUMENTS = case(kernels=[kernel(0, 10) | REDUCE], memcpys=[COPIED])


def test_arguments_tell_what_was_recorded_and_apart_what_tracelab_works_out(cases):
    trace = cases.of(ARGUMENTS)
    assert [event["args"] for event in of_phase(trace, "X")] == [
        {
            "device": ARGUMENTS,
            "stream": 7,
            "grid": [8, 1, 2],
            "tracelab": {"class": "communication", "collective": "all_reduce"},
        },
        {
            "device": ARGUMENTS,
            "stream": 7,
            "bytes": 3_000,
            "memory bandwidth (GB/s)": 30,
            "tracelab": {"gb_per_s": "30.0"},
        },
    ]
    assert [event["name"] for event in of_phase(trace, "X", "gpu_memcpy")] == ["Memcpy HtoD (Pinned -> Device)"]


NO_JSON = case(
    ops=[
        {"name": "op", "pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 1, "args": '{"x": NaN}'},
        {"name": "op", "pid": 1, "tid": 1, "start_ns": 2, "dur_ns": 1, "input_shapes": "[[1,", "args": "broken"},
    ]
)


def test_arguments_that_are_no_json_stand_as_text(cases):
    assert [event["args"] for event in of_phase(cases.of(NO_JSON), "X")] == [
        {"arguments": '{"x": NaN}'},
        {"Input Dims": "[[1,", "arguments": "broken"},
    ]


HOSTILE = '</script>"},\\\n\u2028{"ph'
HOSTILE_NAME = case(kernels=[kernel(0, 1, name=HOSTILE)])


def test_hostile_names_leave_the_trace_whole(cases):
    assert [event["name"] for event in of_phase(cases.of(HOSTILE_NAME), "X")] == [HOSTILE]


COUNTED = case(
    kernels=[kernel(0, 10), kernel(5, 10, stream=8), kernel(15, 5)],
    memcpys=[
        {"direction": "HtoD", "device": 0, "size_bytes": 30, "start_ns": start, "dur_ns": 10} for start in (100, 105)
    ],
)


def test_counters_are_steps_that_return_to_nothing(cases):
    samples: dict = {}
    for event in of_phase(cases.of(COUNTED), "C"):
        samples.setdefault(event["name"], []).append((event["ts"], *event["args"].values()))
    assert {name: sorted(values) for name, values in samples.items()} == {
        "kernels in flight": [("0.000", 1), ("0.005", 2), ("0.010", 1), ("0.015", 1), ("0.020", 0)],
        "copy HtoD": [("0.100", "3.0"), ("0.105", "6.0"), ("0.110", "3.0"), ("0.115", "0.0")],
    }
    assert cases.done.samples == len(of_phase(cases.trace, "C")) > 9


HELD = case(
    memory_events=[
        {"device": 0, "pid": 4, "time_ns": at, "size_bytes": size, "allocated_bytes": held, "reserved_bytes": 2048}
        for at, size, held in [(0, 512, 512), (7, -512, 0)]
    ]
)


def test_memory_is_a_counter_of_its_device(cases):
    found = sorted((event["ts"], *event["args"].items()) for event in of_phase(cases.of(HELD), "C"))
    assert found == [
        ("0.000", ("allocated bytes", 512)),
        ("0.000", ("reserved bytes", 2048)),
        ("0.007", ("allocated bytes", 0)),
        ("0.007", ("reserved bytes", 2048)),
    ]


def test_a_part_holds_what_runs_in_it_whole(tmp_path):
    rows = [kernel(0, 10), kernel(10, 10), kernel(20, 10), kernel(30, 10)]
    trace, _ = exported(tmp_path, {"kernels": rows}, from_ns=15, to_ns=30)
    assert [(event["ts"], event["dur"]) for event in of_phase(trace, "X")] == [("0.010", "0.010"), ("0.020", "0.010")]


def test_one_rank_alone_is_exported_as_that_rank(tmp_path):
    rows = [kernel(0, 10), kernel(5, 10, rank=3)]
    trace, done = exported(tmp_path, {"kernels": rows}, ranks=(3,))
    assert (done.events, trace["distributedInfo"]) == (1, {"rank": 3})


OTHERS = [{"phase": "b", "name": "async", "start_ns": 3}, {"phase": "M", "name": "x"}, {"phase": "s", "name": "x"}]
TIMELESS = case(kernels=[kernel(0, 1), kernel(None, 1)], other_events=OTHERS)


def test_what_has_no_place_in_time_is_counted(cases):
    assert cases.of(TIMELESS)["traceEvents"] != []
    assert [note for note in cases.done.notes if "lane" not in note] == [
        "Not shown: events of other tools with the phase b (1).",
        "Not shown: events without a start (1).",
    ]


MARKS = [{"name": "mark", "scope": "cpu", "pid": 1, "tid": 1, "start_ns": 5}]
INSTANTS = case(annotations=MARKS, kernels=[kernel(0, -2)])


def test_marks_and_negative_durations_are_instants(cases):
    trace = cases.of(INSTANTS)
    assert [(event["name"], event["args"].get("dur_ns")) for event in of_phase(trace, "i") if "args" in event] == [
        ("gemm", -2)
    ]
    assert {event["name"] for event in of_phase(trace, "i")} == {"mark", "gemm"}


def test_sources_on_clocks_of_their_own_stand_one_after_another():
    spans = [Span("r", "a", "session", True, 5_000, 25_000), Span("r", "b", "session", True, 5_000, 9_000)]
    placed = arrange_clocks(spans)
    assert [(clock.shown_at_ns, clock.shift_ns) for clock in placed] == [(0, -5_000), (21_000, 16_000)]
    assert clock_notes(placed) == [
        "The 2 clocks in run r have no common beginning: they follow one another, so compare no times between them."
    ]


def test_sources_on_the_time_of_day_keep_their_distances():
    spans = [Span("r", "a", "unix", True, UNIX, UNIX + 9), Span("r", "b", "unix", True, UNIX + 7, UNIX + 20)]
    assert [(clock.zero_ns, clock.last_ns, len(clock.sources)) for clock in arrange_clocks(spans)] == [
        (UNIX, UNIX + 20, 2)
    ]


def test_notes_of_a_run_folder_do_not_stretch_the_recording():
    spans = [Span("r", "a", "unix", True, 50, 60), Span("r", "notes", "unix", False, 0, 900)]
    assert [(clock.zero_ns, clock.last_ns) for clock in arrange_clocks(spans)] == [(50, 60)]


def test_lanes_fill_up_from_the_first():
    placed = Lanes().place([1, 1, 1, 1], [True] * 4, [0, 1, 2, 5], [10, 5, 4, 6])
    assert placed == [(1, 1), (2, 2), (3, 1)]


def test_an_export_is_the_same_bytes_each_time(shared_stores, monkeypatch):
    connect = duckdb.connect
    several = {"threads": "4"}
    monkeypatch.setattr(duckdb, "connect", lambda *, config: connect(config=several | config))
    written = []
    for _ in range(2):
        stream = io.BytesIO()
        write(four_ranks(shared_stores), Request(ranks=(0, 1)), stream)
        written.append(stream.getvalue())
    assert written[0] == written[1]


def test_several_runs_must_be_named(tmp_path):
    tables = {"kernels": [kernel(0, 1), kernel(0, 1, run="q")]}
    with pytest.raises(UsageError, match="2 runs; name those to export with --run: q, r"):
        exported(tmp_path, tables)


def test_processes_of_runs_and_ranks_that_were_not_requested_are_none(tmp_path):
    rows = [kernel(0, 1, run=run, rank=rank) for run in ("q", "r") for rank in (0, 1)]
    trace, _ = exported(tmp_path, {"kernels": rows}, runs=("r",), ranks=(1,))
    assert list(names(trace, "process_name").values()) == ["rank 1 · GPU 0"]


def test_a_rank_without_events_is_reported(tmp_path):
    with pytest.raises(NoDataError, match="nothing was recorded of that rank and time"):
        exported(tmp_path, {"kernels": [kernel(0, 1)]}, ranks=(7,))


def test_the_critical_path_is_a_track_of_its_rank_where_it_is_wanted(tmp_path):
    tables = {"kernels": [kernel(UNIX + 10, 90), kernel(UNIX + 104, 46)], "sources": SOURCE}
    trace, done = exported(tmp_path, tables, critical_path=True)
    assert not [note for note in done.notes if "critical path" in note]
    path = of_phase(trace, "X", "critical_path")
    assert [(event["name"], event["ts"], event["dur"]) for event in path] == [
        ("gemm: gemm", "0.000", "0.090"),
        ("scheduling: gemm", "0.090", "0.004"),
        ("gemm: gemm", "0.094", "0.046"),
    ]
    place = {(event["pid"], event["tid"]) for event in path}
    assert [names(trace, "thread_name")[each] for each in place] == ["critical path"]


def test_a_critical_path_elsewhere_is_reported(tmp_path):
    kernels = [kernel(UNIX + 10, 90), kernel(UNIX + 104, 46), kernel(UNIX + 110, 20, rank=1)]
    trace, done = exported(tmp_path, {"kernels": kernels, "sources": SOURCE}, critical_path=True, ranks=(1,))
    assert of_phase(trace, "X", "critical_path") == []
    assert "The critical path does not lead through what is exported" in "\n".join(done.notes)


def test_without_the_wish_an_export_has_no_critical_path(tmp_path):
    trace, _ = exported(tmp_path, {"kernels": [kernel(UNIX, 90)], "sources": SOURCE})
    assert of_phase(trace, "X", "critical_path") == []
