"""Time by module on recorded traces."""

import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.client import Lab

pytestmark = corpus.needs_traces

RECOMPUTED_KERNELS_NS, RECOMPUTED_MEMSETS_NS = 4_122_223, 87_735
"""What TraceLens counts as recomputation of resnet_act_checkpoint: 591 kernels, and the memsets that it leaves out."""


@pytest.fixture(scope="module")
def labs(tmp_path_factory: pytest.TempPathFactory) -> list[Lab]:
    folder = tmp_path_factory.getbasetemp().parent
    return [Lab(kineto_corpus(folder)), Lab(second_kineto_corpus(folder))]


@pytest.mark.parametrize("by", ["module", "class"])
def test_own_times_add_up_to_all_gpu_rows(labs: list[Lab], by: str) -> None:
    runs = 0
    for lab in labs:
        sums: dict[tuple[str, int], int] = {}
        totals: dict[tuple[str, int], int] = {}
        for row in lab.query("module_time", by=by).to_pylist():
            key = (row["run"], row["rank"])
            sums[key] = sums.get(key, 0) + row["own_ns"]
            totals[key] = row["gpu_activity_ns"]
            assert (
                row["module"] is None or row["gpu_ns"] == row["forward_ns"] + row["backward_ns"] + row["recompute_ns"]
            )
        assert sums == totals
        runs += len(sums)
    assert runs > 12


def test_recomputation_is_what_tracelens_counts(labs: list[Lab]) -> None:
    rows = labs[1].query("module_time", run="resnet_act_checkpoint").to_pylist()
    root = next(row for row in rows if row["depth"] == 1)
    assert (root["module"], root["recompute_ns"]) == (
        "DistributedDataParallel_0",
        RECOMPUTED_KERNELS_NS + RECOMPUTED_MEMSETS_NS,
    )
    assert {row["layer"] for row in rows if row["class"] == "BasicBlock"} == {
        f"CheckpointWrapper_{n}" for n in range(4)
    }


@pytest.mark.parametrize("by", ["shape", "module", "stack"])
def test_ops_by_shape_module_or_stack_add_up_to_the_ops(labs: list[Lab], by: str) -> None:
    columns = ("calls", "timed_calls", "self_ns", "gpu_self_ns", "gpu_rows")
    by_op: list[dict[str, list[int]]] = []
    for values in ({}, {"by": by}):
        sums: dict[str, list[int]] = {}
        for row in labs[1].query("op_summary", run="resnet_act_checkpoint", **values).to_pylist():
            before = sums.get(row["op"], [0] * len(columns))
            sums[row["op"]] = [a + row[name] for a, name in zip(before, columns, strict=True)]
        by_op.append(sums)
    assert by_op[0] == by_op[1]
    assert sum(sums[3] for sums in by_op[0].values()) > 0


def test_exposed_communication_and_allocations_add_up_to_those_of_the_rank(labs: list[Lab]) -> None:
    columns = ("exposed_comm_ns", "allocated_bytes", "host_allocated_bytes")
    communicating = allocating = 0
    for lab in labs:
        sums: dict[tuple[str, int], list[int | None]] = {}
        for row in lab.query("module_time").to_pylist():
            if row["module"] is None or row["depth"] == 1:
                before = sums.get((row["run"], row["rank"]), [0, 0, 0])
                added = ((a, row[name]) for a, name in zip(before, columns, strict=True))
                sums[row["run"], row["rank"]] = [None if b is None else (a or 0) + b for a, b in added]
        expected: dict[tuple[str, int], list[int | None]] = {key: [0, None, None] for key in sums}
        for row in lab.query("gpu_breakdown").to_pylist():
            expected[row["run"], row["rank"]][0] += row["exposed_comm_ns"]
        for row in lab.sql(
            "select run, rank, "
            "coalesce(sum(size_bytes) filter (size_bytes > 0 and device is not null), 0)::bigint as device, "
            "coalesce(sum(size_bytes) filter (size_bytes > 0 and device is null), 0)::bigint as host "
            "from memory_events group by run, rank"
        ).to_pylist():
            if (row["run"], row["rank"]) in expected:
                expected[row["run"], row["rank"]][1:] = [row["device"], row["host"]]
        assert sums == expected
        communicating += sum(values[0] > 0 for values in sums.values())
        allocating += sum((values[1] or 0) > 0 for values in sums.values())
    assert communicating > 10
    assert allocating > 5


def test_replayed_kernels_count_with_the_module_and_the_op_of_their_capture(labs: list[Lab]) -> None:
    replays = [row for row in labs[1].query("graph_replays").to_pylist() if row["op"] is not None]
    (run,), (capture,) = ({row[key] for row in replays} for key in ("run", "capture_run"))
    values = {"run": run, "captures_from": capture}
    by_op: dict[str, int] = {}
    for row in labs[1].query("op_kernels", **values).to_pylist():
        by_op[row["op"]] = by_op.get(row["op"], 0) + row["dur_ns"]
    of_replays = [sum(row["dur_ns"] for row in replays if row["op"] == op) for op in ("vllm::moe_forward", "TopK")]
    assert [by_op["vllm::moe_forward"], by_op["TopK"]] == of_replays == [7_171_530, 119_814]
    (root,) = {row["module"].split("/")[0] for row in replays}
    in_module = sum(row["dur_ns"] for row in replays)
    modules = {row["module"]: row["gpu_ns"] for row in labs[1].query("module_time", **values).to_pylist()}
    stacks = labs[1].query("stacks", measure="gpu", by="module", **values).to_pylist()
    assert modules[root] == {row["frame"]: row["total"] for row in stacks}[root] == in_module == 10_388_482
