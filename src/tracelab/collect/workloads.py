"""The workloads there are: every file in `collectors/` that has a `workload`, and any file of the user's own."""

import ast
import importlib
import importlib.util
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from tracelab.collect.settings import Settings
from tracelab.errors import UsageError, suggest_name
from tracelab.resources import COLLECTORS

_OURS = frozenset((*(each.name for each in fields(Settings)), "world_size"))
"""Fields that are filled for a workload."""


@dataclass(frozen=True)
class Workload:
    """One file of `collectors/`, looked at without running it: that would import torch."""

    name: str
    path: Path
    about: str
    parts: frozenset[str]
    """What the file defines: model, data, truth …"""
    options: frozenset[str]
    """Fields of its Settings."""
    default_model: str | None = None

    @property
    def own(self) -> frozenset[str]:
        """Those of them that are no options of ours, and for --set."""
        return self.options - _OURS

    @property
    def trains(self) -> bool:
        """Whether there is a model that learns; else the work has a known answer."""
        return "model" in self.parts


def list_workloads() -> dict[str, Workload]:
    """Every workload of ours by its name."""
    found = (_looked_at(path) for path in sorted(COLLECTORS.glob("*.py")))
    return {each.name: each for each in found if "workload" in each.parts}


def find_workload(name: str) -> Workload:
    """A workload by its name, or a file of one's own; raises UsageError where there is none."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"{path}: no such file; a workload of your own is a Python file with a function workload")
        found = _looked_at(path.resolve())
        if "workload" not in found.parts:
            raise UsageError(f"{path}: has no function workload; collectors/gemm.py is a short example")
        return found
    known = list_workloads()
    if name not in known:
        raise UsageError(suggest_name("workload", name, tuple(known)))
    return known[name]


def _looked_at(path: Path) -> Workload:
    try:
        tree = ast.parse(path.read_bytes(), path)
    except SyntaxError as error:
        raise UsageError(f"{path}: is no Python file: {error.msg} in line {error.lineno}") from error
    parts = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    parts |= {name.id for node in tree.body if isinstance(node, ast.Assign) for name in _names(node)}
    given = _settings(tree)
    model = given.get("model")
    default = str(model.value) if isinstance(model, ast.Constant) and model.value is not None else None
    about = ast.get_docstring(tree) or ""
    return Workload(path.stem, path, about, frozenset(parts), frozenset(given), default)


def _settings(tree: ast.Module) -> dict[str, ast.expr | None]:
    """The fields of the dataclass Settings, and what they are by default."""
    return {
        field.target.id: field.value
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
        for field in node.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def _names(node: ast.Assign) -> list[ast.Name]:
    return [target for target in node.targets if isinstance(target, ast.Name)]


def load_module(workload: Workload) -> Any:  # noqa: ANN401  a module
    """Import the file; what it imports beside itself is found, too."""
    for folder in (str(COLLECTORS), str(workload.path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(workload.path.stem, workload.path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{workload.path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[workload.path.stem] = module  # for dataclasses, and for processes that load data
    spec.loader.exec_module(module)
    return module


def build_settings(module: Any, known: dict[str, Any], own: dict[str, str]) -> Any:  # noqa: ANN401  a module's dataclass
    """The workload's `Settings`: fields that tracelab has an option for take it, others what --set says.

    Raises UsageError for a name that it does not know, and for a value of the wrong type.
    """
    names = {each.name: each for each in fields(module.Settings)}
    free = [name for name in names if name not in known]
    values = {name: known[name] for name in names if known.get(name) is not None}
    for name, text in own.items():
        if name not in free:
            raise UsageError(suggest_name("setting of the workload", name, free or ("none",)))
        values[name] = _typed(name, text, names[name].default)
    return module.Settings(**values)


def _typed(name: str, text: str, default: Any) -> Any:  # noqa: ANN401  the default's type
    """The text as what the default is: a number, a text, or several numbers between commas."""
    try:
        if isinstance(default, tuple):
            return tuple(type(default[0])(part) for part in text.split(","))
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        return type(default)(text)
    except (ValueError, KeyError) as error:
        raise UsageError(f"--set {name}={text}: not like {default!r}, which it is without") from error
