"""Every pair of options of `collect train` on a node with GPUs ends ok, or in one sentence of refusal."""

import functools
import itertools
import os
import re

import pytest

from tests.collect import gpu_node
from tests.collect.option_pairs import cover_pairs, refusal
from tests.needs import needs_torch
from tracelab.cli.collect_train import train_options
from tracelab.collect.settings import Settings
from tracelab.collect.workloads import list_workloads

pytestmark = [needs_torch, pytest.mark.usefixtures("_forked_ranks")]

OPTIONS = {option.name: option for option in train_options()}


def values_of(*names):
    """Return all values of switches and choices, as the command declares them."""
    return {name: (False, True) if OPTIONS[name].is_flag else tuple(OPTIONS[name].type.choices) for name in names}


AXES = {
    **values_of("parallel", "precision", "fsdp_precision"),
    "profiler": ("none", "kineto"),
    **values_of("window", "optimizer"),
    "warmup": (1, 0, 2),
    "epochs": (1, 2),
    "data_fraction": (1.0, 0.05),
    "workers": (0, 1),
    "wait": (0, 1),
    "accumulate": (1, 2),
    "compile_mode": ("default", "reduce-overhead"),
    **values_of("fsdp_wrap", "fsdp_reshard"),
    "cycles": (1, 2),
    **values_of("cuda_graphs", "compile", "channels_last", "pin_memory", "validate", "memory", "shapes", "flops"),
}
EVERYTHING = os.environ.get("TRACELAB_ALL_PAIRS") == "1"
if EVERYTHING:  # stacks of torch in Python take seconds
    AXES |= values_of("stacks")
FIXED = {"workload": "decoder", "device": "cuda", "steps": 3, "batch_size": 2}
ROWS, REFUSED_PAIRS = (41, 46) if EVERYTHING else (40, 45)
"""Pairs that exclude each other; more of them are a contradiction that is new, or written too wide."""


def cost(values):
    """Return roughly how long settings run, in units of 0.05 s of a core."""
    ranks = 2 if values["parallel"] in ("ddp", "fsdp", "tp") else 1
    steps = 3 * values["epochs"] * values["accumulate"]
    window = steps if values["window"] == "all" else 2 * values["cycles"] * values["accumulate"]
    recorded = window if values["profiler"] == "kineto" else 0
    return ranks * (3 + 4 * values["workers"] + 2 * recorded)


@functools.cache
def cover():
    """Return the settings, which take two seconds to choose."""
    return cover_pairs(AXES, FIXED, cost)


UNVARIED = {
    *("model", "set", "data", "data_root", "image_size", "batch_size", "steps", "device", "gpus", "learning_rate"),
    *("momentum", "weight_decay", "pretrained", "weights", "seed", "active", "clock_control", "metrics", "sample_s"),
    *("timeout_s", "out", "run", "force", "sweep", "repeat", "tag"),
    *("stacks", "syncs", "keep_attached"),
}
"""Options without a path of their own through CUDA, or with tests of their own."""
WORKLOADS = sorted(set(list_workloads()) - {"decoder", "huggingface"})
"""Those beside the one that all pairs train, and the one that needs a package."""


@pytest.fixture
def node(tmp_path, monkeypatch):
    return gpu_node.open_node(tmp_path, monkeypatch)


def end_of(node, values):
    """Run settings and return how they ended: ok, or the sentence that refuses them."""
    gpus = None if values.get("parallel", "none") == "none" else 2
    run = node.train(**values | {"gpus": gpus, "timeout_s": 60.0})
    log = run.folder / "rank0.log"
    assert run.status == "ok" or is_refusal(run.error), (values, run.error, log.exists() and log.read_text()[-4000:])
    return run


def is_refusal(error):
    """Return whether an error is one sentence with what to do, and no exception's name."""
    return re.match(r"(rank \d+: )?[^\n]{20,400}; [^\n]+$", error) and not re.search(r"\b\w+Error\b", error)


def test_every_option_is_varied_or_left_out_on_purpose():
    assert set(OPTIONS) == set(AXES) | UNVARIED


def test_every_pair_is_covered_or_refused():
    pairs = {
        frozenset([(first, one), (second, other)])
        for (first, ones), (second, others) in itertools.combinations(AXES.items(), 2)
        for one, other in itertools.product(ones, others)
    }
    covered = {frozenset(pair) for row in cover().rows for pair in itertools.combinations(row.items(), 2)}
    refused = set(map(frozenset, cover().refused))
    assert pairs == covered | refused
    assert not covered & refused
    assert (len(cover().rows), len(refused)) == (ROWS, REFUSED_PAIRS)


def test_a_pair_is_refused_by_a_sentence_that_names_one_of_its_options():
    for (one, other), sentence in cover().refused.items():
        names = [f"--{name.replace('_', '-')}" for name, _ in (one, other)]
        assert any(name in sentence for name in names), (one, other, sentence)
        assert "\n" not in sentence
    assert refusal(FIXED) is None


@pytest.mark.parametrize("number", range(ROWS))
def test_settings_with_every_pair_end_ok(node, number):
    values = FIXED | cover().rows[number]
    run = end_of(node, values)
    assert run.status == "ok", run.error
    settings = Settings(**values)
    ranks = 2 if settings.parallel in ("ddp", "fsdp", "tp") else 1
    for rank in range(ranks):
        trained = [row for row in run.rows("steps", rank) if row["phase"] == "train"]
        assert len(trained) == settings.epochs * 3
        assert all(row["loss"] > 0 for row in trained)
    if settings.profiler == "kineto":
        assert run.json["ranks"]["0"]["kernels"] > 0


@pytest.mark.parametrize(("profiler", "start"), [("nsys", "_forked_ranks"), ("ncu", "_ranks_in_new_processes")])
def test_a_profiler_around_the_ranks_records_their_window(node, profiler, start, request):
    request.getfixturevalue(start)
    run = end_of(node, {"workload": "gemm", "profiler": profiler, "active": 1})
    assert (run.status, run.json["ranks"]["0"]["kernels"]) == ("ok", 2)
    kept = ("profiler.", "nvtx.push ProfilerStep", "nvtx.push work", "host-wait")
    order = [line for line in run.calls() if line.startswith(kept)]
    assert order == [
        "nvtx.push ProfilerStep#0",
        "nvtx.push work",
        "host-wait synchronize",
        "profiler.start",
        "nvtx.push ProfilerStep#1",
        "nvtx.push work",
        "host-wait synchronize",
        "profiler.stop",
        "nvtx.push ProfilerStep#2",
        "nvtx.push work",
    ]


@pytest.mark.parametrize("workload", WORKLOADS if EVERYTHING else [])  # half an hour: make pairs
@pytest.mark.parametrize("parallel", AXES["parallel"])
@pytest.mark.parametrize("profiler", ["none", "kineto", "nsys", "ncu"])
def test_each_workload_ends_ok_or_in_a_sentence(node, workload, parallel, profiler):
    for window in ("step", "forward", "all"):
        values = {"workload": workload, "parallel": parallel, "profiler": profiler, "window": window}
        if refusal(values | {"device": "cuda"}) is None:
            end_of(node, values)
