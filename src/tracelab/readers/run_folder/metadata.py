"""run.json as a row of `runs`: a column for what has one, a tag for everything else that was written down."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tracelab import schema
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.run_folder.coerce import Row, clean, fit, shown

_COLUMNS = {column.name: column.type for column in schema.BY_NAME["runs"].own}
_SWEEP = "sweep.json"
_SECTIONS = {"axes": "", "versions": "versions.", "capture": "capture."}
"""Objects of run.json, and what the names of their tags begin with."""
_NO_TAGS = ("tracelab", "run", "tags", "command", "expects", "launch", "ranks", *_COLUMNS, *_SECTIONS)
_SAID_BY_COLUMNS = {"parallel": "parallelism", "data": "dataset"}
"""Options whose columns have other names."""
_PLACES = ("out", "run", "force", "sweep", "repeat", "tag", "data_root", "weights", "workload", "files")
"""Options that say where, not what; and those that have columns or tags of their own."""


def row_of(described: Mapping[str, object], folder: Path, diagnostics: DiagnosticCounts) -> Row:
    """The row of one run; of one of a sweep, with the number of runs that the sweep's record beside it lists."""
    row: Row = {}
    for name, kind in _COLUMNS.items():
        value = described.get(name)
        if name != "tags":
            row[name] = fit(value, kind)
            if value is not None and row[name] is None:
                diagnostics.note("value_unfit", f"{name} {shown(value)}")
    count = cells(folder) if row.get("sweep") else None
    counted = {} if count is None else {"sweep.cells": str(count)}
    row["tags"] = sorted((_derived(described) | _own(described, diagnostics) | counted).items()) or None
    return row


def missing(described: Mapping[str, object], folder: Path) -> list[str]:
    """Files that a run which ended well says it wrote, and that do not stand beside run.json."""
    expects = described.get("expects")
    files = expects.get("files") if isinstance(expects, Mapping) else None
    if described.get("status") != "ok" or not isinstance(files, list):
        return []
    names = [name for name in files if isinstance(name, str) and name == Path(name).name]
    return [name for name in names if not (folder / name).exists()]


def cells(folder: Path) -> int | None:
    """How many runs the record of a sweep lists; it stands beside the folders of its runs. None where it does not."""
    try:
        content = json.loads((folder.parent / _SWEEP).read_bytes())
    except (OSError, ValueError):
        return None
    listed = content.get("cells") if isinstance(content, Mapping) else None
    return len(listed) if isinstance(listed, list) and str(content.get("tracelab")).startswith("sweep/") else None


def _own(described: Mapping[str, object], diagnostics: DiagnosticCounts) -> dict[str, str]:
    tags = described.get("tags")
    if tags is not None and not isinstance(tags, Mapping):
        diagnostics.note("value_unfit", f"tags {shown(tags)}")
    return dict(_flat("", tags)) if isinstance(tags, Mapping) else {}


def _derived(described: Mapping[str, object]) -> dict[str, str]:
    """What has no column: options, versions, how it was captured, ranks that did not end well."""
    found: dict[str, str] = {}
    for section, prefix in _SECTIONS.items():
        values = described.get(section)
        if isinstance(values, Mapping):
            found |= _flat(prefix, {name: value for name, value in values.items() if _is_news(section, name)})
    found |= _flat("", {name: value for name, value in described.items() if name not in _NO_TAGS})
    ranks = described.get("ranks")
    for rank, outcome in ranks.items() if isinstance(ranks, Mapping) else ():
        if isinstance(outcome, Mapping) and outcome.get("status") != "ok":
            found |= _flat(f"ranks.{rank}.", outcome)
    return found


def _is_news(section: str, name: str) -> bool:
    """Whether a field says what no column does."""
    return not (name in _PLACES or _SAID_BY_COLUMNS.get(name, name) in _COLUMNS) or (
        section == "versions" and name not in _COLUMNS
    )


def _flat(prefix: str, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Names and values as text; an object's names stand behind its own, an empty value is none."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        elif value not in (None, "", []):
            yield clean(f"{prefix}{name}"), clean(value if isinstance(value, str) else json.dumps(value))
