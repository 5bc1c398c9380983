"""Plan recordings of one command, or of two that alternate, so that drift of the machine falls on both alike."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tracelab.collect.settings import Settings, validate_settings
from tracelab.collect.sweep.matrix import Cell, Sweep
from tracelab.errors import UsageError
from tracelab.run_names import check_run_name


def plan_repeats(name: str, commands: Sequence[Settings], repeats: int, out: Path) -> Sweep:
    """Return the recordings of one command, named after it, or of a base and a candidate in the order A B B A A B …"""
    check_run_name(name)
    if commands[-1] == commands[0] and len(commands) > 1:
        raise UsageError("--against repeats the command; change an option of it, or leave --against out")
    labels = [name] if len(commands) == 1 else [f"{name}-base", f"{name}-candidate"]
    cells = []
    for side, repeat in _alternate(len(commands), repeats):
        run = f"{labels[side]}-r{repeat}" if repeat else labels[side]
        settings = replace(commands[side], sweep=name, repeat=repeat, run=run, out=out / name, force=False)
        cells.append(Cell(validate_settings(settings), {}))
    return Sweep(name, f"{repeats} recordings of each command", tuple(cells), ())


def _alternate(sides: int, repeats: int) -> Iterator[tuple[int, int]]:
    """Yield side and repetition: what comes first alternates, so that a steady drift cancels."""
    for repeat in range(repeats):
        order = range(sides) if repeat % 2 == 0 else reversed(range(sides))
        yield from ((side, repeat) for side in order)
