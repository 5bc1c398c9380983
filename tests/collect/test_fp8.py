"""Linear layers in fp8 compute the products of rounded operands, and train."""

import json
import sys

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import Settings, validate_settings
from tracelab.collect.train import train
from tracelab.collect.training import fp8
from tracelab.collect.training.model_setup import RankContext
from tracelab.errors import UsageError

pytestmark = needs_torch


def rounded(tensor, dtype):
    """Return a tensor as fp8 holds it with a scale that uses its whole range."""
    scale = tensor.abs().max() / torch.finfo(dtype).max
    return (tensor / scale).to(dtype).float() * scale


@pytest.mark.parametrize("rows", [16, 5, 33])
def test_products_are_those_of_rounded_operands(rows):
    torch.manual_seed(0)
    layer, inputs = torch.nn.Linear(32, 48), torch.randn(rows, 32, requires_grad=True)
    gradient = torch.randn(rows, 48).bfloat16()
    assert fp8.convert_linears(torch, layer) == 1
    output = layer(inputs)
    output.backward(gradient)
    small, large = torch.float8_e4m3fn, torch.float8_e5m2
    x, w, g = rounded(inputs.detach(), small), rounded(layer.weight.detach(), small), rounded(gradient.float(), large)
    near = {"rtol": 2e-2, "atol": 2e-2}  # bf16 has 8 bits
    torch.testing.assert_close(output.float(), x @ w.T + layer.bias.detach(), **near)
    torch.testing.assert_close(inputs.grad, g @ w, **near)
    torch.testing.assert_close(layer.weight.grad, g.T @ x, **near)
    torch.testing.assert_close(layer.bias.grad, gradient.float().sum(0), rtol=2e-2, atol=0.1)


def test_a_matrix_of_zeros_stays_zero():
    layer = torch.nn.Linear(16, 16, bias=False)
    fp8.convert_linears(torch, layer)
    output = layer(torch.zeros(2, 3, 16))
    assert (tuple(output.shape), output.abs().max().item()) == ((2, 3, 16), 0.0)


def test_layers_of_other_sizes_keep_their_precision():
    network = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 10), torch.nn.Conv2d(16, 16, 1))
    before = dict(network.named_parameters())
    assert fp8.convert_linears(torch, network) == 1
    assert [type(each).__name__ for each in network] == ["Fp8Linear", "Linear", "Conv2d"]
    assert all(each is before[name] for name, each in network.named_parameters())


def test_a_model_without_a_fitting_layer_is_refused():
    with pytest.raises(UsageError, match="linear layers whose sizes are multiples of 16, and this model has none"):
        fp8.convert_linears(torch, torch.nn.Linear(16, 10))


def test_a_device_that_multiplies_no_fp8_is_refused(monkeypatch):
    def lacking(*_, **__):
        raise RuntimeError("only supported on compute capability >= 8.9\nand more")

    module = sys.modules["torch"]
    fp8.check_support(module, torch.device("cpu"))
    monkeypatch.setattr(module, "_scaled_mm", lacking)
    sentence = r"multiplies no fp8 on this cpu device \(only supported on compute capability >= 8.9\); use a GPU"
    with pytest.raises(UsageError, match=sentence):
        fp8.check_support(module, torch.device("cpu"))


def test_other_layers_compute_in_bf16():
    settings = Settings("decoder", device="cpu", precision="fp8")
    with RankContext(torch, settings, Job(), torch.device("cpu")).autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16


@pytest.mark.parametrize("parallel", ["none", "fsdp"])
def test_a_decoder_learns_in_fp8_as_in_bf16(tmp_path, _forked_ranks, parallel):
    losses = {}
    gpus = {} if parallel == "none" else {"gpus": 2}
    for precision in ("bf16", "fp8"):
        result = train(
            Settings(
                "decoder", out=tmp_path, run=precision, device="cpu", warmup=0, batch_size=2, epochs=10, steps=1,
                data_fraction=4 / 1024, optimizer="adamw", set={"context": "8"}, precision=precision,
                parallel=parallel, sample_s=0.0, **gpus,
            )
        )  # fmt: skip
        assert result.status == "ok", result.error
        rows = [json.loads(line) for line in (result.folder / "steps.rank0.jsonl").read_text().splitlines()[1:]]
        losses[precision] = [row["loss"] for row in rows if row["phase"] == "train"]
    run = json.loads((result.folder / "run.json").read_text())
    assert (run["precision"], run["fp8_layers"]) == ("fp8", 2 * 7 + 1)
    assert losses["fp8"][-1] < 0.7 * losses["fp8"][0]
    assert losses["fp8"] == pytest.approx(losses["bf16"], rel=0.1)


def test_products_of_known_size_are_computed_in_fp8(tmp_path, _forked_ranks):
    result = train(Settings("gemm", out=tmp_path, device="cpu", precision="fp8", steps=1, set={"size": "32"}))
    run = json.loads((result.folder / "run.json").read_text())
    assert (result.status, run["precision"], run["truth"]) == ("ok", "fp8", {"products": 4, "flop": 2 * 32**3 * 4})


def test_inference_has_no_weights_in_fp8(tmp_path, _forked_ranks):
    result = train(Settings("inference", out=tmp_path, device="cpu", precision="fp8", steps=1))
    assert (result.status, result.error) == ("failed", "ValueError: no weights are in fp8 here; use --precision bf16")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parallel": "tp"}, "--parallel tp and --precision fp8 exclude each other"),
        ({"parallel": "fsdp", "fsdp_precision": "policy"}, "--fsdp-precision policy needs"),
    ],
)
def test_options_that_fp8_excludes_are_refused(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        validate_settings(Settings("decoder", device="cuda", precision="fp8", **options))
