"""Plan what becomes of the arguments of each kind of event: columns, leftover JSON, or nothing."""

from dataclasses import dataclass

from tracelab import schema
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import COUNTERS, KINDS, Mapping

REDUNDANT = "REDUNDANT"
"""The type of arguments without a column, for another argument repeats their value."""

LEFTOVER = "args"
"""The column of the arguments that have no column of their own, as JSON."""
SECONDARY_LEFTOVER = "secondary args"
"""The same for the second table that some events have a row in."""


@dataclass(frozen=True)
class Plan:
    """What becomes of the arguments of one kind of event."""

    columns: frozenset[str] = frozenset()
    """Those with a column."""
    secondary_columns: frozenset[str] = frozenset()
    """Those among them with a column in the second table that such events can have a row in."""
    omitted: frozenset[str] = frozenset()
    """Those that the leftover arguments do without."""
    secondary_omitted: frozenset[str] = frozenset()
    """The same for the second table."""
    keeps_all: bool = False
    """Whether the leftover arguments are all arguments, as they are."""


def column(key: str) -> str:
    """Return the column of an argument; unlike keys, columns may not differ by case alone."""
    return f"arg {NUMBERS[key]}"


def collectives_of(target: Mapping) -> Mapping | None:
    """Return the mapping that makes a second row of events that carry communication metadata."""
    if target is mapping.COMMUNICATION_OPS:
        return mapping.OP_COLLECTIVES
    return mapping.KERNEL_COLLECTIVES if target.table == "kernels" else None


def keys_of(target: Mapping) -> frozenset[str]:
    """Return the arguments that a mapping uses."""
    return frozenset(key for value in target.columns.values() for keys, _ in value.arguments for key in keys)


def table_of(kind: int, key: str) -> str:
    """Return the first table of a kind with a column for an argument."""
    target = KINDS[kind]
    secondary = collectives_of(target)
    return secondary.table if secondary and key not in keys_of(target) else target.table


def argument_types(target: Mapping) -> dict[str, str]:
    """Return the arguments that a mapping uses, each with the DuckDB type that its column requires."""
    types = {column.name: column.type for column in schema.BY_NAME[target.table].columns}
    return {
        key: "INTEGER" if kind == "BIGINT" and types[name] == "int32" else kind
        for name, value in target.columns.items()
        for keys, kind in value.arguments
        for key in keys
    }


def plan(kind: int) -> Plan:
    """Return what becomes of the arguments of a kind of event."""
    if kind == COUNTERS:
        return Plan(keeps_all=True)
    target = KINDS[kind]
    keys, secondary = keys_of(target), collectives_of(target)
    if secondary is None:
        return Plan(keys, omitted=_omitted(target))
    return Plan(keys | keys_of(secondary), keys_of(secondary), _omitted(target), _omitted(secondary))


def _omitted(target: Mapping) -> frozenset[str]:
    return keys_of(target) | frozenset(target.also_omitted)


_MAPPED = (*KINDS, mapping.KERNEL_COLLECTIVES, mapping.OP_COLLECTIVES)

TYPES: dict[str, str] = dict.fromkeys((key for target in _MAPPED for key in target.also_omitted), REDUNDANT) | {
    key: kind for target in _MAPPED for key, kind in argument_types(target).items()
}
"""All arguments that any mapping uses, each with the one DuckDB type that all of them require."""

NUMBERS = {key: number for number, key in enumerate(TYPES)}
