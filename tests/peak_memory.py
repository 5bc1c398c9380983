"""The largest memory that a command holds at a time."""

import subprocess
import sys
from pathlib import Path

_MEASURE = """
import resource, subprocess, sys
code = subprocess.call([sys.executable, *sys.argv[1:]])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def run_measured(*arguments: str | Path) -> tuple[str, float]:
    """Run `python ARGUMENTS`; return what it prints, and its peak in MB.

    A small process starts it, because a child's peak begins with the memory of the process that started it.
    """
    command = [sys.executable, "-c", _MEASURE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    return done.stdout, in_mb(int(done.stderr.splitlines()[-1]))


def in_mb(peak: int) -> float:
    """Return the `ru_maxrss` of a process in MB."""
    return peak / (1024 if sys.platform == "linux" else 1 << 20)
