"""`tracelab collect train`: run one workload; its options are the fields of `collect.settings.Settings`."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import click

from tracelab.collect.settings import OPTION_METADATA, Settings, default_options
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines
from tracelab.interrupts import INTERRUPTED

_EPILOG = """\b
Examples:
  tracelab collect train image_classification --model resnet18 --batch-size 64 --profiler kineto
  tracelab collect train transformer --set width=512 --parallel fsdp --gpus 4 --precision bf16
  tracelab collect train gemm --device cpu --profiler kineto --flops --run first
  torchrun --nproc-per-node 4 -m -- tracelab collect train transformer --parallel ddp --run ddp4
"""
INTERRUPTED_BY = {1: 129, 2: INTERRUPTED, 15: 143}
"""Exit code by signal."""


def train_options() -> list[click.Parameter]:
    """Return one option for each field of Settings."""
    hints, known = get_type_hints(Settings), default_options()
    return [
        _one(each.name, hints[each.name], known[each.name]) for each in fields(Settings) if each.name in OPTION_METADATA
    ]


def _one(name: str, hint: Any, default: Any) -> click.Option:  # noqa: ANN401  the type of a field
    about = OPTION_METADATA[name]
    spelled = f"--{name.replace('_', '-')}"
    help_text = about["about"]
    if hint is bool:
        return click.Option([spelled, name], is_flag=True, help=help_text)
    kind = _kind(hint, about)
    if isinstance(default, dict | tuple):
        metavar = "NAME=VALUE" if isinstance(default, dict) else "NAME"
        return click.Option([spelled, name], type=str, multiple=True, metavar=metavar, help=help_text)
    has_default = default is not None
    return click.Option([spelled, name], type=kind, default=default, show_default=has_default, help=help_text)


def _kind(hint: Any, about: Any) -> "click.ParamType[Any]":  # noqa: ANN401
    text = str(hint)
    if about["choices"]:
        return click.Choice(about["choices"])
    if "Path" in text:
        return click.Path(path_type=Path)
    if "int" in text:
        return click.IntRange(min=about["least"])
    if "float" in text:
        return click.FLOAT if about["least"] is None else click.FloatRange(min=about["least"])
    return click.STRING


@click.command(epilog=_EPILOG, params=train_options())
@click.argument("workload")
def command(**values: Any) -> None:  # noqa: ANN401  one for each field of Settings
    """Run WORKLOAD and write a run folder: settings, steps, memory, samples of the machine, and traces.

    WORKLOAD is one of image_classification, transformer, decoder, huggingface, inference, gemm, triad, copies, streams
    and collectives, or a Python file of your own. Under torchrun or srun each process is one rank; otherwise this
    command starts the ranks.
    """
    from tracelab.collect.train import train

    result = train(parse_settings(values), report=lambda line: print_lines(line, err=True))
    explanation = "".join(f"; {each}" for each in (result.error, result.note) if each)
    print_lines(f"{result.folder}: {result.status}{explanation}", err=True)
    if result.interrupted is not None:
        raise click.exceptions.Exit(INTERRUPTED_BY.get(result.interrupted, INTERRUPTED))
    if result.status != "ok":
        raise click.exceptions.Exit(1)


def parse_settings(values: Mapping[str, Any]) -> Settings:
    """Return the settings that the values of options mean; raises UsageError for a pair without NAME=VALUE."""
    parsed = dict(values)
    for name, default in default_options().items():
        if isinstance(default, dict):
            parsed[name] = parse_pairs(name, values.get(name, ()))
    return Settings(**parsed)


def parse_pairs(name: str, options: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE pairs; raises UsageError for anything else."""
    pairs = dict(each.partition("=")[::2] for each in options)
    if "" in pairs or any("=" not in each for each in options):
        raise UsageError(f"--{name} needs NAME=VALUE, such as --{name} width=256")
    return pairs
