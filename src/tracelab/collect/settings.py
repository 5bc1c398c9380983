"""Declare the options of `collect train`; the command line, sweep files and run.json derive from this one list."""

# ruff: noqa: RUF009  _option is dataclasses.field, and a dict of its metadata

import json
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from tracelab.collect.kineto_flags import KINETO_FLAGS, NEEDS_KINETO
from tracelab.enumerations import PARALLELISMS, PRECISIONS
from tracelab.errors import UsageError, suggest_name
from tracelab.run_names import check_run_name

PROFILERS = ("kineto", "nsys", "ncu", "none")
WINDOWS = ("step", "forward", "backward", "all")
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ACTIVE_STEPS = 3
"""Steps recorded by default: enough to compare, few enough to read."""


def _option(default: Any, about: str, *, choices: tuple[str, ...] = (), least: float | None = None) -> Any:  # noqa: ANN401
    """Declare an option: default value, help text, choices and least value."""
    field_default = {"default_factory": default} if callable(default) else {"default": default}
    return field(**field_default, metadata={"about": about, "choices": choices, "least": least})


@dataclass(frozen=True)
class Settings:
    """The settings of one run. Every field but the first is a command-line option of the same name."""

    workload: str
    model: str | None = _option(None, "Model of a workload that has several (torchvision's names).")
    set: dict[str, str] = _option(dict, "Setting of the workload itself, such as width=256; repeatable.")
    data: str = _option("synthetic", "Data set: synthetic, cifar10, cifar100 or folder.")
    data_root: Path | None = _option(None, "Folder of the data set; nothing is downloaded.")
    data_fraction: float = _option(1.0, "Share of the data set to use, above 0 and at most 1.")
    image_size: int = _option(32, "Height and width of images, in pixels.", least=1)
    batch_size: int = _option(8, "Samples per batch and process.", least=1)
    accumulate: int = _option(1, "Batches per step, whose gradients add up before the optimizer runs.", least=1)
    epochs: int = _option(1, "Passes over the data.", least=1)
    steps: int | None = _option(None, "Maximum steps per epoch.  [default: 10; all with --epochs]", least=1)
    warmup: int = _option(2, "Warm-up steps before the first epoch, not recorded.", least=0)
    validate: bool = _option(default=False, about="Measure accuracy on held-out data after each epoch.")
    device: str = _option("auto", "Where to train; mps is an Apple GPU.", choices=("auto", "cuda", "mps", "cpu"))
    gpus: int | None = _option(None, "GPUs of this node; on a CPU, processes.  [default: all, or 1]", least=1)
    parallel: str = _option("none", "How to distribute training over GPUs.", choices=PARALLELISMS)
    precision: str = _option("fp32", "Number format of the computation.", choices=PRECISIONS)
    fsdp_precision: str = _option(
        "autocast",
        "Where FSDP's weights become fp16 or bf16: in autocast, or by FSDP's policy, before it gathers them.",
        choices=("autocast", "policy"),
    )
    fsdp_wrap: str = _option(
        "parts",
        "What FSDP gathers together: each large part, such as a block, or the model.",
        choices=("parts", "model"),
    )
    fsdp_reshard: str = _option(
        "auto",
        "When FSDP frees gathered weights after the forward pass; auto keeps only what belongs to no part.",
        choices=("auto", "always", "never"),
    )
    optimizer: str = _option("sgd", "Optimizer.", choices=("sgd", "adam", "adamw"))
    learning_rate: float = _option(0.01, "Learning rate.", least=0)
    momentum: float = _option(0.9, "Momentum of SGD.", least=0)
    weight_decay: float = _option(0.0, "Weight decay.", least=0)
    pretrained: bool = _option(default=False, about="Start from torchvision's weights, in torch's cache or --weights.")
    weights: Path | None = _option(None, "Checkpoint file to start from.")
    pin_memory: bool = _option(default=False, about="Load batches into pinned memory.")
    workers: int = _option(0, "Data loader processes; 0 loads in the training process.", least=0)
    compile: bool = _option(default=False, about="Compile the model with torch.compile.")
    compile_mode: str = _option("default", "What torch.compile optimizes for.", choices=COMPILE_MODES)
    cuda_graphs: bool = _option(default=False, about="Replay the forward and backward pass as CUDA graphs.")
    channels_last: bool = _option(default=False, about="Store images channels-last (height, width, channel).")
    seed: int = _option(0, "Random seed.", least=0)
    profiler: str = _option("none", "Profiler to run.", choices=PROFILERS)
    window: str = _option("step", "Part of the run to record.", choices=WINDOWS)
    active: int | None = _option(None, f"Consecutive steps to record.  [default: {ACTIVE_STEPS}]", least=1)
    wait: int = _option(0, "Steps to skip before recording.", least=0)
    cycles: int = _option(1, "How often to wait and record; each cycle writes its own file.", least=1)
    memory: bool = _option(default=False, about=KINETO_FLAGS["memory"])
    shapes: bool = _option(default=False, about=KINETO_FLAGS["shapes"])
    stacks: bool = _option(default=False, about=KINETO_FLAGS["stacks"])
    flops: bool = _option(default=False, about=KINETO_FLAGS["flops"])
    syncs: bool = _option(default=False, about=KINETO_FLAGS["syncs"])
    keep_attached: bool = _option(default=False, about=KINETO_FLAGS["keep_attached"])
    clock_control: str = _option("none", "GPU clocks while ncu measures.", choices=("none", "base", "boost"))
    metrics: tuple[str, ...] = _option((), "Additional ncu metric besides those of the roofline; repeatable.")
    sample_s: float = _option(1.0, "Seconds between samples of GPUs and host; 0 disables sampling.", least=0)
    timeout_s: float | None = _option(None, "Time limit in seconds; keeps what was recorded.", least=0)
    out: Path = _option(Path("runs"), "Folder for run folders.")
    run: str | None = _option(None, "Name of the run.  [default: built from the settings]")
    force: bool = _option(default=False, about="Replace an existing run of this name.")
    sweep: str | None = _option(None, "Sweep that this run belongs to.")
    repeat: int | None = _option(None, "Repetition of the sweep cell, from 0.", least=0)
    tag: dict[str, str] = _option(dict, "Additional note for run.json, such as node=rack7; repeatable.")

    @property
    def steps_an_epoch(self) -> int | None:
        """Maximum steps per epoch; None for the whole data set."""
        return 10 if self.steps is None and self.epochs == 1 else self.steps

    @property
    def starts_from_weights(self) -> bool:
        """Whether the model's first weights are read from a file."""
        return self.pretrained or self.weights is not None

    @property
    def shards_weights(self) -> bool:
        """Whether each rank holds a part of each large weight."""
        return self.parallel in ("fsdp", "tp")

    @property
    def active_steps(self) -> int:
        """Consecutive steps to record, at most as many as the run has."""
        requested = self.active or ACTIVE_STEPS
        total = self.steps_an_epoch
        return requested if total is None else max(1, min(requested, total * self.epochs - self.wait))


OPTION_METADATA = {each.name: each.metadata for each in fields(Settings) if each.metadata}
"""Help text, choices and least value by option name."""

NOT_VARIED = ("out", "run", "force", "sweep", "repeat", "tag", "timeout_s", "sample_s", "data_root", "weights")
"""Options about where and how long a run executes, not about what it computes."""
PATH_OPTIONS = ("data_root", "weights", "workload")
"""Options that are, or may be, a path of the user's."""
CAPTURE_OPTIONS = (
    "profiler",
    "window",
    "active",
    "wait",
    "cycles",
    *KINETO_FLAGS,
    "clock_control",
    "metrics",
)
"""Options of the profiler: captures of the same program differ in these alone."""


def default_options() -> dict[str, Any]:
    """Return the default of every option."""
    return {
        each.name: each.default_factory() if each.default_factory is not MISSING else each.default
        for each in fields(Settings)
        if each.metadata
    }


def non_default_options(settings: Settings, leaving_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the options that differ from their defaults."""
    known = default_options()
    return {
        name: value
        for name, value in asdict(settings).items()
        if name in known and name not in leaving_out and value != known[name]
    }


def command_words(settings: Settings, leaving_out: tuple[str, ...] = ()) -> list[str]:
    """Return the equivalent command line. Paths keep their last part alone: run.json may be shared."""
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
                line += [option, hide_folders(str(value)) if name == "model" else str(value)]
    return line


def json_values(settings: Settings) -> dict[str, Any]:
    """Return every option as a JSON value."""
    return {
        name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def recorded_options(settings: Settings) -> dict[str, Any]:
    """Return every option for run.json. Paths keep their last part alone: run.json may be shared."""
    values = {name: value for name, value in json_values(settings).items() if name not in ("out", "force")}
    values["model"] = None if settings.model is None else hide_folders(settings.model)
    return values | {name: Path(values[name]).name for name in PATH_OPTIONS if values[name] is not None}


def hide_folders(name: str) -> str:
    """Return the last part of a model's name that is a path, and any other name as it is."""
    return Path(name).name if name.startswith(("/", "~", ".")) else name


def as_json(settings: Settings) -> str:
    """Serialize the settings for a child process."""
    return json.dumps(json_values(settings))


def from_json(text: str) -> Settings:
    """Parse the settings that `as_json` wrote."""
    values = json.loads(text)
    paths = {name: Path(values[name]) for name in ("data_root", "weights", "out") if values[name] is not None}
    return Settings(**values | paths | {"metrics": tuple(values["metrics"])})


def validate_settings(settings: Settings) -> Settings:
    """Return valid settings; raises UsageError for a bad value or options that exclude each other."""
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
    (lambda s: not 0 < s.data_fraction <= 1, "--data-fraction must be above 0 and at most 1"),
    (
        lambda s: s.parallel == "dp" and s.device == "cpu",
        "--parallel dp splits a batch over GPUs and --device cpu has none; use --parallel ddp",
    ),
    (
        lambda s: s.parallel == "none" and (s.gpus or 1) > 1,
        "--gpus above 1 needs --parallel dp, ddp, fsdp or tp",
    ),
    (
        lambda s: s.fsdp_precision == "policy" and (s.parallel != "fsdp" or s.precision not in ("fp16", "bf16")),
        "--fsdp-precision policy needs --parallel fsdp and --precision fp16 or bf16",
    ),
    (
        lambda s: (s.fsdp_wrap, s.fsdp_reshard) != ("parts", "auto") and s.parallel != "fsdp",
        "--fsdp-wrap and --fsdp-reshard need --parallel fsdp",
    ),
    (
        lambda s: s.device == "mps" and s.parallel != "none",
        "--device mps is one GPU, and torch has no communication between processes on it; use --parallel none",
    ),
    (
        lambda s: s.device == "mps" and s.profiler in ("nsys", "ncu"),
        "nsys and ncu record NVIDIA GPUs, not --device mps; use --profiler kineto, which records the CPU side there",
    ),
    (
        lambda s: s.precision == "tf32" and s.device in ("cpu", "mps"),
        "--precision tf32 needs an NVIDIA GPU; use fp32 or bf16",
    ),
    (lambda s: s.cuda_graphs and s.device in ("cpu", "mps"), "--cuda-graphs needs an NVIDIA or AMD GPU"),
    (
        lambda s: s.cuda_graphs and s.parallel in ("dp", "fsdp", "tp"),
        "--cuda-graphs works with --parallel none or ddp only",
    ),
    (
        lambda s: s.channels_last and s.parallel == "fsdp",
        "--channels-last and --parallel fsdp exclude each other: FSDP shards contiguous weights only; use ddp",
    ),
    (
        lambda s: s.parallel == "tp" and s.precision == "fp16",
        "--parallel tp and --precision fp16 exclude each other: ranks would scale their gradients apart; use bf16",
    ),
    (
        lambda s: s.parallel == "tp" and s.precision == "fp8",
        "--parallel tp and --precision fp8 exclude each other: fp8 multiplies whole matrices only; use bf16",
    ),
    (lambda s: s.cuda_graphs and s.compile, "--cuda-graphs and --compile exclude each other; choose one"),
    (lambda s: s.compile_mode != "default" and not s.compile, "--compile-mode needs --compile"),
    (
        lambda s: s.compile_mode in ("reduce-overhead", "max-autotune") and s.accumulate > 1 and s.device == "cuda",
        "--compile-mode reduce-overhead and max-autotune replay CUDA graphs, which overwrite the gradients that "
        "--accumulate adds up; use default or max-autotune-no-cudagraphs",
    ),
    (
        lambda s: s.cuda_graphs and s.accumulate > 1,
        "--cuda-graphs and --accumulate exclude each other: a replay overwrites the gradients of the batch before it",
    ),
    (
        lambda s: s.window in ("forward", "backward") and s.accumulate > 1,
        "--window forward and backward record one pass per step and --accumulate runs several; use --window step",
    ),
    (
        lambda s: s.profiler == "ncu" and s.device == "cpu",
        "--profiler ncu measures GPU kernels and --device cpu runs none; use kineto or nsys",
    ),
    (
        lambda s: s.profiler != "kineto" and any(getattr(s, name) for name in KINETO_FLAGS),
        NEEDS_KINETO,
    ),
    (lambda s: s.profiler != "ncu" and bool(s.metrics), "--metrics needs --profiler ncu"),
    (lambda s: s.profiler != "ncu" and s.clock_control != "none", "--clock-control needs --profiler ncu"),
    (lambda s: s.optimizer != "sgd" and s.momentum != Settings.momentum, "--momentum needs --optimizer sgd"),
    (
        lambda s: s.window == "all" and (s.cycles > 1 or s.wait > 0 or s.active is not None),
        "--window all records the whole run; remove --active, --wait and --cycles",
    ),
    (
        lambda s: s.data in ("cifar10", "cifar100", "folder") and s.data_root is None,
        "a data set on disk needs --data-root DIR (nothing is downloaded)",
    ),
    (
        lambda s: s.steps_an_epoch is not None and s.profiler != "none" and s.wait >= s.steps_an_epoch * s.epochs,
        "--wait skips every step of the run, so nothing would be recorded; lower --wait or raise --steps",
    ),
)
"""Conditions that make settings invalid, each with its error message."""
