"""The generated pages, the console examples and the charts of the documentation are current."""

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_make_docs_changes_nothing() -> None:
    checked = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, check=False, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
