"""`collect train`: the parent process of a run, which starts the ranks, supervises them and writes run.json."""

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tracelab.collect import disk_errors, status
from tracelab.collect import settings as options
from tracelab.collect.machine import Sampler
from tracelab.collect.nvidia import CaptureError
from tracelab.collect.option_effects import check_effects, describe_disabled
from tracelab.collect.process import rendezvous
from tracelab.collect.process.launch import (
    Interrupted,
    ProcessExit,
    Worker,
    count_oom_kills,
    defer_signals,
    launch,
    raise_on_signals,
    shut_down,
    supervise,
)
from tracelab.collect.process.placement import Placement, place_ranks
from tracelab.collect.profiling.external import ExternalProfiler, find_external_profiler
from tracelab.collect.run_end import Result, finish_run, keep_log, scratch_folder
from tracelab.collect.run_folder import claim_run_folder, timed_name
from tracelab.collect.run_json import initial_run_json
from tracelab.collect.settings import Settings
from tracelab.collect.training.worker import OUTCOME, PARTIAL_OUTCOME
from tracelab.collect.workloads import Workload, find_workload
from tracelab.run_names import legal_run_name


def train(settings: Settings, report: Callable[[str], None] = lambda _: None) -> Result:
    """Run one workload and write its run folder, also for a run that fails.

    Raises TracelabError if the run cannot start.
    """
    workload = find_workload(settings.workload)
    check_effects(settings, workload)
    placement = place_ranks(settings)
    folder = placement.settings.out / (placement.settings.run or _name(placement, workload))
    profiler = _find_profiler(placement, folder)
    report(
        "; ".join(filter(None, (f"{folder}: {_summary(placement)}", describe_disabled(placement.settings, workload))))
    )
    with contextlib.ExitStack() as held:
        is_first = placement.ranks[0] == 0
        if is_first:
            held.enter_context(claim_run_folder(folder, force=placement.settings.force, report=report))
            description = rendezvous.gather_ranks(
                folder, placement, initial_run_json(placement.settings, workload, placement, folder.name)
            )
        else:
            description = rendezvous.join_rank_zero(folder, placement)
        signals = held.enter_context(defer_signals())
        if isinstance(profiler, CaptureError):
            outcomes, interrupted = {placement.ranks[0]: {"status": profiler.status, "error": str(profiler)}}, None
        else:
            description["capture"] |= profiler.capture_record()
            outcomes, interrupted = _run(placement, profiler, folder, signals)
        if is_first:
            outcomes |= rendezvous.collect_outcomes(folder, placement, signals)
            return finish_run(folder, description, outcomes, interrupted)
        rank, own = next(iter(outcomes.items()))
        rendezvous.write_outcome(folder, rank, own)
        return Result(folder, own["status"], own.get("error"), interrupted)


def _find_profiler(placement: Placement, folder: Path) -> ExternalProfiler | CaptureError:
    """Return the profiler, or why it cannot run: that is the result of the run, which a sweep's table shows."""
    try:
        return find_external_profiler(placement, folder)
    except CaptureError as error:
        return error


def _name(placement: Placement, workload: Workload) -> str:
    """Return a run name built from the settings; ranks of one launcher derive the same name independently."""
    settings = placement.settings
    ranks = f"{settings.parallel}{settings.gpus or placement.world_size}" if settings.parallel != "none" else ""
    size = f"b{settings.batch_size}" if workload.uses("batch_size") else ""
    profiler = settings.profiler if settings.profiler != "none" else ""
    parts = [workload.name, settings.model or "", size, ranks, settings.precision, profiler]
    start = "-".join(filter(None, parts))
    token = placement.job.token[:8]
    return legal_run_name(f"{start}-{token}") if token else timed_name(settings.out, start)


def _summary(placement: Placement) -> str:
    devices = f"{placement.gpus} GPUs" if placement.gpus > 1 else "GPU" if placement.gpus else "CPU"
    ranks = f", {placement.world_size} processes" if placement.world_size > 1 else ""
    return f"{' '.join(options.command_words(placement.settings, options.NOT_VARIED))} ({devices}{ranks})"


def _run(
    placement: Placement, profiler: ExternalProfiler, folder: Path, signals: list[Interrupted]
) -> tuple[dict[int, dict[str, Any]], int | None]:
    """Start the ranks of this node, wait for them, and return their outcomes and the interrupting signal."""
    killed_before, interrupted, not_started = count_oom_kills(), None, ""
    with scratch_folder() as scratch:
        workers: list[Worker] = []
        ends: list[ProcessExit] = []
        begun_s = time.monotonic()
        try:
            with raise_on_signals(), _sample_node(placement, folder):
                if signals:
                    raise signals[0]
                for rank in placement.ranks:
                    workers.append(_start_rank(placement, profiler, rank, folder, scratch))  # noqa: PERF401  kept if a later one fails
                ends = supervise(workers, placement.settings.timeout_s)
        except Interrupted as signal:
            interrupted = signal.number
            signals.append(signal)
            shut_down(workers)
            not_started = f"{signal.cause} before it started"
            ends = [
                ProcessExit(worker.rank, worker.process.returncode, "interrupted", "", signal.cause)
                for worker in workers
            ]
        except OSError as error:  # a full disk: not every rank started
            shut_down(workers)
            not_started = status.status_of_error(error, disk_errors.WritePaths(folder, scratch))[1]
        seconds = round(time.monotonic() - begun_s, 3)
        killed = count_oom_kills() > killed_before
        outcomes: dict[int, dict[str, Any]] = {}
        for each in ends:
            own = scratch / str(each.rank)
            final, partial = _read_outcome(own / OUTCOME), _read_outcome(own / PARTIAL_OUTCOME)
            outcome = status.rank_outcome(each, final, partial, killed_for_memory=killed)
            if (
                not final
                and outcome["status"] == "failed"
                and (full := disk_errors.describe_full_scratch(disk_errors.WritePaths(folder, own)))
            ):
                outcome["error"] = full
            outcome |= {"seconds": seconds} | profiler.export_reports(each, outcome)
            outcomes[each.rank] = outcome | {"error": status.hide_home(outcome.get("error"))}
        _keep_logs(outcomes, scratch, folder)
    if not outcomes:
        outcomes = {placement.ranks[0]: {"status": "failed", "error": not_started}}
    return outcomes, interrupted


@contextlib.contextmanager
def _sample_node(placement: Placement, folder: Path) -> Iterator[None]:
    """Sample GPUs and host of this node from this process, which is idle and slows no rank.

    Where each task of a node sees its own GPU alone, each samples it, as the GPU of its local rank.
    """
    job = placement.job
    own_gpu = placement.gpus_visible == 1 < job.local_world_size
    if not placement.settings.sample_s or (job.local_rank != 0 and not own_gpu):
        yield
        return
    part = f".{job.local_rank}" if job.local_rank else ""
    path = folder / f"host_samples.{job.host_index}{part}.jsonl"
    first = job.local_rank if own_gpu else 0
    with Sampler(path, placement.settings.sample_s, pid=os.getpid(), first_device=first, with_host=job.local_rank == 0):
        yield


def _start_rank(placement: Placement, profiler: ExternalProfiler, rank: int, folder: Path, scratch: Path) -> Worker:
    job, own = placement.rank_job(rank), scratch / str(rank)
    own.mkdir()
    init_method = "env://" if job.launcher else f"file://{scratch / 'rendezvous'}"
    task = {
        "settings": options.json_values(placement.settings),
        "job": asdict(job),
        "folder": str(folder.absolute()),
        "init_method": init_method,
    }
    (own / "task.json").write_text(json.dumps(task))
    environment = _environment(placement, dict(job.rendezvous_env)) | profiler.environment()
    return launch(profiler.command(rank, own), environment, rank, own)


def _environment(placement: Placement, rendezvous_env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a rank: this process's, the checkout to import from, its share of the cores."""
    here = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here, **rendezvous_env}
    if placement.job.local_world_size > 1:
        share = max(1, (os.cpu_count() or 1) // placement.job.local_world_size)
        environment.setdefault("OMP_NUM_THREADS", str(share))
    if placement.settings.device == "cpu" and placement.job.launcher is None and Path("/sys/class/net/lo").exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host name of a laptop may not resolve
    return environment


def _read_outcome(path: Path) -> dict[str, Any]:
    """Read an outcome that a rank wrote; {} if it wrote none."""
    try:
        outcome: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return outcome


def _keep_logs(outcomes: Mapping[int, Mapping[str, Any]], scratch: Path, folder: Path) -> None:
    """Keep the output of ranks that failed."""
    for rank, outcome in outcomes.items():
        if outcome["status"] != "ok":
            keep_log(scratch / str(rank) / "log", folder / f"rank{rank}.log")
