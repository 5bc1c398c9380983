"""The process of one rank: trains under the profiler and writes its outcome.

    python -m tracelab.collect.training.worker SCRATCH

SCRATCH is a folder of this process alone: it reads `task.json`, the task, and writes `outcome.json`.
"""

import contextlib
import inspect
import json
import os
import random
import shutil
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tracelab.collect import settings, status, workloads
from tracelab.collect.disk_errors import WritePaths, describe_disk_error
from tracelab.collect.machine import recorded_environment
from tracelab.collect.process.cancellation import CanceledError, Cancellation
from tracelab.collect.process.launch import GRACE_S, PARENT_PIPE, SAVE_S, SAVING
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.profiling.capture import NoProfiler, NvtxRanges, Profiler, ProfilerError, StepCapture
from tracelab.collect.profiling.kineto import Kineto
from tracelab.collect.profiling.schedule import Schedule, build_schedule
from tracelab.collect.run_folder import write_json
from tracelab.collect.training import data_loading, fp8, materialize, model_setup, parallelism
from tracelab.collect.training.loop import PreparedWorkload, TrainingLoop
from tracelab.collect.training.model_cost import count_model_cost
from tracelab.collect.training.step_log import StepLog
from tracelab.errors import UsageError


@dataclass(frozen=True)
class RankTask:
    """The task of one rank."""

    settings: settings.Settings
    job: Job
    folder: Path
    scratch: Path
    init_method: str

    @property
    def paths(self) -> WritePaths:
        """The folders it writes to."""
        return WritePaths(self.folder, self.scratch)


_POLL_S = 0.05
_UMASK = 0o022
"""Umask if there is none: nsys 2022.4 starts programs with world-writable files."""
PARTIAL_OUTCOME = "known.json"
"""Entries of the outcome written as soon as they are known: the rank may never write its outcome."""
OUTCOME = "outcome.json"


def main(scratch: Path) -> None:
    """Run the task, write the outcome and exit; immediately after a failure, because other ranks may hang."""
    os.umask(os.umask(0) or _UMASK)
    (scratch / "pid").write_text(str(os.getpid()))
    cancellation = Cancellation()
    _end_with_parent(cancellation, scratch)
    task = read_task(scratch)
    outcome: dict[str, Any] = {"status": "failed"}
    try:
        _run_task(task, outcome, cancellation)
        outcome["status"] = "ok"
    except CanceledError:
        outcome |= {"status": "timeout", "stopped": True, "error": "canceled by SIGTERM"}
    except ProfilerError as error:
        outcome |= {"status": "profiler_error", "error": str(error)}
    except UsageError as error:
        outcome |= {"error": str(error), "refused": True}
    except (Exception, SystemExit) as error:  # noqa: BLE001  any error of a workload is the result of this run
        outcome["status"], outcome["error"] = status.status_of_error(error, task.paths)
        sys.excepthook(type(error), error, error.__traceback__)
    cancellation.disable()
    write_json(scratch / OUTCOME, outcome | {"at": time.time()})
    sys.stdout.flush()
    sys.stderr.flush()
    if outcome["status"] != "ok":
        if task.job.world_size > 1:
            os._exit(1)
        sys.exit(1)


def read_task(scratch: Path) -> RankTask:
    """Read the task that the parent wrote."""
    content = json.loads((scratch / "task.json").read_text())
    job = Job(**content["job"] | {"rendezvous_env": tuple(map(tuple, content["job"]["rendezvous_env"]))})
    options = settings.from_json(json.dumps(content["settings"]))
    return RankTask(options, job, Path(content["folder"]), scratch, content["init_method"])


def _end_with_parent(cancellation: Cancellation, scratch: Path) -> None:
    """Cancel on SIGTERM, and when the pipe closes that the parent keeps open as long as it lives."""
    own = os.getpid()

    def on_sigterm(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != own:  # a data loader process, forked from this one
            os._exit(128 + signal.SIGTERM)
        cancellation.request()

    def watch() -> None:
        while os.read(0, 1):  # not sys.stdin: its lock, held by this thread at exit, would abort the interpreter
            pass
        os.kill(own, signal.SIGTERM)
        _exit_after_grace(scratch)

    signal.signal(signal.SIGTERM, on_sigterm)
    if str(os.fstat(0).st_ino) != os.environ.get(PARENT_PIPE):
        return
    threading.Thread(target=watch, name="tracelab-parent", daemon=True).start()


def _exit_after_grace(scratch: Path) -> None:
    """Exit and delete the scratch folder after the grace period: without a parent no other process ends a stuck one."""
    canceled = saved = time.monotonic()
    while time.monotonic() - saved < GRACE_S:
        time.sleep(_POLL_S)
        if (scratch / SAVING).exists() and time.monotonic() - canceled < SAVE_S:
            saved = time.monotonic()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _run_task(task: RankTask, outcome: dict[str, Any], cancellation: Cancellation) -> None:
    import torch

    options = task.settings
    context = _rank_context(torch, task)
    outcome["versions"] = software_versions(torch, context)
    outcome["host"] = socket.gethostname()
    outcome["environment"] = recorded_environment(os.environ)
    outcome["gpus"] = [identify_gpu(torch, device) for device in context.devices] or None
    write_json(task.scratch / PARTIAL_OUTCOME, outcome)
    module = workloads.load_module(workloads.find_workload(options.workload))
    _check_support(module, context)
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    model_setup.set_precision(torch, options.precision)
    schedule = build_schedule(options)
    profiler = _profiler(torch, task)
    capture = StepCapture(schedule, profiler, cancellation)
    log = StepLog(context, task.folder)
    try:
        with capture.run(), model_setup.process_group(context, task.init_method):
            work = _prepare_workload(module, context, outcome)
            write_json(task.scratch / PARTIAL_OUTCOME, outcome)
            TrainingLoop(context, work, capture, log).run()
        if isinstance(profiler, Kineto):
            _check_recorded(capture, schedule)
    except BaseException:
        with contextlib.suppress(RuntimeError, OSError):  # of a failed GPU; the first error is the one to report
            log.peak(None, None)
        raise
    finally:
        cancellation.disable()
        unsaved = _describe_unsaved(capture.unsaved, task)
        recorded = None if isinstance(profiler, NoProfiler) else log.steps_recorded
        outcome |= {"steps": log.steps_written, "recorded_steps": recorded}
        outcome |= {"windows": capture.recorded, "unsaved": unsaved}
        unfilled = schedule.describe_unfilled(capture.steps, options.active or schedule.active)
        if isinstance(profiler, Kineto):
            outcome |= profiler.describe(unfilled)
        elif unfilled and not isinstance(profiler, NoProfiler):
            outcome["note"] = unfilled
        log.close()


def _check_recorded(capture: StepCapture, schedule: Schedule) -> None:
    """Raise ProfilerError where the run ended before its window."""
    if not capture.recorded:
        raise ProfilerError(
            f"the run ended after {capture.steps} steps, warm-up included, before the window opened at step "
            f"{schedule.first}; lower --wait, or use more data"
        )


def _describe_unsaved(unsaved: Exception | None, task: RankTask) -> str | None:
    """Describe why the recording could not be saved."""
    full = describe_disk_error(unsaved, task.paths) if isinstance(unsaved, OSError) else None
    return full or (" ".join(str(unsaved).split()) if unsaved else None)


def _rank_context(torch: Any, task: RankTask) -> model_setup.RankContext:  # noqa: ANN401
    if task.settings.device == "cpu":
        return model_setup.RankContext(torch, task.settings, task.job, torch.device("cpu"))
    if task.settings.device == "mps":
        if not torch.backends.mps.is_available():
            raise UsageError("torch sees no Apple GPU; use --device cpu, or a torch for macOS on Apple silicon")
        return model_setup.RankContext(torch, task.settings, task.job, torch.device("mps"))
    if not torch.cuda.is_available():
        raise UsageError("torch sees no GPU; use --device cpu, or check nvidia-smi and torch.version.cuda")
    device = _choose_gpu(task.job, torch.cuda.device_count())
    torch.cuda.set_device(device)
    return model_setup.RankContext(torch, task.settings, task.job, torch.device("cuda", device))


def _choose_gpu(job: Job, visible: int) -> int:
    """Return the ordinal of this rank's GPU; refuse to share one, where NCCL fails and times mean nothing."""
    if job.local_world_size <= visible:
        return job.local_rank
    if visible == 1 and job.launcher == "srun":  # --gpus-per-task: each task sees its own as GPU 0
        return 0
    raise UsageError(
        f"{job.local_world_size} processes on this node, and each sees {visible} GPU{'s' if visible > 1 else ''}; "
        "start one process per GPU, or expose one to each task (srun --gpus-per-task 1)"
    )


def _check_support(module: Any, context: model_setup.RankContext) -> None:  # noqa: ANN401
    """Refuse settings that this workload does not support, before anything is built."""
    name, devices = module.__name__, getattr(module, "DEVICES", ("cpu", "cuda", "mps"))
    if context.device.type not in devices:
        raise UsageError(f"{name} runs on {' and '.join(devices)} only; use --device {devices[0]}")
    if context.settings.precision == "fp8":
        fp8.check_support(context.torch, context.device)
    if context.settings.parallel == "tp" and not hasattr(module, "tensor_parallel"):
        raise UsageError(f"{name} defines no tensor_parallel(network, mesh); use --parallel ddp or fsdp")
    if getattr(module, "NEEDS_RANKS", False) and context.settings.parallel in ("none", "dp"):
        raise UsageError(f"{name} needs several ranks; use --parallel ddp --gpus 2")
    if not hasattr(module, "model"):
        if context.settings.window in ("forward", "backward"):
            raise UsageError(f"{name} has no {context.settings.window} pass; use --window step")
        _check_signature(module, "workload", ("settings",))
        return
    _check_signature(module, "model", ("settings",))
    _check_signature(module, "workload", ("network",))
    if not hasattr(module, "data"):
        raise UsageError(f"{name}: defines model() but no data(); add data(settings, *, train), or remove model()")
    _check_signature(module, "data", ("settings",), "train")
    if hasattr(module, "initialize"):
        _check_signature(module, "initialize", ("name", "weight"))


def _check_signature(module: Any, name: str, positional: tuple[str, ...], *keywords: str) -> None:  # noqa: ANN401
    """Refuse a function of a workload file that does not accept the arguments the harness passes."""
    try:
        signature = inspect.signature(getattr(module, name))
    except (TypeError, ValueError):  # no signature to check, as of some C functions
        return
    try:
        signature.bind(*positional, **dict.fromkeys(keywords))
    except TypeError as error:
        expected = ", ".join((*positional, *(("*", *keywords) if keywords else ())))
        raise UsageError(f"{module.__name__}: {name}{signature} must accept {name}({expected}): {error}") from error


def _profiler(torch: Any, task: RankTask) -> Profiler:  # noqa: ANN401
    match task.settings.profiler:
        case "kineto":
            return Kineto(torch, task.settings, task.job.rank, task.folder, task.scratch)
        case "nsys" | "ncu":
            return NvtxRanges(torch, cuda=task.settings.device == "cuda", gated=task.settings.window != "all")
    return NoProfiler()


def _prepare_workload(module: Any, context: model_setup.RankContext, outcome: dict[str, Any]) -> PreparedWorkload:  # noqa: ANN401
    """Build the workload's model, data, loaders and optimizer."""
    torch, options = context.torch, context.settings
    known = settings.json_values(options) | {"device": str(context.device), "world_size": context.job.world_size}
    own = workloads.build_settings(module, known, options.set)
    if hasattr(module, "truth"):
        outcome["truth"] = module.truth(own)
    if not hasattr(module, "model"):
        return PreparedWorkload(module.workload(own))
    dataset = module.data(own, train=True)
    outcome["classes"] = data_loading.count_classes(own, dataset)
    data = data_loading.take_fraction(torch, dataset, options.data_fraction, options.seed)
    cost = count_model_cost(torch, lambda: module.model(own), module.workload, data[0])
    outcome["model_cost"] = cost.__dict__
    outcome["dataset_size"] = len(data)
    initialize = None if options.starts_from_weights else getattr(module, "initialize", None)
    materialize.check_host_memory(context, cost, is_created_in_place=initialize is not None)
    torch.manual_seed(options.seed)
    with torch.device("cpu" if initialize is None else "meta"):
        network = module.model(own)
    if options.starts_from_weights:
        path = options.weights or module.weights(own)
        outcome["weights"] = model_setup.load_weights(torch, network, path)
    if options.precision == "fp8":
        outcome["fp8_layers"] = fp8.convert_linears(torch, network)
    loader = data_loading.training_loader(torch, data, options, context.job)
    outcome["short_epoch"] = data_loading.check_length(loader, options)
    network = parallelism.parallelize(
        context,
        network,
        lambda: context.to_device(data_loading.sample_batch(torch, data, options)),
        getattr(module, "tensor_parallel", None),
        initialize,
    )
    held_out = (
        data_loading.validation_data(torch, module.data(own, train=False), options, context.job)
        if options.validate
        else None
    )
    return PreparedWorkload(
        module.workload(network),
        network,
        model_setup.make_optimizer(torch, options, network),
        torch.amp.GradScaler(context.device.type, enabled=options.precision == "fp16"),
        loader,
        held_out,
    )


def identify_gpu(torch: Any, device: int) -> dict[str, Any]:  # noqa: ANN401
    """Return ordinal, UUID and PCI address of a GPU; torch's properties lack them on some devices."""
    properties = torch.cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    address: list[Any] = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    return {
        "device": device,
        "uuid": None if uuid is None else f"GPU-{str(uuid).removeprefix('GPU-')}",
        "bus_id": None if None in address else "{:08x}:{:02x}:{:02x}.0".format(*address),
    }


def _gpu_name(torch: Any, context: model_setup.RankContext) -> str | None:  # noqa: ANN401
    if context.mps:
        return str(torch.backends.mps.get_name())
    return str(torch.cuda.get_device_name(context.device)) if context.cuda else None


def software_versions(torch: Any, context: model_setup.RankContext) -> dict[str, Any]:  # noqa: ANN401
    """Return versions and device facts that need torch."""
    return {
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda if context.cuda else None,
        "hip_version": torch.version.hip if context.cuda else None,
        "cudnn_version": torch.backends.cudnn.version() if context.cuda else None,
        "nccl_version": ".".join(map(str, torch.cuda.nccl.version())) if context.cuda else None,
        "gpu": _gpu_name(torch, context),
        "pin_memory": data_loading.pins_memory(torch, context.settings),
        "threads": torch.get_num_threads(),
        "python_version": sys.version.split()[0],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
