"""`tracelab study`: published studies beside the data at hand, row by row."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from tracelab.cli import options
from tracelab.cli.output import Output, check_writable, write_atomically
from tracelab.cli.query import PLOT_SUFFIXES
from tracelab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tracelab.study.evaluate import Answer
    from tracelab.study.spec import Row

_EPILOG = """\b
Examples:
  tracelab study list S3
  tracelab study show S2-03 --example
  tracelab study run S0 --smoke
  tracelab study plot S3-07 --example -o broadcast.svg
"""
_PATH = click.Path(path_type=Path)
_FILE = click.Path(path_type=Path, dir_okay=False)
_EXAMPLE = "Take the example data that ships with tracelab, not a store."


@click.group(epilog=_EPILOG, subcommand_metavar="COMMAND [ARGS]…", options_metavar="")
def command() -> None:
    """Five published studies of training, row by row: figure, method, correction and verdict.

    Each row of a study is a file of SQL over the store and over the published figures. What a row says comes out of the
    runs at hand; where none fits, it says what to record.
    """


def _runs() -> click.Option:
    return click.Option(["--run", "runs"], multiple=True, metavar="NAME", help="Only this run; may be given again.")


def _example() -> click.Option:
    return click.Option(["--example"], is_flag=True, help=_EXAMPLE)


@command.command("list", params=[options.STORE, *options.OUTPUT])
@click.argument("study", required=False)
def list_(study: str | None, store: Path | None, fmt: str | None, output: Path | None, *, force: bool) -> None:
    """List the rows of all studies, or of STUDY, with how far each is in the store."""
    from tracelab.study import evaluate, session, spec, text_output

    out = Output.of(fmt, output, force=force)
    with session.opened(_store(store)) as con:
        states = evaluate.states(con, spec.of_study(study))
    table = text_output.listed(states)
    out.emit(table.select(["row", "state", "runs", "title"]) if out.fmt == "table" else table)
    click.echo(text_output.counted(states), err=True)


@command.command("show", params=[options.STORE, _runs(), _example(), *options.OUTPUT])
@click.argument("row")
def show(
    row: str, store: Path | None, runs: tuple[str, ...], fmt: str | None, output: Path | None, **given: bool
) -> None:
    """Show ROW: the published figure, the study's method on the data at hand, the corrected figure, and a verdict."""
    from tracelab.study import session, spec, text_output

    out = Output.of(fmt, output, force=given["force"])
    found = _answered(spec.find(row), store, runs, example=given["example"])
    if out.fmt != "table":
        out.emit(text_output.whole(found))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    text = "".join(f"{line}\n" for line in text_output.lines(found, session.cited(found.row.of), width))
    if out.path is not None:
        write_atomically(out.path, lambda stream: _write(stream, text), force=out.force)
    else:
        click.echo(text, nl=False)


@command.command("plot", params=[options.STORE, _runs(), _example()])
@click.argument("row")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="A .png, .svg or .pdf.  [default: ROW.svg]")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def plot(row: str, store: Path | None, runs: tuple[str, ...], output: Path | None, **given: bool) -> None:
    """Draw the figure of ROW from the data at hand, with the published points beside it."""
    from tracelab import plot as plots
    from tracelab.study import figure, spec

    found = spec.find(row)
    path = output or Path(f"{found.id}.svg")
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise UsageError(f"{path}: a plot is a file that ends with {', '.join(PLOT_SUFFIXES)}")
    check_writable(path, force=given["force"])
    drawn = figure.figure(_answered(found, store, runs, example=given["example"]))
    write_atomically(path, partial(plots.save, drawn, fmt=path.suffix[1:].lower()), force=given["force"])


@command.command("run", params=[options.STORE])
@click.argument("study")
@click.option("--smoke", is_flag=True, help="The small size, which a laptop's processor runs in minutes.")
@click.option("--out", type=_PATH, default=Path("runs"), show_default=True, help="Where the run folders stand.")
@click.option("--fixed", metavar="NAME=VALUE", multiple=True, help="Fix an option in every cell, as data_root=DIR.")
def run(study: str, store: Path | None, out: Path, fixed: tuple[str, ...], *, smoke: bool) -> None:
    """Record STUDY (S0 to S4) with `tracelab collect sweep`, ingest what was recorded, and answer its rows.

    It goes on where it stopped, as the sweep does.
    """
    from tracelab.cli import study_record
    from tracelab.schema import store_path
    from tracelab.study import evaluate, session, spec, text_output

    chosen = spec.of_study(study)
    sweep = f"{chosen[0].of}-smoke" if smoke else chosen[0].of
    study_record.record(sweep, out, fixed)
    place = store_path(store)
    study_record.ingest_sweep(out / sweep, place)
    with session.opened(place) as con:
        states = evaluate.states(con, chosen)
        for state in states:
            told = evaluate.answered(con, state.row).verdict if state.state != evaluate.CAPTURE else state.state
            click.echo(f"{state.row.id}  {state.row.title}: {told}")
    click.echo(text_output.counted(states), err=True)


def _answered(row: Row, store: Path | None, runs: Sequence[str], *, example: bool) -> Answer:
    from tracelab.study import evaluate, session
    from tracelab.study import example as examples

    if example and store is not None:
        raise UsageError("--store and --example were given; name one of them")
    if not example:
        with session.opened(_store(store)) as con:
            return evaluate.answered(con, row, runs)
    with examples.store_of([row]) as place, session.opened(place) as con:
        found = evaluate.answered(con, row, runs)
    click.echo(examples.told(row), err=True)
    return found


def _store(given: Path | None) -> Path | None:
    """The store that is meant; none where no store was named and there is none, for some rows need none."""
    from tracelab.schema import store_path
    from tracelab.store import integrity

    place = store_path(given)
    named = given is not None or "TRACELAB_STORE" in os.environ
    return place if named or integrity.has_files(place, "sources") else None


def _write(stream: BinaryIO, text: str) -> None:
    stream.write(text.encode())
