"""Where the shared corpus of real profiler outputs stands, and the marks of the tests that read it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "shared" / "traces"
"""Beside the checkout, as it is too large and too variously licensed to be part of it."""

needs_traces = [
    pytest.mark.traces,
    pytest.mark.skipif(not ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout"),
]


def kineto_files() -> list[Path]:
    """Every Kineto or Chrome trace of the corpus, in a fixed order; none where the corpus is absent."""
    return sorted((ROOT / "kineto").rglob("*.json*"))
