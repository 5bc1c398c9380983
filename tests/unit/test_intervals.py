"""The interval macros against plain Python that looks at every instant; and the identities that must hold."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.build import build_store
from tests.memory import end_ns, insert
from tests.properties import examples
from tracelab.query import execute, library
from tracelab.store import session

HORIZON = 24
COMPUTE, COMMUNICATION = "volta_sgemm_128x32_nt", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"

Row = dict[str, object]

times = st.one_of(st.none(), st.integers(0, HORIZON // 2))
durations = st.one_of(st.none(), st.integers(-2, HORIZON // 2))
rows = st.fixed_dictionaries(
    {
        "source": st.sampled_from(["a", "b"]),
        "rank": st.sampled_from([0, 1]),
        "device": st.sampled_from([0, 1, None]),
        "start_ns": times,
        "dur_ns": durations,
    }
)
CASES = 12
"""Random relations that are checked at once: a query of a few rows takes as long as one of a hundred."""


def number_ranks(cases: list[list[Row]]) -> list[Row]:
    """Return the rows of all cases, each case with two ranks of its own."""
    return [row | {"rank": 2 * at + row["rank"]} for at, listed in enumerate(cases) for row in listed]


relations = st.lists(st.lists(rows, max_size=8), min_size=CASES, max_size=CASES).map(number_ranks)
quick = examples(16, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    store = build_store(tmp_path_factory.mktemp("store") / "lab", {"kernels": [{"name": "k"}]})
    texts = [(session.MACROS / name).read_text("utf-8") for name in ("20_intervals.sql", "21_layers.sql")]
    with session.connect(store, referenced="\n".join([*texts, "solo_time('a') layer_parts('a')"])) as con:
        yield con


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """A session with the macros of one that has a scope."""
    store = build_store(tmp_path_factory.mktemp("scoped") / "lab", {"kernels": [{"name": "k"}]})
    stored = session.ParquetRows(store, session.list_parts(store))
    texts = session.render_session(stored, session.render_library(store, absent=()))
    with duckdb.connect() as con:
        session.run_statements(con, *texts.views, *texts.library)
        yield con


def fill(con: duckdb.DuckDBPyConnection, **tables: list[Row]) -> None:
    for name, listed in tables.items():
        con.execute(
            f"create or replace temp table {name} "
            "(run varchar, source varchar, rank integer, device integer, start_ns bigint, end_ns bigint)"
        )
        rows = [
            ("r", row["source"], row["rank"], row["device"], row["start_ns"], end_ns(row["start_ns"], row["dur_ns"]))
            for row in listed
        ]
        insert(con, name, rows)


def answer(con: duckdb.DuckDBPyConnection, text: str) -> dict[tuple, tuple]:
    """Rows by (rank, device)."""
    return {(rank, device): tuple(rest) for rank, device, *rest in con.execute(text).fetchall()}


class Oracle:
    """Depth of several relations at every nanosecond of every (rank, device, source)."""

    def __init__(self, *relations: list[Row]) -> None:
        self.depth: dict[tuple, list[list[int]]] = defaultdict(lambda: [[0] * 64 for _ in relations])
        self.bounds: dict[tuple, tuple[int, int]] = {}
        for number, listed in enumerate(relations):
            for row in listed:
                if None in (row["start_ns"], row["dur_ns"]) or row["dur_ns"] < 0:
                    continue
                lane = (row["rank"], row["device"], row["source"])
                start, end = row["start_ns"], row["start_ns"] + row["dur_ns"]
                low, high = self.bounds.get(lane, (start, end))
                self.bounds[lane] = (min(low, start), max(high, end))
                for instant in range(start, end):
                    self.depth[lane][number][instant] += 1

    def lanes(self) -> set[tuple]:
        return {(rank, device) for rank, device, _ in self.bounds}

    def measure(self, holds) -> dict[tuple, int]:
        """How many nanoseconds of the window fulfil `holds(depths…)`, by (rank, device), over all sources."""
        found: dict[tuple, int] = defaultdict(int)
        for (rank, device, source), (low, high) in self.bounds.items():
            depths = self.depth[rank, device, source]
            found[rank, device] += sum(bool(holds(*(each[at] for each in depths))) for at in range(low, high))
        return dict(found)


@quick
@given(relations)
def test_busy_is_the_measure_of_the_union(con, listed):
    fill(con, a=listed)
    oracle = Oracle(listed)
    once, twice = oracle.measure(lambda depth: depth >= 1), oracle.measure(lambda depth: depth >= 2)
    found = answer(con, "select rank, device, busy_ns, concurrent_ns from concurrency('a')")
    assert found == {key: (once[key], twice[key]) for key in once}
    assert answer(con, "select rank, device, busy_ns from busy('a')") == {key: (once[key],) for key in once}


@quick
@given(relations)
def test_depth_covers_the_window_and_sums_to_the_durations(con, listed):
    fill(con, a=listed)
    found = answer(con, "select rank, device, sum(dur_ns), sum(dur_ns * depth) from depth('a') group by rank, device")
    windows = answer(con, "select rank, device, window_ns from windows('a')")
    sums: dict[tuple, int] = defaultdict(int)
    for row in listed:
        if None not in (row["start_ns"], row["dur_ns"]) and row["dur_ns"] >= 0:
            sums[row["rank"], row["device"]] += row["dur_ns"]
    expected = {key: (window, sums[key]) for key, (window,) in windows.items() if window > 0}
    assert found == expected


@quick
@given(relations)
def test_most_at_once_is_the_highest_depth(con, listed):
    fill(con, a=listed)
    oracle = Oracle(listed)
    expected = dict.fromkeys(oracle.measure(lambda _: True), 0)
    for (rank, device, _), depths in oracle.depth.items():
        expected[rank, device] = max(expected[rank, device], *depths[0])
    found = answer(con, "select rank, device, max_concurrent from concurrency('a')")
    assert found == {key: (depth,) for key, depth in expected.items()}


@quick
@given(relations)
def test_union_is_at_most_the_sum(con, listed):
    fill(con, a=listed)
    offending = con.execute(
        "with sums as (select rank, device, sum(end_ns - start_ns) as sum_ns from intervals('a') group by all) "
        "from concurrency('a') as b join sums as s on b.rank = s.rank and b.device is not distinct from s.device "
        "where busy_ns > sum_ns or concurrent_ns > busy_ns"
    ).fetchall()
    assert offending == []


@quick
@given(relations, relations)
def test_overlap_is_the_intersection_and_symmetric(con, first, second):
    fill(con, a=first, b=second)
    expected = Oracle(first, second).measure(lambda a, b: a and b)
    forth = answer(con, "select rank, device, overlap_ns from overlap('a', 'b')")
    back = answer(con, "select rank, device, overlap_ns from overlap('b', 'a')")
    assert forth == back == {key: (measure,) for key, measure in expected.items()}


@quick
@given(relations, relations, relations)
def test_overlap_of_three_is_the_intersection(con, first, second, third):
    fill(con, a=first, b=second, c=third)
    expected = Oracle(first, second, third).measure(lambda a, b, c: a and b and c)
    found = answer(con, "select rank, device, overlap_ns from overlap_of_three('a', 'b', 'c')")
    assert found == {key: (measure,) for key, measure in expected.items()}


@quick
@given(relations, relations, relations)
def test_exclusive_parts_and_idle_make_the_window(con, first, second, third):
    fill(con, a=first, b=second, c=third)
    oracle = Oracle(first, second, third)
    parts = (
        oracle.measure(lambda a, b, c: True),
        oracle.measure(lambda a, b, c: a),
        oracle.measure(lambda a, b, c: b and not a),
        oracle.measure(lambda a, b, c: c and not a and not b),
        oracle.measure(lambda a, b, c: not (a or b or c)),
    )
    found = answer(
        con, "select rank, device, window_ns, a_ns, b_only_ns, c_only_ns, idle_ns from exclusive('a', 'b', 'c')"
    )
    assert found == {key: tuple(part[key] for part in parts) for key in parts[0]}
    assert all(window == sum(rest) for window, *rest in found.values())


@quick
@given(relations, relations)
def test_inside_measures_each_part_alone(con, listed, cover):
    fill(con, a=listed, b=cover)
    con.execute("create or replace temp table parts as select *, {'half': start_ns % 2} as part from a")
    for half in (0, 1):
        ours = [row for row in listed if row["start_ns"] is not None and row["start_ns"] % 2 == half]
        lanes = set(Oracle(ours).bounds)
        covering = [row for row in cover if (row["rank"], row["device"], row["source"]) in lanes]
        oracle = Oracle(ours, covering)
        inside, busy = oracle.measure(lambda a, b: a and b), oracle.measure(lambda a, b: a)
        found = answer(
            con, f"select rank, device, busy_ns, inside_ns from clip_to('parts', 'b') where part.half = {half}"
        )
        assert found == {key: (busy[key], inside[key]) for key in busy}


@quick
@given(relations, relations)
def test_clocks_of_rows_measure_parts_without_their_cover(con, listed, cover):
    fill(con, a=listed, b=cover)
    con.execute("create or replace temp table numbered as select row_number() over () as id, * from a")
    con.execute(
        "create or replace temp table parts as select *, {'half': start_ns % 2} as part "
        "from numbered left join cover_clocks('numbered', 'b') using (id)"
    )
    for half in (0, 1):
        found, expected = (
            answer(con, f"select rank, device, busy_ns, inside_ns from {macro} where part.half = {half}")
            for macro in ("clip_to_clocks('parts')", "clip_to('parts', 'b')")
        )
        assert found == expected


@quick
@given(relations)
def test_alone_is_the_time_of_one_part_and_no_other(con, listed):
    fill(con, a=listed)
    con.execute("create or replace temp table parts as select *, {'third': start_ns % 3} as part from a")
    thirds = [[row for row in listed if row["start_ns"] is not None and row["start_ns"] % 3 == at] for at in range(3)]
    oracle = Oracle(*thirds)
    window, any_of_them = oracle.measure(lambda *_: True), oracle.measure(lambda *depths: any(depths))
    for third in range(3):
        expected = (
            oracle.measure(lambda *depths, at=third: depths[at]),
            oracle.measure(lambda *depths, at=third: depths[at] and sum(map(bool, depths)) == 1),
            any_of_them,
            window,
        )
        found = answer(
            con,
            "select rank, device, busy_ns, alone_ns, any_ns, window_ns "
            f"from solo_time('parts') where part.third = {third}",
        )
        assert found == {key: tuple(measure[key] for measure in expected) for key in Oracle(thirds[third]).lanes()}


@quick
@given(relations, relations, relations)
def test_each_nanosecond_counts_for_the_first_layer_that_runs(con, scoped, compute, communication, copies):
    """Layers 0 to 2 in their order, each before the same one outside of a scope, 3 above."""
    columns = "window_ns, compute_ns, exposed_comm_ns, exposed_memory_ns, out_of_scope_ns, idle_ns"
    columns += ", comm_ns, memory_ns, busy_ns"
    three = (compute, communication, copies)
    outside = [[row for row in listed if row["start_ns"] is not None and row["start_ns"] % 2] for listed in three]
    inside = [[row for row in listed if row not in out] for listed, out in zip(three, outside, strict=True)]
    for session_of, layers in ((con, three), (scoped, (*inside, *outside))):
        for layer, listed in enumerate(layers):
            fill(session_of, **{f"of_{layer}": listed})
        union = " union all ".join(f"select *, {layer} as layer from of_{layer}" for layer in range(len(layers)))
        session_of.execute(f"create or replace temp table placed as {union}")
        oracle = Oracle(*layers)
        order = (0, 3, 1, 4, 2, 5) if session_of is scoped else (0, 1, 2)

        def first(*depths: int, order: tuple[int, ...] = order) -> int | None:
            return next((layer for layer in order if depths[layer]), None)

        expected = [
            oracle.measure(holds)
            for holds in (
                lambda *_: True,
                lambda *depths: first(*depths) == 0,
                lambda *depths: first(*depths) == 1,
                lambda *depths: first(*depths) == 2,
                lambda *depths: (first(*depths) or 0) > 2,
                lambda *depths: first(*depths) is None,
                lambda *depths: depths[1],
                lambda *depths: depths[2],
                lambda *depths: any(depths[:3]),
            )
        ]
        found = answer(session_of, f"select rank, device, {columns} from layer_parts('placed')")
        assert found == {key: tuple(measure[key] for measure in expected) for key in oracle.lanes()}
    con.execute("create or replace temp table placed as select *, 3 as layer from of_0 where end_ns > start_ns")
    if con.execute("from placed").fetchall():
        with pytest.raises(duckdb.InvalidInputException, match="outside of a scope"):
            con.execute("from layer_parts('placed')")


@quick
@given(relations)
def test_measures_hold_at_the_ends_of_time(con, listed):
    """Rows at both ends of the valid range: no lane reaches into another."""
    first, last = -(2**62), 2**62 - 1 - 2 * HORIZON
    shifted = [
        row | {"start_ns": row["start_ns"] and row["start_ns"] + (last, first)[row["rank"] % 2]} for row in listed
    ]
    kept = [row for row in listed if row["start_ns"]]
    fill(con, a=[row for row in shifted if row["start_ns"]], b=kept)
    for asked in ("busy_ns from busy('{}')", "inside_ns from clip_to('{0}', '{0}')", "alone_ns from solo_time('{}')"):
        far, near = (answer(con, f"select rank, device, {asked.format(name)}") for name in "ab")
        assert far == near


@quick
@given(relations, relations, relations)
def test_layers_are_three_depths_apart(con, first, second, third):
    """The time at each depth of each relation is that of a sweep of this relation alone."""
    fill(con, a=first, b=second, c=third)
    for name in "abc":
        alone, together = (
            con.execute(
                f"select rank, device, source, {depth}, sum(dur_ns) from {sweep} where {depth} > 0 group by all"
            ).fetchall()
            for depth, sweep in (("depth", f"depth('{name}')"), (f"depth_{name}", "layers('a', 'b', 'c')"))
        )
        assert sorted(alone, key=repr) == sorted(together, key=repr)


@quick
@given(relations, relations, relations)
def test_states_are_the_layers_added_up(con, first, second, third):
    fill(con, a=first, b=second, c=third)
    columns = "run, source, rank, device, depth_a, depth_b, depth_c"
    layers = con.execute(f"select {columns}, sum(dur_ns) from layers('a', 'b', 'c') group by all").fetchall()
    states = con.execute(f"select {columns}, dur_ns from state_totals('a', 'b', 'c')").fetchall()
    assert sorted((row for row in states if row[-1]), key=repr) == sorted(layers, key=repr)
    assert {row[2:4] for row in states} == Oracle(first, second, third).lanes()


def test_depths_of_a_million_rows_at_once_do_not_mix(con):
    many = 2**20 + 1
    for name in "abc":
        con.execute(
            f"create or replace temp table {name} as "
            "select 'r' as run, 's' as source, 0 as rank, 0 as device, 0::bigint as start_ns, 5::bigint as end_ns "
            f"from range({many if name != 'c' else 3})"
        )
    found = con.execute("select dur_ns, depth_a, depth_b, depth_c from layers('a', 'b', 'c')").fetchall()
    assert found == [(5, many, many, 3)]


@pytest.mark.parametrize("order", ["true", "false"])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_sweep_of_many_rows_in_any_order_is_that_of_the_sorted_ones(
    con: duckdb.DuckDBPyConnection, threads: int, order: str
) -> None:
    """Windows without an order take the events as they come, so the ordered subquery below them must keep its order.

    Rows of 7 ranks, each 10 ns long, start every 4 ns: two or three run at once. The second relation covers the
    last 2 ns before each start.
    """
    each = 36_000
    try:
        con.execute(f"set threads = {threads}")
        con.execute(f"set preserve_insertion_order = {order}")
        for name, start, dur in (("a", 0, 10), ("b", 2, 2)):
            con.execute(
                f"create or replace temp table {name} as "
                "select 'r' as run, 's' as source, (i % 7)::integer as rank, 0 as device, "
                f"i // 7 * 4 + {start} as start_ns, start_ns + {dur} as end_ns from range({7 * each}) as rows(i) "
                "order by hash(i)"
            )
        busy = con.execute("select busy_ns, concurrent_ns, max_concurrent from concurrency('a')").fetchall()
        united = con.execute("select busy_ns from busy('a')").fetchall()
        alone = con.execute("select busy_ns, alone_ns, any_ns, window_ns from solo_time('a')").fetchall()
        parts = con.execute("select window_ns, a_ns, ab_ns, b_ns, idle_ns from regions('a', 'b', 'b')").fetchall()
        inside = con.execute("select busy_ns, inside_ns from clip_to('a', 'b')").fetchall()
    finally:
        con.execute("set threads = 1")
        con.execute("reset preserve_insertion_order")
    last = 4 * (each - 1) + 10
    assert busy == [(last, last - 8, 3)] * 7
    assert united == [(last,)] * 7
    assert alone == [(last, last, last, last)] * 7
    assert parts == [(last, last - 2 * each, 0, 0, 0)] * 7
    assert inside == [(last, 2 * each)] * 7


kernel_rows = st.lists(
    st.lists(
        st.fixed_dictionaries(
            {
                "source": st.sampled_from(["a", "b"]),
                "rank": st.sampled_from([0, 1]),
                "device": st.sampled_from([0, 1, None]),
                "name": st.sampled_from([COMPUTE, COMMUNICATION, "mystery"]),
                "start_ns": times,
                "dur_ns": durations,
            }
        ),
        min_size=1,
        max_size=10,
    ),
    min_size=CASES,
    max_size=CASES,
).map(number_ranks)


@examples(12)
@given(kernel_rows, relations, relations)
def test_queries_agree_with_the_oracle_and_with_each_other(memory, kernels, copies, graphs):
    tables = {
        "kernels": kernels,
        "memcpys": [row | {"direction": "HtoD", "size_bytes": 8} for row in copies],
        "graph_launches": graphs,
    }
    memory.filled(tables)
    found = {name: memory.query(name).to_pylist() for name in ("gpu_breakdown", "nccl_share", "kernel_concurrency")}
    compute = [row for row in kernels if row["name"] != COMMUNICATION]
    communication = [row for row in kernels if row["name"] == COMMUNICATION]
    oracle = Oracle(compute, communication, copies, graphs)
    runs = {
        "window_ns": oracle.measure(lambda k, n, m, g: True),
        "compute_ns": oracle.measure(lambda k, n, m, g: k or g),
        "exposed_comm_ns": oracle.measure(lambda k, n, m, g: n and not (k or g)),
        "exposed_memory_ns": oracle.measure(lambda k, n, m, g: m and not (k or n or g)),
        "idle_ns": oracle.measure(lambda k, n, m, g: not (k or n or m or g)),
        "comm_ns": oracle.measure(lambda k, n, m, g: n),
        "overlapped_comm_ns": oracle.measure(lambda k, n, m, g: n and (k or g)),
        "graph_ns": oracle.measure(lambda k, n, m, g: g),
    }
    for row in found["gpu_breakdown"]:
        key = (row["rank"], row["device"])
        assert {name: row[name] for name in runs} == {name: measure.get(key, 0) for name, measure in runs.items()}
    kernel_busy = oracle.measure(lambda k, n, m, g: k or n)
    for row in found["nccl_share"]:
        key = (row["rank"], row["device"])
        assert row["kernel_busy_ns"] == kernel_busy.get(key, 0)
        assert row["window_ns"] == runs["window_ns"].get(key, 0)
        assert (row["busy_ns"], row["exposed_ns"]) == (
            runs["comm_ns"].get(key, 0),
            runs["exposed_comm_ns"].get(key, 0),
        )
    twice = oracle.measure(lambda k, n, m, g: k + n >= 2)
    for row in found["kernel_concurrency"]:
        key = (row["rank"], row["device"])
        assert (row["busy_ns"], row["concurrent_ns"]) == (kernel_busy.get(key, 0), twice.get(key, 0))


def test_doubles_would_see_an_overlap_that_whole_nanoseconds_do_not(tmp_path: Path) -> None:
    """Doubles near 1.7e18 stand 256 ns apart: two kernels that follow each other become one and the same interval."""
    first = 1712195495519689088
    kernels = [
        {"name": "a", "device": 0, "start_ns": first, "dur_ns": 150},
        {"name": "b", "device": 0, "start_ns": first + 150, "dur_ns": 200},
    ]
    query = library.find("kernel_concurrency")
    store = build_store(tmp_path / "lab", {"kernels": kernels})
    with session.connect(store, referenced=execute.referenced_sql(query)) as con:
        exact = execute.run(con, query, {}).to_pylist()[0]
        in_doubles = con.execute(
            "with rounded as (select run, source, rank, device, start_ns::double::bigint as start_ns, "
            "(start_ns::double + dur_ns::double)::bigint as end_ns from kernels) "
            "select busy_ns, concurrent_ns from concurrency('rounded')"
        ).fetchall()
    assert (exact["busy_ns"], exact["concurrent_ns"]) == (350, 0)
    assert in_doubles == [(256, 256)]


@pytest.mark.parametrize("asked", ["select run", "select count(*)"])
def test_two_timelines_of_one_key_are_an_error(con: duckdb.DuckDBPyConnection, asked: str) -> None:
    con.execute("create or replace temp table alike as from (values (7, 'a'), (7, 'b'), (8, 'c')) as t (key, run)")
    with pytest.raises(duckdb.Error, match="two timelines have the same hash; select one run or rank"):
        con.execute(f"{asked} from lane_numbers('alike')").fetchall()
    con.execute("delete from alike where run = 'b'")
    assert con.execute("select lane, run from lane_numbers('alike') order by run").fetchall() == [(1, "a"), (2, "c")]
