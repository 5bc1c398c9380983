"""tracelab: profiler traces of GPU training in one exact SQL schema."""

from __future__ import annotations

TYPE_CHECKING = False  # typing and pathlib would double the time until the command line handles Ctrl-C
if TYPE_CHECKING:
    from pathlib import Path

    from tracelab.client import Lab
    from tracelab.collect.recording.script import ScriptRecording

__version__ = "0.1.0"


def open(  # noqa: A001  tracelab.open("lab") reads as what it does
    store: Path | str | None = None,
    *,
    memory_limit: str | None = None,
    timeout_s: float | None = None,
    aligned: bool = False,
) -> Lab:
    """Open a store for queries: `tracelab.open("lab").query("kernel_summary").pl()` returns a polars DataFrame.

    Without a path it opens $TRACELAB_STORE, else ./lab, as on the command line. `memory_limit` is DuckDB's, such as
    "2GB"; `timeout_s` is the longest time of one call, in seconds, of at most a year. With `aligned`, the times of all
    ranks of a run are on the clock of the lowest.
    """
    from tracelab.client import Lab
    from tracelab.store.session import open_store

    return Lab(open_store(store), memory_limit, timeout_s, aligned)


def record(  # noqa: PLR0913  one for each option
    run: str | None = None,
    *,
    out: Path | str = "runs",
    wait: int | None = None,
    active: int | None = None,
    cycles: int = 1,
    after_s: float | None = None,
    for_s: float | None = None,
    on_demand: bool = False,
    shapes: bool = False,
    memory: bool = False,
    stacks: bool = False,
    flops: bool = False,
    syncs: bool = False,
    keep_attached: bool = False,
    force: bool = False,
) -> ScriptRecording:
    """Record the steps of a script into a run folder: `with tracelab.record() as r:` around the loop, `r.step()` in it.

    The profiler skips `wait` steps, or `after_s` seconds, and records `active` steps, or `for_s` seconds, `cycles`
    times; without them the first 20 steps or 30 s. With `on_demand`, SIGUSR1, `r.request()` or a touch of the file
    `record` in the run folder begins each recording. Every rank enters the block, after `init_process_group`.
    `syncs` records which streams and events GPU work waits for, so that critical paths know it.
    `keep_attached` leaves CUPTI attached after a window, which slows later steps on an NVIDIA GPU.

    The end of the block prints one line on stderr. A name that has a finished run raises UsageError: without a name,
    each run has the time in its own, and `force=True` replaces the run.
    """
    from pathlib import Path

    from tracelab.collect.recording.profilers import KinetoOptions
    from tracelab.collect.recording.script import ScriptRecording
    from tracelab.collect.recording.window import Window

    window = Window(wait, active, cycles, after_s, for_s, on_demand)
    options = KinetoOptions(shapes, memory, stacks, flops, syncs, keep_attached)
    return ScriptRecording(run, Path(out), window, options, force=force)
