"""Random tokens of any context length, the data of language models."""

import torch
from common import accuracy
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

SEQUENCES = 1024
HELD_OUT = 1 << 20


class RandomTokens(Dataset[tuple[Tensor, Tensor]]):
    """Sequences of random tokens and their successors, drawn on request: long ones need no memory in advance."""

    def __init__(self, context: int, vocabulary: int, *, train: bool) -> None:
        self.context, self.classes = context, vocabulary
        self.first_seed = 0 if train else HELD_OUT

    def __len__(self) -> int:
        return SEQUENCES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not 0 <= index < SEQUENCES:
            raise IndexError(index)
        generator = torch.Generator().manual_seed(self.first_seed + index)
        tokens = torch.randint(self.classes, (self.context + 1,), generator=generator)
        return tokens[:-1], tokens[1:]


def loss_and_accuracy(scores: Tensor, successors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss over all tokens, and the share of tokens whose successor has the highest score."""
    return cross_entropy(scores.flatten(0, 1).float(), successors.flatten()), accuracy(scores, successors)
