"""A small GPT: learns to continue sequences of random tokens."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from common import learn, precision
from torch import Tensor, nn
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class Settings:
    """What a run can vary."""

    batch_size: int = 4
    context: int = 64
    width: int = 128
    layers: int = 2
    vocabulary: int = 512
    precision: str = "fp32"
    device: str = "cpu"
    learning_rate: float = 3e-4


class Transformer(nn.Module):
    def __init__(self, settings: Settings) -> None:
        super().__init__()
        block = nn.TransformerEncoderLayer(settings.width, settings.width // 32, batch_first=True, norm_first=True)
        self.tokens = nn.Embedding(settings.vocabulary, settings.width)
        self.places = nn.Parameter(torch.zeros(settings.context, settings.width))
        self.blocks = nn.TransformerEncoder(block, settings.layers, enable_nested_tensor=False)
        self.scores = nn.Linear(settings.width, settings.vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.scores(self.blocks(self.tokens(tokens) + self.places, mask, is_causal=True))


model = Transformer


def batch(settings: Settings) -> tuple[Tensor, Tensor]:
    """Return random tokens and their successors, on the host."""
    tokens = torch.randint(settings.vocabulary, (settings.batch_size, settings.context + 1))
    return tokens[:, :-1], tokens[:, 1:]


def workload(settings: Settings, network: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    """Return the training step: it takes a batch, and gives the loss."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate)

    def step(tokens: Tensor, successors: Tensor) -> Tensor:
        tokens, successors = tokens.to(settings.device), successors.to(settings.device)
        with precision(settings.precision, settings.device):
            loss = cross_entropy(network(tokens).flatten(0, 1), successors.flatten())
        return learn(loss, optimizer)

    return step
