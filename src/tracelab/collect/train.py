"""`collect train`: the parent of a run. It starts the ranks, watches them, and has the last word in run.json."""

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracelab.collect import disk_errors, status
from tracelab.collect import settings as options
from tracelab.collect.machine import Sampler
from tracelab.collect.nvidia import CaptureError
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
from tracelab.collect.run_folder import RUN_JSON, claim_run_folder, release_reserve, write_json
from tracelab.collect.run_json import final_run_json, initial_run_json
from tracelab.collect.settings import Settings
from tracelab.collect.training.worker import OUTCOME, PARTIAL_OUTCOME
from tracelab.collect.workloads import Workload, find_workload
from tracelab.errors import TracelabError
from tracelab.run_names import legal_run_name


@dataclass(frozen=True)
class Result:
    """What became of a run."""

    folder: Path
    status: str
    error: str | None
    interrupted: int | None = None
    """The signal that ended it, if one did."""


def train(settings: Settings, tell: Callable[[str], None] = lambda _: None) -> Result:
    """Run one workload, and leave its run folder, whatever happens on the way.

    Raises TracelabError where it cannot begin.
    """
    workload = find_workload(settings.workload)
    decided = place_ranks(settings)
    folder = decided.settings.out / (decided.settings.run or _name(decided, workload))
    watched = _watched(decided, folder)
    tell(f"{folder}: {_summary(decided)}")
    with contextlib.ExitStack() as held:
        first = decided.ranks[0] == 0
        if first:
            held.enter_context(claim_run_folder(folder, force=decided.settings.force))
            description = rendezvous.gather_ranks(
                folder, decided, initial_run_json(decided.settings, workload, decided, folder.name)
            )
        else:
            description = rendezvous.join_rank_zero(folder, decided)
        came = held.enter_context(defer_signals())
        if isinstance(watched, CaptureError):
            outcomes, interrupted = {decided.ranks[0]: {"status": watched.status, "error": str(watched)}}, None
        else:
            description["capture"] |= watched.capture_record()
            outcomes, interrupted = _run(decided, watched, folder, came)
        if first:
            outcomes |= rendezvous.collect_outcomes(folder, decided, came)
            return _concluded(folder, description, outcomes, interrupted)
        rank, own = next(iter(outcomes.items()))
        rendezvous.write_outcome(folder, rank, own)
        return Result(folder, own["status"], own.get("error"), interrupted)


def _watched(decided: Placement, folder: Path) -> ExternalProfiler | CaptureError:
    """The profiler, or why it cannot do its part: that is a result, for a table must show that this cannot be."""
    try:
        return find_external_profiler(decided, folder)
    except CaptureError as error:
        return error


def _name(decided: Placement, workload: Workload) -> str:
    """A name that says what is varied; ranks that a launcher started agree on it without a word."""
    settings = decided.settings
    ranks = f"{settings.parallel}{settings.gpus or decided.world_size}" if settings.parallel != "none" else ""
    size = f"b{settings.batch_size}" if workload.trains else ""
    watched = settings.profiler if settings.profiler != "none" else ""
    parts = [workload.name, settings.model or "", size, ranks, settings.precision, watched]
    when = decided.job.token[:8] or datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return legal_run_name("-".join([*filter(None, parts), when]))


def _summary(decided: Placement) -> str:
    where = f"{decided.gpus} GPUs" if decided.gpus > 1 else "GPU" if decided.gpus else "processor"
    ranks = f", {decided.world_size} processes" if decided.world_size > 1 else ""
    return f"{' '.join(options.command_words(decided.settings, options.NOT_VARIED))} ({where}{ranks})"


def _run(
    decided: Placement, watched: ExternalProfiler, folder: Path, came: list[Interrupted]
) -> tuple[dict[int, dict[str, Any]], int | None]:
    """Start the ranks of this node, and learn what became of each."""
    killed_before, interrupted, never = count_oom_kills(), None, "interrupted before it began"
    with _scratch() as scratch:
        workers: list[Worker] = []
        ends: list[ProcessExit] = []
        begun_s = time.monotonic()
        try:
            with raise_on_signals(), _sampled(decided, folder):
                if came:
                    raise came[0]
                for rank in decided.ranks:
                    workers.append(_started(decided, watched, rank, folder, scratch))  # noqa: PERF401  each as it is made
                ends = supervise(workers, decided.settings.timeout_s)
        except Interrupted as signal:
            interrupted = signal.number
            came.append(signal)
            shut_down(workers)
            ends = [ProcessExit(worker.rank, worker.process.returncode, "interrupted", "") for worker in workers]
        except OSError as error:  # a full disk: nothing, or not every rank, has begun
            shut_down(workers)
            never = status.status_of_error(error, disk_errors.WritePaths(folder, scratch))[1]
        seconds = round(time.monotonic() - begun_s, 3)
        killed = count_oom_kills() > killed_before
        outcomes: dict[int, dict[str, Any]] = {}
        for each in ends:
            own = scratch / str(each.rank)
            answer = _said(own / OUTCOME)
            outcome = status.rank_outcome(each, answer, _said(own / PARTIAL_OUTCOME), killed_for_memory=killed)
            if (
                not answer
                and outcome["status"] == "failed"
                and (full := disk_errors.describe_full_scratch(disk_errors.WritePaths(folder, own)))
            ):
                outcome["error"] = full
            outcome |= {"seconds": seconds} | watched.export_reports(each, outcome)
            outcomes[each.rank] = outcome | {"error": status.hide_home(outcome.get("error"))}
        _keep_logs(outcomes, scratch, folder)
    if not outcomes:
        outcomes = {decided.ranks[0]: {"status": "failed", "error": never}}
    return outcomes, interrupted


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder of this node's own; a full disk must not keep it from going."""
    folder = Path(tempfile.mkdtemp(prefix="tracelab-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _sampled(decided: Placement, folder: Path) -> Iterator[None]:
    """Samples of this node, taken by this process: it has nothing else to do, and disturbs no rank."""
    if not decided.settings.sample_s or decided.job.local_rank != 0:
        yield
        return
    path = folder / f"host_samples.{decided.job.host_index}.jsonl"
    with Sampler(path, decided.settings.sample_s, pid=os.getpid()):
        yield


def _started(decided: Placement, watched: ExternalProfiler, rank: int, folder: Path, scratch: Path) -> Worker:
    job, own = decided.job_of(rank), scratch / str(rank)
    own.mkdir()
    meeting = "env://" if job.launcher else f"file://{scratch / 'meeting'}"
    spec = {
        "settings": options.json_values(decided.settings),
        "job": asdict(job),
        "folder": str(folder.absolute()),
        "meeting": meeting,
    }
    (own / "spec.json").write_text(json.dumps(spec))
    environment = _environment(decided, dict(job.meeting)) | watched.environment()
    return launch(watched.command(rank, own), environment, rank, own)


def _environment(decided: Placement, meeting: Mapping[str, str]) -> dict[str, str]:
    """This process's, with the checkout to import from, and a fair share of the cores for each rank."""
    here = str(Path(__file__).parents[2])
    known = os.environ.get("PYTHONPATH")
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{known}" if known else here, **meeting}
    if decided.job.local_world_size > 1:
        share = max(1, (os.cpu_count() or 1) // decided.job.local_world_size)
        environment.setdefault("OMP_NUM_THREADS", str(share))
    if decided.settings.device == "cpu" and decided.job.launcher is None and Path("/sys/class/net/lo").exists():
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a laptop's own name may lead nowhere
    return environment


def _said(path: Path) -> dict[str, Any]:
    """What a rank left for this process to read, if it came to that."""
    try:
        said: dict[str, Any] = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return said


def _keep_logs(outcomes: Mapping[int, Mapping[str, Any]], scratch: Path, folder: Path) -> None:
    """What a rank printed is kept where it failed."""
    for rank, outcome in outcomes.items():
        if outcome["status"] != "ok" and (scratch / str(rank) / "log").exists():
            with contextlib.suppress(OSError):
                told = (scratch / str(rank) / "log").read_text("utf-8", "replace")
                (folder / f"rank{rank}.log").write_text(status.hide_home(told) or "", "utf-8")


def _concluded(
    folder: Path, description: dict[str, Any], outcomes: dict[int, dict[str, Any]], interrupted: int | None
) -> Result:
    """Write the end of it. The space for that was kept back."""
    release_reserve(folder)
    verdict, error = status.run_status(outcomes)
    if interrupted is not None and verdict == "ok":
        interrupted = None  # it came too late
    if (
        verdict == "ok"
        and description["profiler"] == "kineto"
        and description["gpus"]
        and not status.has_gpu_work(outcomes)
    ):
        verdict, error = "no_kernels", "the trace holds no work of a GPU; does the window fall on steps that ran?"
    final = final_run_json(description, outcomes) | {"status": verdict, "error": error}
    try:
        write_json(folder / RUN_JSON, final)
    except OSError as problem:
        raise TracelabError(f"{folder / RUN_JSON}: cannot be written: {problem.strerror}; the run is lost") from problem
    return Result(folder, verdict, error, interrupted)
