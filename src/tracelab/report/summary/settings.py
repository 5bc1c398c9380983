"""Recognize runs of one program with the same settings, whose step times should agree."""

import re
from collections.abc import Hashable, Mapping
from typing import Any

import duckdb

LEAST_COMPARABLE = 5
"""Of fewer runs none is unlike the others."""
_SETTINGS = ("program", "precision", "optimizer", "parallelism", "workers", "profiler")
"""Facts of runs whose step times should agree, beside those that a comparison requires."""
_NAMED_SETTINGS = ("program", "workload", "model")
"""Of runs that record none of these, names that differ in digits alone mean the same program."""


def fetch_settings(con: duckdb.DuckDBPyConnection) -> dict[str, Hashable]:
    """Return by run what it has in common with the runs whose step times should agree with its own."""
    from tracelab.compare import fetch  # its polars takes as long to import as some runs to summarize

    return {run: settings_of(run, facts) for run, facts in fetch.Source(con).facts().items()}


def settings_of(run: str, facts: Mapping[str, Any]) -> Hashable:
    """Return what runs have in common whose step times should agree, from the facts of a comparison."""
    from tracelab.compare.comparability import REQUIRED

    stem = "" if any(facts[name] is not None for name in _NAMED_SETTINGS) else re.sub(r"\d+", "0", run)
    return (stem, *(facts[name] for name in (*REQUIRED, *_SETTINGS)))
