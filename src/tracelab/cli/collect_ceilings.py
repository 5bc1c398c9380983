"""`tracelab collect ceilings`: what this machine can do at most, measured."""

from pathlib import Path
from typing import Any

import click

_PARTS = ("stream", "gemm", "copies", "collectives")
_EPILOG = """\b
Examples:
  tracelab collect ceilings
  tracelab collect ceilings --quick --only stream --only gemm
  tracelab collect ceilings --device cpu --run laptop && tracelab ingest runs/laptop
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--device",
    type=click.Choice(("auto", "cuda", "cpu")),
    default="auto",
    show_default=True,
    help="What to measure: the first GPU, or the processor.",
)
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Measure these parts, no others.")
@click.option("--quick", is_flag=True, help="Smaller sizes, fewer repetitions.")
@click.option("--gpus", type=click.IntRange(min=1), help="Ranks of collectives.  [default: all GPUs; 2 processes]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Where the run folder stands.",
)
@click.option("--run", help="Name of the run.  [default: ceilings and the time]")
@click.option("--force", is_flag=True, help="Replace a run of this name.")
def command(*, only: tuple[str, ...], gpus: int | None, **asked: Any) -> None:  # noqa: ANN401  the other fields of Asked
    """Measure memory bandwidth, arithmetic, copies and collectives of this machine, for rooflines and comparisons.

    Data are random; the best and the median repetition are kept, with the clock and the power limit. Rooflines take
    ceilings of the same card by themselves.
    """
    from tracelab.collect.ceilings.run import PARTS, CeilingOptions, measure

    result = measure(CeilingOptions(parts=only or PARTS, ranks=gpus, **asked), lambda row: click.echo(_line(row)))
    for what, why in result.skipped.items():
        click.echo(f"tracelab: {what}: not measured: {why}", err=True)
    error = f"; {result.error}" if result.error else ""
    click.echo(f"{result.folder}: {result.figures} figures, {result.status}{error}", err=True)
    if result.interrupted is not None:
        raise click.exceptions.Exit(128 + result.interrupted)
    if result.status != "ok":
        raise click.exceptions.Exit(1)


def _line(row: dict[str, Any]) -> str:
    """One figure as people read it."""
    unit = {"gb_per_s": "GB/s", "gflop_per_s": "GFLOP/s"}.get(row["unit"], row["unit"])
    size = f"{row['size_bytes']:>13,} B" if row["size_bytes"] is not None else " " * 15
    return f"{row['metric']:<22}{size}  best {row['best']:>12,.2f}  median {row['median']:>12,.2f} {unit}"
