"""What `collect train` can vary, declared once: the command line, sweeps and run.json all derive from it."""

# ruff: noqa: RUF009  _option is dataclasses.field, and a dict of its metadata

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tracelab.enumerations import PARALLELISMS, PRECISIONS
from tracelab.errors import UsageError, suggest_name
from tracelab.run_names import check_run_name

PROFILERS = ("kineto", "nsys", "ncu", "none")
WINDOWS = ("step", "forward", "backward", "all")
ACTIVE_STEPS = 3
"""Steps that are recorded unless told otherwise: enough to see that they are alike, few enough to read."""


def _option(default: Any, about: str, *, choices: tuple[str, ...] = (), least: float | None = None) -> Any:  # noqa: ANN401
    """A field with what the command line tells of it."""
    made = {"default_factory": default} if callable(default) else {"default": default}
    return field(**made, metadata={"about": about, "choices": choices, "least": least})


@dataclass(frozen=True)
class Settings:
    """One run as it was asked for. Every field but the first is an option of the same name."""

    workload: str
    model: str | None = _option(None, "Model, of a workload that has several (torchvision's names).")
    set: dict[str, str] = _option(dict, "A setting of the workload's own, as width=256; may be repeated.")
    data: str = _option("synthetic", "Data set: synthetic, cifar10, cifar100 or folder.")
    data_root: Path | None = _option(None, "Where the data set stands; nothing is downloaded.")
    data_fraction: float = _option(1.0, "Share of the data set used, above 0 and at most 1.")
    image_size: int = _option(32, "Height and width of images, in pixels.", least=1)
    batch_size: int = _option(8, "Samples a step that one process loads.", least=1)
    epochs: int = _option(1, "Passes over the data.", least=1)
    steps: int | None = _option(None, "Steps of each epoch at most.  [default: 10; with --epochs all]", least=1)
    warmup: int = _option(2, "Steps before the first epoch that are neither counted nor recorded.", least=0)
    validate: bool = _option(default=False, about="Measure the accuracy on held-out data after each epoch.")
    device: str = _option("auto", "Where to train.", choices=("auto", "cuda", "cpu"))
    gpus: int | None = _option(None, "GPUs of this node; on a processor, processes.  [default: all, or 1]", least=1)
    parallel: str = _option("none", "How several GPUs work together.", choices=PARALLELISMS)
    precision: str = _option("fp32", "Number format of the arithmetic.", choices=PRECISIONS)
    optimizer: str = _option("sgd", "Optimizer.", choices=("sgd", "adam", "adamw"))
    learning_rate: float = _option(0.01, "Learning rate.", least=0)
    momentum: float = _option(0.9, "Momentum of SGD.", least=0)
    weight_decay: float = _option(0.0, "Weight decay.", least=0)
    pretrained: bool = _option(
        default=False, about="Begin with torchvision's weights, from torch's cache or --weights."
    )
    weights: Path | None = _option(None, "File of weights to begin with.")
    pin_memory: bool = _option(default=False, about="Load batches into pinned memory.")
    workers: int = _option(0, "Processes that load data; 0: the training process itself.", least=0)
    compile: bool = _option(default=False, about="Compile the model with torch.compile.")
    cuda_graphs: bool = _option(default=False, about="Replay forward and backward pass as CUDA graphs.")
    channels_last: bool = _option(default=False, about="Keep images in the order height, width, channel.")
    seed: int = _option(0, "Seed of everything random.", least=0)
    profiler: str = _option("none", "What watches.", choices=PROFILERS)
    window: str = _option("step", "What of the run is recorded.", choices=WINDOWS)
    active: int | None = _option(None, f"Steps recorded in a row.  [default: {ACTIVE_STEPS}]", least=1)
    wait: int = _option(0, "Steps left out before those.", least=0)
    cycles: int = _option(1, "How often to wait and record; each time makes a file of its own.", least=1)
    memory: bool = _option(default=False, about="Record allocations too (kineto).")
    shapes: bool = _option(default=False, about="Record the shapes of inputs too (kineto).")
    stacks: bool = _option(default=False, about="Record Python's frames too (kineto).")
    flops: bool = _option(default=False, about="Write the FLOPs of ops beside the trace (kineto).")
    clock_control: str = _option("none", "Clocks while ncu measures.", choices=("none", "base", "boost"))
    metrics: tuple[str, ...] = _option((), "Metric for ncu beside those of the roofline; may be repeated.")
    sample_s: float = _option(1.0, "Seconds between samples of GPUs and host; 0: none.", least=0)
    timeout_s: float | None = _option(None, "End the run after so many seconds, and keep what there is.", least=0)
    out: Path = _option(Path("runs"), "Where run folders stand.")
    run: str | None = _option(None, "Name of the run.  [default: made from what is varied]")
    force: bool = _option(default=False, about="Replace a run of this name.")
    sweep: str | None = _option(None, "Sweep that this run is a cell of.")
    repeat: int | None = _option(None, "Which repetition of the cell, from 0.", least=0)
    tag: dict[str, str] = _option(dict, "Anything else to write down, as node=rack7; may be repeated.")

    @property
    def steps_an_epoch(self) -> int | None:
        """Steps of each epoch at most; None is all of them."""
        return 10 if self.steps is None and self.epochs == 1 else self.steps

    @property
    def active_steps(self) -> int:
        """Steps recorded in a row; no more than the run surely has."""
        asked = self.active or ACTIVE_STEPS
        total = self.steps_an_epoch
        return asked if total is None else max(1, min(asked, total * self.epochs - self.wait))


OPTION_METADATA = {each.name: each.metadata for each in fields(Settings) if each.metadata}
"""Of every option: its help, its choices, its least value."""

NOT_VARIED = ("out", "run", "force", "sweep", "repeat", "tag", "timeout_s", "sample_s", "data_root", "weights")
"""Options that say where and how long, not what."""
PATH_OPTIONS = ("data_root", "weights", "workload")
"""Options that are, or may be, the path of a file or folder of the user's own."""
CAPTURE_OPTIONS = (
    "profiler",
    "window",
    "active",
    "wait",
    "cycles",
    "memory",
    "shapes",
    "stacks",
    "flops",
    "clock_control",
    "metrics",
)
"""Options that say who watches: captures of one program differ in nothing else."""


def default_options() -> dict[str, Any]:
    """Every option with its default."""
    return {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(Settings)
        if each.metadata
    }


def non_default_options(settings: Settings, leaving_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """The options that are not at their defaults."""
    known = default_options()
    return {
        name: value
        for name, value in asdict(settings).items()
        if name in known and name not in leaving_out and value != known[name]
    }


def command_words(settings: Settings, leaving_out: tuple[str, ...] = ()) -> list[str]:
    """The command line that asks for this; paths by their last part alone, for others may read it."""
    line = [settings.workload if not settings.workload.endswith(".py") else Path(settings.workload).name]
    for name, value in non_default_options(settings, leaving_out).items():
        option = f"--{name.replace('_', '-')}"
        match value:
            case bool():
                line.append(option)
            case dict():
                line += [word for key, each in value.items() for word in (option, f"{key}={each}")]
            case tuple():
                line += [word for each in value for word in (option, each)]
            case Path():
                line += [option, value.name]
            case _:
                line += [option, str(value)]
    return line


def json_values(settings: Settings) -> dict[str, Any]:
    """Every option as JSON can hold it."""
    return {
        name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def recorded_options(settings: Settings) -> dict[str, Any]:
    """Every option as it was asked for, to be written down; a path by its last part, for others may read this."""
    asked = {name: value for name, value in json_values(settings).items() if name not in ("out", "force")}
    return asked | {name: Path(asked[name]).name for name in PATH_OPTIONS if asked[name] is not None}


def as_json(settings: Settings) -> str:
    """The settings as text, for a process that is started."""
    return json.dumps(json_values(settings))


def from_json(text: str) -> Settings:
    """The settings that `as_json` wrote."""
    values = json.loads(text)
    paths = {name: Path(values[name]) for name in ("data_root", "weights", "out") if values[name] is not None}
    return Settings(**values | paths | {"metrics": tuple(values["metrics"])})


def validate_settings(settings: Settings) -> Settings:
    """The settings, where they do not contradict themselves; raises UsageError with what to change."""
    for name, choices in ((name, about["choices"]) for name, about in OPTION_METADATA.items() if about["choices"]):
        if getattr(settings, name) not in choices:
            raise UsageError(
                suggest_name(f"value of --{name.replace('_', '-')}", str(getattr(settings, name)), choices)
            )
    if settings.run is not None:
        check_run_name(settings.run)
    for condition, sentence in _CONTRADICTIONS:
        if condition(settings):
            raise UsageError(sentence)
    return replace(settings, out=settings.out.expanduser())


_CONTRADICTIONS: tuple[tuple[Callable[[Settings], bool], str], ...] = (
    (lambda s: not 0 < s.data_fraction <= 1, "--data-fraction is above 0 and at most 1"),
    (
        lambda s: s.parallel == "dp" and s.device == "cpu",
        "--parallel dp splits a batch over GPUs, and --device cpu has none; use ddp there",
    ),
    (
        lambda s: s.parallel == "none" and (s.gpus or 1) > 1,
        "--gpus above 1 needs --parallel dp, ddp or fsdp",
    ),
    (lambda s: s.precision == "tf32" and s.device == "cpu", "tf32 is a format of GPUs; use fp32 or bf16"),
    (lambda s: s.cuda_graphs and s.device == "cpu", "--cuda-graphs needs a GPU"),
    (
        lambda s: s.cuda_graphs and s.parallel in ("dp", "fsdp"),
        "--cuda-graphs goes with --parallel none or ddp",
    ),
    (lambda s: s.cuda_graphs and s.compile, "--cuda-graphs and --compile exclude each other; choose one"),
    (
        lambda s: s.profiler == "ncu" and s.device == "cpu",
        "ncu measures GPU kernels, and --device cpu runs none; use kineto or nsys",
    ),
    (
        lambda s: s.profiler != "kineto" and (s.memory or s.shapes or s.stacks or s.flops),
        "--memory, --shapes, --stacks and --flops are kineto's; add --profiler kineto",
    ),
    (
        lambda s: s.window == "all" and (s.cycles > 1 or s.wait > 0 or s.active is not None),
        "--window all records the whole run, so --active, --wait and --cycles have no meaning",
    ),
    (
        lambda s: s.data in ("cifar10", "cifar100", "folder") and s.data_root is None,
        "a data set on disk needs --data-root DIR (nothing is downloaded)",
    ),
    (
        lambda s: s.steps_an_epoch is not None and s.profiler != "none" and s.wait >= s.steps_an_epoch * s.epochs,
        "--wait leaves out every step of the run, so nothing would be recorded",
    ),
)
"""What excludes each other, and the sentence that says so."""
