"""The contents of run.json: settings, machine and outcome of a run; unknown values are null."""

import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelab import __version__
from tracelab.collect import settings as options
from tracelab.collect.kineto_flags import KINETO_FLAGS
from tracelab.collect.machine import list_gpus, read_host, recorded_environment
from tracelab.collect.process.placement import Placement
from tracelab.collect.profiling.schedule import build_schedule
from tracelab.collect.run_folder import RUN_FORMAT
from tracelab.collect.settings import Settings
from tracelab.collect.workloads import Workload

_CLOCKS = (
    "sm_clock_hz",
    "sm_clock_set_hz",
    "sm_clock_max_hz",
    "memory_clock_hz",
    "memory_clock_max_hz",
    "power_limit_w",
)
_CAPTURE_AXES = ("profiler", "window", *KINETO_FLAGS, "wait", "cycles")


def initial_run_json(settings: Settings, workload: Workload, placement: Placement, run: str) -> dict[str, Any]:
    """Return run.json of a run that is about to start, with status not_run."""
    trains = workload.trains
    learning = {name: getattr(settings, name) for name in ("optimizer", "learning_rate", "pretrained")}
    batch_size = settings.batch_size if workload.uses("batch_size") else None
    batches = settings.accumulate * (1 if settings.parallel == "tp" else placement.world_size)
    images = trains and "image_size" in workload.options
    return {
        "tracelab": RUN_FORMAT,
        "run": run,
        "program": " ".join(options.command_words(settings, options.NOT_VARIED + options.CAPTURE_OPTIONS)),
        "workload": workload.name,
        "model": _model(settings, workload) if workload.uses("model") else None,
        "dataset": settings.data if trains else None,
        "image_size": settings.image_size if images else None,
        **{name: value if trains else None for name, value in learning.items()},
        "batch_size": batch_size,
        "global_batch_size": batch_size and batch_size * batches,
        "gpus": placement.gpus,
        "world_size": placement.world_size,
        "parallelism": settings.parallel,
        "precision": settings.precision if workload.uses("precision") else None,
        "data_fraction": settings.data_fraction if trains else None,
        "pin_memory": settings.pin_memory if trains else None,
        "workers": settings.workers if trains else None,
        "epochs": settings.epochs,
        "sweep": settings.sweep,
        "repeat": settings.repeat,
        "profiler": settings.profiler,
        "parameters": None,
        "parameter_bytes": None,
        "flop_per_sample": None,
        "status": "not_run",
        "error": None,
        **describe_machine(),
        "torch_version": None,
        "cuda_version": None,
        "git_commit": find_commit(workload.path),
        "started_at": datetime.now(UTC).isoformat(),
        "tags": dict(settings.tag),
        "axes": options.recorded_options(settings),
        "environment": recorded_environment(os.environ),
        "versions": {"tracelab": __version__},
        "command": ["collect", "train", *options.command_words(settings)],
        "capture": {name: getattr(settings, name) for name in _CAPTURE_AXES} | {"active": settings.active_steps},
        "expects": _expected(settings, placement),
        "launch": {"token": placement.job.token} if placement.job.token else None,
    }


def _model(settings: Settings, workload: Workload) -> str | None:
    return workload.default_model if settings.model is None else options.hide_folders(settings.model)


def final_run_json(description: Mapping[str, Any], outcomes: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """Return run.json with the outcomes of the ranks; the caller adds status and error."""
    first = next((outcome for _, outcome in sorted(outcomes.items()) if "versions" in outcome), {})
    versions, cost = dict(first.get("versions", {})), first.get("model_cost") or {}
    known = {name: cost.get(name) for name in ("parameters", "parameter_bytes", "flop_per_sample")}
    known |= {name: versions.pop(name, None) for name in ("torch_version", "cuda_version")}
    known["gpu"] = versions.pop("gpu", None) or description["gpu"]
    if description["pin_memory"] is not None and "pin_memory" in versions:
        known["pin_memory"] = versions["pin_memory"]
    versions.pop("pin_memory", None)
    notes = {
        name: first[name]
        for name in ("weights", "truth", "classes", "dataset_size", "short_epoch", "fp8_layers")
        if first.get(name) is not None
    }
    if cost.get("problem"):
        notes["complexity"] = cost["problem"]
    environment = first.get("environment", description["environment"])
    files = [file for _, outcome in sorted(outcomes.items()) for file in outcome.get("files", ())]
    return {
        **description,
        **known,
        "environment": environment,
        "ended_at": datetime.now(UTC).isoformat(),
        "versions": description["versions"] | versions,
        "capture": description["capture"] | {"files": files},
        "ranks": {str(rank): _rank(outcome, environment) for rank, outcome in sorted(outcomes.items())},
        **notes,
    }


def _rank(outcome: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the entries of one rank, with the variables that it has differently from the first (None: not at all).

    A NCCL_SOCKET_IFNAME that one node lacks slows all of them.
    """
    kept = (
        "status",
        "error",
        "host",
        "gpus",
        "steps",
        "recorded_steps",
        "windows",
        "kernels",
        "copies",
        "seconds",
        "note",
    )
    own = outcome.get("environment", environment)
    differing = {name: own.get(name) for name in sorted({*own, *environment}) if own.get(name) != environment.get(name)}
    described = {name: outcome[name] for name in kept if outcome.get(name) is not None}
    return described | ({"environment": differing} if differing else {})


def describe_machine() -> dict[str, Any]:
    """Return host, GPU, driver, and the clocks at the start; host_samples holds the clocks during the run."""
    gpus = list_gpus()
    first = gpus[0] if gpus else None
    return {
        "host": read_host().name,
        "gpu": first.name if first else None,
        "driver": first.driver if first else None,
        "clocks": {name: getattr(first, name) for name in _CLOCKS} if first else None,
    }


def _expected(settings: Settings, placement: Placement) -> dict[str, Any]:
    ranks = list(range(placement.world_size))
    files = [f"steps.rank{rank}.jsonl" for rank in ranks]
    if settings.profiler == "kineto" and build_schedule(settings).files == 1:
        files += [f"rank{rank}.pt.trace.json.gz" for rank in ranks]
    return {"ranks": ranks, "files": files}


def find_commit(path: Path) -> str | None:
    """Return the commit of the workload's file; None if no repository tracks it."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(path.parent), *arguments], capture_output=True, check=False, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", path.name) is None:
        return None
    commit = git("rev-parse", "HEAD")
    modified = git("status", "--porcelain", "--", path.name)
    return f"{commit}-dirty" if commit and modified else commit
