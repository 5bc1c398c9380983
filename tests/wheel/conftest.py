"""The wheel, built from the sdist as a package index would, and installed where nothing else is."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")

Run = Callable[..., str]


def run(*command: Path | str, cwd: Path, **environment: str) -> str:
    """Run outside the checkout, with nothing of ours in the environment; gives stdout."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRACELAB", "PYTEST"))}
    done = subprocess.run(command, cwd=cwd, env=clean | environment, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=CHECKOUT)
    return next(folder.glob("*.tar.gz"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run("tar", "-xzf", sdist, "-C", folder, cwd=folder)  # tarfile asks for a `filter` that Python 3.11.2 does not know
    unpacked = folder / sdist.name.removesuffix(".tar.gz")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=unpacked)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean environment that holds the wheel and its dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    constraints = ("-c", CHECKOUT / "requirements" / "lock.txt")
    run(sys.executable, *PIP, "--python", python, "install", "--no-compile", *constraints, wheel, cwd=folder)
    return folder / "venv"


@pytest.fixture(scope="session")
def installed(environment: Path) -> Run:
    """`tracelab ARGS…` of the clean environment."""
    return lambda *arguments: run(environment / "bin" / "tracelab", *arguments, cwd=environment.parent)


@pytest.fixture(scope="session")
def python(environment: Path) -> Run:
    """`python ARGS…` of the clean environment."""
    return lambda *arguments: run(environment / "bin" / "python", *arguments, cwd=environment.parent)
