"""What the package imports is what pyproject.toml declares, in the right group, with bounds on both sides."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGE = ROOT / "src" / "tracelab"
COLLECTORS = ROOT / "collectors"

DISTRIBUTIONS = {"pynvml": "nvidia-ml-py", "pytorch_lightning": "lightning"}
"""The distributions that are not called like their module, or have a module under its older name."""

REQUIRED = {canonicalize_name(Requirement(each).name) for each in PROJECT["dependencies"]}
EXTRAS = {
    canonicalize_name(Requirement(each).name): extra
    for extra, group in PROJECT["optional-dependencies"].items()
    for each in group
}
REQUIREMENTS = [
    *PROJECT["dependencies"],
    *(each for group in PROJECT["optional-dependencies"].values() for each in group),
]

NAMES_A_YEAR = {"ncu-report"}
"""Distributions whose versions begin with the year, so that none announces a break."""


def imported(path: Path) -> Iterator[str]:
    """The modules of others that a file imports, or looks for by a literal name, each by the first part of its name."""
    tree = ast.parse(path.read_text("utf-8"))
    literals = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in {"import_module", "find_spec"}:
            (first, *_) = node.args
            name = first.value if isinstance(first, ast.Constant) else literals.get(ast.unparse(first))
            if isinstance(name, str):
                yield name.split(".")[0]


@cache
def imports() -> dict[str, set[Path]]:
    """Of each distribution that is imported: the files that do."""
    ours = {"tracelab", "sitecustomize", *(path.stem for path in COLLECTORS.glob("*.py"))}
    files: dict[str, set[Path]] = {}
    for path in [*PACKAGE.rglob("*.py"), *COLLECTORS.glob("*.py")]:
        for module in set(imported(path)) - ours - set(sys.stdlib_module_names):
            files.setdefault(canonicalize_name(DISTRIBUTIONS.get(module, module)), set()).add(path)
    return files


def test_what_is_imported_is_declared() -> None:
    assert sorted(set(imports()) - REQUIRED - set(EXTRAS)) == [], (
        "add it to dependencies in pyproject.toml, or to an extra"
    )


def test_what_is_declared_is_imported() -> None:
    unused = sorted((REQUIRED | set(EXTRAS)) - set(imports()))
    assert unused == [], "remove it from pyproject.toml"


def test_a_dependency_is_either_required_or_an_extra() -> None:
    assert REQUIRED & set(EXTRAS) == set()


def test_only_collecting_imports_what_only_collecting_installs() -> None:
    places = {path for name, extra in EXTRAS.items() if extra == "collect" for path in imports()[name]}
    elsewhere = [path for path in places if not path.is_relative_to(PACKAGE / "collect") and path.parent != COLLECTORS]
    assert [path.relative_to(ROOT).as_posix() for path in elsewhere] == [
        "src/tracelab/cli/study_record.py"
    ]  # looks for torch


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_a_requirement_has_bounds_on_both_sides(text: str) -> None:
    requirement = Requirement(text)
    operators = {each.operator for each in requirement.specifier}
    assert operators == ({">="} if requirement.name in NAMES_A_YEAR else {">=", "<"})


def test_dockerfiles_install_the_versions_of_the_package() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "docker").glob("*.Dockerfile")]
    installed = {each for text in texts for each in re.findall(r"'([\w-]+>=[^']+)'", text)}
    assert installed
    assert installed <= set(REQUIREMENTS)
