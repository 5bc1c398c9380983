"""What runs inside what on a thread: the macros against plain Python that compares every row with every other."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.build import build_store
from tests.memory import end_ns, insert
from tests.properties import examples
from tracelab.query import library
from tracelab.store import session

HORIZON = 14
Row = dict[str, int | None]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "tid": st.sampled_from([1, 2, None]),
            "part": st.sampled_from([1, 2]),
            "start_ns": st.one_of(st.none(), st.integers(0, HORIZON)),
            "dur_ns": st.one_of(st.none(), st.integers(-1, HORIZON)),
        }
    ),
    max_size=12,
)
points = st.lists(
    st.fixed_dictionaries(
        {
            "tid": st.sampled_from([1, 2, None]),
            "at_ns": st.integers(0, HORIZON + 4),
            "device": st.sampled_from([0, 1, None]),
            "gpu_ns": st.integers(0, 5),
        }
    ),
    max_size=8,
)
quick = examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    store = build_store(tmp_path_factory.mktemp("store") / "lab", {"ops": [{"name": "o"}]})
    with session.connect(store) as con:
        yield con


def fill_rows(con: duckdb.DuckDBPyConnection, listed: list[Row]) -> None:
    con.execute(
        "create or replace temp table a (run varchar, source varchar, pid bigint, tid bigint, part bigint, id bigint, "
        "start_ns bigint, end_ns bigint)"
    )
    rows = [
        ("r", "s", 1, row["tid"], row["part"], number, row["start_ns"], end_ns(row["start_ns"], row["dur_ns"]))
        for number, row in enumerate(listed, 1)
    ]
    insert(con, "a", rows)


def fill_points(con: duckdb.DuckDBPyConnection, listed: list[Row]) -> None:
    con.execute(
        "create or replace temp table p (run varchar, source varchar, pid bigint, tid bigint, id bigint, at_ns bigint, "
        "device integer, gpu_ns bigint, gpu_rows bigint)"
    )
    rows = [
        ("r", "s", 1, row["tid"], number, row["at_ns"], row["device"], row["gpu_ns"], 1)
        for number, row in enumerate(listed, 1)
    ]
    insert(con, "p", rows)


class Oracle:
    """The measured rows in the order in which they begin, by the definitions and nothing faster."""

    def __init__(self, listed: list[Row]) -> None:
        measured = [
            {"id": number, "end_ns": row["start_ns"] + row["dur_ns"], **row}
            for number, row in enumerate(listed, 1)
            if row["start_ns"] is not None and row["dur_ns"] is not None and row["dur_ns"] >= 0
        ]
        self.rows = sorted(measured, key=lambda row: (row["start_ns"], -row["end_ns"], row["id"]))
        self.crossing = {
            row["id"]
            for row, before in self._pairs(self.rows)
            if any(row["start_ns"] < other["end_ns"] < row["end_ns"] for other in before)
        }

    @staticmethod
    def _pairs(listed: list[Row]) -> Iterator[tuple[Row, list[Row]]]:
        """Each row with those that begin before it on its thread."""
        for at, row in enumerate(listed):
            yield row, [other for other in listed[:at] if other["tid"] == row["tid"]]

    def parents(self) -> dict[int, int | None]:
        nested = [row for row in self.rows if row["id"] not in self.crossing]
        return {
            row["id"]: next((o["id"] for o in reversed(before) if o["end_ns"] > row["start_ns"]), None)
            for row, before in self._pairs(nested)
        }

    def innermost(self, point: Row) -> int | None:
        holding = [
            row["id"]
            for row in self.rows
            if row["tid"] == point["tid"]
            and row["id"] not in self.crossing
            and row["start_ns"] <= point["at_ns"] < row["end_ns"]
        ]
        return holding[-1] if holding else None

    def outermost(self) -> set[int]:
        return {
            row["id"]
            for row, before in self._pairs(self.rows)
            if not any(
                other["part"] == row["part"] and other["end_ns"] >= row["end_ns"] and other["end_ns"] > row["start_ns"]
                for other in before
            )
        }


@quick
@given(rows)
def test_the_parent_is_the_innermost_row_that_holds_it(con, listed):
    fill_rows(con, listed)
    oracle = Oracle(listed)
    found = con.execute("select id, parent from nesting('a') where not crosses").fetchall()
    crossing = con.execute("select id, parent, depth from nesting('a') where crosses").fetchall()
    assert dict(found) == oracle.parents()
    assert len(found) == len(oracle.parents())
    assert sorted(crossing) == [(number, None, None) for number in sorted(oracle.crossing)]


@quick
@given(rows)
def test_the_depth_is_one_more_than_the_parents(con, listed):
    fill_rows(con, listed)
    depths = dict(con.execute("select id, depth from nesting('a') where not crosses").fetchall())
    assert depths == {
        number: 1 if parent is None else depths[parent] + 1 for number, parent in Oracle(listed).parents().items()
    }


@quick
@given(rows)
def test_self_times_add_up_to_the_outermost_rows(con, listed):
    fill_rows(con, listed)
    own, outer = con.execute(
        "with n as materialized (from nesting('a')), inner_ns as "
        "(select parent as id, sum(end_ns - start_ns) as ns from n where parent is not null group by parent) "
        "select coalesce(sum(end_ns - start_ns - coalesce(ns, 0)), 0), "
        "coalesce(sum(end_ns - start_ns) filter (parent is null), 0), min(end_ns - start_ns - coalesce(ns, 0)) "
        "from n left join inner_ns using (id) where not crosses"
    ).fetchall()[0][:2]
    assert own == outer


@quick
@given(rows, points)
def test_a_point_belongs_to_the_innermost_row_around_it(con, listed, marks):
    fill_rows(con, listed)
    fill_points(con, marks)
    oracle = Oracle(listed)
    expected = {number: oracle.innermost(mark) for number, mark in enumerate(marks, 1)}
    many = dict(con.execute("select id, parent from innermost_of_many('a', 'p')").fetchall())
    assert many == {number: parent for number, parent in expected.items() if parent is not None}
    found = dict(con.execute("select id, parent from innermost('a', 'p')").fetchall())
    assert found == {number: parent for number, parent in expected.items() if parent is not None}


@quick
@given(rows)
def test_a_row_inside_one_of_its_part_is_not_outermost(con, listed):
    fill_rows(con, listed)
    found = [number for (number,) in con.execute("select id from outermost('a')").fetchall()]
    assert (set(found), len(found)) == (Oracle(listed).outermost(), len(set(found)))


@quick
@given(rows, points)
def test_a_range_sums_the_points_from_its_start_to_before_its_end(con, listed, marks):
    fill_rows(con, listed)
    fill_points(con, marks)
    devices = {(mark["tid"], mark["device"]) for mark in marks}
    expected = {}
    for row in Oracle(listed).rows:
        for tid, device in devices:
            if tid == row["tid"]:
                inside = [
                    mark["gpu_ns"]
                    for mark in marks
                    if (mark["tid"], mark["device"]) == (tid, device)
                    and row["start_ns"] <= mark["at_ns"] < row["end_ns"]
                ]
                expected[row["id"], device] = (sum(inside), len(inside))
    found = con.execute("select id, device, gpu_ns, gpu_rows from summed_within('a', 'p')").fetchall()
    assert {(number, device): (ns, count) for number, device, ns, count in found} == expected


def test_a_damaged_tree_leaves_its_neighbours_alone(con):
    """100,000 rows a lane apart, of which one tree has a row that crosses: the others nest as ever."""
    con.execute(
        "create or replace temp table a as select 'r' as run, 's' as source, 1 as pid, 1 as tid, i + 1 as id, "
        "i // 3 * 100 + i % 3 * 10 as start_ns, start_ns + 50 - i % 3 * 15 as end_ns from range(99_999) as t(i)"
    )
    con.execute("update a set end_ns = start_ns + 60 where id = 5")  # inside row 4, ends after it
    found = con.execute(
        "select count(*) filter (crosses), count(*) filter (depth = 1), count(*) filter (depth = 2), "
        "count(*) filter (depth = 3), count(*) filter (parent = id - 1), any_value(parent) filter (id = 6) "
        "from nesting('a')"
    ).fetchall()
    assert found == [(1, 33_333, 33_333, 33_332, 66_664, 4)]


names = st.sampled_from(["aten::mm", "aten::add", "aten::linear"])
host_ops = st.lists(
    st.fixed_dictionaries(
        {"name": names, "tid": st.sampled_from([1, None]), "start_ns": st.integers(0, 9), "dur_ns": st.integers(0, 6)}
    ),
    min_size=1,
    max_size=10,
)


@examples(25)
@given(host_ops)
def test_op_summary_agrees_with_the_definitions(memory, listed):
    asked, lab = library.find("op_summary"), memory.filled({"ops": [row | {"pid": 1} for row in listed]})
    answer = {row["op"]: row for row in lab.run_query(asked, {}).to_pylist()}
    assert lab.run_query(asked, {"run": "r", "rank": 0}).to_pylist() == list(answer.values())
    numbers = {name: number for number, name in enumerate(sorted({row["name"] for row in listed}))}
    oracle = Oracle([row | {"part": numbers[row["name"]]} for row in listed])
    parents, outermost = oracle.parents(), oracle.outermost()
    own = {row["id"]: row["dur_ns"] for row in oracle.rows}  # no op lies inside one that overlaps another
    for row in oracle.rows:
        if parents.get(row["id"]) is not None:
            own[parents[row["id"]]] -= row["dur_ns"]
    for name, found in answer.items():
        mine = [row for row in oracle.rows if row["name"] == name]
        assert found["self_ns"] == sum(own[row["id"]] for row in mine)
        assert found["total_ns"] == sum(row["dur_ns"] for row in mine if row["id"] in outermost)
        assert found["overlapping_calls"] == sum(row["id"] in oracle.crossing for row in mine)
    outer = sum(row["dur_ns"] for row in oracle.rows if parents.get(row["id"]) is None)
    assert sum(row["self_ns"] for row in answer.values()) == outer
    if outer:
        assert sum(row["of_op_self_sum_ratio"] for row in answer.values()) == pytest.approx(1)


@pytest.mark.parametrize("values", [{}, {"run": "z"}, {"rank": 0}, {"run": "z", "rank": 0}])
def test_of_ops_of_equal_times_the_first_holds_the_others_in_every_run(memory, values):
    """However many rows DuckDB expects of a run, it may not shuffle them."""
    ops = [
        {"run": run, "name": name, "start_ns": at, "dur_ns": 5, "pid": 1, "tid": 1}
        for run in ("a", "b", "c", "d", "z")
        for at in range(0, 3_000, 10)
        for name in ("outer", "mid", "inner")
    ]
    found = memory.filled({"ops": ops}).run_query(library.find("op_summary"), values).to_pylist()
    own = {row["op"]: row["self_ns"] for row in found if row["run"] == "z"}
    assert own == {"inner": 1500, "mid": 0, "outer": 0}


def test_a_launch_is_on_the_thread_of_the_outer_call_also_where_that_is_unknown(con):
    con.execute("create or replace temp table work as select 'r' as run, 's' as source, 1 as pid, 7 as correlation")
    con.execute(
        "create or replace temp table calls as from (values "
        "('r', 's', 1, null, 7, 10, 20), ('r', 's', 1, 2, 7, 12, 18)"
        ") as t(run, source, pid, tid, correlation, start_ns, end_ns)"
    )
    found = con.execute("select call_tid, call_start_ns, call_end_ns from with_calls('work', 'calls')").fetchall()
    assert found == [(None, 10, 20)]
