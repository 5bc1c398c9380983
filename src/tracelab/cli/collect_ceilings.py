"""`tracelab collect ceilings`: measure the peak rates of this machine."""

from pathlib import Path
from typing import Any

import click

from tracelab.foreign_text import print_lines

_PARTS = ("stream", "l2", "gemm", "copies", "p2p", "collectives")
_EPILOG = """\b
Examples:
  tracelab collect ceilings
  tracelab collect ceilings --quick --only stream --only gemm
  tracelab collect ceilings --gpu 0 --gpu GPU-3f2a
  tracelab collect ceilings --device cpu --run laptop && tracelab ingest runs/laptop
"""


@click.command(epilog=_EPILOG)
@click.option(
    "--device",
    type=click.Choice(("auto", "cuda", "cpu")),
    default="auto",
    show_default=True,
    help="Device to measure: the GPUs or the CPU.",
)
@click.option(
    "--gpu",
    multiple=True,
    metavar="ORDINAL|UUID",
    help="Measure only this GPU; repeatable. The beginning of a UUID is enough.  [default: all]",
)
@click.option("--only", type=click.Choice(_PARTS), multiple=True, help="Measure only these parts; repeatable.")
@click.option("--quick", is_flag=True, help="Use smaller sizes and fewer repetitions.")
@click.option("--gpus", type=click.IntRange(min=1), help="Ranks of the collectives.  [default: all GPUs; 2 on a CPU]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Folder for the run folder.",
)
@click.option("--run", help="Name of the run.  [default: ceilings-<time>]")
@click.option("--force", is_flag=True, help="Replace an existing run of this name.")
def command(*, only: tuple[str, ...], gpus: int | None, **options: Any) -> None:  # noqa: ANN401  fields of CeilingOptions
    """Measure memory and cache bandwidth, arithmetic, copies and collectives of this machine, GPU by GPU.

    Writes the best and the median of repeated measurements on random data, and the median under continuous load after a
    warm-up, with GPU clock, power limit and throttle reasons. Rooflines use the sustained median, of the same GPU where
    it was measured, else of its model; figures of a CPU are in the table ceilings alone. Under srun, start one task per
    node.
    """
    from tracelab.collect.ceilings.run import PARTS, CeilingOptions, measure

    result = measure(CeilingOptions(parts=only or PARTS, ranks=gpus, **options), lambda row: print_lines(_line(row)))
    for part, reason in result.skipped.items():
        print_lines(f"tracelab: {part}: not measured: {reason}", err=True)
    for note in result.notes:
        print_lines(f"tracelab: {note}", err=True)
    error = f"; {result.error}" if result.error else ""
    print_lines(f"{result.folder}: {result.figures} figures, {result.status}{error}", err=True)
    if result.interrupted is not None:
        raise click.exceptions.Exit(128 + result.interrupted)
    if result.status != "ok":
        raise click.exceptions.Exit(1)


def _line(row: dict[str, Any]) -> str:
    """Format one measurement as a line of text."""
    unit = {"gb_per_s": "GB/s", "gflop_per_s": "GFLOP/s"}.get(row["unit"], row["unit"])
    size = f"{row['size_bytes']:>13,} B" if row["size_bytes"] is not None else " " * 15
    sustained = f"  sustained {row['sustained']:>12,.2f}" if row.get("sustained") is not None else ""
    name = f"{row['metric']} {row.get('layout') or ''}"
    return f"{name:<22}{size}  best {row['best']:>12,.2f}  median {row['median']:>12,.2f}{sustained} {unit}"
