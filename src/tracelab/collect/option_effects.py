"""Refuse options of `collect train` that have no effect on the workload, and name those that another one disables."""

from collections.abc import Callable

from tracelab.collect.settings import Settings, non_default_options
from tracelab.collect.workloads import Workload, check_model_and_settings
from tracelab.enumerations import PARALLELISMS
from tracelab.errors import UsageError, suggest_name

_FIELDS = ("model", "data", "data_root", "image_size")
"""Options that only a field of the workload's Settings passes on."""
_OF_TRAINING = (
    *("data_fraction", "batch_size", "accumulate", "validate", "precision", "optimizer", "learning_rate", "momentum"),
    *("weight_decay", "pretrained", "weights", "pin_memory", "workers", "compile", "compile_mode", "cuda_graphs"),
    *("channels_last", "fsdp_precision", "fsdp_wrap", "fsdp_reshard"),
)
"""Options that the training loop applies; a workload without a model has those alone that its Settings have."""


def check_effects(settings: Settings, workload: Workload) -> None:
    """Raise UsageError for options that the workload does not read, and for values that it does not have."""
    check_model_and_settings(workload, settings.model, settings.set)
    unread = _unread_options(settings, workload)
    if unread:
        names = " and ".join(map(_spell, unread))
        have, them = ("has", "it") if len(unread) == 1 else ("have", "them")
        reason = "does not read" if workload.trains else "trains no model and does not read"
        raise UsageError(f"{names} {have} no effect: {workload.name} {reason} {them}; remove {them}")
    supported = _find_parallelisms(workload)
    if settings.parallel in set(PARALLELISMS) - set(supported):
        if workload.trains:
            raise UsageError(suggest_name(f"--parallel of {workload.name}", settings.parallel, supported))
        raise UsageError(
            f"--parallel {settings.parallel} has no effect: {workload.name} trains no model that it could distribute; "
            "use --parallel ddp, which runs the workload in each rank"
        )
    if settings.pretrained and settings.weights is None and workload.trains and "weights" not in workload.parts:
        raise UsageError(f"{workload.name} defines no weights(settings) for --pretrained; name a file with --weights")


def describe_disabled(settings: Settings, workload: Workload) -> str:
    """Return in words which options have no effect beside others, as in the baseline of a comparison; "" if none."""
    changed = non_default_options(settings)
    return "; ".join(
        f"{' and '.join(_spell(name) for name in disabled)} {'have' if len(disabled) > 1 else 'has'} no effect {reason}"
        for is_disabling, names, reason in _DISABLED
        if is_disabling(settings, workload) and (disabled := [name for name in names if name in changed])
    )


_DISABLED: tuple[tuple[Callable[[Settings, Workload], bool], tuple[str, ...], str], ...] = (
    (lambda s, _: s.profiler == "none", ("window", "active", "wait", "cycles"), "without a profiler"),
    (lambda s, _: s.device != "cuda", ("pin_memory",), "without an NVIDIA or AMD GPU"),
    (lambda s, _: s.data == "synthetic", ("data_root",), "with --data synthetic"),
    (lambda _, w: w.is_shipped and "image_size" not in w.options, ("channels_last",), "without images"),
)
"""Conditions under which options have no effect, with the reason in words."""


def _spell(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _find_parallelisms(workload: Workload) -> tuple[str, ...]:
    """Return the values of --parallel that the workload may have; its file can list them, as inference does."""
    if workload.trains or "parallel" in workload.options:
        return workload.choices.get("parallel", PARALLELISMS)
    return ("none", "ddp")


def _unread_options(settings: Settings, workload: Workload) -> list[str]:
    """Return the options that differ from their defaults and that the workload does not read, in their order."""
    if not workload.lists_options:
        return []
    candidates = _FIELDS if workload.trains else _FIELDS + _OF_TRAINING
    return [name for name in non_default_options(settings) if name in candidates and name not in workload.options]
