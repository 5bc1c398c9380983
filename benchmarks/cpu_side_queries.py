"""Measure queries on a store of a generated rank's whole trace: ops, API calls, NVTX ranges, memory and GPU rows."""

import shutil
from pathlib import Path

import query_cost
from ingest_cost import build_aside, ingest
from process_cost import cost

SOURCE = Path(__file__).parents[1] / "data" / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz"
BYTES_AN_EVENT = 280


def measure(work: Path, events: int) -> query_cost.Asked:
    """Build the trace, ingest it, and ask every question."""
    store, trace = work / "host-store", work / "host.pt.trace.json"
    try:
        built = build_aside(SOURCE, trace, events * BYTES_AN_EVENT / 1e6)
        ingested = cost(ingest(trace, store, run="host"))
        trace.unlink()
        text_mb = built.text_bytes / 1e6
        held = f"a whole trace: {built.events:,} events, {text_mb:,.0f} MB ingested in {ingested.wall_s:.1f} s"
        return query_cost.ask(store, "whole trace", held, repeats=query_cost.repeats_of(events))
    finally:
        trace.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)
