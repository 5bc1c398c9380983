"""Recordings are joined where each overlaps each and no rank is twice, as comparing all pairs has it."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tracelab.ingest import run_grouping
from tracelab.ingest.discovery import Candidate
from tracelab.readers import kineto
from tracelab.readers.base import Probe

SPANS = st.tuples(st.integers(0, 30), st.integers(0, 12), st.none() | st.integers(0, 5))
"""Start, length and rank of a recording."""


@given(st.lists(SPANS, max_size=14))
def test_recordings_are_joined_where_all_pairs_overlap(spans: list[tuple[int, int, int | None]]) -> None:
    recordings = [
        run_grouping._Recording(
            start, start + length, [Candidate(Path(str(at)), kineto, Probe("kineto", rank), (0, 0))]
        )
        for at, (start, length, rank) in enumerate(sorted(spans, key=lambda span: span[:2]))
    ]
    expected: list[list[run_grouping._Recording]] = []
    for recording in recordings:
        fitting = (group for group in expected if all(map(recording.may_join, group)))
        group = next(fitting, None)
        if group is None:
            expected.append([recording])
        else:
            group.append(recording)
    assert run_grouping._join_overlapping(recordings) == [[each.files[0] for each in group] for group in expected]
