"""A small GPT that learns to continue sequences of random tokens."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from common import accuracy
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, gelu, scaled_dot_product_attention
from torch.utils.data import Dataset, TensorDataset


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    context: int = 64
    width: int = 128
    layers: int = 2
    heads: int = 4
    vocabulary: int = 512


class Block(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.heads, width = settings.heads, settings.width
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        query, key, value = parts.unbind(2)
        attended = scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.contract(gelu(self.expand(self.mlp_norm(x))))


class Transformer(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.tokens = nn.Embedding(settings.vocabulary, settings.width)
        self.positions = nn.Parameter(torch.zeros(settings.context, settings.width))
        self.blocks = nn.Sequential(*(Block(settings) for _ in range(settings.layers)), nn.LayerNorm(settings.width))
        self.scores = nn.Linear(settings.width, settings.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.scores(self.blocks(self.tokens(tokens) + self.positions))


model = Transformer


def data(settings: Settings, *, train: bool) -> Dataset[tuple[Tensor, ...]]:
    """Return sequences of random tokens and their successors."""
    generator = torch.Generator().manual_seed(int(train))
    tokens = torch.randint(settings.vocabulary, (1024, settings.context + 1), generator=generator)
    return TensorDataset(tokens[:, :-1], tokens[:, 1:])


def workload(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return the step: it takes a batch and returns loss and accuracy."""

    def step(tokens: Tensor, successors: Tensor) -> tuple[Tensor, Tensor]:
        scores = network(tokens)
        return cross_entropy(scores.flatten(0, 1), successors.flatten()), accuracy(scores, successors)

    return step
