"""Find the nodes of a recording: its parts are worked on apart, two at a time, and write into arrays of all nodes."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from tracelab.paths.bursts import Bursts, find_bursts
from tracelab.paths.columns import NONE, Array, repeat_number
from tracelab.paths.dependencies import Edges
from tracelab.paths.nesting import Nesting
from tracelab.paths.nodes import Nodes
from tracelab.paths.part_nodes import PartNodes, divide_time, fill_nodes
from tracelab.paths.part_waits import PartWaits, find_waits
from tracelab.paths.parts import Part, split_recording
from tracelab.paths.recording import Recording
from tracelab.paths.threads import Segments

_CORES = 2
"""Parts that are worked on at once: more take more memory."""


def find_nodes(recording: Recording, check: Callable[[], None]) -> tuple[Nodes, int]:
    """Return the nodes of a recording, without the waits for other ranks, and how many rows were clamped.

    These start before what they waited for had ended. `check` raises once the work is to stop.
    """
    parts = split_recording(recording)
    with ThreadPoolExecutor(_CORES) as cores:
        dividing = [cores.submit(divide_time, part.recording.cpu) for part in parts]
        finding = [cores.submit(find_waits, part.recording, check) for part in parts]
        found = [
            cores.submit(_find_bursts, part, divided, waits, check)
            for part, divided, waits in zip(parts, dividing, finding, strict=True)
        ]
        divided, waits = [each.result() for each in dividing], [each.result() for each in finding]
        bursts = [each.result() for each in found]
        nodes = _allocate(recording, parts, divided, bursts, waits)
        firsts = _firsts(segments.start for segments in divided), _firsts(each.head for each in bursts)
        filling = [
            cores.submit(fill_nodes, nodes, PartNodes(*known), check)
            for known in zip(parts, divided, bursts, waits, *firsts, strict=True)
        ]
        del dividing, finding, found, divided, waits, bursts  # each is freed once its part is done
        clamped = sum(each.result() for each in filling)
    return nodes, clamped


def _find_bursts(
    part: Part, dividing: "Future[Segments]", finding: "Future[PartWaits]", check: Callable[[], None]
) -> Bursts:
    """Find the bursts of a part once its threads are divided and its waits found: both began before."""
    return find_bursts(part.recording, dividing.result(), finding.result(), check)


def _firsts(arrays: Iterable[Array]) -> list[int]:
    """Return where each array begins among all, one behind the other."""
    lengths = [len(array) for array in arrays]
    return [0, *np.cumsum(lengths).tolist()][: len(lengths)]


def _allocate(
    recording: Recording,
    parts: Sequence[Part],
    divided: Sequence[Segments],
    bursts: Sequence[Bursts],
    waits: Sequence[PartWaits],
) -> Nodes:
    """Return arrays for the nodes of all parts; those of edges and of unexplained segments have their values."""
    segments, rows = sum(len(each.start) for each in divided), recording.gpu.count
    heads = sum(len(each.head) for each in bursts)
    nodes = heads + rows

    def join_edges(name: str) -> Array:
        by_part = zip(waits, parts, strict=True)
        return np.concatenate([getattr(each.edges, name) + part.first_gpu_row for each, part in by_part])

    def join_rows(name: str) -> Array:
        return np.concatenate(
            [getattr(each, name) + part.first_cpu_row for each, part in zip(waits, parts, strict=True)]
        )

    def launched() -> Array:
        """Return -1 for each row of a GPU, as a view of one item where no launch is recorded."""
        is_any = any((each.launches.row >= 0).any() for each in waits)
        return np.full(rows, -1, np.int32) if is_any else repeat_number(-1, rows)

    first_segments = _firsts(each.start for each in divided)
    parent = np.empty(recording.cpu.count, np.int32)
    return Nodes(
        segments=Segments(
            thread=np.empty(segments, np.int32),
            start=np.empty(segments, np.int64),
            last_end=np.concatenate([each.last_end for each in divided]),
            row=np.empty(segments, np.int32),
            parent=parent,
            span=max(each.span for each in divided),
        ),
        nesting=Nesting(recording.cpu, parent, join_rows("sync_calls")),
        head=np.empty(heads, np.int64),
        start=np.empty(nodes, np.int64),
        end=np.empty(nodes, np.int64),
        since=np.empty(nodes, np.int64),
        before=np.full(nodes, -1, np.int32),
        bound=np.full(nodes, NONE),
        gap=np.zeros(nodes, np.int8),
        cause=np.zeros(nodes, np.int8),
        awaited_segment=np.empty(heads, np.int64),
        unexplained=np.concatenate(
            [each.unexplained + first for each, first in zip(bursts, first_segments, strict=True)]
        ),
        waits=Edges(
            join_edges("after"), join_edges("before"), np.concatenate([each.edges.is_inferred for each in waits])
        ),
        launch_row=launched(),
        launch_call=launched(),
        launch_before=launched(),
        launch_at=launched(),
    )  # fmt: skip
