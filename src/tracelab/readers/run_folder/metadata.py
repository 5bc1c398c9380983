"""Map run.json to a row of `runs`: fields without a column become tags."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tracelab import schema
from tracelab.exact_json import json_text
from tracelab.readers.diagnostics import DiagnosticCounts, describe_value, resembles_any
from tracelab.readers.run_folder.coerce import Row, coerce_value, escape_surrogates

_COLUMNS = {column.name: column.type for column in schema.BY_NAME["runs"].own}
_SWEEP = "sweep.json"
_SECTIONS = {"axes": "", "versions": "versions.", "capture": "capture."}
"""Objects of run.json, and the prefixes of their tags."""
_UNTAGGED = ("tracelab", "run", "tags", "command", "expects", "launch", "ranks", *_COLUMNS, *_SECTIONS)
_PRIVATE = ("command", "launch")
_LARGEST_SWEEP_BYTES = 16 << 20
_COLUMN_OF_OPTION = {"parallel": "parallelism", "data": "dataset"}
"""Options whose columns have other names."""
_LOCATION_OPTIONS = ("out", "run", "force", "sweep", "repeat", "tag", "data_root", "weights", "workload", "files")
"""Options about places, and those that have columns or tags of their own."""


def build_run_row(content: Mapping[str, object], folder: Path, diagnostics: DiagnosticCounts) -> Row:
    """Build the row of a run; in a sweep, with the number of runs in its sweep.json."""
    row: Row = {}
    for name, kind in _COLUMNS.items():
        value = content.get(name)
        if name != "tags":
            row[name] = coerce_value(value, kind)
            if value is not None and row[name] is None:
                diagnostics.note("value_unfit", f"{name} {describe_value(value)}")
    count = count_cells(folder) if row.get("sweep") else None
    cell_tags = {} if count is None else {"sweep.cells": str(count)}
    row["tags"] = sorted((_derived_tags(content) | _own_tags(content, diagnostics) | cell_tags).items()) or None
    return row


def missing_files(content: Mapping[str, object], folder: Path) -> list[str]:
    """Return the files that a successful run lists and that are missing from its folder."""
    expects = content.get("expects")
    files = expects.get("files") if isinstance(expects, Mapping) else None
    if content.get("status") != "ok" or not isinstance(files, list):
        return []
    names = [name for name in files if isinstance(name, str) and name == Path(name).name]
    return [name for name in names if not os.path.exists(folder / name)]  # noqa: PTH110 - any name, also a too long one


def count_cells(folder: Path) -> int | None:
    """Return the number of runs in the sweep.json next to the folder; None without one."""
    try:
        content = json.loads(_read_start(folder.parent / _SWEEP))
    except (OSError, ValueError):
        return None
    listed = content.get("cells") if isinstance(content, Mapping) else None
    return len(listed) if isinstance(listed, list) and str(content.get("tracelab")).startswith("sweep/") else None


def _read_start(path: Path) -> bytes:
    """Return a file up to a size that no sweep.json of ours has; one that is cut is not valid."""
    with path.open("rb") as file:
        return file.read(_LARGEST_SWEEP_BYTES)


def _own_tags(content: Mapping[str, object], diagnostics: DiagnosticCounts) -> dict[str, str]:
    tags = content.get("tags")
    if tags is not None and not isinstance(tags, Mapping):
        diagnostics.note("value_unfit", f"tags {describe_value(tags)}")
    return dict(_flatten("", tags)) if isinstance(tags, Mapping) else {}


def _derived_tags(content: Mapping[str, object]) -> dict[str, str]:
    """Return tags for everything without a column: options, versions, capture settings, what is unusual of a rank."""
    tags_by_name: dict[str, str] = {}
    for section, prefix in _SECTIONS.items():
        values = content.get(section)
        if isinstance(values, Mapping):
            tags_by_name |= _flatten(
                prefix, {name: value for name, value in values.items() if _has_no_column(section, name)}
            )
    tags_by_name |= _flatten("", {name: value for name, value in content.items() if not _is_untagged(name)})
    ranks = content.get("ranks")
    for rank, outcome in ranks.items() if isinstance(ranks, Mapping) else ():
        if isinstance(outcome, Mapping):
            is_ok, note = outcome.get("status") == "ok", outcome.get("note")
            unusual = outcome if not is_ok else {} if note is None else {"note": note}
            tags_by_name |= _flatten(f"ranks.{rank}.", unusual)
    return tags_by_name


def _is_untagged(name: str) -> bool:
    """Whether a field becomes no tag; a damaged name still protects a command line and the token of a job."""
    return name in _UNTAGGED or resembles_any(name, _PRIVATE)


def _has_no_column(section: str, name: str) -> bool:
    """Return whether no column holds the field."""
    return not (name in _LOCATION_OPTIONS or _COLUMN_OF_OPTION.get(name, name) in _COLUMNS) or (
        section == "versions" and name not in _COLUMNS
    )


def _format_tag(value: object) -> str:
    try:
        return json.dumps(value)
    except TypeError:  # a Decimal
        return json_text(value)


def _flatten(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Flatten to names and texts; an object's keys are prefixed with its name, empty values are left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(f"{prefix}{name}.", value)
        elif value not in (None, "", []):
            yield (
                escape_surrogates(f"{prefix}{name}"),
                escape_surrogates(value if isinstance(value, str) else _format_tag(value)),
            )
