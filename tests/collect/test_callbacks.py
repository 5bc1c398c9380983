"""Trainings of Lightning, Hugging Face's Trainer and Accelerate are recorded by the real libraries' callbacks."""

import importlib
import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.collect.program_recordings import names, recorded_steps, step_rows
from tests.needs import needs_torch
from tracelab.collect.run_end import Result

pytestmark = needs_torch

SCRIPT = Path(__file__).parent / "programs" / "callbacks.py"
MATRIX_PRODUCTS = {"lightning": 3, "transformers": 6, "accelerate": 6}
"""Forward passes of three steps: two batches a step, where the library accumulates gradients."""


def test_without_lightning_the_callback_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("lightning", "lightning.pytorch.callbacks", "pytorch_lightning", "pytorch_lightning.callbacks"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "tracelab.collect.callbacks.lightning", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"needs lightning or pytorch_lightning, .*; pip install lightning$"):
        importlib.import_module("tracelab.collect.callbacks.lightning")


@pytest.mark.parametrize("library", MATRIX_PRODUCTS)
def test_a_training_of_a_library_is_recorded(tmp_path: Path, library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"{library} is not installed: pip install {library}")
    command = [sys.executable, str(SCRIPT), str(tmp_path), library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ, timeout=300)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / library / "run.json").read_text())
    assert (content["status"], content["error"], content["ranks"]["0"]["steps"]) == ("ok", None, 8)
    result = Result(tmp_path / library, "ok", None)
    assert recorded_steps(result) == [2, 3, 4]
    assert names(result)["aten::addmm"] == MATRIX_PRODUCTS[library]
    assert [row["step"] for row in step_rows(result)] == list(range(8))
