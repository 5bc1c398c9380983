"""Names that were different stay different when they are shortened."""

import pytest
from rich.cells import cell_len

from tracelab.output.labels import shorten_distinctly

LONG = "epochs=1, learning_rate=0.01, optimizer=sgd, pin_memory=true"


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["vgg16", "alexnet"], ["vgg16", "alexnet"]),
        (["sweep-of-runs-vgg16-b8-g2", "sweep-of-runs-vgg16-b8-g4"], ["…g2", "…g4"]),
        (["sweep-of-runs-vgg16-b8-dp", "sweep-of-runs-alexnet-b8-dp"], ["…vgg16…", "…alexnet…"]),
        ([f"{LONG}, workers=2", f"{LONG}, workers=4"], ["workers=2", "workers=4"]),
        (
            [f"{LONG}, w=2, abcdefgh=1", f"{LONG}, w=4, abcdefgh=1", "b"],
            ["epochs…w=2, abcdefg…", "epochs…w=4, abcdefg…", "b"],
        ),
        (["a" * 30 + "1" + "b" * 30, "a" * 30 + "2" + "b" * 30], ["aaaaaaaaaa…bbbb #1", "aaaaaaaaaa…bbbb #2"]),
    ],
)
def test_what_all_share_goes_first(texts: list[str], said: list[str]) -> None:
    assert list(shorten_distinctly(texts, 20).values()) == said


def test_no_short_name_is_wider_than_the_room() -> None:
    texts = [f"{LONG}, {'数' * 9}{number}{'数' * 9}" for number in range(20)] + ["数" * 40]
    short = shorten_distinctly(texts, 24)
    assert (max(map(cell_len, short.values())) <= 24, len(set(short.values()))) == (True, 21)
