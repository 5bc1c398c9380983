"""requirements/lock.txt pins every package that make installs, inside the ranges that pyproject.toml allows."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def named(path: Path) -> list[Requirement]:
    return [Requirement(line) for line in path.read_text("utf-8").splitlines() if line and not line.startswith("#")]


PINS = {canonicalize_name(pin.name): str(pin.specifier) for pin in named(ROOT / "requirements" / "lock.txt")}
WANTED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *PROJECT["project"]["optional-dependencies"]["collect"],
    *map(str, named(ROOT / "requirements" / "test.txt")),
]


@pytest.mark.parametrize("name", PINS)
def test_a_pin_is_one_exact_version(name: str) -> None:
    assert re.fullmatch(r"==[0-9][0-9a-z.]*", PINS[name])


@pytest.mark.parametrize("wanted", WANTED)
def test_a_package_that_is_wanted_is_pinned_within_its_range(wanted: str) -> None:
    requirement = Requirement(wanted)
    pin = PINS.get(canonicalize_name(requirement.name), "")
    assert pin.startswith("==")
    assert requirement.specifier.contains(pin.removeprefix("=="))
