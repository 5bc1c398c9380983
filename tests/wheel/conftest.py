"""The wheel, built from the sdist as a package index would, and installed where nothing else is."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

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
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    link_requirements("tracelab", packages)
    run(sys.executable, *PIP, "--python", python, "install", "--no-index", "--no-compile", wheel, cwd=folder)
    return folder / "venv"


def link_requirements(name: str, packages: Path) -> None:
    """Link what a distribution requires from the tests' environment, where make installed it by the lock, compiled."""
    for requirement in map(Requirement, metadata.requires(name) or ()):
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        files = metadata.files(requirement.name)
        assert files is not None, f"{requirement.name}, which {name} requires, lists no files; install it with pip"
        entries = {Path(file).parts[0] for file in files} - {"..", "__pycache__"}
        if all((packages / entry).exists() for entry in entries):
            continue
        origin = Path(str(metadata.distribution(requirement.name).locate_file("")))
        for entry in entries:
            (packages / entry).symlink_to(origin / entry)
        link_requirements(requirement.name, packages)


@pytest.fixture(scope="session")
def installed(environment: Path) -> Run:
    """`tracelab ARGS…` of the clean environment."""
    return lambda *arguments: run(environment / "bin" / "tracelab", *arguments, cwd=environment.parent)


@pytest.fixture(scope="session")
def python(environment: Path) -> Run:
    """`python ARGS…` of the clean environment."""
    return lambda *arguments: run(environment / "bin" / "python", *arguments, cwd=environment.parent)
