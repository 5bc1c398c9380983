"""Time by module of nsys's recordings, by the NVTX ranges that programs push."""

import pytest

from tests import corpus
from tracelab.client import Lab
from tracelab.ingest import pipeline

pytestmark = corpus.needs_traces

RECORDINGS = (
    "nsys-ai/mfu_2gpu_before.sqlite",
    "dlprof/nsys_profile.sqlite",
    "nersc_sc22/4gpu_baseline.nsys2023_4.sqlite",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("nvtx") / "lab"
    pipeline.ingest([corpus.ROOT / "nsys" / name for name in RECORDINGS], store)
    return Lab(store)


@pytest.mark.parametrize("by", ["module", "class"])
def test_own_times_add_up_to_all_gpu_rows(lab: Lab, by: str) -> None:
    sums: dict[tuple[str, int], list[int]] = {}
    for row in lab.query("module_time", by=by).to_pylist():
        before = sums.get((row["run"], row["rank"]), [0, 0])
        is_whole = row["module"] is None or (row["depth"] == 1 and by == "module")
        sums[row["run"], row["rank"]] = [before[0] + row["own_ns"], before[1] + is_whole * row["gpu_rows"]]
    rows = lab.sql(
        "select run, rank, sum(dur_ns)::bigint as ns, count(*) as n from gpu_activity "
        "where has_valid_interval(start_ns, end_ns) group by run, rank"
    ).to_pylist()
    assert {key: ns for key, (ns, _) in sums.items()} == {(row["run"], row["rank"]): row["ns"] for row in rows}
    assert len(sums) == 4
    if by == "module":
        assert {key: n for key, (_, n) in sums.items()} == {(row["run"], row["rank"]): row["n"] for row in rows}


def test_modules_of_dlprof_are_those_of_its_call_stacks(lab: Lab) -> None:
    rows = lab.query("module_time", run="nsys_profile").to_pylist()
    modules = {row["module"]: (row["layer"], row["gpu_rows"]) for row in rows if row["module"]}
    assert modules == {
        "dummy_network": (None, 65),
        "dummy_network/Conv2d": (None, 30),
        "dummy_network/Conv2d(2)": (None, 23),
        "dummy_network/Linear(3)": ("Linear(3)", 4),
        "dummy_network/Linear(4)": ("Linear(4)", 2),
        "dummy_network/Linear(5)": ("Linear(5)", 2),
    }


def test_ranges_of_a_training_program_are_modules_without_the_number_of_their_step(lab: Lab) -> None:
    rows = lab.query("module_time", run="4gpu_baseline.nsys2023_4").to_pylist()
    counted = {(row["module"], row["phase"]): (row["calls"], row["gpu_rows"]) for row in rows}
    assert counted == {
        ("forward", None): (59, 8_201),
        ("data copy in", None): (59, 0),
        (None, "optimizer"): (0, 1_121),
        (None, "other"): (0, 16_838),
    }
