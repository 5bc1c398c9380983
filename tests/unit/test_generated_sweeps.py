"""The generated sweeps: the same bytes each time, and nothing in them that passes for a measurement."""

import gzip
import importlib
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "data" / "generated" / "sweeps"


@pytest.fixture
def sweeps(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "data")
    return importlib.import_module("sweeps")


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def test_the_generator_writes_the_committed_files_again(sweeps: ModuleType) -> None:
    made = sweeps.files()
    written = {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in made.items()}
    assert written == {
        path.relative_to(FOLDER).as_posix(): content(path) for path in FOLDER.rglob("*") if path.is_file()
    }


def test_every_file_states_that_no_gpu_was_involved() -> None:
    for path in (path for path in FOLDER.rglob("*.*") if path.is_file()):
        first = content(path).decode().split("\n")[0] if path.suffix == ".jsonl" else content(path)
        assert json.loads(first)["generated"] == "by data/sweeps.py; no GPU was involved"


def test_failures_are_among_the_cells() -> None:
    runs = [json.loads(path.read_bytes()) for path in FOLDER.glob("generated-scaling/*/run.json")]
    assert Counter(run["status"] for run in runs) == {"ok": 25, "oom": 3, "timeout": 1, "not_run": 1}


def test_kernels_of_a_stream_follow_each_other_and_their_launches() -> None:
    trace = json.loads(content(next(FOLDER.glob("generated-shares/*alexnet-b64*/rank0*.gz"))))["traceEvents"]
    kernels = [event for event in trace if event.get("cat") == "kernel"]
    calls = {event["args"]["correlation"]: event["ts"] for event in trace if event.get("cat") == "cuda_runtime"}
    assert all(kernel["ts"] > calls[kernel["args"]["correlation"]] for kernel in kernels)
    ends: dict[tuple[int, int], float] = {}
    for kernel in sorted(kernels, key=lambda event: event["ts"]):
        lane = kernel["args"]["device"], kernel["args"]["stream"]
        assert kernel["ts"] >= ends.get(lane, 0)
        ends[lane] = kernel["ts"] + kernel["dur"]
    assert len(ends) == 8
