"""The generated pages, the console examples and the charts of the documentation are current."""

import os
import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_make_docs_changes_nothing(shared_stores: Path) -> None:
    environment = os.environ | {"TRACELAB_DOCS_STORES": str(shared_stores)}
    command = [sys.executable, GENERATE, "--check"]
    checked = subprocess.run(command, env=environment, capture_output=True, check=False, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
