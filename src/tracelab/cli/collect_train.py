"""`tracelab collect train`: run one workload; its options are the fields of `collect.settings.Settings`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import click

from tracelab.collect.settings import OPTION_METADATA, Settings, default_options
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from tracelab.collect.run_end import Result
    from tracelab.collect.workloads import Workload

_EPILOG = """\b
Examples:
  tracelab collect train image_classification --model resnet18 --batch-size 64 --profiler kineto
  tracelab collect train transformer --set width=512 --parallel fsdp --gpus 4 --precision bf16
  tracelab collect train gemm --device cpu --profiler kineto --flops --run first
  torchrun --nproc-per-node 4 -m -- tracelab collect train transformer --parallel ddp --run ddp4
"""


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


class _TrainCommand(click.Command):
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what each workload has of its own: values of --model, and names of --set with their defaults."""
        from tracelab.collect.workloads import list_workloads

        with formatter.section("Workloads"):
            formatter.write_dl([(each.name, _describe_workload(each)) for each in list_workloads().values()])
        super().format_epilog(ctx, formatter)


def _describe_workload(workload: "Workload") -> str:
    own = [f"{name}={workload.defaults[name]}" if name in workload.defaults else name for name in sorted(workload.own)]
    parts = [
        f"--model {', '.join(workload.models)}" if workload.models else "",
        f"--model {workload.default_model} or another" if workload.default_model and not workload.models else "",
        f"--set {', '.join(own)}" if own else "",
    ]
    return "; ".join(filter(None, parts)) or workload.about.split("\n")[0]


@click.command(cls=_TrainCommand, epilog=_EPILOG, params=train_options())
@click.argument("workload")
def command(**values: Any) -> None:  # noqa: ANN401  one for each field of Settings
    """Run WORKLOAD and write a run folder: settings, steps, memory, samples of the machine, and traces.

    WORKLOAD is one of those below, or a Python file of your own. Under torchrun or srun each process is one rank;
    otherwise this command starts the ranks.
    """
    from tracelab.collect.train import train

    exit_with_results([train(parse_settings(values), report_line)], report_line)


def report_line(line: str) -> None:
    """Print a line about the run on standard error."""
    print_lines(line, err=True)


def exit_with_results(results: "Sequence[Result]", report: Callable[[str], None]) -> None:
    """Report each result in a line, and exit with the code of the one that was interrupted or failed."""
    for result in results:
        report(result.describe())
    for result in results:
        if result.interrupted is not None:
            by_signal = 128 + result.interrupted
            raise click.exceptions.Exit(by_signal if result.exit_code is None else result.exit_code)
    failed = [result for result in results if result.status != "ok"]
    if failed:
        raise click.exceptions.Exit(next((result.exit_code for result in failed if result.exit_code), 1))


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
