"""Installs what collecting needs, for the tests that train, where that is quick: a torch without CUDA.

On Linux the package index serves torch with gigabytes of CUDA. Then nothing is installed, and those tests are skipped.
"""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

LOOK_S, INSTALL_S = 120, 600
CUDA = re.compile(r"nvidia-(cu|nccl)|cuda-|triton")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-compile")


def main() -> None:
    """Look, and install or say why not."""
    if all(importlib.util.find_spec(name) for name in ("torch", "torchvision", "PIL")):
        return
    try:
        found = looked()
    except (subprocess.SubprocessError, ValueError):
        found = ["nothing"]
    if heavy := [name for name in found if CUDA.match(name)] or ("torch" not in found):
        why = "torch comes with CUDA here" if isinstance(heavy, list) else "no torch is to be had here"
        print(f"{why}: the tests that train are skipped; make venv installs it in any case", file=sys.stderr)  # noqa: T201
        return
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["optional-dependencies"]["collect"]
    subprocess.run([*PIP, *requirements], check=True, timeout=INSTALL_S)


def looked() -> list[str]:
    """The names of the packages that would be installed."""
    command = [*PIP, "--dry-run", "--ignore-installed", "--report", "-", "torch", "torchvision"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=LOOK_S)
    return [item["metadata"]["name"].lower() for item in json.loads(done.stdout)["install"]]


if __name__ == "__main__":
    main()
