"""The Python examples of README.md and the guides run against a store."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = {
    f"{page.relative_to(ROOT)}-{number}": block
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    )
}
NEEDS_A_MODEL = "torch.profiler"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the store `lab` of two runs, as the guide for CI names them."""
    folder = tmp_path_factory.mktemp("python")
    for run, source in (("main", "generated-4rank-ddp"), ("branch", "generated-4rank-nobroadcast")):
        options = [str(ROOT / "data" / "generated" / source), "--store", str(folder / "lab"), "--run", run]
        subprocess.run([sys.executable, "-m", "tracelab", "ingest", *options], env=ENVIRONMENT, check=True)
    return folder


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_python_example_runs(folder: Path, name: str) -> None:
    code = EXAMPLES[name]
    if NEEDS_A_MODEL in code:
        compile(code, name, "exec")
        return
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")
