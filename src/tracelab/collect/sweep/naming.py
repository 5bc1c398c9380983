"""Name runs after the options that vary between cells."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracelab.collect.settings import PATH_OPTIONS
from tracelab.run_names import legal_run_name

_SHORT = {
    "batch_size": "b",
    "gpus": "g",
    "image_size": "px",
    "data_fraction": "d",
    "learning_rate": "lr",
    "workers": "w",
    "epochs": "e",
    "steps": "s",
    "active": "a",
    "pin_memory": "pinned",
}
"""Prefix of the values of these options; others use the option's own name."""
_LONGEST = 90
"""Maximum length, with room for the repeat."""


def name_runs(sweep: str, cells: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a unique name for every cell."""
    spelled = [legal_run_name("-".join([sweep, *filter(None, map(_part, cell, cell.values()))])) for cell in cells]
    counts = Counter(name.lower() for name in spelled)  # some file systems ignore case
    return [
        name if len(name) <= _LONGEST and counts[name.lower()] == 1 else f"{name[: _LONGEST - 9]}-{_digest(cell)}"
        for name, cell in zip(spelled, cells, strict=True)
    ]


def _part(option: str, value: Any) -> str:  # noqa: ANN401  any value that the option holds
    mark = _SHORT.get(option, option.replace("_", ""))
    match value:
        case None:
            return ""
        case bool():
            return mark if value else f"no-{mark}"
        case int():
            return f"{mark}{value}"
        case float():
            return f"{mark}{value:g}"
        case dict():
            return "-".join(f"{key}{each}" for key, each in value.items())
        case tuple():
            return "-".join(map(str, value))
    text = Path(value).stem if option in PATH_OPTIONS else str(value)
    return text if option in ("model", "workload", "parallel", "precision", "optimizer", "data") else f"{mark}-{text}"


def _digest(cell: Mapping[str, Any]) -> str:
    return hashlib.sha256(repr(sorted(cell.items())).encode()).hexdigest()[:8]
