"""Models of transformers train by name, without a download."""

import importlib.util
import json
import math
import sys

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.training.model_cost import count_model_cost
from tracelab.collect.training.parallelism import find_large_parts
from tracelab.collect.workloads import find_workload, load_module

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="needs transformers: pip install transformers"
)
pytestmark = needs_torch

SMALL = "hidden_size=32,num_hidden_layers=2,num_attention_heads=4,vocab_size=64"


@pytest.fixture
def huggingface(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return load_module(find_workload("huggingface"))


def test_a_node_without_transformers_is_refused(huggingface, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=r"huggingface needs transformers; run pip install 'tracelab\[huggingface\]'"):
        huggingface.data(huggingface.Settings(), train=True)


@needs_transformers
@pytest.mark.parametrize(("name", "parameters"), [("gpt2", 124_439_808), ("llama", 6_738_415_616)])
def test_models_have_their_published_sizes(huggingface, name, parameters):
    settings = huggingface.Settings(model=name)
    sample = huggingface.data(settings, train=True)[0]
    cost = count_model_cost(torch, lambda: huggingface.model(settings), huggingface.workload, sample)
    products = parameters - (1024 * 768 if name == "gpt2" else 32_000 * 4096)  # all matrices but an embedding
    vectors = 12 * (2 + 2 + 3 + 1 + 4 + 1) * 768 + 2 * 768 if name == "gpt2" else (2 * 32 + 1) * 4096
    attention = {"gpt2": 12 * 2 * 64 * 768, "llama": 32 * 2 * 64 * 4096}[name]  # of one token with all 64
    assert (cost.parameters, cost.problem) == (parameters, None)
    assert cost.flop_per_sample == 2 * 64 * (products - vectors + attention)


@needs_transformers
@pytest.mark.parametrize(("name", "own"), [("gpt2", SMALL), ("qwen3", f"{SMALL},num_key_value_heads=2,head_dim=8")])
def test_a_model_trains(tmp_path, _forked_ranks, name, own):
    result = train(
        Settings(
            "huggingface", model=name, out=tmp_path, run=name, device="cpu", warmup=0, batch_size=4, epochs=12,
            data_fraction=4 / 1024, optimizer="adamw", sample_s=0.0, set={"context": "8", "config": own},
        )
    )  # fmt: skip
    assert result.status == "ok", result.error
    rows = [json.loads(line) for line in (result.folder / "steps.rank0.jsonl").read_text().splitlines()[1:]]
    losses = [row["loss"] for row in rows if row["phase"] == "train"]
    run = json.loads((result.folder / "run.json").read_text())
    assert losses[0] == pytest.approx(math.log(64), abs=0.5)
    assert losses[-1] < 0.6 * losses[0]
    assert (run["model"], run["classes"]) == (name, 64)


@needs_transformers
def test_a_config_on_disk_is_a_model(huggingface, tmp_path):
    settings = huggingface.Settings(model="gpt2", config=SMALL)
    huggingface.config(settings).save_pretrained(tmp_path)
    network = huggingface.model(huggingface.Settings(model=str(tmp_path), config="n_positions=16", recompute=True))
    calls = []
    for block in network.transformer.h:
        block.attn.register_forward_pre_hook(lambda *_: calls.append(1))
    tokens = torch.zeros(1, 4, dtype=torch.long)
    huggingface.workload(network)(tokens, tokens)[0].backward()
    assert (network.config.n_embd, network.config.n_positions, len(calls)) == (32, 16, 2 + 2)


@needs_transformers
def test_each_block_is_a_part_that_fsdp_gathers(huggingface):
    sizes = "hidden_size=128,num_hidden_layers=2,num_attention_heads=4,vocab_size=1024"
    network = huggingface.model(huggingface.Settings(model="gpt2", config=sizes))
    parts = list(find_large_parts(torch, network))
    assert parts == [network.transformer.wpe, *network.transformer.h]  # the embedding of tokens is also the last matrix


@needs_transformers
@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"model": "gpt9000"}, "no model type 'gpt9000', and no config of that name is on disk"),
        ({"config": "hiden_size=8"}, "the config of gpt2 has no such field"),
    ],
)
def test_unknown_names_are_refused(huggingface, own, sentence):
    with pytest.raises(ValueError, match=sentence):
        huggingface.model(huggingface.Settings(**own))
