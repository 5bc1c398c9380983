"""What run.json records of several ranks: where each ran, and the variables that it has differently."""

from typing import Any

from tracelab.collect.run_json import final_run_json


def final(**environments: dict[str, str] | None) -> dict[str, Any]:
    """Return run.json of ranks 0, 1 … with these environments; None for a rank that never reported one."""
    outcomes = {
        rank: {"status": "ok", "host": f"node{rank}"} | ({} if each is None else {"environment": each, "versions": {}})
        for rank, each in enumerate(environments.values())
    }
    description = {
        "environment": {"NCCL_DEBUG": "WARN"},
        "gpu": None,
        "pin_memory": None,
        "versions": {},
        "capture": {},
    }
    return final_run_json(description, outcomes)


def test_ranks_of_several_nodes_name_their_node_and_what_differs_there() -> None:
    common = {"NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "ib0"}
    run = final(
        first=common, same=common, other={"NCCL_SOCKET_IFNAME": "eth0", "NCCL_DEBUG": "WARN", "NCCL_IB_DISABLE": "1"}
    )
    assert run["environment"] == common
    assert run["ranks"] == {
        "0": {"status": "ok", "host": "node0"},
        "1": {"status": "ok", "host": "node1"},
        "2": {
            "status": "ok",
            "host": "node2",
            "environment": {"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "eth0"},
        },
    }


def test_a_variable_that_a_rank_lacks_is_null() -> None:
    run = final(first={"NCCL_IB_HCA": "mlx5_0"}, other={})
    assert run["ranks"]["1"]["environment"] == {"NCCL_IB_HCA": None}


def test_a_rank_that_ended_before_it_reported_differs_in_nothing() -> None:
    run = final(first=None, other=None)
    assert (run["environment"], "environment" in run["ranks"]["1"]) == ({"NCCL_DEBUG": "WARN"}, False)
