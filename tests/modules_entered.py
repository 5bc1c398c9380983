"""Count the modules of tracelab that a command enters: those in which a function runs, in any thread."""

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"

_SCRIPT = """
import os, sys, threading

OPTIMIZED = 1  # the flag of functions' code, which that of classes and modules lacks
entered = set()

def profile(frame, event, _):
    if event == "call" and frame.f_code.co_flags & OPTIMIZED:
        entered.add(frame.f_code.co_filename)

threading.setprofile(profile)
sys.setprofile(profile)

from tracelab.cli import main

try:
    main(prog_name="tracelab")
except SystemExit as exit_request:
    code = exit_request.code
sys.setprofile(None)
package = os.path.join(os.environ["PYTHONPATH"], "tracelab", "")
print(*sorted(file.removeprefix(package) for file in entered if file.startswith(package)), sep="\\n", file=sys.stderr)
os._exit(code or 0)
"""


def modules_entered(*arguments: str | Path) -> list[str]:
    """Run `tracelab ARGUMENTS` in a process of its own; return the modules entered, as paths within the package."""
    command = [sys.executable, "-c", _SCRIPT, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stderr.splitlines() if line.endswith(".py")]
