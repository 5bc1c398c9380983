"""The contents of run.json for a program: unknown values are null, as for a workload."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelab import __version__
from tracelab.collect.machine import recorded_environment
from tracelab.collect.program.outcomes import Record, count_gpus
from tracelab.collect.program.settings import ProgramSettings, shown_words
from tracelab.collect.run_folder import RUN_FORMAT
from tracelab.collect.run_json import describe_machine, find_commit


def describe_program(settings: ProgramSettings, profiler: str, run: str) -> dict[str, Any]:
    """Return run.json of a program that is about to start, with status not_run."""
    kineto = {name: value for name, value in asdict(settings.kineto).items() if name != "device"}
    return {
        "tracelab": RUN_FORMAT,
        "run": run,
        "program": settings.program,
        "gpus": None,
        "world_size": None,
        "pin_memory": None,
        "profiler": profiler,
        "status": "not_run",
        "error": None,
        **describe_machine(),
        "torch_version": None,
        "cuda_version": None,
        "git_commit": find_commit(Path(settings.script)) if settings.script else None,
        "started_at": datetime.now(UTC).isoformat(),
        "tags": dict(settings.tag),
        "axes": {},
        "environment": recorded_environment(os.environ),
        "versions": {"tracelab": __version__},
        "command": shown_words(settings.command),
        "capture": {"profiler": profiler, "window": settings.window.describe(), **settings.window.as_json(), **kineto},
        "expects": {"ranks": [], "files": []},
        "launch": None,
    }


def describe_end(chosen: Mapping[int, Record], files: list[str]) -> dict[str, Any]:
    """Return what is known of the ranks only when the program has ended."""
    return {
        "gpus": count_gpus(list(chosen.values())),
        "world_size": max((int(record.get("world_size", 1)) for record in chosen.values()), default=None),
        "expects": {"ranks": list(chosen), "files": files},
    }
