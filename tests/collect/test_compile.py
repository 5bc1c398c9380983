"""Compiled models are compiled in the mode of the settings, where that works."""

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.settings import COMPILE_MODES, Settings, validate_settings
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.parallelism import parallelize
from tracelab.errors import UsageError

pytestmark = needs_torch


@pytest.mark.parametrize("mode", COMPILE_MODES)
def test_a_model_is_compiled_in_the_mode_of_the_settings(monkeypatch, mode):
    modes = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: modes.append(options))
    settings = validate_settings(Settings("mine", device="cpu", compile=True, compile_mode=mode))
    parallelize(RankContext(torch, settings, Job(), torch.device("cpu")), torch.nn.Linear(2, 2), list)
    assert modes == [{"mode": mode}]


@pytest.mark.parametrize("mode", COMPILE_MODES)
def test_torch_knows_each_mode(mode):
    from torch._inductor import list_mode_options

    assert mode in list_mode_options()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"compile_mode": "max-autotune"}, "--compile-mode needs --compile"),
        ({"compile_mode": "reduce-overhead", "compile": True, "accumulate": 2}, "which overwrite the gradients"),
        ({"compile_mode": "fastest", "compile": True}, "no value of --compile-mode 'fastest'"),
    ],
)
def test_modes_that_do_not_work_are_refused(options, sentence):
    with pytest.raises(UsageError, match=sentence):
        validate_settings(Settings("decoder", device="cuda", **options))
