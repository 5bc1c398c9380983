"""Compare the settings of a cell with those of the run in its folder, which has the same name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracelab.collect import settings as options
from tracelab.collect.settings import Settings
from tracelab.errors import UsageError

_NO_MATTER = ("timeout_s",)
"""Options that do not change the result of a finished run; --redo applies a new time limit."""
_LEFT_OPEN = {"device": "auto", "gpus": None}
"""Values that defer the choice to the run; its run.json has the chosen value."""
_SHOWN = 3

Differences = Mapping[str, tuple[Any, Any]]


def compare_settings(settings: Settings, run: Mapping[str, Any]) -> Differences:
    """Return the options that differ, with the value in run.json and the current one.

    Tags count, because they identify results. An option that an older tracelab did not record is not a difference.
    """
    then, now = run.get("axes"), options.recorded_options(settings)
    if not isinstance(then, Mapping):
        return {}
    was = _flat({name: value for name, value in then.items() if name in now})
    is_now = _flat({name: value for name, value in now.items() if name in then})
    both = {name: (was.get(name), is_now.get(name)) for name in {**was, **is_now}}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1] and _counts(name, pair, settings)}


def refuse_other_settings(folder: Path, differences: Mapping[str, Differences]) -> None:
    """Raise UsageError if runs have other settings, with the differences and what to do."""
    if not differences:
        return
    runs: dict[str, list[str]] = {}
    for run, differing in differences.items():
        for name, (was, is_now) in differing.items():
            runs.setdefault(f"{name} was {_text(was)}, is {_text(is_now)}", []).append(run)
    summary = _abbreviate([f"{difference} ({_abbreviate(names, ', ')})" for difference, names in runs.items()], "; ")
    count = f"{len(differences)} cell{'' if len(differences) == 1 else 's'}"
    raise UsageError(
        f"{folder}: {count} ran with other settings: {summary}; choose another --out or name of the sweep, "
        "or rerun them with --force"
    )


def _counts(name: str, pair: tuple[Any, Any], settings: Settings) -> bool:
    if name == "data_root":  # the other data sets are the same in every folder
        return settings.data == "folder"
    return name not in _NO_MATTER and not (name in _LEFT_OPEN and _LEFT_OPEN[name] in pair)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten `set` and `tag` to one entry per key."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {f"{name}.{key}": each for key, each in value.items()} if isinstance(value, Mapping) else {name: value}
    return flat


def _abbreviate(parts: Sequence[str], between: str) -> str:
    more = len(parts) - _SHOWN
    return between.join(parts[:_SHOWN]) + (f"{between}and {more} more" if more > 0 else "")


def _text(value: Any) -> str:  # noqa: ANN401  any value that an option holds
    match value:
        case None | []:
            return "unset"
        case bool():
            return str(value).lower()
        case list():
            return " ".join(map(str, value))
    return str(value)
