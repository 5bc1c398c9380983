"""Where the time of CPU threads goes, against plain Python that looks at every nanosecond."""

from collections import defaultdict
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.memory import MemoryStore, insert
from tests.properties import examples
from tracelab.output.table_view import reduce_columns
from tracelab.query.library import library

Row = dict[str, object]

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
PARTS = ("communication", "data_wait", "sync", "api", "op", "os", "range", "frame")
BY_NAME = {
    "gloo:all_reduce": "communication",
    "MPI_Send": "communication",
    LOADER: "data_wait",
    "c10d::allreduce_": "call",
    "ProfilerStep#3": None,
}
ORDER = ("communication", "data_wait", "sync", "api", "call", "op", "os", "range", "frame")
"""What counts before what; calls of torch.distributed are communication, too."""

spans = {
    "source": st.sampled_from(["a", "b"]),
    "rank": st.sampled_from([0, 1]),
    "pid": st.sampled_from([7, None]),
    "tid": st.sampled_from([7, 8]),
    "start_ns": st.one_of(st.none(), st.integers(0, 20)),
    "dur_ns": st.one_of(st.none(), st.integers(-2, 12)),
}


def spans_named(*names: str) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.fixed_dictionaries(spans | {"name": st.sampled_from(names)}), max_size=6)


def part_of(table: str, row: Row) -> str | None:
    """Return the part that a row counts for where nothing else runs; None for a step."""
    match table:
        case "api_calls":
            return "os" if row["name"] == "poll" else "sync" if "Synchronize" in str(row["name"]) else "api"
        case "python_frames":
            return "frame"
        case _:
            return BY_NAME.get(str(row["name"]), "op" if table == "ops" else "range")


def thread_of(row: Row) -> tuple[object, ...]:
    return row["rank"], row["pid"], row["tid"]


class Oracle:
    """What is open on each thread of each source, nanosecond by nanosecond."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.spans: dict[tuple, list[tuple]] = defaultdict(list)
        for table, rows in tables.items():
            for row in rows:
                if None not in (row["start_ns"], row["dur_ns"]) and row["dur_ns"] >= 0:
                    end_ns = row["start_ns"] + row["dur_ns"]
                    place = row["source"], row["rank"]
                    self.spans[place].append((thread_of(row), part_of(table, row), row["start_ns"], end_ns))
        self.with_ops = {
            rank
            for (_, rank), listed in self.spans.items()
            for _, part, start_ns, end_ns in listed
            if part in ("op", "call") and end_ns > start_ns
        }

    def instants(self) -> list[tuple[object, set[tuple]]]:
        """Return each nanosecond of the windows: its rank, and the (thread, part) that are open."""
        return [
            (rank, {(thread, part) for thread, part, start_ns, end_ns in listed if start_ns <= at < end_ns})
            for (_, rank), listed in self.spans.items()
            for at in range(min(start for *_, start, _ in listed), max(end for *_, end in listed))
        ]

    def rows(self) -> dict[tuple, dict[str, int | None]]:
        """Return the parts of each thread in which a row takes time or a step is marked."""
        listed = [(rank, *span) for (_, rank), spans in self.spans.items() for span in spans]
        threads = {thread for _, thread, part, start, end in listed if end > start or part is None}
        found = {thread: dict.fromkeys([*PARTS, "idle_or_unrecorded", "window", "no_work"], 0) for thread in threads}
        for rank, opened in self.instants():
            is_work = any(part in ORDER[:6] for _, part in opened)
            for thread in (thread for thread in threads if thread[0] == rank):
                own = {part for where, part in opened if where == thread}
                first = next((part for part in ORDER if part in own), "idle_or_unrecorded")
                found[thread]["communication" if first == "call" else first] += 1
                found[thread]["window"] += 1
                found[thread]["no_work"] += not is_work
        for thread in threads:
            if thread[0] not in self.with_ops:
                found[thread]["no_work"] = None
        return found


@examples(16)
@given(
    spans_named("gloo:all_reduce", LOADER, "ProfilerStep#3", "forward"),
    spans_named("aten::mm", "MPI_Send", "c10d::allreduce_", LOADER),
    spans_named("cudaLaunchKernel", "cudaDeviceSynchronize", "poll"),
    spans_named("train.py(3): step"),
)
def test_each_nanosecond_of_a_thread_counts_for_the_first_part_that_is_open(memory, marked, executed, called, framed):
    tables = {"annotations": marked, "ops": executed, "api_calls": called, "python_frames": framed}
    stored = tables | {
        "annotations": [row | {"scope": "cpu"} for row in marked],
        "api_calls": [row | {"api": "osrt" if row["name"] == "poll" else "runtime"} for row in called],
        "runs": [{"program": "any"}],  # a store needs a row
    }
    memory.filled(stored)
    if not any(tables.values()) or not any(Oracle(tables).rows()):
        return
    answer = memory.query("cpu_breakdown").to_pylist()
    names = [*PARTS, "idle_or_unrecorded", "window", "no_work"]
    found = {thread_of(row): {name: row[f"{name}_ns"] for name in names} for row in answer}
    assert found == Oracle(tables).rows()
    for parts in found.values():
        assert sum(parts[name] for name in (*PARTS, "idle_or_unrecorded")) == parts["window"]


def test_the_columns_of_a_table_add_up_to_the_window_of_a_thread_on_the_cpu(memory: MemoryStore) -> None:
    def of_ranks(name: str, start_ns: int, dur_ns: int, **columns: object) -> list[dict[str, object]]:
        row = {"name": name, "pid": 7, "tid": 7, "start_ns": start_ns, "dur_ns": dur_ns} | columns
        return [row | {"rank": rank} for rank in range(2)]

    store = memory.filled(
        {
            "annotations": of_ranks("forward", 0, 40, scope="cpu"),
            "ops": of_ranks("aten::mm", 10, 15) + of_ranks("aten::mm", 90, 10),
            "python_frames": of_ranks("f.py(1): g", 40, 30),
        }
    )
    table, notes = reduce_columns(store.query("cpu_breakdown"), library()["cpu_breakdown"].show, "--all shows them")
    parts = {"op_ns": 25, "idle_or_unrecorded_ns": 20, "range_ns": 25, "frame_ns": 30}
    assert table.to_pylist()[0] == {"rank": 0, "thread": "main", "window_ns": 100, "no_work_ns": 75} | parts
    assert notes[0].startswith("In every row above: run = r, api_ns = 0 ns, ")


def test_a_rank_with_a_gpu_has_its_devices_and_others_have_none(memory: MemoryStore) -> None:
    store = memory.filled(
        {
            "ops": [{"name": "aten::mm", "rank": rank, "start_ns": 0, "dur_ns": 5} for rank in (0, 1)],
            "kernels": [{"name": "k", "device": at, "rank": 1, "start_ns": 0, "dur_ns": 5} for at in (0, 3, 3)],
        }
    )
    assert [(row["rank"], row["gpus"]) for row in store.query("cpu_breakdown").to_pylist()] == [(0, 0), (1, 2)]


@examples(60)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(-5, 20), st.integers(0, 8)), max_size=12))
def test_merged_intervals_are_the_runs_of_covered_instants(memory, listed):
    rows = [(lane, start_ns, start_ns + dur_ns) for lane, start_ns, dur_ns in listed]
    memory.con.execute("create or replace temp table merge_rows (lane integer, start_ns bigint, end_ns bigint)")
    insert(memory.con, "merge_rows", rows)
    found = memory.con.execute("from merged('merge_rows') order by all").fetchall()
    assert [row for row in found if row[2] > row[1]] == sorted(covered_runs(rows))
    assert all(first[0] < second[0] or first[2] < second[1] for first, second in pairwise(found))


def covered_runs(rows: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Return the longest runs of instants that a row of a lane covers."""
    found = []
    for lane in {row[0] for row in rows}:
        covered = {at for each, start_ns, end_ns in rows if each == lane for at in range(start_ns, end_ns)}
        starts = sorted(at for at in covered if at - 1 not in covered)
        ends = sorted(at + 1 for at in covered if at + 1 not in covered)
        found += [(lane, *bounds) for bounds in zip(starts, ends, strict=True)]
    return found
