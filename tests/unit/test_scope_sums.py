"""Scopes of a generated job add up to the whole, and each to its window."""

import pytest

from tests import stores
from tracelab.client import Lab


def test_ranks_that_are_moved_to_one_clock_keep_their_steps(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    (step,) = {row["step"] for row in lab.query("step_breakdown", rank=0).to_pylist()[:1]}
    plain, aligned = (
        Lab(lab.store, aligned=aligned)
        .scoped(steps=str(step))
        .sql("select rank, count(*) as n from kernels group by 1 order by 1")
        for aligned in (False, True)
    )
    assert plain.to_pylist() == aligned.to_pylist()


def test_all_of_a_recording_is_the_recording(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    for name in ("gpu_breakdown", "op_kernels", "critical_path"):
        assert lab.scoped(from_="0").query(name).to_pylist() == lab.query(name).to_pylist()


def test_steps_and_what_lies_outside_add_up_to_the_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    tables = ("kernels", "memcpys", "ops", "api_calls")
    sums = " union all ".join(f"select count(*), sum(dur_ns)::bigint from {table}" for table in tables)

    def add_up(*scopes: dict[str, str]) -> list[int]:
        rows = [lab.scoped(**scope).sql(f"select * from ({sums}) as sums(n, dur_ns)").to_pylist() for scope in scopes]
        return [sum(each[at][key] or 0 for each in rows) for at in range(len(tables)) for key in ("n", "dur_ns")]

    steps = sorted({row["step"] for row in lab.query("step_breakdown", rank=0).to_pylist()} - {None})
    assert len(steps) > 1
    assert add_up(*({"steps": str(step)} for step in steps)) == add_up({"steps": f"{steps[0]}-"})
    halves = ({"to": "31.5ms"}, {"from_": "31.5ms"})
    assert add_up(*halves) == add_up({})

    def idle_ns(*scopes: dict[str, str], query: str = "gpu_breakdown") -> int:
        answers = [lab.scoped(**scope).query(query, rank=0).to_pylist() for scope in scopes]
        return sum(row["idle_ns"] for rows in answers for row in rows)

    assert idle_ns(*halves) == idle_ns(*halves, query="idle_causes") == idle_ns({}) > 0
    assert idle_ns(*(half | {"by": "execution"} for half in halves)) == idle_ns({})

    assert idle_ns(*({"steps": str(step)} for step in steps)) == idle_ns({"steps": f"{steps[0]}-"}) > 0


def test_parts_of_a_window_and_rows_outside_of_the_scope_add_up_to_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    lab = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent)).scoped(stream="7")
    parts = ("compute_ns", "exposed_comm_ns", "exposed_memory_ns", "idle_ns", "out_of_scope_ns")
    rows = lab.query("gpu_breakdown").to_pylist()
    assert all(sum(row[part] for part in parts) == row["window_ns"] for row in rows)
    assert all(row["out_of_scope_ns"] > 0 for row in rows)
    idle = {row["rank"]: row["idle_ns"] for row in rows}
    assert {row["rank"]: row["idle_ns"] for row in lab.query("idle_causes").to_pylist()} == idle
    binned = dict.fromkeys(idle, 0)
    for row in lab.query("timeline").to_pylist():
        binned[row["rank"]] += row["idle_ns"]
        assert row["outside_ns"] + sum(row[part] for part in parts[:-1]) == row["bin_ns"]
    balance = {(row["rank"], row["term"]): row["amount"] for row in lab.query("rank_balance").to_pylist()}
    assert {rank: balance[rank, "idle"] for rank in idle} == binned  # these count gaps that rows outside end, too
    for row in rows:
        rank = row["rank"]
        terms = ("compute", "communication", "copies")
        assert [balance[rank, term] for term in terms] == [row[part] for part in parts[:3]]
        first_gap_ns = row["window_ns"] - balance[rank, "window"]
        others_ns = balance[rank, "idle"] + balance[rank, "out of scope"]
        assert row["idle_ns"] + row["out_of_scope_ns"] == others_ns + first_gap_ns
    exposed: dict[int, int] = {}
    for row in lab.query("step_frontier").to_pylist():
        exposed[row["step"]] = exposed.get(row["step"], row["step_ns"]) - row["exposed_ns"]
        assert row["stage"] != "out of scope" or row["stage_ns"] > 0
    assert set(exposed.values()) == {0}


def test_communication_of_a_scope_is_exposed_as_in_the_whole(tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = Lab(stores.four_ranks(tmp_path_factory.getbasetemp().parent))
    ((stream,),) = (
        row.values()
        for row in whole.sql("select distinct stream from kernels where contains(name, 'nccl')").to_pylist()
    )
    scoped = whole.scoped(stream=str(stream))
    exposed = [row["exposed_comm_ns"] for row in whole.query("gpu_breakdown").to_pylist()]
    rows = scoped.query("gpu_breakdown").to_pylist()
    assert [row["exposed_comm_ns"] for row in rows] == exposed
    assert all(row["overlapped_comm_ns"] > 0 == row["compute_ns"] for row in rows)
    for name, column, keep in (
        ("timeline", "exposed_comm_ns", {}),
        ("rank_balance", "amount", {"term": "communication"}),
        ("nccl_share", "exposed_ns", {"collective": "all"}),
        ("module_time", "exposed_comm_ns", {}),
    ):
        of_rank = dict.fromkeys(range(4), 0)
        for row in scoped.query(name).to_pylist():
            if keep.items() <= row.items():
                of_rank[row["rank"]] += row[column]
        assert list(of_rank.values()) == exposed, name
    for name, column in (("gpu_breakdown", "exposed_comm_ns"), ("nccl_share", "overlap_ns")):
        like = "tracelens" if name == "gpu_breakdown" else "hta"
        answers = (lab.query(name, like=like).to_pylist() for lab in (whole, scoped))
        assert len({tuple(row[column] for row in answer) for answer in answers}) == 1, name
