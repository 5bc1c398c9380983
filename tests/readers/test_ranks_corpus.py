"""Ranks of real jobs: eight of DLRM, four processes of JAX, and two sampled ranks that nothing can align."""

import csv
from pathlib import Path

import pytest

from tests import corpus
from tests.memory import MemoryStore
from tests.ranks import kernel, note
from tracelab.client import Lab
from tracelab.ingest import pipeline

pytestmark = corpus.needs_traces

MULTI_RANK = corpus.ROOT / "multi_rank"
WAITS_US = (5580, 11125, 3280, 9571, 6370, 6041, 3342, 1534)
TIMES_LAST = (0, 0, 0, 0, 1, 2, 0, 5)


@pytest.fixture(scope="module")
def dlrm(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("dlrm") / "lab"
    pipeline.ingest([corpus.ROOT / "kineto" / "param_dlrm_8ranks"], store)
    return Lab(store)


def test_waits_and_stragglers_of_dlrm(dlrm: Lab) -> None:
    answer = sorted(dlrm.query("stragglers").arrow().to_pylist(), key=lambda row: row["rank"])
    assert tuple(row["wait_ns"] // 1000 for row in answer) == WAITS_US
    assert tuple(row["times_last"] for row in answer) == TIMES_LAST
    assert sum(row["dur_ns"] for row in answer) == 48_542_000
    assert sum(row["caused_wait_ns"] for row in answer) == sum(row["wait_ns"] for row in answer) == 46_843_000


def test_collectives_of_dlrm_are_matched_though_no_size_is_recorded(dlrm: Lab) -> None:
    answer = dlrm.query("collective_summary").arrow().to_pylist()
    assert (sum(row["kernels"] for row in answer), sum(row["matched_kernels"] for row in answer)) == (64, 64)
    waits = [(row["rank"], row["duration_wait_ns"]) for row in dlrm.query("collective_wait").arrow().to_pylist()]
    for rank in range(8):
        assert sum(row["wait_ns"] for row in answer if row["rank"] == rank) == sum(ns for at, ns in waits if at == rank)


def test_causes_of_dlrm_add_up_to_its_waits(dlrm: Lab) -> None:
    """Rank 7 is late for the first collective, most of all because it is recorded later; rank 5 because of its host."""
    answer = dlrm.query("straggler_causes").arrow().to_pylist()
    assert sum(row["cost_ns"] for row in answer) == 46_843_000
    assert [(row["rank"], row["cause"], row["cost_ns"] // 1000) for row in answer[:4]] == [
        (7, "start", 28_403),
        (7, "host", 8_517),
        (5, "host", 5_750),
        (4, "host", 3_676),
    ]


def test_the_path_of_dlrm_begins_with_time_that_rank_7_does_not_record(dlrm: Lab) -> None:
    bins = dlrm.query("critical_path_timeline").arrow().to_pylist()
    unknown_ns = {rank: sum(each["unknown_ns"] for each in bins if each["rank"] == rank) for rank in (4, 7)}
    classes = {row["class"]: row["dur_ns"] for row in dlrm.query("critical_path").arrow().to_pylist()}
    assert unknown_ns == {4: 0, 7: 7_513_000}
    assert classes["unknown"] == 7_513_000
    waited = sum(classes[name] for name in ("launch_latency", "scheduling", "synchronization"))
    assert sum(each["waiting_ns"] for each in bins) == waited


def test_clocks_of_dlrm_are_one(dlrm: Lab) -> None:
    answer = dlrm.query("clock_offsets").arrow().to_pylist()
    assert {row["verdict"] for row in answer} == {"same_clock"}
    assert {row["pairs"] for row in answer} == {None, 8}
    assert max(abs(row["offset_ns"]) for row in answer) <= 2000


def test_offsets_and_drift_put_into_dlrm_come_back(dlrm: Lab, memory: MemoryStore) -> None:
    columns = "rank, pid, device, stream, name, start_ns, dur_ns, correlation"
    kernels = dlrm.sql(f"select {columns} from kernels").arrow().to_pylist()
    noted = (
        dlrm.sql("select origin, rank, pid, device, stream, start_ns, dur_ns, correlation, collective from collectives")
        .arrow()
        .to_pylist()
    )
    first = min(row["start_ns"] for row in kernels)
    offsets = {rank: (rank - 3) * 125_000_000 for rank in range(8)}
    for row in (*kernels, *noted):
        row["start_ns"] += offsets[row["rank"]] + round((row["start_ns"] - first) * 30e-6 * (row["rank"] % 3 - 1))
    answer = memory.filled({"kernels": kernels, "collectives": noted}).query("clock_offsets").to_pylist()
    errors = [row["offset_ns"] + offsets[row["rank"]] - offsets[0] for row in answer]
    assert max(map(abs, errors)) <= 2000
    assert {row["verdict"] for row in answer if row["rank"]} == {"aligned"}


def test_offsets_of_jax_are_the_published_ones(memory: MemoryStore) -> None:
    with (MULTI_RANK / "jax_fsdp4" / "collectives_4ranks.csv").open() as file:
        read = list(csv.DictReader(file))
    kernels, notes = [], []
    for at, row in enumerate(read):
        rank, start, end = (int(row[name]) for name in ("rank", "start_ns", "end_ns"))
        kernels.append(kernel(rank, start, end, "all_gather", correlation=at))
        noted = note(kernels[-1], int(row["occurrence"]), 4, collective="all_gather", group_name=row["name"])
        notes.append(noted)
    memory.filled({"kernels": kernels, "collectives": notes})
    answer = memory.query("clock_offsets").to_pylist()
    assert [row["offset_ns"] for row in answer] == [0, 28_540_905, 174_414_043, -305_481_207]
    assert [row["spread_ns"] for row in answer] == [0, 1052, 1824, 1676]
    assert [row["violations"] for row in answer] == [0, 0, 0, 0]
    waits = memory.query("stragglers").to_pylist()
    assert {row["rank"]: row["times_last"] for row in waits} == {0: 65, 1: 26, 2: 15, 3: 14}


def test_sampled_ranks_are_refused(tmp_path: Path) -> None:
    pipeline.ingest([MULTI_RANK / "hta_sampled"], tmp_path / "lab")
    answer = Lab(tmp_path / "lab").query("collective_wait").arrow().to_pylist()
    assert {row["state"] for row in answer} == {"refused"}
    assert all(row["reason"].startswith("no shift of the order makes kinds and sizes agree") for row in answer)
