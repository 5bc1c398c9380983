"""The reference pages say what the code says."""

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "docs" / "generate.py"


def test_the_reference_is_current() -> None:
    checked = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, check=False, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
