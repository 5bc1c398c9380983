"""The decoder has the published sizes, computes what its formulas define, and trains."""

import functools
import itertools
import json
import math
import sys

import pytest

from tests.needs import needs_torch, torch
from tracelab.collect.settings import Settings
from tracelab.collect.train import train
from tracelab.collect.training.model_cost import count_model_cost
from tracelab.collect.workloads import build_settings, find_workload, load_module

pytestmark = needs_torch


@pytest.fixture(scope="module")
def decoder():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        yield load_module(find_workload("decoder"))


def small(decoder, **own):
    """Return a decoder whose weights are large enough to make differences visible."""
    torch.manual_seed(0)
    network = decoder.model(build_settings(decoder, {"model": "tiny"}, own))
    with torch.no_grad():
        for each in network.parameters():
            each.mul_(4.0)
    return network


def decoder_model():
    return sys.modules["decoder_model"]


def random_tokens(count=12, batch=2):
    return torch.randint(512, (batch, count), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("tiny", 512 * 64 + 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 192 + 2 * 64) + 64),
        ("135m", 134_515_008),
        ("1b", 1_235_814_400),
        ("3b", 3_212_749_824),
        ("8b", 8_030_261_248),
        ("70b", 70_553_706_496),
    ],
)
def test_models_have_their_published_sizes(decoder, model, parameters):
    with torch.device("meta"):
        network = decoder.model(decoder.Settings(model=model))
    assert sum(each.numel() for each in network.parameters()) == parameters


def test_untied_scores_have_a_matrix_of_their_own(decoder):
    counts = [sum(each.numel() for each in small(decoder, embeddings=each).parameters()) for each in ("tied", "untied")]
    assert counts[1] - counts[0] == 512 * 64


def test_operations_are_counted_as_by_hand(decoder):
    settings = decoder.Settings(context=64, attention="flash")
    sample = decoder.data(settings, train=True)[0]
    cost = count_model_cost(torch, lambda: decoder.model(settings), decoder.workload, sample)
    products = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 192) + 512 * 64  # of one token: two blocks, and the scores
    attention = 2 * 2 * 64 * 64  # of one token with all: two blocks, scores and their use, four heads of 16
    assert (cost.flop_per_sample, cost.problem) == (2 * 64 * (products + attention), None)


def plain_forward(network, tokens):
    """Compute one sequence's scores from the formulas, head by head and token by token."""
    size, half = network.size, network.size.head_width // 2

    def norm(x, weight):
        return x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight

    def rotated(head, position):
        turned = head.clone()
        for pair in range(half):
            angle = position * size.theta ** (-pair / half)
            a, b = head[pair], head[pair + half]
            turned[pair] = a * math.cos(angle) - b * math.sin(angle)
            turned[pair + half] = b * math.cos(angle) + a * math.sin(angle)
        return turned

    x = network.tokens.weight[tokens]
    for block in network.blocks:
        normed, attention = norm(x, block.attention_norm.weight), block.attention
        heads = {
            name: (normed @ getattr(attention, name).weight.T).unflatten(-1, (-1, size.head_width))
            for name in ("query", "key", "value")
        }
        rows = []
        for place in range(len(tokens)):
            row = []
            for head in range(size.heads):
                of = head // (size.heads // size.kv_heads)
                query = rotated(heads["query"][place, head], place)
                scores = [query @ rotated(heads["key"][to, of], to) / size.head_width**0.5 for to in range(place + 1)]
                shares = torch.stack(scores).softmax(0)
                row.append(sum(shares[to] * heads["value"][to, of] for to in range(place + 1)))
            rows.append(torch.cat(row))
        x = x + torch.stack(rows) @ attention.output.weight.T
        normed, mlp = norm(x, block.mlp_norm.weight), block.mlp
        gate = normed @ mlp.gate.weight.T
        x = x + (gate * gate.sigmoid() * (normed @ mlp.expand.weight.T)) @ mlp.contract.weight.T
    return norm(x, network.norm.weight) @ network.scores.weight.T


@pytest.mark.parametrize("backend", ["auto", "flash", "math"])
def test_scores_follow_from_the_formulas(decoder, backend):
    network, tokens = small(decoder, attention=backend), random_tokens(6, 1)
    with torch.no_grad():
        torch.testing.assert_close(network(tokens)[0], plain_forward(network, tokens[0]), rtol=1e-4, atol=1e-4)


def test_a_backend_that_the_device_lacks_is_refused(decoder):
    network = small(decoder, attention="cudnn")
    with pytest.raises(ValueError, match="attention=cudnn: torch has no such kernel"):
        network(random_tokens())


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        ({"model": "gpt5"}, "no model 'gpt5'; choose one of tiny, 135m"),
        ({"heads": 4, "kv_heads": 3}, "4 heads of width 16 do not share 3 kv_heads evenly"),
        ({"attention": "fast"}, "no attention 'fast'; choose one of auto, flash"),
        ({"embeddings": "shared"}, "no embeddings 'shared'; choose one of model, tied, untied"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(decoder, own, sentence):
    with pytest.raises(ValueError, match=sentence):
        decoder.model(decoder.Settings(**own))


def test_recomputed_blocks_run_twice_and_have_the_same_gradients(decoder):
    tokens, gradients, runs = random_tokens(), {}, {}
    for every in (0, 1, 2, 3):
        network = small(decoder, layers="3", recompute=str(every))
        calls = []
        for block in network.blocks:
            block.register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        network(tokens).square().mean().backward()
        gradients[every] = [each.grad for each in network.parameters()]
        runs[every] = len(calls)
    assert runs == {0: 3, 1: 6, 2: 5, 3: 4}
    for every in (1, 2, 3):
        torch.testing.assert_close(gradients[every], gradients[0])


def saved_bytes(compute):
    """Return the bytes that the forward pass keeps for the backward pass, each storage once."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss, _ = compute()
    return sum(storages.values()), loss


@pytest.mark.parametrize("loss_tokens", ["5", "12", "64"])
def test_a_loss_in_parts_is_the_loss_of_all_tokens(decoder, loss_tokens):
    tokens, successors = random_tokens(13)[:, :-1], random_tokens(13)[:, 1:]
    results = []
    for own in ({}, {"loss_tokens": loss_tokens}):
        network = small(decoder, **own)
        loss, accuracy = decoder.workload(network)(tokens, successors)
        loss.backward()
        results.append([loss.detach(), accuracy, *(each.grad for each in network.parameters())])
    torch.testing.assert_close(results[0], results[1])


def test_recomputed_blocks_and_a_loss_in_parts_keep_less_memory(decoder):
    """Of 2 x 64 tokens: recomputed blocks keep their inputs alone, and parts of the loss keep no scores."""
    tokens, kept = random_tokens(64), {}
    for recompute, loss_tokens in itertools.product("01", ("0", "16")):
        network = small(decoder, recompute=recompute, loss_tokens=loss_tokens, layers="8")
        kept[recompute, loss_tokens], loss = saved_bytes(functools.partial(decoder.workload(network), tokens, tokens))
        loss.backward()
    inputs, scores = 2 * 64 * 64 * 4, 2 * 64 * 512 * 4
    assert 8 * inputs < kept["1", "16"] < 12 * inputs  # of each block, and of the last norm and its scores
    assert kept["1", "0"] - kept["1", "16"] > scores
    assert kept["0", "0"] > 8 * kept["1", "0"]


@pytest.mark.parametrize("parts", [[12], [5, 1, 1, 1, 1, 1, 1, 1], [4, 4, 4], [1] * 12])
def test_a_cache_gives_the_scores_of_a_full_forward_pass(decoder, parts):
    network, tokens = small(decoder), random_tokens()
    cache, ends = decoder_model().Cache(12), list(itertools.accumulate(parts))
    with torch.no_grad():
        scores = [network(part, cache=cache) for part in tokens.split(parts, dim=1)]
        whole = network(tokens)[:, [end - 1 for end in ends]]
    assert cache.length == 12
    torch.testing.assert_close(torch.cat(scores, dim=1), whole, rtol=1e-4, atol=1e-4)


def test_a_compiled_decoder_needs_three_graphs_to_decode(decoder):
    """The first prompt, which allocates the cache, each further token, and each further prompt."""
    from torch import _dynamo as dynamo

    network, tokens = small(decoder), random_tokens(20)
    with torch.no_grad():
        expected = network(tokens)
        dynamo.reset()
        dynamo.utils.counters.clear()
        network.compile(backend="eager")
        cache = decoder_model().Cache(20)
        for _ in range(2):
            cache.length = 0
            scores = [network(part, cache=cache) for part in tokens.split([5] + [1] * 15, dim=1)]
            torch.testing.assert_close(torch.cat(scores, dim=1), expected[:, 4:], rtol=1e-4, atol=1e-4)
    counted = dynamo.utils.counters
    assert (counted["stats"]["unique_graphs"], counted["graph_break"]) == (3, {})


def test_a_long_context_is_drawn_on_request(decoder):
    settings = decoder.Settings(context=131_072)
    train_data, held_out = (decoder.data(settings, train=each) for each in (True, False))
    tokens, successors = train_data[3]
    assert (len(tokens), len(train_data), train_data.classes) == (131_072, 1024, 512)
    assert torch.equal(tokens[1:], successors[:-1])
    assert torch.equal(tokens, train_data[3][0])
    assert not torch.equal(tokens, held_out[3][0])


def test_the_loss_falls(tmp_path, _forked_ranks):
    result = train(
        Settings(
            "decoder", out=tmp_path, run="falls", device="cpu", warmup=0, batch_size=4, data_fraction=4 / 1024,
            epochs=20, optimizer="adamw", learning_rate=0.01, set={"recompute": "1", "context": "32"}, sample_s=0.0,
        )
    )  # fmt: skip
    assert result.status == "ok", result.error
    rows = [json.loads(line) for line in (result.folder / "steps.rank0.jsonl").read_text().splitlines()[1:]]
    losses = [row["loss"] for row in rows if row["phase"] == "train"]
    run = json.loads((result.folder / "run.json").read_text())
    assert losses[0] == pytest.approx(math.log(512), abs=0.3)
    assert losses[-1] < 0.5 * losses[0]
    assert (run["model"], run["parameters"], run["classes"]) == ("tiny", 131_392, 512)
