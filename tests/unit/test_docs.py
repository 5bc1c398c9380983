"""The definitions of the generated pages are current; `make docs-check` also runs the examples and draws the charts."""

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_the_definitions_of_the_reference_are_current() -> None:
    command = [sys.executable, GENERATE, "--check-definitions"]
    checked = subprocess.run(command, capture_output=True, check=False, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
