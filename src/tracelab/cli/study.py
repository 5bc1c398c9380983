"""`tracelab study`: compare published studies with recorded runs."""

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
from tracelab.foreign_text import print_exact, print_lines

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
_EXAMPLE = "Use the example data that ships with tracelab, not a store."


@click.group(epilog=_EPILOG, subcommand_metavar="COMMAND [ARGS]…", options_metavar="")
def command() -> None:
    """Five published studies of training, row by row: figure, method, correction and verdict.

    Each row of a study is a file of SQL over the store and over the published figures. Figures and verdict come from
    the runs in the store; where none fits, the row shows what to record.
    """


def _runs() -> click.Option:
    return click.Option(["--run", "runs"], multiple=True, metavar="NAME", help="Only this run; repeatable.")


def _example() -> click.Option:
    return click.Option(["--example"], is_flag=True, help=_EXAMPLE)


@command.command("list", params=[options.STORE, *options.OUTPUT])
@click.argument("study", required=False)
def list_(study: str | None, store: Path | None, fmt: str | None, output: Path | None, *, force: bool) -> None:
    """List the rows of all studies, or of STUDY, with the state of each in the store."""
    from tracelab.study import evaluate, session, spec, text_output

    out = Output.of(fmt, output, force=force)
    rows = spec.select_rows(study)
    with session.open_session(_store(store), rows) as con:
        states = evaluate.row_states(con, rows)
    table = text_output.states_table(states)
    out.emit(table.select(["row", "state", "runs", "title"]) if out.fmt == "table" else table)
    print_lines(text_output.summarize_states(states), err=True)


@command.command("show", params=[options.STORE, _runs(), _example(), *options.OUTPUT])
@click.argument("row")
def show(
    row: str, store: Path | None, runs: tuple[str, ...], fmt: str | None, output: Path | None, **given: bool
) -> None:
    """Show ROW: the published figure, the study's method on the data at hand, the corrected figure, and a verdict."""
    from tracelab.study import session, spec, text_output

    out = Output.of(fmt, output, force=given["force"])
    answer = _evaluate(spec.find(row), store, runs, example=given["example"])
    if out.fmt != "table":
        out.emit(text_output.cells_table(answer))
        return
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    text = "".join(
        f"{line}\n" for line in text_output.answer_lines(answer, session.format_citation(answer.row.of), width)
    )
    if out.path is not None:
        write_atomically(out.path, lambda stream: _write(stream, text), force=out.force)
    else:
        print_exact(text.removesuffix("\n"))


@command.command("plot", params=[options.STORE, _runs(), _example()])
@click.argument("row")
@click.option("-o", "--output", type=_FILE, metavar="FILE", help="A .png, .svg or .pdf.  [default: ROW.svg]")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
def plot(row: str, store: Path | None, runs: tuple[str, ...], output: Path | None, **given: bool) -> None:
    """Draw the figure of ROW from the data at hand, with the published points beside it."""
    from tracelab import plot as plots
    from tracelab.study import figure, spec

    chosen = spec.find(row)
    path = output or Path(f"{chosen.id}.svg")
    if path.suffix.lower() not in PLOT_SUFFIXES:
        raise UsageError(f"{path}: a plot is a file that ends with {', '.join(PLOT_SUFFIXES)}")
    check_writable(path, force=given["force"])
    drawn = figure.draw_row(_evaluate(chosen, store, runs, example=given["example"]))
    write_atomically(path, partial(plots.save, drawn, fmt=path.suffix[1:].lower()), force=given["force"])


@command.command("run", params=[options.STORE])
@click.argument("study")
@click.option("--smoke", is_flag=True, help="The small size, which a laptop's CPU runs in minutes.")
@click.option("--out", type=_PATH, default=Path("runs"), show_default=True, help="Folder for the run folders.")
@click.option("--fixed", metavar="NAME=VALUE", multiple=True, help="Fix an option in every cell, as data_root=DIR.")
def run(study: str, store: Path | None, out: Path, fixed: tuple[str, ...], *, smoke: bool) -> None:
    """Record STUDY (S0 to S4) with `tracelab collect sweep`, ingest what was recorded, and evaluate its rows.

    It resumes where it stopped, as the sweep does.
    """
    from tracelab.cli import study_record
    from tracelab.store.session import open_store
    from tracelab.study import evaluate, session, spec, text_output

    chosen = spec.select_rows(study)
    sweep = f"{chosen[0].of}-smoke" if smoke else chosen[0].of
    study_record.record(sweep, out, fixed)
    place = open_store(store)
    study_record.ingest_sweep(out / sweep, place)
    with session.open_session(place, chosen) as con:
        states = evaluate.row_states(con, chosen)
        for state in states:
            verdict = evaluate.evaluate_row(con, state.row).verdict if state.state != evaluate.CAPTURE else state.state
            print_lines(f"{state.row.id}  {state.row.title}: {verdict}")
    print_lines(text_output.summarize_states(states), err=True)


def _evaluate(row: Row, store: Path | None, runs: Sequence[str], *, example: bool) -> Answer:
    from tracelab.study import evaluate, session
    from tracelab.study import example as examples

    if example and store is not None:
        raise UsageError("--store and --example were given; name one of them")
    if not example:
        with session.open_session(_store(store), [row]) as con:
            return evaluate.evaluate_row(con, row, runs)
    with examples.example_store([row]) as place, session.open_session(place, [row]) as con:
        answer = evaluate.evaluate_row(con, row, runs)
    print_lines(examples.describe_example(row), err=True)
    return answer


def _store(given: Path | None) -> Path | None:
    """Return the store, or None where none was named and the default does not exist, because some rows need none."""
    from tracelab.store import integrity
    from tracelab.store.session import open_store

    place = open_store(given)
    named = given is not None or "TRACELAB_STORE" in os.environ
    return place if named or integrity.is_store(place) else None


def _write(stream: BinaryIO, text: str) -> None:
    stream.write(text.encode())
