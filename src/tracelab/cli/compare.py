"""`tracelab compare`: compare recordings of two versions, and fail where a regression is proven."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracelab.cli import options
from tracelab.cli.output import check_writable, write_text
from tracelab.errors import NoDataError, TracelabError, UsageError
from tracelab.foreign_text import print_exact

if TYPE_CHECKING:
    from tracelab.compare.comparison import Comparison

FORMATS = ("table", "markdown", "junit", "json")
_WIDTH = 100
_FAILURE_EXIT_CODE = 6
"""Of a failure that is no regression, such as a file that cannot be written."""
_SUFFIXES = {".txt": "table", ".md": "markdown", ".markdown": "markdown", ".xml": "junit", ".json": "json"}

_EPILOG = """\b
Examples:
  tracelab compare main branch
  tracelab compare --base-runs 'main-*' --candidate-runs 'branch-*' --fail-on 'step_time > 3%'
  tracelab compare main branch --noise-runs 'noise-*' --format markdown -o comment.md
  tracelab compare main branch --fail-on 'peak_memory > 5%' --fail-on 'class:gemm > 2%' --strict
"""


@contextmanager
def _exit_with_a_code_of_its_own() -> Iterator[None]:
    """Distinguish a failure from a proven regression, which exits with 1."""
    try:
        yield
    except TracelabError as error:
        if error.exit_code == TracelabError.exit_code:
            error.exit_code = _FAILURE_EXIT_CODE
        raise


@click.command(epilog=_EPILOG)
@click.argument("base", required=False)
@click.argument("candidate", required=False)
@click.option("--base-runs", metavar="PATTERN", multiple=True, help="Recordings of the base: names, or shell patterns.")
@click.option("--candidate-runs", metavar="PATTERN", multiple=True, help="Recordings of the candidate.")
@click.option(
    "--noise-runs",
    metavar="PATTERN",
    multiple=True,
    help="Recordings of one version, which measure the noise floor; `tracelab collect noise` makes them.",
)
@click.option(
    "--noise-floor",
    type=click.FloatRange(min=0),
    metavar="PERCENT",
    help="Effects up to this are no difference, where no noise runs measure it.  [default: 2]",
)
@click.option(
    "--fail-on",
    metavar="'METRIC > PERCENT%'",
    multiple=True,
    help="Exit with 1 where the metric provably grows by more; repeatable.",
)
@click.option("--strict", is_flag=True, help="Exit with 4 where a gate is undecided.")
@click.option(
    "--allow-different",
    metavar="FACT",
    multiple=True,
    help="Compare although the sides differ in gpu, gpus, ranks, batch_size, shapes, …; repeatable.",
)
@click.option("--step-name", metavar="REGEX", help="A range is a step where this regular expression finds its name.")
@click.option("--whole", is_flag=True, help=options.WHOLE.help)
@click.option("--all", "everything", is_flag=True, help="Also list details that change by less than 1 % of the step.")
@click.option(
    "--limit", type=click.IntRange(min=0), metavar="N", help="At most N details of each kind, in table and markdown."
)
@click.option(
    "--format", "fmt", type=click.Choice(FORMATS), help="Output format.  [default: by suffix of -o, else table]"
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write into this file."
)
@click.option("--force", is_flag=True, help="Overwrite the file of -o.")
@click.pass_context
@_exit_with_a_code_of_its_own()
def command(  # noqa: PLR0913  one for each option
    ctx: click.Context, /, base: str | None, candidate: str | None, *, base_runs: tuple[str, ...],
    candidate_runs: tuple[str, ...], noise_runs: tuple[str, ...], noise_floor: float | None, fail_on: tuple[str, ...],
    strict: bool, allow_different: tuple[str, ...], step_name: str | None, whole: bool, everything: bool,
    limit: int | None, fmt: str | None, output: Path | None, force: bool, store: str | None, memory_limit: str | None,
    timeout_s: float | None,
) -> None:  # fmt: skip
    """Compare CANDIDATE with BASE: is it faster, slower, or the same, and by how much?

    Each side is one run, or several recordings of one version (--base-runs, --candidate-runs). From 4 recordings of
    each side on, verdicts hold with at most 5 % of false alarms over all metrics together; with fewer, effects are
    shown and the verdict is undecided. Metrics: step_time, gpu_time, exposed_communication, exposed_copies, idle,
    peak_memory, class:CLASS, copy:DIRECTION, kernel:NAME, op:NAME (time on the CPU), op_gpu:NAME (time on the GPU).

    Exits with 1 where a gate of --fail-on fails; with 2 for a wrong request; with 3 without data; with 4 where
    --strict is given and a gate, without gates the verdict, is undecided, as of a metric that is not recorded; with 5
    where it refuses to compare; with 6 where it fails, as at the time limit or where FILE cannot be written. What it
    refuses is a document of the --format, too.
    """
    if output == Path("-"):
        output = None
    chosen = fmt or _format_of(output)
    if output is not None:
        check_writable(output, force=force)
    sides = [_side(name, runs, option) for name, runs, option in (
        (base, base_runs, "base"), (candidate, candidate_runs, "candidate"),
    )]  # fmt: skip

    from tracelab.client import Lab
    from tracelab.compare.comparability import NotComparableError
    from tracelab.compare.refusal import write_refusal
    from tracelab.store.session import open_store

    def write(text: str) -> None:
        if output is not None:
            write_text(output, text, force=force)
        else:
            print_exact(text.removesuffix("\n"))

    lab = Lab(open_store(store), memory_limit, timeout_s)
    try:
        result = lab.compare(
            sides[0],
            sides[1],
            noise_runs=noise_runs,
            fail_on=fail_on,
            strict=strict,
            noise_floor=None if noise_floor is None else noise_floor / 100,
            allow_different=allow_different,
            step_name=step_name,
            whole=whole,
        )
    except (NotComparableError, NoDataError) as error:
        if output is not None or chosen != "table":
            write(write_refusal(error, chosen, base=sides[0], candidate=sides[1]))
        raise
    write(_render(result.comparison, chosen, strict=strict, everything=everything, most=limit))
    ctx.exit(result.exit_code)


command.params += [
    options.STORE,
    options.MEMORY_LIMIT,
    click.Option(
        ["--timeout", "timeout_s"],
        type=float,
        metavar="SECONDS",
        help=f"Stop the comparison after this time, with exit code {_FAILURE_EXIT_CODE}.",
    ),
]


def _side(name: str | None, patterns: tuple[str, ...], side: str) -> tuple[str, ...]:
    """Return the names and patterns of one side. Raises UsageError for none, and for both forms."""
    if name is not None and patterns:
        raise UsageError(f"the {side} is given twice, as {name} and by --{side}-runs; omit one of the two")
    if name is None and not patterns:
        raise UsageError(f"name the {side}: {side.upper()}, or --{side}-runs PATTERN")
    return patterns or (str(name),)


def _format_of(output: Path | None) -> str:
    if output is None:
        return "table"
    try:
        return _SUFFIXES[output.suffix.lower()]
    except KeyError as error:
        raise UsageError(
            f"{output}: no format has this suffix; use {', '.join(_SUFFIXES)}, or name a --format"
        ) from error


def _render(comparison: "Comparison", fmt: str, *, strict: bool, everything: bool, most: int | None) -> str:
    from tracelab.compare import writers

    match fmt:
        case "markdown":
            return writers.write_markdown(comparison, everything=everything, most=most)
        case "junit":
            return writers.write_junit(comparison, strict=strict)
        case "json":
            return writers.write_json(comparison, strict=strict)
    width = shutil.get_terminal_size((_WIDTH, 24)).columns
    return writers.write_text(comparison, everything=everything, most=most, width=width)
