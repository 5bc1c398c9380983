"""Leave out parts of a query's SQL that its parameters make idle: DuckDB plans each part, also one without rows."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLOCK = re.compile(
    r"^ *-- /// if (?P<name>\w+) = (?P<values>[^\n]+)\n(?P<sql>.*?)^ *-- /// end$\n?", re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """Lines between `-- /// if NAME = VALUE, VALUE` and `-- /// end`: they yield rows only with one of these values."""

    name: str
    values: tuple[str, ...]


def list_blocks(sql: str) -> Iterator[Block]:
    """Yield the blocks of a query's SQL."""
    return map(_parse_block, _BLOCK.finditer(sql))


def prune_blocks(sql: str, values: Mapping[str, object]) -> str:
    """Return SQL without the blocks that these values make idle; the other lines keep their numbers."""

    def prune(match: re.Match[str]) -> str:
        block = _parse_block(match)
        return match[0] if values.get(block.name) in block.values else "\n" * match[0].count("\n")

    return _BLOCK.sub(prune, sql)


def _parse_block(match: re.Match[str]) -> Block:
    return Block(match["name"], tuple(value.strip() for value in match["values"].split(",")))
