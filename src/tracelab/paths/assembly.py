"""Find the nodes of a recording: its parts are worked on apart, two at a time, and write into arrays of all nodes."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tracelab.paths.columns import NONE, Array
from tracelab.paths.dependencies import Edges
from tracelab.paths.nodes import Nodes
from tracelab.paths.part_nodes import divide_time, fill_nodes
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
        divided, waits = [each.result() for each in dividing], [each.result() for each in finding]
        nodes = _allocate(recording, parts, divided, waits)
        first_segments = np.cumsum([0, *(len(segments.start) for segments in divided)]).tolist()
        filling = [
            cores.submit(fill_nodes, nodes, part, segments, found, first, check)
            for part, segments, found, first in zip(parts, divided, waits, first_segments[:-1], strict=True)
        ]
        del dividing, finding, divided, waits  # each is freed once its part is done
        clamped = sum(each.result() for each in filling)
    return nodes, clamped


def _allocate(
    recording: Recording, parts: Sequence[Part], divided: Sequence[Segments], waits: Sequence[PartWaits]
) -> Nodes:
    """Return arrays for the nodes of all parts; those of edges have their values."""
    segments, rows = sum(len(each.start) for each in divided), recording.gpu.count
    nodes = segments + rows
    start, end = np.empty(nodes, np.int64), np.empty(nodes, np.int64)

    def join_edges(name: str) -> Array:
        by_part = zip(waits, parts, strict=True)
        return np.concatenate([getattr(each.edges, name) + part.first_gpu_row for each, part in by_part])

    return Nodes(
        segments=Segments(
            np.empty(segments, np.int32), start[:segments], end[:segments], np.empty(segments, np.int32),
            np.empty(recording.cpu.count, np.int32), max(each.span for each in divided),
        ),
        start=start,
        end=end,
        since=np.empty(nodes, np.int64),
        before=np.full(nodes, -1, np.int32),
        bound=np.full(nodes, NONE),
        gap=np.zeros(nodes, np.int8),
        cause=np.zeros(nodes, np.int8),
        rank=np.empty(nodes, np.int32),
        row=np.empty(nodes, np.int32),
        op=np.empty(nodes, np.int32),
        launch_row=np.empty(nodes, np.int32),
        is_sync=np.empty(segments, bool),
        is_silent=np.empty(segments, bool),
        is_loader=np.empty(segments, bool),
        is_unexplained=np.empty(segments, bool),
        waits=Edges(
            join_edges("after"), join_edges("before"), np.concatenate([each.edges.is_inferred for each in waits])
        ),
        stream_before=np.empty(rows, np.int64),
        launch_time=np.empty(rows, np.int64),
        launch_thread=np.empty(rows, np.int64),
        launch_before=np.empty(rows, np.int64),
        launch_at=np.empty(rows, np.int64),
    )  # fmt: skip
