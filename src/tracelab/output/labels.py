"""Write names and numbers for people: shorten names from traces, derive units from the names of columns."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile

from rich.cells import cell_len

_BEHIND_ARGUMENTS = re.compile(r"\s*($|const\b|\[|::)")
"""Text that may follow the arguments of a C++ function; other text with a bracket is not a C++ name and stays whole."""
_BETWEEN_WORDS = re.compile(r"[\s,;/·_-]+")
IDENTITY = ("run", "before", "after", "rank", "device")
"""Columns that identify what a row is about."""

NO_NAME = "(no name)"
"""Label for an empty name."""


def shorten(text: str, width: int) -> str:
    """Shorten a text to `width` terminal cells by an ellipsis in its middle: both ends of a kernel name matter."""
    if cell_len(text) <= width:
        return text
    tail = max(0, width - 1) // 3
    end = _prefix(text[::-1], tail)[::-1]
    return _prefix(text, max(0, width - 1 - tail)) + "…"[:width] + end


def shorten_distinctly(texts: Iterable[str], width: int) -> dict[str, str]:
    """Shorten texts to `width` cells and keep different texts different: drop shared parts first, then middles.

    Texts that still collide are cut to their beginning and to where they differ, or numbered.

    """
    every = list(dict.fromkeys(texts))
    if all(cell_len(text) <= width for text in every):
        return {text: text for text in every}
    bare = _drop_shared_ends(_drop_shared_parts(every))
    short = {text: shorten(rest, width) for text, rest in zip(every, bare, strict=True)}
    for group in _colliding(short):
        start = _boundary(_shared_prefix(group))
        head = _prefix(group[0][:start], width // 3) + "…"
        short |= {text: head + _cut(text[start:], width - cell_len(head)) for text in group}
    for group in _colliding(short):
        short |= {text: f"{shorten(text, width - 5)} #{number}" for number, text in enumerate(group, 1)}
    return short


def _colliding(short: Mapping[str, str]) -> list[list[str]]:
    """Return the groups of texts that share one short form."""
    groups: dict[str, list[str]] = {}
    for text, label in short.items():
        groups.setdefault(label, []).append(text)
    return [texts for texts in groups.values() if len(texts) > 1]


def _drop_shared_parts(texts: Sequence[str]) -> list[str]:
    """Drop the parts that all lists share; a list never becomes empty."""
    parts = [text.split(", ") for text in texts]
    shared = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    return [", ".join([part for part in each if part not in shared] or each) for each in parts]


def _drop_shared_ends(texts: Sequence[str]) -> list[str]:
    """Replace words that all texts share at their beginning or end by an ellipsis."""
    if len(texts) < 2:  # noqa: PLR2004  one shares nothing
        return list(texts)
    start = _boundary(_shared_prefix(texts))
    rests = [text[start:] for text in texts]
    end = _boundary(_shared_prefix([rest[::-1] for rest in rests]))
    return [("…" if start else "") + rest[: len(rest) - end] + ("…" if end else "") for rest in rests]


def _shared_prefix(texts: Sequence[str]) -> str:
    """Return the common prefix; the first and the last text in order suffice."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(one for one, other in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _boundary(shared: str) -> int:
    """Return the end of the last whole word in a shared prefix."""
    return max((match.end() for match in _BETWEEN_WORDS.finditer(shared)), default=0)


def _cut(text: str, width: int) -> str:
    """Shorten a text to `width` cells by an ellipsis at its end."""
    return text if cell_len(text) <= width else _prefix(text, width - 1) + "…"


def _prefix(text: str, width: int) -> str:
    """Return as many characters as fit into the cells; some characters take two."""
    cells = 0
    for index, character in enumerate(text):
        cells += cell_len(character)
        if cells > width:
            return text[:index]
    return text


def strip_signature(name: str) -> str:
    """Return a kernel name without return type, arguments and well-known namespaces."""
    name = re.sub(r"^void ", "", name)
    name = re.sub(r"\(anonymous namespace\)::|\bat::native::|\bat::cuda::|\bstd::", "", name)
    depth = 0
    for index, character in enumerate(name):
        depth += (character in "<[") - (character in ">]")
        if character == "(" and depth == 0 and index > 0:
            return name[:index].strip() if _BEHIND_ARGUMENTS.match(_after_arguments(name[index:])) else name
    return name


def _after_arguments(text: str) -> str:
    """Return the text after the bracket that closes the first one; empty if none does, since names may be cut."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[index + 1 :]
    return ""


class Quantity(Enum):
    """Kinds of numbers with different formats."""

    DURATION = "ns"
    BYTES = "bytes"
    RATIO = "ratio"
    ID = "id"
    PLAIN = "plain"


@dataclass(frozen=True)
class Scale:
    """One unit: its size in base units, and its symbol."""

    size: float
    symbol: str


DURATIONS = (Scale(1, "ns"), Scale(1e3, "µs"), Scale(1e6, "ms"), Scale(1e9, "s"))
BYTES = (Scale(1, "B"), Scale(1e3, "kB"), Scale(1e6, "MB"), Scale(1e9, "GB"), Scale(1e12, "TB"))
SCALES = {Quantity.DURATION: DURATIONS, Quantity.BYTES: BYTES}

_RATES = {
    "_gb_per_s": "GB/s",
    "_gflop_per_s": "GFLOP/s",
    "_flop_per_byte": "FLOP/byte",
    "_hz": "Hz",
    "_w": "W",
    "_c": "°C",
    "_ppb": "ppb",
}
_INSTANTS = ("start_ns", "end_ns", "time_ns")
_IDS = {
    *("pid", "tid", "forward_tid", "device", "rank", "context", "stream", "correlation", "external_id", "graph"),
    *("graph_node", "sequence_number", "seq", "root", "peer", "frame", "parent_frame", "address", "launch", "event_id"),
    *("src_device", "dst_device", "epoch", "step", "repeat"),
}
_ID_ENDINGS = tuple(f"_{name}" for name in (*_INSTANTS, "step", "rank"))
_DIGITS = 4


def column_quantity(column: str) -> Quantity:
    """Return the quantity of a column. Instants count as ids: scaling a time of day in ns has no meaning."""
    name = column.lower()
    if name in {*_IDS, *_INSTANTS} or (name.endswith(_ID_ENDINGS) and not name.endswith("_per_step")):
        return Quantity.ID
    for kind in (Quantity.DURATION, Quantity.BYTES, Quantity.RATIO):
        if name == kind.value or name.endswith(f"_{kind.value}"):
            return kind
    return Quantity.PLAIN


def column_from_title(title: str) -> str:
    """Convert a title of another tool to a column name: Total Time (ns) becomes Total Time_ns."""
    return re.sub(r" \((ns)\)$", r"_\1", title)


def fit_scale(values: Iterable[float], kind: Quantity) -> Scale:
    """Return the unit in which the largest value has one to three digits before the point."""
    largest = max((abs(value) for value in values), default=0)
    return next((scale for scale in reversed(SCALES[kind]) if largest >= scale.size), SCALES[kind][0])


def format_scaled(value: float, kind: Quantity) -> str:
    """Format one value in its best unit, with four digits: 987 ns, 12.35 µs, 1.235 GB."""
    scale = fit_scale([value], kind)
    if scale.size == 1:
        return f"{value:.{_DIGITS}g} {scale.symbol}"
    number = value / scale.size
    digits = len(str(int(abs(number))))
    return f"{number:,.{max(0, _DIGITS - digits)}f} {scale.symbol}"


def format_significant(value: float, *, digits: int = 4) -> str:
    """Format with significant digits, whole numbers in full: 1,234,567 · 12.35 · 0.001235 · 1.235e-09."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -5 or magnitude > 14:  # noqa: PLR2004  longer numbers are not read as digits
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def format_percent(ratio: float) -> str:
    """Format a ratio as a percentage: 24.35 %."""
    return f"{format_significant(100 * ratio)} %"


def column_unit(column: str) -> str | None:
    """Return the unit suffix of a column name as a symbol."""
    return next((symbol for ending, symbol in _RATES.items() if column.lower().endswith(ending)), None)


def spell_column(column: str) -> str:
    """Return a column name in words, without its unit: of_window_ratio becomes of window."""
    name = column
    for ending in ("_ns", "_bytes", "_ratio", *_RATES):
        name = name.removesuffix(ending)
    return name.replace("_", " ")
