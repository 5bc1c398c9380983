"""Hints of a query: what to record where an answer lacks it."""

import pytest

from tests.build import build_store
from tracelab.client import Lab
from tracelab.query import library
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
        ("serving_steps", {"run": "r"}, "/start_profile"),
        ("serving_phases", {"run": "served"}, None),
    ],
)
def test_a_hint_names_the_option_that_records_what_is_missing(
    lab: Lab, name: str, params: dict[str, Value], named: str | None
) -> None:
    hints = lab.find_hints(library.find(name), params)
    assert [named is not None and named in hint for hint in hints] == [True] * (named is not None)
