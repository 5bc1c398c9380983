"""Measure queries on stores of GPU rows, of one rank or several, and check their results against the ground truth."""

import gzip
import json
import math
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import query_cost
from ingest_cost import build_aside, ingest
from process_cost import cost
from truth_comparison import differences

GENERATED = Path(__file__).parents[1] / "data" / "generated"
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}


def measure(ranks: int, work: Path, kernels: int) -> query_cost.Asked:
    """Ingest the GPU rows of so many kernels, spread over some ranks, and ask every question."""
    store, traces = work / "store", work / "traces"
    traces.mkdir(parents=True)
    truth = json.loads((GENERATED / "truth.json").read_text())["ranks"]
    try:
        repetitions = [
            _trace(rank, truth[str(rank % len(truth))]["kernels"], traces, kernels // ranks) for rank in range(ranks)
        ]
        text_mb = sum(file.stat().st_size for file in traces.iterdir()) / 1e6
        ingested = cost(ingest(traces, store, run="asked"))
        shutil.rmtree(traces)
        name = f"{ranks} rank{'s' if ranks > 1 else ''}"
        held = f"{name}: GPU rows of {kernels:,} kernels, {text_mb:,.0f} MB ingested in {ingested.wall_s:.1f} s"
        asked = query_cost.ask(store, name, held, repeats=query_cost.repeats_of(kernels))
    finally:
        shutil.rmtree(traces, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
    rows = {question: answer.rows for question, answer in asked.answers.items()}
    asked.wrong += [
        f"{ranks} ranks, rank {rank}: {problem}"
        for rank, times in enumerate(repetitions)
        for problem in differences(truth[str(rank % len(truth))], times, rank, rows)
    ]
    return asked


def _trace(rank: int, kernels_each: int, folder: Path, kernels: int) -> int:
    """Write one rank's trace with about as many kernels, and nothing but GPU rows; return its repetitions."""
    source = folder / f"source{rank}.json"
    source.write_text(_gpu_only(rank))
    repetitions = math.ceil(kernels / kernels_each)
    # The size of the first two repetitions tells that of any number, nearly: ids and times grow by some digits.
    once, twice = (build_aside(source, folder / "probe.json", mb) for mb in (0, source.stat().st_size * 1.2 / 1e6))
    each = (twice.text_bytes - once.text_bytes) / (twice.repetitions - once.repetitions)
    size_mb = (once.text_bytes + each * 1.01 * (repetitions - 1)) / 1e6
    built = build_aside(source, folder / f"rank{rank}.pt.trace.json", size_mb)
    source.unlink()
    (folder / "probe.json").unlink()
    return built.repetitions


def _gpu_only(rank: int) -> str:
    """Return a generated rank's trace without its CPU events, as that of `rank`; times keep their text."""
    files = sorted((GENERATED / "generated-4rank-ddp").glob("rank*.json.gz"))
    with gzip.open(files[rank % len(files)], "rt") as file:
        head, key, rest = file.read().partition('"traceEvents": [')
    end = rest.rindex("]")
    kept = [text for text in _events(rest[:end]) if json.loads(text).get("cat") in GPU]
    head = re.sub(r'("rank": )\d+', rf"\g<1>{rank}", head)
    return f"{head}{key}\n" + ",\n".join(kept) + f"\n{rest[end:]}"


def _events(text: str) -> Iterable[str]:
    decode, at = json.JSONDecoder().raw_decode, text.index("{")
    while True:
        _, end = decode(text, at)
        yield text[at:end]
        at = text.find("{", end)
        if at < 0:
            return
