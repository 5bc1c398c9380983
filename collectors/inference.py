"""Inference with a decoder: a batch of prompts is read (prefill) and answered token by token from a cache (decode)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import decoder
import torch
from common import weight_dtype
from decoder_model import SIZES, Cache, rank_mesh, tensor_parallel

MODELS = tuple(SIZES)


@dataclass(frozen=True)
class Settings:
    """What a run can vary. Sizes are those of the workload decoder."""

    device: str = "cpu"
    precision: str = "fp32"  # of the weights and of the cache
    batch_size: int = 8  # prompts that are answered together
    compile: bool = False
    compile_mode: str = "default"
    parallel: Literal["none", "ddp", "tp"] = "none"  # ddp: each rank answers prompts of its own
    model: str = "tiny"
    prompt: int = 64  # tokens of a prompt
    output: int = 16  # tokens of an answer; prefill computes the first
    attention: str = "auto"


def truth(settings: Settings) -> dict[str, int]:
    """Return what one step reads and writes, and the size of the model."""
    network, count = build(settings, "meta"), settings.batch_size
    size, tokens = network.size, count * (settings.prompt + settings.output - 1)
    element_bytes = next(network.parameters()).element_size()
    return {
        "parameters": sum(each.numel() for each in network.parameters()),
        "prompt_tokens": count * settings.prompt,
        "output_tokens": count * settings.output,
        "cache_bytes": 2 * size.layers * size.kv_heads * size.head_width * tokens * element_bytes,
    }


def build(settings: Settings, device: str) -> torch.nn.Module:
    """Build an untrained model on a device."""
    with torch.device(device):
        network = decoder.model(decoder.Settings(model=settings.model, attention=settings.attention))
    return network.to(weight_dtype(settings.precision))


def workload(settings: Settings) -> Callable[[], Iterator[tuple[str, int]]]:
    """Return the step: it yields each stage and its number of prompts, and then does the stage's work."""
    network, count = build(settings, settings.device), settings.batch_size
    if settings.parallel == "tp":
        tensor_parallel(network, rank_mesh(settings.device))
    if settings.compile:
        network.compile(mode=settings.compile_mode)
    prompts = torch.randint(network.size.vocabulary, (count, settings.prompt)).to(settings.device)  # alike on all ranks
    cache = Cache(settings.prompt + settings.output - 1)
    likeliest_next = torch.no_grad()(lambda tokens: network(tokens, cache=cache).argmax(-1))

    def step() -> Iterator[tuple[str, int]]:
        cache.length = 0
        yield "prefill", count
        tokens = likeliest_next(prompts)
        for _ in range(settings.output - 1):
            yield "decode", count
            tokens = likeliest_next(tokens)

    return step
