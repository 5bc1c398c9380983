"""Parse a sweep file (fixed settings, axes, exceptions) and expand it into cells."""

import itertools
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tracelab.collect import workloads
from tracelab.collect.option_effects import check_effects
from tracelab.collect.settings import OPTION_METADATA, Settings, validate_settings
from tracelab.collect.sweep.naming import name_runs
from tracelab.collect.sweep.values import parse_option
from tracelab.errors import TracelabError, UsageError, suggest_name
from tracelab.run_names import check_run_name

Options = dict[str, Any]

_SWEEPS_OWN = ("out", "run", "force", "sweep", "repeat")
"""Options that the sweep sets itself."""
OPTIONS = ("workload", *(name for name in OPTION_METADATA if name not in _SWEEPS_OWN))
_OF_A_MATRIX = ("workload", "fixed", "axes", "exclude", "include", "override", "repeats", "timeout_s")
_OF_A_FILE = ("name", "about", "matrix", *_OF_A_MATRIX)
_MOST_CELLS = 10_000


@dataclass(frozen=True)
class Cell:
    """One run of a sweep."""

    settings: Settings
    varied: Mapping[str, Any]
    """Values of the options that differ between cells."""

    @property
    def run(self) -> str:
        """Name of the run."""
        return str(self.settings.run)


@dataclass(frozen=True)
class Sweep:
    """All cells of a sweep, in run order."""

    name: str
    about: str
    cells: tuple[Cell, ...]
    varied: tuple[str, ...]
    """Options that differ between cells, in file order."""
    idle: tuple[str, ...] = ()
    """Warnings about entries of the file without effect."""


def load_sweep(path: Path, out: Path, repeats: int | None = None, fixed: Mapping[str, Any] | None = None) -> Sweep:
    """Load the sweep of a file; `fixed` overrides its settings. Raises UsageError for an invalid file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = error.strerror or error
        raise UsageError(f"{path}: {problem}; a sweep is a TOML file, see docs/guides/sweeps.md") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    try:
        return expand_matrix({**content, "name": content.get("name", path.stem)}, out, repeats, fixed)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error


def expand_matrix(
    content: Mapping[str, Any], out: Path, repeats: int | None = None, fixed: Mapping[str, Any] | None = None
) -> Sweep:
    """Expand the content of a sweep file. Cells with identical options become one."""
    _check_names("key", content, _OF_A_FILE)
    name = check_run_name(str(content["name"]))
    shared = {key: content[key] for key in _OF_A_MATRIX if key in content}
    planned: dict[str, tuple[Options, int]] = {}
    fitted: dict[str, bool] = {}
    for matrix in _tables(content, "matrix") or [{}]:
        _check_names("key of [[matrix]]", matrix, _OF_A_MATRIX)
        merged = _merged(shared, matrix)
        times = repeats if repeats is not None else merged.get("repeats", 1)
        if not isinstance(times, int) or times < 1:
            raise UsageError(f"repeats = {times!r}: expected a whole number from 1 on")
        for options in _cells(merged, _options(fixed or {}), fitted):
            key = repr(sorted(options.items()))
            planned[key] = (options, max(times, planned[key][1] if key in planned else 0))
    _check_own(options for options, _ in planned.values())
    idle = tuple(f"[[exclude]] {pattern} matches no cell; remove it" for pattern, fits in fitted.items() if not fits)
    return replace(_build_sweep(name, str(content.get("about", "")), list(planned.values()), out), idle=idle)


def _build_sweep(name: str, about: str, planned: Sequence[tuple[Options, int]], out: Path) -> Sweep:
    order = dict.fromkeys(key for options, _ in planned for key in options)
    varied = tuple(key for key in order if len({repr(options.get(key)) for options, _ in planned}) > 1)
    picked = [{key: options[key] for key in varied if key in options} for options, _ in planned]
    definitions = {each: workloads.find_workload(each) for each in {options["workload"] for options, _ in planned}}
    cells = []
    for (options, times), values, base in zip(planned, picked, name_runs(name, picked), strict=True):
        for repeat in range(times):
            run = f"{base}-r{repeat}" if repeat else base  # so that more repeats, added later, rename nothing
            settings = Settings(**options, sweep=name, repeat=repeat, run=run, out=out / name)
            try:
                check_effects(settings, definitions[settings.workload])
                cells.append(Cell(validate_settings(settings), values))
            except UsageError as error:
                raise UsageError(f"cell {run}: {error}; remove the cell with [[exclude]]") from error
    return Sweep(name, about, tuple(cells), varied)


def _merged(shared: Mapping[str, Any], matrix: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the top level of the file into a matrix, which overrides it."""
    merged = {**shared, **matrix}
    for key in ("fixed", "axes"):
        merged[key] = {**_table(shared, key), **_table(matrix, key)}
    for key in ("exclude", "override"):
        merged[key] = _tables(shared, key) + (_tables(matrix, key) if matrix is not shared else [])
    return merged


def _cells(matrix: Mapping[str, Any], fixed_options: Options, fitted: dict[str, bool]) -> Iterator[Options]:
    """Yield the options of every cell; `fixed_options` override, `fitted` notes which excludes matched."""
    fixed = {"workload": matrix["workload"]} if "workload" in matrix else {}
    if "timeout_s" in matrix:
        fixed["timeout_s"] = matrix["timeout_s"]
    fixed |= _table(matrix, "fixed")
    axes, included = _axes(_table(matrix, "axes")), _tables(matrix, "include")
    overrides = _tables(matrix, "override")
    excluded = {_format_options(each): _options(each) for each in _tables(matrix, "exclude")}
    fitted.update({pattern: fitted.get(pattern, False) for pattern in excluded})
    count = 1
    for values in axes:
        count *= len(values)
    if count > _MOST_CELLS:
        raise UsageError(f"{count:,} cells; a sweep has at most {_MOST_CELLS:,}, remove axes or values")
    multiplied = itertools.product(*axes) if axes or not included else ()
    for chosen in (*multiplied, *((each,) for each in included)):
        options = dict(fixed)
        for values in chosen:
            options |= values
        for each in overrides:
            _check_names("key of [[override]]", each, ("where", "set"))
            if _fits(_options(options), _options(_table(each, "where"))):
                options |= _table(each, "set")
        cell = _with(_options(options), fixed_options)
        if "workload" not in cell:
            raise UsageError("no workload; add one, such as workload = 'image_classification'")
        fitting = [pattern for pattern, each in excluded.items() if _fits(cell, each)]
        fitted.update(dict.fromkeys(fitting, True))
        if not fitting:
            yield cell


def _check_own(cells: Iterable[Options]) -> None:
    """Refuse settings that a workload does not have: every cell would fail."""
    for workload, own in sorted({(cell["workload"], tuple(cell["set"])) for cell in cells if cell.get("set")}):
        definition = workloads.find_workload(workload)
        _check_names(f"setting of {definition.name}", own, sorted(definition.own) or ["none"])


def _format_options(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value!r}" for name, value in options.items())


def _axes(axes: Mapping[str, Any]) -> list[list[Options]]:
    """Return each axis as a list of options; an axis that is not an option has tables of several options as values."""
    parsed = []
    for name, values in axes.items():
        if not isinstance(values, list) or not values:
            raise UsageError(f"axis {name} = {values!r}: expected a list with at least one value")
        if _option_name(name) in OPTIONS:
            parsed.append([{name: value} for value in values])
        elif all(isinstance(value, dict) for value in values):
            parsed.append(values)
        else:
            raise UsageError(suggest_name("option", name, OPTIONS))
    return parsed


def _options(values: Mapping[str, Any]) -> Options:
    """Parse option values to the types of Settings; set.width = 8 is short for set = { width = 8 }."""
    options: Options = {}
    for name, value in values.items():
        first = _option_name(name)
        if first not in OPTIONS:
            raise UsageError(suggest_name("option", name, OPTIONS))
        if first != name:
            options[first] = {**options.get(first, {}), name.removeprefix(f"{first}."): str(value)}
        else:
            parsed = parse_option(name, value)
            options[name] = {**options.get(name, {}), **parsed} if isinstance(parsed, dict) else parsed
    return options


def _with(options: Options, more: Options) -> Options:
    """Return options overridden by others; `set` and `tag` merge by key."""
    joined = {name: {**options.get(name, {}), **value} for name, value in more.items() if isinstance(value, dict)}
    return {**options, **more, **joined}


def _option_name(name: str) -> str:
    first, dot, _ = name.partition(".")
    return first if dot and first in ("set", "tag") else name


def _fits(options: Options, pattern: Options) -> bool:
    """Return whether a cell has all values of a pattern; `set` and `tag` match by key."""
    return all(
        options.get(name, {}).items() >= value.items() if isinstance(value, dict) else options.get(name) == value
        for name, value in pattern.items()
    )


def _check_names(kind: str, names: Iterable[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise UsageError(suggest_name(kind, name, allowed))


def _table(values: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = values.get(key, {})
    if not isinstance(value, dict):
        raise UsageError(f"{key} must be a table; write [{key}]")
    return dict(value)


def _tables(values: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    value = values.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise UsageError(f"{key} must be a list of tables; write [[{key}]]")
    return list(value)


def find_sweep_file(folder: Path, name: str) -> Path:
    """Return a sweep file by its path, or a shipped one by its name."""
    path = Path(name)
    if path.is_file() or path.suffix == ".toml":
        return path
    ours = {each.stem: each for each in sorted(folder.glob("*.toml"))}
    if not ours:
        raise TracelabError(f"{folder}: contains no sweep files; reinstall tracelab")
    if name not in ours:
        raise UsageError(suggest_name("sweep", name, tuple(ours)))
    return ours[name]
