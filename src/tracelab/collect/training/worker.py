"""The process of one rank: it trains under the profiler, and leaves word of what became of it.

    python -m tracelab.collect.training.worker SCRATCH

SCRATCH is a folder of this process alone: `spec.json` says what to do, `outcome.json` is what it answers.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tracelab.collect import settings, status, workloads
from tracelab.collect.disk_errors import WritePaths, describe_disk_error
from tracelab.collect.process.cancellation import Cancellation, CancelledError
from tracelab.collect.process.launch import GRACE_S, PARENT_PIPE, SAVE_S, SAVING
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.profiling.capture import NoProfiler, NvtxRanges, Profiler, ProfilerError, StepCapture
from tracelab.collect.profiling.kineto import Kineto
from tracelab.collect.profiling.schedule import build_schedule
from tracelab.collect.run_folder import write_json
from tracelab.collect.training import data_loading, model_setup
from tracelab.collect.training.loop import PreparedWorkload, TrainingLoop
from tracelab.collect.training.model_cost import count_model_cost
from tracelab.collect.training.step_log import StepLog
from tracelab.errors import UsageError


@dataclass(frozen=True)
class RankTask:
    """What one rank is to do."""

    settings: settings.Settings
    job: Job
    folder: Path
    scratch: Path
    meeting: str

    @property
    def places(self) -> WritePaths:
        """Where it writes."""
        return WritePaths(self.folder, self.scratch)


_LOOK_S = 0.05
_UMASK = 0o022
"""In place of none: nsys 2022.4 starts programs so that all may write to their files."""
PARTIAL_OUTCOME = "known.json"
"""What a rank says as soon as it knows it, for it may never come to its answer."""
OUTCOME = "outcome.json"


def main(scratch: Path) -> None:
    """Do it, answer, and end: at once after a failure, for other ranks may never answer."""
    os.umask(os.umask(0) or _UMASK)
    (scratch / "pid").write_text(str(os.getpid()))
    stop = Cancellation()
    _end_with_parent(stop, scratch)
    spec = read_task(scratch)
    outcome: dict[str, Any] = {"status": "failed"}
    try:
        _work(spec, outcome, stop)
        outcome["status"] = "ok"
    except CancelledError:
        outcome |= {"status": "timeout", "stopped": True, "error": "stopped when told to"}
    except ProfilerError as error:
        outcome |= {"status": "profiler_error", "error": str(error)}
    except UsageError as error:
        outcome |= {"error": str(error), "refused": True}
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a workload raises is this run's result
        outcome["status"], outcome["error"] = status.status_of_error(error, spec.places)
        sys.excepthook(type(error), error, error.__traceback__)
    stop.end()
    write_json(scratch / OUTCOME, outcome | {"at": time.time()})
    sys.stdout.flush()
    sys.stderr.flush()
    if outcome["status"] != "ok":
        if spec.job.world_size > 1:
            os._exit(1)
        sys.exit(1)


def read_task(scratch: Path) -> RankTask:
    """The task that the parent wrote."""
    content = json.loads((scratch / "spec.json").read_text())
    job = Job(**content["job"] | {"meeting": tuple(map(tuple, content["job"]["meeting"]))})
    asked = settings.from_json(json.dumps(content["settings"]))
    return RankTask(asked, job, Path(content["folder"]), scratch, content["meeting"])


def _end_with_parent(stop: Cancellation, scratch: Path) -> None:
    """Stop on SIGTERM, and when the pipe ends whose other end the parent holds open as long as it lives."""
    own = os.getpid()

    def stopped(_number: int, _frame: FrameType | None) -> None:
        if os.getpid() != own:  # a process that loads data, forked from this one
            os._exit(128 + signal.SIGTERM)
        stop.tell()

    def watch() -> None:
        while os.read(0, 1):  # sys.stdin's lock, held by this thread at the end, would abort the interpreter
            pass
        os.kill(own, signal.SIGTERM)
        _outlast(scratch)

    signal.signal(signal.SIGTERM, stopped)
    if str(os.fstat(0).st_ino) != os.environ.get(PARENT_PIPE):
        return
    threading.Thread(target=watch, name="tracelab-parent", daemon=True).start()


def _outlast(scratch: Path) -> None:
    """Without a parent nobody else ends this process where it is stuck, nor clears up behind it."""
    told = saved = time.monotonic()
    while time.monotonic() - saved < GRACE_S:
        time.sleep(_LOOK_S)
        if (scratch / SAVING).exists() and time.monotonic() - told < SAVE_S:
            saved = time.monotonic()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def _work(spec: RankTask, outcome: dict[str, Any], stop: Cancellation) -> None:
    import torch

    asked = spec.settings
    place = _place(torch, spec)
    outcome["facts"] = software_versions(torch, place)
    write_json(spec.scratch / PARTIAL_OUTCOME, outcome)
    module = workloads.load_module(workloads.find_workload(asked.workload))
    _check(module, place)
    torch.manual_seed(asked.seed)
    random.seed(asked.seed)
    model_setup.set_precision(torch, asked.precision)
    recorder = _recorder(torch, spec)
    capture = StepCapture(build_schedule(asked), recorder, stop)
    record = StepLog(place, spec.folder)
    try:
        with capture.run(), model_setup.process_group(place, spec.meeting):
            work = _prepared(module, place, outcome)
            write_json(spec.scratch / PARTIAL_OUTCOME, outcome)
            TrainingLoop(place, work, capture, record).run()
    except BaseException:
        with contextlib.suppress(RuntimeError, OSError):  # of a GPU that failed; the first error is the one to tell
            record.peak(None, None)
        raise
    finally:
        stop.end()
        outcome |= {"steps": record.steps_written, "windows": capture.recorded, "unsaved": _why(capture.unsaved, spec)}
        if isinstance(recorder, Kineto):
            outcome |= {"files": recorder.files, "kernels": recorder.kernels, "copies": recorder.copies}
        record.close()


def _why(unsaved: Exception | None, spec: RankTask) -> str | None:
    """Why what was recorded could not be kept."""
    full = describe_disk_error(unsaved, spec.places) if isinstance(unsaved, OSError) else None
    return full or (" ".join(str(unsaved).split()) if unsaved else None)


def _place(torch: Any, spec: RankTask) -> model_setup.RankContext:  # noqa: ANN401
    if spec.settings.device == "cpu":
        return model_setup.RankContext(torch, spec.settings, spec.job, torch.device("cpu"))
    if not torch.cuda.is_available():
        raise UsageError("this torch sees no GPU; use --device cpu, or look at nvidia-smi and at torch.version.cuda")
    device = spec.job.local_rank % torch.cuda.device_count()  # srun may show each task one GPU alone
    torch.cuda.set_device(device)
    return model_setup.RankContext(torch, spec.settings, spec.job, torch.device("cuda", device))


def _check(module: Any, place: model_setup.RankContext) -> None:  # noqa: ANN401
    """Refuse what this workload cannot do, before anything is built."""
    name, devices = module.__name__, getattr(module, "DEVICES", ("cpu", "cuda"))
    if place.device.type not in devices:
        raise UsageError(f"{name} needs a GPU: what it shows does not exist on a processor")
    if not hasattr(module, "model") and place.settings.window in ("forward", "backward"):
        raise UsageError(f"{name} has no {place.settings.window} pass; use --window step")


def _recorder(torch: Any, spec: RankTask) -> Profiler:  # noqa: ANN401
    match spec.settings.profiler:
        case "kineto":
            return Kineto(torch, spec.settings, spec.job.rank, spec.folder, spec.scratch)
        case "nsys" | "ncu":
            return NvtxRanges(torch, cuda=spec.settings.device == "cuda", gated=spec.settings.window != "all")
    return NoProfiler()


def _prepared(module: Any, place: model_setup.RankContext, outcome: dict[str, Any]) -> PreparedWorkload:  # noqa: ANN401
    """The workload with its model, its data, and what the harness adds."""
    torch, asked = place.torch, place.settings
    known = settings.json_values(asked) | {"device": str(place.device), "world_size": place.job.world_size}
    own = workloads.build_settings(module, known, asked.set)
    if hasattr(module, "truth"):
        outcome["truth"] = module.truth(own)
    if not hasattr(module, "model"):
        return PreparedWorkload(module.workload(own))
    whole = module.data(own, train=True)
    outcome["classes"] = data_loading.count_classes(own, whole)
    data = data_loading.take_fraction(torch, whole, asked.data_fraction, asked.seed)
    size = count_model_cost(torch, lambda: module.model(own), module.workload, data[0])
    outcome["complexity"] = size.__dict__
    outcome["dataset_size"] = len(data)
    torch.manual_seed(asked.seed)
    network = module.model(own)
    if asked.pretrained or asked.weights is not None:
        path = asked.weights or module.weights(own)
        outcome["weights"] = model_setup.load_weights(torch, network, path)
    loader = data_loading.training_loader(torch, data, asked, place.job)
    network = model_setup.parallelize(
        place, network, lambda: place.moved(data_loading.sample_batch(torch, data, asked))
    )
    held_out = (
        data_loading.validation_data(torch, module.data(own, train=False), asked, place.job) if asked.validate else None
    )
    return PreparedWorkload(
        module.workload(network),
        network,
        model_setup.make_optimizer(torch, asked, network),
        torch.amp.GradScaler(place.device.type, enabled=asked.precision == "fp16"),
        loader,
        held_out,
    )


def software_versions(torch: Any, place: model_setup.RankContext) -> dict[str, Any]:  # noqa: ANN401
    """What only a process with torch can tell."""
    return {
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda if place.cuda else None,
        "cudnn_version": torch.backends.cudnn.version() if place.cuda else None,
        "nccl_version": ".".join(map(str, torch.cuda.nccl.version())) if place.cuda else None,
        "gpu": torch.cuda.get_device_name(place.device) if place.cuda else None,
        "pin_memory": data_loading.pins_memory(torch, place.settings),
        "threads": torch.get_num_threads(),
        "python_version": sys.version.split()[0],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
