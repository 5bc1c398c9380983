"""Inference writes and annotates its stages, and answers as a decoder without a cache does."""

import gzip
import json
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.needs import needs_torch, torch
from tracelab.client import Lab
from tracelab.collect.process.cancellation import Cancellation
from tracelab.collect.process.launcher_env import Job
from tracelab.collect.profiling.capture import NoProfiler, StepCapture
from tracelab.collect.profiling.schedule import build_schedule
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.training.loop import PreparedWorkload, TrainingLoop
from tracelab.collect.training.model_setup import RankContext
from tracelab.collect.training.step_log import StepLog
from tracelab.collect.workloads import find_workload, load_module
from tracelab.ingest import pipeline

pytestmark = needs_torch


def rows(folder):
    return [json.loads(line) for line in (folder / "steps.rank0.jsonl").read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def run(tmp_path_factory, _forked_ranks):
    out = tmp_path_factory.mktemp("runs")
    own = {"prompt": "7", "output": "4"}
    options = {"batch_size": 3, "steps": 3, "warmup": 1, "active": 1, "profiler": "kineto", "precision": "bf16"}
    result = train(Settings("inference", out=out, run="served", device="cpu", set=own, sample_s=0.0, **options))
    assert result.status == "ok", result.error
    return result.folder


def test_each_stage_of_each_step_is_a_row(run):
    counted = Counter((row["phase"], row["samples"]) for row in rows(run))
    steps = [row["step"] for row in rows(run) if row["phase"] == "decode"]
    assert counted == {("warmup", 3): 1, ("train", 3): 3, ("prefill", 3): 3, ("decode", 3): 9, ("epoch", 9): 1}
    assert steps == list(range(9))


def test_stages_fill_their_step(run):
    written = rows(run)
    for step in (row for row in written if row["phase"] == "train"):
        end_ns = step["start_ns"] + step["dur_ns"]
        inside = [row for row in written if row["phase"] in ("prefill", "decode")]
        inside = [row for row in inside if step["start_ns"] <= row["start_ns"] <= end_ns]
        assert [row["phase"] for row in inside] == ["prefill", "decode", "decode", "decode"]
        assert 0 < sum(row["dur_ns"] for row in inside) <= step["dur_ns"]


def test_stages_are_ranges_of_the_trace(run):
    content = json.loads(gzip.decompress((run / "rank0.pt.trace.json.gz").read_bytes()))
    ranges = [event for event in content["traceEvents"] if event.get("cat") == "user_annotation"]
    assert Counter(each["name"] for each in ranges) >= Counter({"ProfilerStep#1": 1, "prefill": 1, "decode": 3})


def test_a_run_states_its_model_and_sizes(run):
    content = json.loads((run / "run.json").read_text())
    truth = {
        "parameters": 131_392,
        "prompt_tokens": 21,
        "output_tokens": 12,
        "cache_bytes": 2 * 2 * 2 * 16 * 3 * 10 * 2,
    }
    known = {name: content[name] for name in ("model", "batch_size", "global_batch_size", "precision", "dataset")}
    assert content["truth"] == truth
    assert known == {
        "model": "tiny", "batch_size": 3, "global_batch_size": 3, "precision": "bf16", "dataset": None,
    }  # fmt: skip


def test_latencies_are_those_of_the_rows_that_no_profiler_disturbed(run, tmp_path):
    assert pipeline.ingest([run], tmp_path / "lab").exit_code == 0
    (row,) = Lab(tmp_path / "lab").query("inference_latency").to_pylist()
    undisturbed = [each for each in rows(run) if each["profiler_state"] == "off"]
    prefills, decodes = (sorted(e["dur_ns"] for e in undisturbed if e["phase"] == s) for s in ("prefill", "decode"))
    assert (len(prefills), len(decodes), row["profiler_state"]) == (2, 6, "off")
    assert (row["first_token_p50_ns"], row["first_token_p99_ns"]) == (prefills[0], prefills[1])
    assert (row["token_p50_ns"], row["token_p90_ns"]) == (decodes[2], decodes[5])
    assert (row["prompts"], row["output_tokens"]) == (6, 24)


def test_answers_are_those_without_a_cache(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    module = load_module(find_workload("inference"))
    networks, inputs = [], []

    def build(*arguments, original=module.build):
        network = original(*arguments)
        network.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
        networks.append(network)
        return network

    monkeypatch.setattr(module, "build", build)
    stages = [*module.workload(module.Settings(batch_size=2, prompt=5, output=6))()]
    (network,), (known, *answers) = networks, tuple(inputs)
    assert stages == [("prefill", 2)] + [("decode", 2)] * 5
    assert [tuple(each.shape) for each in (known, *answers)] == [(2, 5)] + [(2, 1)] * 5
    for answer in answers:
        assert torch.equal(network(known)[:, -1:].argmax(-1), answer)
        known = torch.cat((known, answer), dim=1)


def test_a_stage_on_a_gpu_lasts_from_event_to_event(tmp_path):
    """Each event of this GPU is a millisecond after the one before it."""
    times = iter(range(100))

    class Event:
        def __init__(self, *, enable_timing):
            self.time_ms = None

        def record(self):
            self.time_ms = next(times)

        def query(self):
            return True

        def elapsed_time(self, other):
            return float(other.time_ms - self.time_ms)

    def step():
        yield "prefill", 2
        yield "decode", 2

    cuda = SimpleNamespace(
        Event=Event, synchronize=lambda: None, mem_get_info=lambda _: (30, 100), max_memory_allocated=lambda _: 40,
        max_memory_reserved=lambda _: 50, reset_peak_memory_stats=lambda _: None,
    )  # fmt: skip
    settings = Settings("mine", device="cuda", steps=2, warmup=0)
    context = RankContext(SimpleNamespace(cuda=cuda), settings, Job(), torch.device("cuda", 0))
    log = StepLog(context, tmp_path)
    TrainingLoop(
        context, PreparedWorkload(step), StepCapture(build_schedule(settings), NoProfiler(), Cancellation()), log
    ).run()
    log.close()
    written = [(row["phase"], row["step"], row["dur_ns"]) for row in rows(tmp_path) if row["phase"] != "epoch"]
    one_step = [("prefill", 0, 1_000_000), ("decode", 0, 1_000_000), ("train", 0, 5_000_000)]
    assert written == one_step + [(phase, number + 1, dur_ns) for phase, number, dur_ns in one_step]
