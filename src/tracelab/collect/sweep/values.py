"""Convert values of a sweep file to settings and to command-line arguments."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_type_hints

from tracelab.collect.settings import OPTION_METADATA, Settings
from tracelab.errors import UsageError

_HINTS = get_type_hints(Settings)


def parse_option(name: str, value: object) -> Any:  # noqa: ANN401  any value that the option holds
    """Convert a value to the option's type; raises UsageError if it has another."""
    hint = _HINTS[name]
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    text = str(hint)
    if text.startswith("dict") and isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if text.startswith("tuple") and isinstance(value, list):
        return tuple(str(each) for each in value)
    if Path in kinds and isinstance(value, str):
        return Path(value)
    if float in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        return _least(name, float(value))
    if int in kinds and isinstance(value, int) and not isinstance(value, bool):
        return _least(name, value)
    if (bool in kinds and isinstance(value, bool)) or (str in kinds and isinstance(value, str)):
        return value
    raise UsageError(f"{name} = {value!r}: expected {_expected(text)}")


def parse_fixed(texts: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs as TOML values: a number, true or false, otherwise a text."""
    values = {}
    for text in texts:
        name, mark, value = text.partition("=")
        if not name or not mark:
            raise UsageError(f"--fixed {text}: expected NAME=VALUE, such as --fixed data_root=DIR")
        try:
            values[name] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            values[name] = value
    return values


def train_arguments(settings: Settings, options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `collect train` for a run, without unset flags."""
    line = [settings.workload]
    for name, value in options.items():
        spelled = f"--{name.replace('_', '-')}"
        match value:
            case None | False:
                continue
            case True:
                line.append(spelled)
            case dict():
                line += [word for key, each in value.items() for word in (spelled, f"{key}={each}")]
            case tuple():
                line += [word for each in value for word in (spelled, str(each))]
            case _:
                line += [spelled, str(value)]
    return line


def _least(name: str, value: Any) -> Any:  # noqa: ANN401  int or float
    least = OPTION_METADATA[name]["least"] if name in OPTION_METADATA else None
    if least is not None and value < least:
        raise UsageError(f"{name} = {value}: must be at least {least}")
    return value


def _plain(value: object) -> str:
    """Format a value for `--set`."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _expected(hint: str) -> str:
    for mark, description in (
        ("bool", "true or false"),
        ("dict", "a table"),
        ("tuple", "a list of texts"),
        ("Path", "a path"),
    ):
        if mark in hint:
            return description
    return "a whole number" if "int" in hint else "a number" if "float" in hint else "a text in quotes"
