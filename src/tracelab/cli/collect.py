"""`tracelab collect`: group of the commands that run on GPU nodes; each module is imported on use."""

import importlib.util

import click

from tracelab.cli import LazyGroup

_LINES = {
    "run": "Record any program: your own script, torchrun, srun.",
    "train": "Train one workload and record its run.",
    "noise": "Record one workload several times, or two in turn.",
    "sweep": "Run a workload with every combination of settings.",
    "ceilings": "Measure the peak rates of this machine.",
}
COMMANDS = {name: line for name, line in _LINES.items() if importlib.util.find_spec(f"tracelab.cli.collect_{name}")}
"""One-line help by command; `tracelab.cli.collect_<name>` defines its `command`."""

_EPILOG = """\b
Examples:
  tracelab collect run -- python train.py
  tracelab collect train image_classification --model resnet18 --device cpu
  tracelab collect train transformer --parallel ddp --gpus 2 --profiler kineto
  tracelab ingest runs
"""


@click.group(
    cls=LazyGroup,
    lines=COMMANDS,
    modules="tracelab.cli.collect_{}",
    epilog=_EPILOG,
    subcommand_metavar="COMMAND [ARGS]…",
    options_metavar="",
)
def command() -> None:
    """Run and profile training on this machine, and write a run folder for `tracelab ingest`.

    In a script, `with tracelab.record("name", wait=50, active=10) as r:` and `r.step()` record its own steps.
    Needs only Python, click and torch; a checkout without installation works
    (`PYTHONPATH=src python3 -m tracelab collect …`).
    """
