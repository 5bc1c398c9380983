"""Read the state of each cell from its run folder, and write the plan of a sweep before its first run."""

import contextlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelab.collect import settings as options
from tracelab.collect.folder_lock import LOCK
from tracelab.collect.run_folder import RUN_FORMAT, RUN_JSON, read_run_json, write_json
from tracelab.collect.settings import Settings
from tracelab.collect.sweep.matrix import Cell, Sweep
from tracelab.collect.sweep.settings_diff import Differences, compare_settings
from tracelab.collect.workloads import Workload, find_workload
from tracelab.enumerations import MULTI_PROCESS_PARALLELISMS, RUN_STATUSES
from tracelab.errors import TracelabError

SWEEP_JSON = "sweep.json"
NOT_RUN = "not_run"
RUNNING = "running"
OTHER_SETTINGS = "other_settings"


def run_folder_of(cell: Cell) -> Path:
    """Return the run folder of a cell."""
    return cell.settings.out / cell.run


def cell_state(cell: Cell) -> str:
    """Return the status of a cell's run; not_run without a finished run, running while it is locked.

    A finished run with other settings is not a run of this cell: other_settings.
    """
    folder = run_folder_of(cell)
    if is_running(folder):
        return RUNNING
    run = read_run_json(folder) or {}
    status = run.get("status")
    if not isinstance(status, str) or status not in RUN_STATUSES or status == NOT_RUN:
        return NOT_RUN
    return OTHER_SETTINGS if compare_settings(cell.settings, run) else status


def find_other_settings(cells: Iterable[Cell], states: Mapping[str, str]) -> dict[str, Differences]:
    """Return the runs whose settings differ from those of their cells now, finished or running."""
    begun = [cell for cell in cells if states[cell.run] in (OTHER_SETTINGS, RUNNING)]
    differences = {
        cell.run: compare_settings(cell.settings, read_run_json(run_folder_of(cell)) or {}) for cell in begun
    }
    return {run: differing for run, differing in differences.items() if differing}


def is_running(folder: Path) -> bool:
    """Return whether a process, here or on another node, has locked the folder."""
    import fcntl

    try:
        with (folder / LOCK).open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no run has started, or the file system has no locks
        return False
    return False


def write_planned_runs(sweep: Sweep, file: Path) -> None:
    """Write the list of cells and a run.json for each, so that cells that never run are visible too."""
    first = sweep.cells[0]
    try:
        first.settings.out.mkdir(parents=True, exist_ok=True)
        write_json(first.settings.out / SWEEP_JSON, _record(sweep, file))
        for cell in sweep.cells:
            run_json = read_run_json(run_folder_of(cell))
            stale = run_json is not None and cell_state(cell) == NOT_RUN and compare_settings(cell.settings, run_json)
            if stale or not (run_folder_of(cell) / RUN_JSON).exists():
                run_folder_of(cell).mkdir(exist_ok=True)
                write_json(run_folder_of(cell) / RUN_JSON, planned_run_json(cell.settings))
    except OSError as error:
        raise TracelabError(
            f"{first.settings.out}: cannot be written: {error.strerror}; choose another --out"
        ) from error


def mark_not_run(cell: Cell) -> None:
    """Mark a cell as not run; its files are deleted when it runs again."""
    with contextlib.suppress(OSError):
        write_json(run_folder_of(cell) / RUN_JSON, planned_run_json(cell.settings))


def mark_failed(cell: Cell, status: str, error: str) -> None:
    """Write the status of a cell whose run could not write it."""
    run_json = read_run_json(run_folder_of(cell)) or planned_run_json(cell.settings)
    run_folder_of(cell).mkdir(parents=True, exist_ok=True)
    write_json(run_folder_of(cell) / RUN_JSON, run_json | {"status": status, "error": error})


def read_error(cell: Cell) -> str | None:
    """Return the error in run.json."""
    error = (read_run_json(run_folder_of(cell)) or {}).get("error")
    return error if isinstance(error, str) else None


def planned_run_json(settings: Settings) -> dict[str, Any]:
    """Return run.json of a planned run: its settings, without the machine."""
    workload = find_workload(settings.workload)
    trains = workload.trains
    learning = ("model", "image_size", "batch_size", "precision", "optimizer", "learning_rate", "data_fraction")
    names = (*learning, "pin_memory", "workers")
    requested = {name: getattr(settings, name) if workload.uses(name) else None for name in names}
    return {
        "tracelab": RUN_FORMAT,
        "run": settings.run,
        "program": " ".join(options.command_words(settings, options.NOT_VARIED + options.CAPTURE_OPTIONS)),
        "workload": workload.name,
        **requested,
        "dataset": settings.data if trains else None,
        "pretrained": settings.pretrained if trains else None,
        **_size(settings, workload),
        "parallelism": settings.parallel,
        "epochs": settings.epochs,
        "sweep": settings.sweep,
        "repeat": settings.repeat,
        "profiler": settings.profiler,
        "status": NOT_RUN,
        "error": None,
        "started_at": None,
        "tags": dict(settings.tag),
        "axes": options.recorded_options(settings),
    }


def _size(settings: Settings, workload: Workload) -> dict[str, int | None]:
    """Return the size of the job as far as the options determine it."""
    requested = settings.gpus if settings.parallel != "none" else settings.gpus or 1
    sized = workload.uses("batch_size")
    processes = requested if settings.parallel in MULTI_PROCESS_PARALLELISMS else 1
    batches = settings.accumulate * (1 if settings.parallel == "tp" else processes or 0)
    return {
        "gpus": {"cuda": requested, "mps": 1, "cpu": 0}.get(settings.device),
        "world_size": processes,
        "global_batch_size": settings.batch_size * batches if sized and batches else None,
    }


def _record(sweep: Sweep, file: Path) -> dict[str, Any]:
    return {
        "tracelab": "sweep/1",
        "sweep": sweep.name,
        "about": sweep.about,
        "file": file.name,
        "begun_at": datetime.now(UTC).isoformat(),
        "varied": list(sweep.varied),
        "cells": list(_listed(sweep.cells)),
    }


def _listed(cells: Iterable[Cell]) -> Iterable[dict[str, Any]]:
    for cell in cells:
        requested = options.recorded_options(cell.settings)
        yield {
            "run": cell.run,
            "repeat": cell.settings.repeat,
            "options": {name: requested[name] for name in cell.varied},
        }
