"""Find and load workloads: the files of `collectors/` that define `workload`, and any file of the user's."""

import ast
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

from tracelab.collect.settings import Settings
from tracelab.errors import UsageError, suggest_name
from tracelab.resources import COLLECTORS

_SHARED_OPTIONS = frozenset((*(each.name for each in fields(Settings)), "world_size"))
"""Fields of a workload's Settings that options of `collect train` set."""
_EXAMPLE = "collectors/gemm.py is a short example"


@dataclass(frozen=True)
class Workload:
    """One workload file, inspected without running it: that would import torch."""

    name: str
    path: Path
    about: str
    parts: frozenset[str]
    """Names that the file defines: model, data, truth …"""
    options: frozenset[str]
    """Fields of its Settings class."""
    lists_options: bool = True
    """Whether these are all: a class that is imported, or derived from another one, may have more."""
    default_model: str | None = None
    models: tuple[str, ...] = ()
    """Values of --model, where the file defines `MODELS`; others are those of a library."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of the fields of its Settings that are literals."""
    choices: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Values of the fields of its Settings whose annotation is a Literal."""

    @property
    def own(self) -> frozenset[str]:
        """Fields that only --set can set."""
        return self.options - _SHARED_OPTIONS

    @property
    def is_shipped(self) -> bool:
        """Whether the file is one of tracelab's."""
        return self.path.resolve().parent == COLLECTORS.resolve()

    @property
    def trains(self) -> bool:
        """Whether the workload trains a model; otherwise it does a known amount of work."""
        return "model" in self.parts

    def uses(self, option: str) -> bool:
        """Return whether an option of training, such as batch_size, has an effect."""
        return self.trains or option in self.options


def list_workloads() -> dict[str, Workload]:
    """Return every shipped workload by name."""
    files = (_inspect(path) for path in sorted(COLLECTORS.glob("*.py")))
    return {each.name: each for each in files if "workload" in each.parts}


def find_workload(name: str) -> Workload:
    """Return a shipped workload by name, or one by the path of its file; raises UsageError if there is none."""
    if name.endswith(".py"):
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"{path}: no such file; a workload is a Python file that defines workload(); {_EXAMPLE}")
        workload = _inspect(path.resolve())
        if "workload" not in workload.parts:
            raise UsageError(f"{path}: defines no function workload(); add one that returns the step; {_EXAMPLE}")
        return workload
    shipped = {path.stem: path for path in COLLECTORS.glob("*.py")}
    if name in shipped and "workload" in (workload := _inspect(shipped[name])).parts:
        return workload
    raise UsageError(suggest_name("workload", name, tuple(list_workloads())))


def _inspect(path: Path) -> Workload:
    try:
        tree = ast.parse(path.read_bytes(), path)
    except SyntaxError as error:
        raise UsageError(f"{path}: not valid Python: {error.msg} in line {error.lineno}") from error
    parts = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    parts |= {name.id for node in tree.body if isinstance(node, ast.Assign) for name in _names(node)}
    defaults = {name: each.value for name, each in _settings_fields(tree).items()}
    model = defaults.get("model")
    default = str(model.value) if isinstance(model, ast.Constant) and model.value is not None else None
    about = ast.get_docstring(tree) or ""
    literals = {name: ast.literal_eval(each) for name, each in defaults.items() if isinstance(each, ast.Constant)}
    return Workload(
        path.stem,
        path,
        about,
        frozenset(parts),
        frozenset(defaults),
        _lists_options(tree),
        default,
        _find_models(tree, path),
        literals,
        _settings_choices(tree),
    )


def _find_models(tree: ast.Module, path: Path) -> tuple[str, ...]:
    """Return the keys of the dict in `MODELS = tuple(DICT)`, which the file defines or imports from its neighbor."""
    match _assigned(tree, "MODELS"):
        case ast.Call(func=ast.Name(id="tuple"), args=[ast.Name(id=name)]):
            pass
        case _:
            return ()
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    home = next((node.module for node in imports if name in {alias.name for alias in node.names}), None)
    neighbor = path.with_name(f"{home}.py")
    listed = _assigned(ast.parse(neighbor.read_bytes()) if home and neighbor.is_file() else tree, name)
    keys = listed.keys if isinstance(listed, ast.Dict) else []
    return tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    """Return what is assigned to a name of a module."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return next((node.value for node in assigned if name in {each.id for each in _names(node)}), None)


def check_model_and_settings(workload: Workload, model: str | None, own: Mapping[str, str]) -> None:
    """Raise UsageError for a model, a name or a value in --set that the workload is known not to have."""
    if model is not None and workload.models and model not in workload.models:
        raise UsageError(suggest_name(f"model of {workload.name}", model, workload.models))
    if not workload.lists_options:
        return
    for name, text in own.items():
        if name not in workload.own:
            raise UsageError(suggest_name(f"setting of {workload.name}", name, sorted(workload.own) or ("none",)))
        if workload.defaults.get(name) is not None:
            _parse_value(name, text, workload.defaults[name])


def _lists_options(tree: ast.Module) -> bool:
    """Return whether the file defines a class Settings that is derived from no other one."""
    return any(isinstance(node, ast.ClassDef) and node.name == "Settings" and not node.bases for node in tree.body)


def _settings_fields(tree: ast.Module) -> dict[str, ast.AnnAssign]:
    """Return each field of the class Settings."""
    return {
        each.target.id: each
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Settings"
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    }


def _settings_choices(tree: ast.Module) -> dict[str, tuple[Any, ...]]:
    """Return the values of each field that `Literal[...]` annotates."""
    choices: dict[str, tuple[Any, ...]] = {}
    for name, each in _settings_fields(tree).items():
        match each.annotation:
            case ast.Subscript(value=ast.Name(id="Literal"), slice=ast.Tuple(elts=values)):
                choices[name] = tuple(map(ast.literal_eval, values))
    return choices


def _names(node: ast.Assign) -> list[ast.Name]:
    return [target for target in node.targets if isinstance(target, ast.Name)]


def load_module(workload: Workload) -> Any:  # noqa: ANN401  a module
    """Import the file of a workload; it can import its neighbors and the files of `collectors/`."""
    for folder in (str(COLLECTORS), str(workload.path.parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(workload.path.stem, workload.path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{workload.path}: cannot be imported; run it with python to see why")
    module = importlib.util.module_from_spec(spec)
    sys.modules[workload.path.stem] = module  # for dataclasses, and for processes that load data
    spec.loader.exec_module(module)
    return module


def build_settings(module: Any, common: dict[str, Any], own: dict[str, str]) -> Any:  # noqa: ANN401  a module's dataclass
    """Build the workload's `Settings` from the options of the same names (`common`) and from --set (`own`).

    Raises UsageError for an unknown name or a value of the wrong type.
    """
    if not is_dataclass(getattr(module, "Settings", None)):
        raise UsageError(f"{module.__name__}.py: defines no dataclass Settings; add one, even if empty; {_EXAMPLE}")
    names = {each.name: each for each in fields(module.Settings)}
    free = [name for name in names if name not in common]
    values = {name: common[name] for name in names if common.get(name) is not None}
    for name, text in own.items():
        if name not in free:
            raise UsageError(suggest_name("setting of the workload", name, free or ("none",)))
        values[name] = _parse_value(name, text, names[name].default)
    return module.Settings(**values)


def _parse_value(name: str, text: str, default: Any) -> Any:  # noqa: ANN401  the default's type
    """Parse the text as the type of the default: a number, a text, or numbers separated by commas."""
    try:
        if isinstance(default, tuple):
            return tuple(type(default[0])(part) for part in text.split(","))
        if isinstance(default, bool):
            return {"true": True, "false": False}[text.lower()]
        return type(default)(text)
    except (ValueError, KeyError) as error:
        expected = "true or false" if isinstance(default, bool) else type(default).__name__
        raise UsageError(f"--set {name}={text}: expected {expected}, as in the default {default!r}") from error
