"""Align two sequences by their longest common subsequence."""

from collections.abc import Hashable, Sequence

import numpy as np

MOST_CELLS = 20_000_000
"""Sequences whose product of lengths is larger, after what both begin and end with, are not aligned: 40 MB of cells."""


def align_sequences(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of equal elements in both, in order: a longest common subsequence (Wagner and Fischer).

    Where the sequences are too long, only what both begin and end with is aligned.
    """
    shortest = min(len(first), len(second))
    head = next((at for at in range(shortest) if first[at] != second[at]), shortest)
    rest = shortest - head
    tail = next((at for at in range(rest) if first[-at - 1] != second[-at - 1]), rest)
    middle = _align_middle(first[head : len(first) - tail], second[head : len(second) - tail])
    return [
        *((at, at) for at in range(head)),
        *((head + one, head + other) for one, other in middle),
        *((len(first) - tail + at, len(second) - tail + at) for at in range(tail)),
    ]


def _align_middle(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not first or not second or len(first) * len(second) > MOST_CELLS:
        return []
    numbers = {token: number for number, token in enumerate(dict.fromkeys([*first, *second]))}
    rows = np.array([numbers[token] for token in first])
    columns = np.array([numbers[token] for token in second])
    lengths = np.zeros((len(first) + 1, len(second) + 1), dtype=np.uint16)
    for at, token in enumerate(rows):
        longer = np.maximum(lengths[at, 1:], lengths[at, :-1] + (columns == token))
        lengths[at + 1, 1:] = np.maximum.accumulate(longer)
    pairs = []
    one, other = len(first), len(second)
    while one and other:
        length = lengths[one, other]
        if lengths[one - 1, other] == length:
            one -= 1
        elif lengths[one, other - 1] == length:
            other -= 1
        else:
            one, other = one - 1, other - 1
            pairs.append((one, other))
    return pairs[::-1]
