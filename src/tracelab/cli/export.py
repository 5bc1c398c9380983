"""`tracelab export`: a run as a trace for Perfetto's interface."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tracelab.cli import options
from tracelab.errors import UsageError

if TYPE_CHECKING:
    from tracelab.export import Exported, Request

_EPILOG = """\b
Examples:
  tracelab export
  tracelab export --run resnet --rank 0 --rank 1 -o resnet.json.gz
  tracelab export --from 1.5s --to 1600ms -o part.json
"""

_UNITS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "": 1}


class Time(click.ParamType[int]):
    """A time with its unit, exact to the nanosecond: 1.5s, 20ms, 300us; a number alone is ns."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Read it as whole nanoseconds."""
        found = re.fullmatch(r"(\d+)(?:\.(\d+))?\s*(ns|us|µs|ms|s|)", str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write it as 1.5s, 20ms, 300us or 1234567 (ns)", param, ctx)
        size = _UNITS[found[3]]
        fraction = found[2] or ""
        return int(found[1]) * size + int(fraction or 0) * size // int(f"1{'0' * len(fraction)}")


def asked() -> list[click.Parameter]:
    """The options that say what of a store is meant; `view` has them too."""
    return [
        options.STORE,
        click.Option(["--run", "runs"], multiple=True, metavar="NAME", help="This run; may be given more than once."),
        click.Option(["--rank", "ranks"], multiple=True, type=int, metavar="N", help="Only this rank; so may this."),
        click.Option(
            ["--from", "from_ns"], type=Time(), metavar="TIME", help="Only from there on: 1.5s, 20ms, 300us; or in ns."
        ),
        click.Option(["--to", "to_ns"], type=Time(), metavar="TIME", help="Only up to there."),
    ]


def request(runs: tuple[str, ...], ranks: tuple[int, ...], from_ns: int | None, to_ns: int | None) -> Request:
    """What is asked for; a time that ends before it begins is refused."""
    from tracelab.export import Request

    if to_ns is not None and to_ns <= (from_ns or 0):
        raise UsageError("--to is not behind --from, so there is no time between them")
    return Request(runs, ranks, from_ns, to_ns)


def written(store: Path | None, what: Request, path: Path, stream: BinaryIO) -> Exported:
    """Write the trace, packed where the path ends in .gz."""
    from tracelab import export
    from tracelab.schema import store_path

    if path.suffix.lower() != ".gz":
        return export.write(store_path(store), what, stream)
    from isal import igzip

    with igzip.IGzipFile("", "wb", 2, stream, 0) as packed:  # type: ignore[no-untyped-call]
        return export.write(store_path(store), what, packed)  # type: ignore[arg-type]  # it is written to, and no more


def told(done: Exported) -> list[str]:
    """What the export holds, and what must be known of it."""
    ranks = "1 rank" if done.ranks == 1 else f"{done.ranks} ranks"
    return [f"{done.events:,} events of {ranks}, {done.samples:,} values of counters", *done.notes]


@click.command(
    epilog=_EPILOG,
    params=[
        *asked(),
        click.Option(
            ["-o", "--output"],
            type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
            default=Path("trace.json.gz"),
            show_default=True,
            metavar="FILE",
            help="Write there, packed where it ends in .gz; -: to stdout.",
        ),
        click.Option(["--force"], is_flag=True, help="Overwrite a file that exists."),
    ],
)
def command(
    *,
    store: Path | None,
    runs: tuple[str, ...],
    ranks: tuple[int, ...],
    from_ns: int | None,
    to_ns: int | None,
    output: Path,
    force: bool,
) -> None:
    """Write a run as a trace that https://ui.perfetto.dev opens, and other viewers of Chrome's JSON.

    All ranks stand in one trace, each on the clock that it was recorded with, exact to the nanosecond, and beside the
    recorded events tracelab's counters: kernels in flight, rates of copies, memory, what was sampled of the cards.
    Times count from the first event. `tracelab view` opens the same in a browser.
    """
    import sys

    from tracelab.cli.output import check_writable, write_atomically

    what = request(runs, ranks, from_ns, to_ns)
    if output == Path("-"):
        done = written(store, what, output, sys.stdout.buffer)
    else:
        _check_suffix(output)
        check_writable(output, force=force)
        results: list[Exported] = []
        write_atomically(output, lambda stream: results.append(written(store, what, output, stream)), force=force)
        done = results[0]
    for line in told(done):
        click.echo(line, err=True)


def _check_suffix(path: Path) -> None:
    if not path.name.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"{path}: an export is Chrome's JSON; let the file's name end in .json or .json.gz")
