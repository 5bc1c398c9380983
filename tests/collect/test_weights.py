"""Training starts from the weights of a file."""

import json
import math

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.training.model_setup import load_weights
from tracelab.collect.workloads import build_settings, find_workload, load_module
from tracelab.errors import UsageError

pytestmark = needs_torch


def test_tensors_of_another_shape_stay_new(tmp_path):
    network = torch.nn.Linear(2, 3)
    torch.save({"weight": torch.ones(3, 2), "bias": torch.ones(7), "other": torch.ones(1)}, tmp_path / "w.pt")
    assert load_weights(torch, network, tmp_path / "w.pt") == "1 of 2 tensors from w.pt"
    assert torch.equal(network.weight, torch.ones(3, 2))
    assert not torch.equal(network.bias, torch.ones(3))


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path):
    torch.save({"other": torch.ones(1)}, tmp_path / "w.pt")
    with pytest.raises(UsageError, match="no weight matches this model; choose the checkpoint's model with --model"):
        load_weights(torch, torch.nn.Linear(2, 3), tmp_path / "w.pt")
    with pytest.raises(UsageError, match=r"none\.pt: no such checkpoint file; download it first"):
        load_weights(torch, torch.nn.Linear(2, 3), tmp_path / "none.pt")


@pytest.mark.usefixtures("_forked_ranks")
def test_a_run_starts_from_them(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)  # restores sys.path, which the workload's module changes
    decoder = load_module(find_workload("decoder"))
    network = decoder.model(build_settings(decoder, {}, {}))
    torch.save({name: torch.zeros_like(each) for name, each in network.state_dict().items()}, tmp_path / "zeros.pt")
    options = {"device": "cpu", "steps": 1, "warmup": 0, "sample_s": 0.0}
    result = train(Settings("decoder", out=tmp_path, run="r", weights=tmp_path / "zeros.pt", **options))
    assert result.status == "ok", result.error
    (step, _) = (json.loads(line) for line in (result.folder / "steps.rank0.jsonl").read_text().splitlines()[1:])
    assert step["loss"] == pytest.approx(math.log(512), rel=1e-6)  # all scores are 0
    count = len(network.state_dict())
    assert (
        json.loads((result.folder / "run.json").read_text())["weights"] == f"{count} of {count} tensors from zeros.pt"
    )
