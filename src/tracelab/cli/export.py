"""`tracelab export`: write a run as a trace for Perfetto, or its stacks for flame graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from tracelab.cli import options
from tracelab.errors import UsageError
from tracelab.foreign_text import print_lines

if TYPE_CHECKING:
    from tracelab.export import ExportResult, Request
    from tracelab.export.committed_files import Registered
    from tracelab.store.scope.request import Scope

_EPILOG = """\b
Examples:
  tracelab export
  tracelab export --run resnet --rank 0 --rank 1 -o resnet.json.gz
  tracelab export --from 1.5s --to 1600ms -o part.json
  tracelab export --speedscope -o resnet.speedscope.json
  tracelab export --collapsed --measure gpu -o resnet.txt
  tracelab export --iceberg catalog --delta lab
"""

_MEASURES = ("cpu", "gpu", "gpu_memory", "cpu_memory")
_FRAMES = ("stack", "python", "module")


class Time(click.ParamType[int]):
    """A time with unit, exact to the nanosecond: 1.5s, 20ms, 300us; a plain number is ns."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:  # noqa: ANN401
        """Parse it as integer nanoseconds."""
        from tracelab.store.scope.request import parse_time

        try:
            return parse_time(str(value))
        except UsageError as error:
            self.fail(str(error), param, ctx)


def _parse_place(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Path | str | None:
    """Parse a folder of catalogs; the URL of one in object storage is text."""
    from tracelab.store.files import store_address

    place = store_address(value) if value is not None else None
    if isinstance(place, Path) and place.exists() and not place.is_dir():
        raise click.BadParameter(f"{place} is a file; choose a folder")
    return place


def selection_options() -> list[click.Parameter]:
    """Options that select parts of a store, shared with `view`."""
    return [
        options.STORE,
        click.Option(["--run", "runs"], multiple=True, metavar="NAME", help="Only this run; repeatable."),
        click.Option(["--rank", "ranks"], multiple=True, type=int, metavar="N", help="Only this rank; repeatable."),
        click.Option(
            ["--from", "from_ns"], type=Time(), metavar="TIME", help="Start of the export: 1.5s, 20ms, 300us, or in ns."
        ),
        click.Option(["--to", "to_ns"], type=Time(), metavar="TIME", help="End of the export."),
        click.Option(
            ["--critical-path"],
            is_flag=True,
            help="Add the critical path of the whole recording, as a track of each of its ranks.",
        ),
        options.ALIGNED,
    ]


def _scope_of_stacks() -> list[click.Option]:
    """Return the options of the scope of stacks that the export of a trace does not have."""
    return [each for each in options.SCOPE if each.name not in {"from_", "to"}]


def build_request(
    runs: tuple[str, ...],
    ranks: tuple[int, ...],
    from_ns: int | None,
    to_ns: int | None,
    *,
    critical_path: bool = False,
    aligned: bool = False,
) -> Request:
    """Build the selection. Raises UsageError if the end is before the start."""
    from tracelab.export import Request

    if to_ns is not None and to_ns <= (from_ns or 0):
        raise UsageError("--to must be later than --from")
    return Request(runs, ranks, from_ns, to_ns, critical_path, aligned)


def write_trace(store: Path | None, request: Request, path: Path, stream: BinaryIO) -> ExportResult:
    """Write the trace, compressed if the path ends in .gz."""
    from tracelab import export
    from tracelab.store.session import open_store

    if path.suffix.lower() != ".gz":
        return export.write(open_store(store), request, stream)
    from isal import igzip

    with igzip.IGzipFile("", "wb", 2, stream, 0) as packed:  # type: ignore[no-untyped-call]
        return export.write(open_store(store), request, packed)  # type: ignore[arg-type]  # it is written to, and no more


def summary_lines(done: ExportResult) -> list[str]:
    """Print statistics and notes of the export."""
    ranks = "1 rank" if done.ranks == 1 else f"{done.ranks} ranks"
    return [f"{done.events:,} events of {ranks}, {done.samples:,} values of counters", *done.notes]


@click.command(
    epilog=_EPILOG,
    params=[
        *selection_options(),
        click.Option(
            ["-o", "--output"],
            type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
            metavar="FILE",
            help="Output file; gzip if the name of a trace ends in .gz; -: stdout.  [default: trace.json.gz, "
            "stacks.speedscope.json or stacks.txt]",
        ),
        click.Option(
            ["--speedscope", "stacks"],
            flag_value="speedscope",
            help="Write stacks for https://speedscope.app instead, all measures in one file.",
        ),
        click.Option(
            ["--collapsed", "stacks"],
            flag_value="collapsed",
            help="Write stacks as lines `frame;frame cost`, for flamegraph.pl and others.",
        ),
        click.Option(
            ["--measure"],
            type=click.Choice(_MEASURES),
            help="Of stacks: what they cost.  [default: cpu; speedscope: all]",
        ),
        click.Option(["--by"], type=click.Choice(_FRAMES), help="Of stacks: their frames.  [default: stack]"),
        *_scope_of_stacks(),
        click.Option(["--force"], is_flag=True, help="Overwrite an existing file."),
        click.Option(
            ["--iceberg"],
            callback=_parse_place,
            metavar="DIR",
            help="Instead register the store's Parquet files as Iceberg tables of a SQLite catalog in this folder.",
        ),
        click.Option(
            ["--delta"],
            callback=_parse_place,
            metavar="DIR|URL",
            help="Instead write Delta logs of the store's files into this folder, which may be --store itself.",
        ),
    ],
)
def command(  # noqa: PLR0913  one for each option
    *,
    store: Path | None,
    output: Path | None,
    force: bool,
    stacks: str | None,
    measure: str | None,
    by: str | None,
    iceberg: Path | str | None,
    delta: Path | str | None,
    **selection: Any,  # noqa: ANN401  options have all types
) -> None:
    """Write a run as a trace for https://ui.perfetto.dev and other viewers of Chrome's JSON format.

    All ranks are in one trace, each on its own clock, exact to the nanosecond, with tracelab's counters: kernels in
    flight, copy rates, memory, GPU samples. Times count from the first event; --aligned puts all ranks on one clock.
    `tracelab view` opens the trace directly. With --speedscope or --collapsed the stacks of Python frames and ops are
    written, with what they cost: `tracelab query stacks` defines it, and takes the same scope: --steps, --within and
    others are of stacks alone.

    --iceberg and --delta register the store's files in catalogs, for Spark, Trino and others; no file is copied. Export
    again after an ingest: new files are added, and those of dropped sources removed. Both need the extra `tables`. Of a
    store at a URL, --delta takes that URL, and --iceberg a folder on disk.

    """
    of_stacks = {str(each.name): selection.pop(str(each.name)) for each in _scope_of_stacks()}
    is_of_stacks = any(value not in (None, False, "launch") for value in of_stacks.values())
    if iceberg is not None or delta is not None:
        _register(store, iceberg, delta, [output, stacks, measure, by, is_of_stacks, *selection.values()])
        return
    if stacks is not None:
        from tracelab.cli.query import take_scope
        from tracelab.store.scope.request import format_time

        times = {"from_": selection["from_ns"], "to": selection["to_ns"]}
        scope = take_scope(of_stacks | {name: None if ns is None else format_time(ns) for name, ns in times.items()})
        _export_stacks(store, stacks, output, {"measure": measure, "by": by, **selection}, scope, force=force)
        return
    if selection["critical_path"] and is_of_stacks:
        raise UsageError(
            "--critical-path adds the path of the whole recording: leave out the options of a scope but --from and "
            "--to; `tracelab query critical_path_rows` lists the path of a scope"
        )
    if measure is not None or by is not None or is_of_stacks:
        given = "--measure, --by, and the options of a scope but --from and --to"
        raise UsageError(f"{given} are about stacks; add --speedscope or --collapsed")
    import sys

    from tracelab.cli.output import check_writable, write_atomically

    request = build_request(**selection)
    output = output or Path("trace.json.gz")
    if output == Path("-"):
        done = write_trace(store, request, output, sys.stdout.buffer)
    else:
        _check_suffix(output)
        check_writable(output, force=force)
        results: list[ExportResult] = []
        write_atomically(
            output, lambda stream: results.append(write_trace(store, request, output, stream)), force=force
        )
        done = results[0]
    for line in summary_lines(done):
        print_lines(line, err=True)


def _register(store: Path | None, iceberg: Path | str | None, delta: Path | str | None, others: list[Any]) -> None:
    """Register the files of a store in catalogs; options that select rows are refused: files have all of them."""
    from tracelab.export.delta import register_delta
    from tracelab.export.iceberg import CATALOG, register_iceberg
    from tracelab.store.files import store_address

    if any(value not in (None, False, ()) for value in others):
        raise UsageError("--iceberg and --delta register whole files: leave out options that select rows or a format")
    root = store_address(store)
    if iceberg is not None:
        print_lines(_describe(f"iceberg {iceberg}/{CATALOG}", register_iceberg(root, iceberg)), err=True)
    if delta is not None:
        print_lines(_describe(f"delta {delta}", register_delta(root, delta)), err=True)


def _describe(place: str, done: Registered) -> str:
    return f"{place}: {done.files:,} files of {done.tables} tables; {done.added:,} added, {done.removed:,} removed"


def _export_stacks(
    store: Path | None,
    form: str,
    output: Path | None,
    selection: dict[str, Any],
    scope: Scope | None,
    *,
    force: bool,
) -> None:
    """Write stacks, of a scope where its options are given; options about clocks are refused: a stack has no time."""
    import sys

    from tracelab.cli.output import check_writable, write_atomically
    from tracelab.export import stacks
    from tracelab.store.session import open_store

    if selection["critical_path"] or selection["aligned"]:
        raise UsageError("stacks have no times: leave out --critical-path and --aligned")
    is_speedscope = form == "speedscope"
    path = output or Path("stacks.speedscope.json" if is_speedscope else "stacks.txt")
    if path != Path("-"):
        check_writable(path, force=force)
    measures = (
        (selection["measure"],) if selection["measure"] else tuple(stacks.MEASURES) if is_speedscope else ("cpu",)
    )
    request = stacks.StackRequest(selection["runs"], selection["ranks"], measures, selection["by"] or "stack", scope)
    trees, notes = stacks.read_stacks(open_store(store), request)
    write = stacks.write_speedscope if is_speedscope else stacks.write_collapsed
    counts: list[int] = []
    if path == Path("-"):
        counts.append(write(trees, sys.stdout.buffer))
    else:
        write_atomically(path, lambda stream: counts.append(write(trees, stream)), force=force)
    names = ", ".join(dict.fromkeys(stacks.MEASURES[tree.measure][0] for tree in trees))
    ranks = len({(tree.run, tree.rank) for tree in trees})
    written = "1 stack" if counts[0] == 1 else f"{counts[0]:,} stacks"
    print_lines(f"{written} of {'1 rank' if ranks == 1 else f'{ranks:,} ranks'}: {names}", err=True)
    for note in notes:
        print_lines(note, err=True)


def _check_suffix(path: Path) -> None:
    if not path.name.lower().endswith((".json", ".json.gz")):
        raise UsageError(f"{path}: an export is Chrome's JSON; use a file name that ends in .json or .json.gz")
