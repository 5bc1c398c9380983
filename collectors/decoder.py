"""A decoder as language models of today have it: RMSNorm, rotary positions, SwiGLU, grouped-query attention.

`--model` chooses the sizes of a published model. Its weights are random, its number of parameters is the published one.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from decoder_model import BACKENDS, SIZES, Decoder, Size, initialize, tensor_parallel  # noqa: F401  hooks of a workload
from tokens import RandomTokens, loss_and_accuracy
from torch import Tensor, nn
from torch.utils.data import Dataset

MODELS = tuple(SIZES)
TIED = {"model": None, "tied": True, "untied": False}


@dataclass(frozen=True)
class Settings:
    """What a run can vary. A size of 0 is that of the model."""

    model: str = "tiny"
    context: int = 64  # tokens of a sequence
    attention: str = "auto"  # torch's choice, or flash, efficient, cudnn, math
    recompute: int = 0  # recompute every n-th block in the backward pass: 1 is every block, 0 none
    loss_tokens: int = 0  # tokens of a sequence whose scores exist at a time; 0 is all
    embeddings: str = "model"  # as the model has them, or tied, untied
    layers: int = 0
    width: int = 0
    heads: int = 0
    kv_heads: int = 0
    hidden: int = 0
    vocabulary: int = 0


def sizes(settings: Settings) -> Size:
    """Return the sizes of the model with the changes of the settings."""
    for name, choices in (("model", SIZES), ("attention", ("auto", *BACKENDS)), ("embeddings", TIED)):
        if getattr(settings, name) not in choices:
            raise ValueError(f"no {name} {getattr(settings, name)!r}; choose one of {', '.join(choices)}")
    size = SIZES[settings.model]
    own = {name: value for name in size.__dict__ if (value := getattr(settings, name, 0))}
    if "width" in own or "heads" in own:
        own["head_width"] = (settings.width or size.width) // (settings.heads or size.heads)
        own["kv_heads"] = settings.kv_heads or min(size.kv_heads, settings.heads or size.heads)
    return replace(size, **own, tied=size.tied if TIED[settings.embeddings] is None else TIED[settings.embeddings])


def model(settings: Settings) -> Decoder:
    """Build an untrained model."""
    return Decoder(sizes(settings), settings.attention, settings.recompute, settings.loss_tokens)


def data(settings: Settings, *, train: bool) -> Dataset[tuple[Tensor, Tensor]]:
    """Return sequences of random tokens and their successors."""
    return RandomTokens(settings.context, sizes(settings).vocabulary, train=train)


def workload(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the step: it takes a batch and returns loss and accuracy."""
    in_parts = any(each.loss_tokens for each in network.modules() if isinstance(each, Decoder))  # also within DDP

    def step(tokens: Tensor, successors: Tensor) -> tuple[Tensor, Tensor]:
        if not in_parts:
            return loss_and_accuracy(network(tokens), successors)
        loss, accuracy = network(tokens, successors)
        return loss.mean(), accuracy.mean()

    return step
