"""Sizes of models and FLOPs of their forward passes are the published ones."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.training.model_cost import count_model_cost
from tracelab.collect.workloads import build_settings, find_workload, load_module
from tracelab.errors import UsageError

pytestmark = needs_torch


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


def counted(workload: str, known: dict[str, Any], **own: str) -> tuple[int, int, int | None]:
    module = load_module(find_workload(workload))
    settings = build_settings(module, known, own)
    sample = module.data(settings, train=True)[0]
    found = count_model_cost(torch, lambda: module.model(settings), module.workload, sample)
    return found.parameters, found.parameter_bytes, found.flop_per_sample


@pytest.mark.parametrize(
    ("model", "parameters", "multiply_adds"),
    [
        ("alexnet", 61_100_840, 714_188_480),
        ("resnet18", 11_689_512, 1_814_073_344),
        ("vgg16", 138_357_544, 15_470_264_320),
    ],
)
def test_models_have_their_published_sizes(model: str, parameters: int, multiply_adds: int) -> None:
    found = counted("image_classification", {"model": model, "image_size": 224}, classes="1000")
    assert found == (parameters, 4 * parameters, 2 * multiply_adds)


def test_a_transformer_is_counted_as_by_hand() -> None:
    context, width, layers, vocabulary = 64, 128, 2, 512
    products = (
        layers * 12 * width**2 + vocabulary * width
    )  # of one token: queries, keys, values, output, 8·width² behind
    attention = layers * 2 * context * width  # of one token with all: scores, and their use
    _, _, flop = counted("transformer", {})
    assert flop == 2 * context * (products + attention) == 62_914_560


def test_what_torch_cannot_count_is_absent_and_explained() -> None:
    def step(_: Any) -> None:
        raise NotImplementedError("no meta kernel")

    found = count_model_cost(torch, lambda: torch.nn.Linear(2, 3), lambda _: step, (torch.ones(2),))
    assert (found.parameters, found.flop_per_sample, found.problem) == (9, None, "FLOPs not counted: no meta kernel")


def test_a_model_that_looks_at_numbers_while_it_is_built_is_counted(recwarn: pytest.WarningsRecorder) -> None:
    def build() -> Any:
        return torch.nn.Linear(2, 1 + int(torch.linspace(0, 2, 3)[-1].item()))

    found = count_model_cost(torch, build, lambda network: network, (torch.ones(2),))
    assert (found.parameters, found.flop_per_sample, found.problem) == (9, 2 * 2 * 3, None)


@pytest.mark.parametrize("model", ["googlenet", "inception_v3"])
@pytest.mark.filterwarnings("ignore:The default weight initialization:FutureWarning")
def test_heads_half_way_count_in_the_loss(model: str) -> None:
    module = load_module(find_workload("image_classification"))
    with torch.device("meta"):
        network = module.model(build_settings(module, {"model": model, "image_size": 299}, {}))
        loss, accuracy = module.workload(network)(torch.randn(2, 3, 299, 299), torch.zeros(2, dtype=torch.int64))
    assert (loss.shape, accuracy.shape) == ((), ())


@pytest.mark.parametrize(
    ("model", "size", "sentence"),
    [
        ("alexnet", 32, "alexnet needs images of at least 63 pixels; add --image-size 63"),
        ("resnet19", 32, "torchvision has no classification model 'resnet19'"),
        ("fasterrcnn_resnet50_fpn", 32, "has no classification model 'fasterrcnn_resnet50_fpn'"),
    ],
)
def test_a_model_that_cannot_be_is_refused_with_a_reason(model: str, size: int, sentence: str) -> None:
    module = load_module(find_workload("image_classification"))
    with pytest.raises(ValueError, match=sentence):
        module.model(build_settings(module, {"model": model, "image_size": size}, {}))


def test_a_transformer_of_pictures_is_built_for_their_size() -> None:
    module = load_module(find_workload("image_classification"))
    with torch.device("meta"):
        network = module.model(build_settings(module, {"model": "vit_b_16", "image_size": 32}, {}))
        loss, _ = module.workload(network)(torch.randn(2, 3, 32, 32), torch.zeros(2, dtype=torch.int64))
    assert loss.shape == ()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("folder", "--data-root has no folder train; it must contain train/<class>/ and val/<class>/"),
        ("cifar10", "--data-root has no folder cifar-10-batches-py; unpack the data set there, nothing is downloaded"),
        ("cifar100", "--data-root has no folder cifar-100-python"),
    ],
)
def test_a_data_set_that_is_not_there_is_reported_with_what_to_do(tmp_path: Path, data: str, sentence: str) -> None:
    module = load_module(find_workload("image_classification"))
    with pytest.raises(ValueError, match=sentence):
        module.data(build_settings(module, {"data": data, "data_root": str(tmp_path)}, {}), train=True)


@pytest.mark.parametrize("size", [32, 96])
def test_pictures_of_a_folder_are_square_whatever_they_were(tmp_path: Path, size: int) -> None:
    image = pytest.importorskip("PIL.Image")
    for name, shape in {"wide": (80, 40), "tall": (30, 90)}.items():
        (tmp_path / "train" / name).mkdir(parents=True)
        image.new("RGB", shape).save(tmp_path / "train" / name / "picture.png")
    module = load_module(find_workload("image_classification"))
    known = {"data": "folder", "data_root": str(tmp_path), "image_size": size}
    data = module.data(build_settings(module, known, {}), train=True)
    assert [tuple(picture.shape) for picture, _ in data] == [(3, size, size)] * 2


def test_a_setting_that_a_workload_lacks_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no setting of the workload 'contxt'; did you mean 'context'"):
        build_settings(load_module(find_workload("transformer")), {}, {"contxt": "8"})


def test_a_setting_of_the_wrong_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="--set width=wide: expected int, as in the default 128"):
        build_settings(load_module(find_workload("transformer")), {}, {"width": "wide"})


def test_several_numbers_stand_between_commas() -> None:
    copies = load_module(find_workload("copies"))
    assert build_settings(copies, {"device": "cpu"}, {"sizes": "1,22"}).sizes == (1, 22)


def test_workloads_stand_where_the_wheel_takes_them_from() -> None:
    assert find_workload("gemm").path == Path(__file__).parents[2] / "collectors" / "gemm.py"
