"""The arguments that tables have columns for: which each kind of event gives, and of which type."""

from dataclasses import dataclass

from tracelab import schema
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import COUNTERS, KINDS, Mapping

HELD = "HELD"
"""The type of arguments that have no column, for another one says the same."""

LEFTOVER = "args"
"""The column of the arguments that have no column of their own, as JSON."""
SECONDARY_LEFTOVER = "args beside"
"""The same for the second table that some events have a row in."""


@dataclass(frozen=True)
class Plan:
    """What becomes of the arguments of one kind of event."""

    columns: frozenset[str] = frozenset()
    """Those that have a column."""
    columns_beside: frozenset[str] = frozenset()
    """Those among them that have one in the second table that such events may also be rows of."""
    held: frozenset[str] = frozenset()
    """Those that are not left over for the `args` of the table's rows."""
    held_beside: frozenset[str] = frozenset()
    """The same of the second table."""
    whole: bool = False
    """Whether they are all left over, as they are."""


def column(key: str) -> str:
    """The column of an argument; keys may differ by case alone, columns may not."""
    return f"arg {NUMBERS[key]}"


def collectives_of(target: Mapping) -> Mapping | None:
    """The mapping that also takes events of this one which carry communication metadata."""
    if target is mapping.COMMUNICATION_OPS:
        return mapping.OP_COLLECTIVES
    return mapping.KERNEL_COLLECTIVES if target.table == "kernels" else None


def keys_of(target: Mapping) -> frozenset[str]:
    """The arguments that a mapping speaks of."""
    return frozenset(key for value in target.columns.values() for keys, _ in value.arguments for key in keys)


def typed(target: Mapping) -> dict[str, str]:
    """The arguments that a mapping speaks of, each with the DuckDB type that its column asks of it."""
    types = {column.name: column.type for column in schema.BY_NAME[target.table].columns}
    return {
        key: "INTEGER" if kind == "BIGINT" and types[name] == "int32" else kind
        for name, value in target.columns.items()
        for keys, kind in value.arguments
        for key in keys
    }


def plan(kind: int) -> Plan:
    """What becomes of the arguments of this kind of event."""
    if kind == COUNTERS:
        return Plan(whole=True)
    target = KINDS[kind]
    keys, beside = keys_of(target), collectives_of(target)
    if beside is None:
        return Plan(keys, held=_held(target))
    return Plan(keys | keys_of(beside), keys_of(beside), _held(target), _held(beside))


def _held(target: Mapping) -> frozenset[str]:
    return keys_of(target) | frozenset(target.also_held)


_MAPPED = (*KINDS, mapping.KERNEL_COLLECTIVES, mapping.OP_COLLECTIVES)

TYPES: dict[str, str] = dict.fromkeys((key for target in _MAPPED for key in target.also_held), HELD) | {
    key: kind for target in _MAPPED for key, kind in typed(target).items()
}
"""All arguments that any mapping speaks of, each with the DuckDB type that all of them ask of it."""

NUMBERS = {key: number for number, key in enumerate(TYPES)}
