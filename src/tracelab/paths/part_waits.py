"""Find what the rows of a part of a recording waited for, as far as its threads need not be divided for that."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tracelab.paths import dependencies
from tracelab.paths.columns import Array
from tracelab.paths.recording import Recording
from tracelab.paths.synchronizations import awaited_by_calls


@dataclass(frozen=True)
class PartWaits:
    """What the rows of a part waited for."""

    launches: dependencies.Launches
    sync_calls: Array
    waiting: Array
    awaited: Array
    stream_before: Array
    edges: dependencies.Edges


def find_waits(recording: Recording, check: Callable[[], None]) -> PartWaits:
    """Find what the rows of a part waited for. `check` raises once the work is to stop."""
    check()
    gpu, cpu = recording.gpu, recording.cpu
    calls = dependencies.index_calls(cpu)
    launches = dependencies.find_launches(gpu, cpu, calls, recording.window_ns)
    streams = dependencies.Streams(gpu)
    awaited = awaited_by_calls(recording, launches, calls, streams)
    edges = dependencies.event_waits(recording, launches, calls, streams)
    kept = replace(launches)  # without the keys that it keeps for searches
    return PartWaits(kept, *awaited, dependencies.stream_order(gpu), edges)
