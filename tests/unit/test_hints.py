"""Hints of a query: what to record where an answer lacks it."""

from pathlib import Path

import pytest

from tests.build import build_store
from tests.memory import MemoryStore
from tracelab.client import Lab
from tracelab.errors import NoDataError
from tracelab.query import execute, library
from tracelab.query.spec import Value

OP = {"name": "aten::mm", "pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 5}
SHAPES, STACKS = "record_shapes=True", "with_stack=True"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    frame = {"pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 9}
    tables = {
        "annotations": [frame | {"name": "step[DECODE bs=2]", "scope": "cpu", "run": "served"}],
        "ops": [
            OP,
            OP | {"run": "recorded", "input_shapes": "[[2,2],[2,2]]"},
            OP | {"run": "compiled", "name": "CompiledFunction"},
            OP | {"run": "old", "name": "aten::cudnn_convolution", "input_shapes": "[[2,2,4,4],[2,2,3,3],[]]"},
        ],
        "python_frames": [
            frame | {"name": "train.py(3): step", "run": "frames"},
            frame | {"name": "nn.Module: Linear_0", "run": "recorded"},
        ],
    }
    return Lab(build_store(tmp_path_factory.mktemp("hints") / "lab", tables))


@pytest.mark.parametrize(
    ("name", "params", "named"),
    [
        ("op_flop", {"run": "r"}, SHAPES),
        ("op_flop", {"run": "recorded"}, None),
        ("op_flop", {"run": "old"}, "strides"),
        ("module_time", {"run": "frames"}, STACKS),
        ("module_time", {"run": "recorded"}, None),
        ("op_summary", {"run": "r"}, None),
        ("op_summary", {"run": "r", "by": "shape"}, SHAPES),
        ("op_summary", {"run": "r", "by": "stack"}, STACKS),
        ("op_summary", {"run": "recorded", "by": "module"}, None),
        ("kernel_lines", {"run": "r"}, STACKS),
        ("sync_points", {"run": "r"}, STACKS),
        ("stacks", {"run": "r"}, STACKS),
        ("stacks", {"run": "frames"}, None),
        ("stacks", {"run": "frames", "measure": "gpu_memory"}, "profile_memory=True"),
        ("compiled_regions", {"run": "r"}, "torch.compile"),
        ("compiled_regions", {"run": "compiled"}, "no region is marked"),
        ("serving_steps", {"run": "r"}, "/start_profile"),
        ("serving_phases", {"run": "served"}, None),
    ],
)
def test_a_hint_names_the_option_that_records_what_is_missing(
    lab: Lab, name: str, params: dict[str, Value], named: str | None
) -> None:
    hints = lab.find_hints(library.find(name), params)
    assert [named is not None and named in hint for hint in hints] == [True] * (named is not None)


EMPTY = {"serving_phases", "serving_steps", "compiled_regions", "cpu_communication", "slow_hosts", "pipeline_bubble"}


def test_queries_whose_answers_have_no_figure_are_not_marked(lab: Lab) -> None:
    """The store has ranges, ops and no kernels: a step of SGLang, a compiled function, and no gloo or pipeline."""
    marked = lab.answerable_queries()
    assert EMPTY & marked == {"serving_phases", "serving_steps", "compiled_regions"}
    assert {"op_summary", "stacks", "annotation_gpu_time"} <= marked


@pytest.mark.parametrize(
    "name", ["slow_hosts", "step_lateness", "straggler_causes", "step_frontier", "generated_kernels"]
)
def test_one_rank_on_one_host_answers_nothing_about_several(memory: MemoryStore, name: str) -> None:
    step = {"name": "ProfilerStep#3", "scope": "cpu", "pid": 1, "tid": 1, "start_ns": 0, "dur_ns": 9}
    kernel = {"name": "gemm", "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 5}
    memory.filled({"kernels": [kernel], "annotations": [step]})
    assert execute.empty_answers(memory.con, [library.find(name)]) == {name}
    others = [kernel | {"rank": 1, "name": "triton_poi_fused_add_0"}]
    devices = [{"rank": rank, "device": 0, "host": f"node{rank}"} for rank in (0, 1)]
    memory.filled({"kernels": [kernel, *others], "annotations": [step], "devices": devices})
    assert execute.empty_answers(memory.con, [library.find(name)]) == set()


@pytest.mark.parametrize(
    ("name", "others"),
    [("machine_comparison", {"tags": [("machine", "b")]}), ("setting_effect", {"pin_memory": True})],
)
def test_recordings_that_differ_in_one_setting_answer_only_what_compares_that(
    memory: MemoryStore, name: str, others: dict[str, object]
) -> None:
    run = {"run": "x", "model": "m", "batch_size": 8, "gpus": 0, "pin_memory": False, "tags": [("machine", "a")]}
    step = {"run": "x", "rank": 0, "phase": "train", "epoch": 0, "step": 1, "start_ns": 0, "dur_ns": 100, "samples": 8}
    memory.filled({"runs": [run, run | {"run": "y"}], "steps": [step, step | {"run": "y"}]})
    assert execute.empty_answers(memory.con, [library.find(name)]) == {name}
    memory.filled({"runs": [run, run | {"run": "y"} | others], "steps": [step, step | {"run": "y"}]})
    assert execute.empty_answers(memory.con, [library.find(name)]) == set()
    assert memory.run_query(library.find(name), {}).num_rows == 1


def test_a_query_of_gpus_names_the_query_of_a_run_on_the_cpu(lab: Lab, tmp_path: Path) -> None:
    kernel = {"run": "gpu", "name": "gemm", "pid": 1, "device": 0, "stream": 7, "start_ns": 0, "dur_ns": 5}
    both = Lab(build_store(tmp_path / "lab", {"ops": [OP], "kernels": [kernel]}))
    for name, on_cpu in (("gpu_breakdown", "cpu_breakdown"), ("kernel_summary", "op_summary")):
        with pytest.raises(NoDataError, match=f"; of the CPU alone: `tracelab query {on_cpu}`$"):
            lab.query(name)
        with pytest.raises(NoDataError, match=f"no row of run r; of the CPU alone: `tracelab query {on_cpu} --run r`"):
            both.query(name, run="r")
    assert {each.on_cpu for each in library.library().values()} - {None} <= set(library.library())


def test_a_roofline_of_shapes_needs_ops_and_kernels(lab: Lab) -> None:
    with pytest.raises(NoDataError, match=r"^roofline needs kernels, and the store has none; to get them: profile"):
        lab.query("roofline", run="recorded", **{"from": "shapes"})
    with pytest.raises(NoDataError, match=r"^roofline needs kernel_metrics, and the store has none"):
        lab.query("roofline", **{"from": "both"})
