"""Write sorted numbers with consecutive ones as a span: 0–3, 5."""

from collections.abc import Iterable


def list_spans(values: Iterable[str | int]) -> list[str]:
    """Return sorted values as texts, consecutive integers as one: 0–3."""
    spans: list[list[str | int]] = []
    for value in values:
        if spans and isinstance(value, int) and value - 1 == spans[-1][-1]:
            spans[-1][1:] = [value]
        else:
            spans.append([value])
    return ["–".join(map(str, span)) for span in spans]


def format_spans(values: Iterable[str | int]) -> str:
    """Return sorted values in words: 0–3, 5."""
    return ", ".join(list_spans(values))
