"""Mappings compiled to SQL: the query that makes the rows of one table."""

import json
import re
from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa

from tracelab import schema
from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import Mapping

_FEW = 32  # so many left-over arguments are faster to put together than to leave by taking the others out
_PLAIN_KEY = re.compile(r"[A-Za-z0-9 _.%()/-]+")


def collectives_of(target: Mapping) -> Mapping | None:
    """The mapping that also takes events of this one which carry communication metadata."""
    if target is mapping.COMMUNICATION_OPS:
        return mapping.OP_COLLECTIVES
    return mapping.KERNEL_COLLECTIVES if target.table == "kernels" else None


@dataclass(frozen=True)
class Arguments:
    """What is known of the arguments of some events."""

    present: Collection[str]
    """The keys that occur."""
    doubtful: Collection[str] = ()
    """Keys of integers where a fraction or a boolean occurs, which DuckDB would round to an integer."""
    unfit: Collection[str] = ()
    """Keys with values that do not fit their column: they stay in the rows' `args`."""
    counted: bool = False
    """Whether no more is known than that these keys may occur: `? keys` then counts the values that fit."""
    booleans: bool = False
    """Whether values may be booleans: `? booleans` then counts those that stay in the rows' `args`."""


def rows_query(target: Mapping, arguments: Arguments, where: str, extras: list[str], *, gpu_pid: str) -> str:
    """The query over the relation `events` that makes the rows of one table of the events with these argument keys.

    `extras` are the columns of top-level keys that no table has a column for; they are kept in the rows' `args`.
    """
    wanted: dict[str, str] = {}
    present = set(arguments.present)
    columns = {}
    for column, value in target.columns.items():
        references = [_transformed(keys, kind, arguments, wanted) for keys, kind in value.arguments]
        columns[column] = value.template.format(*references) if references else value.template
    left = present - (_held(target) - set(arguments.unfit))
    columns["args"] = _leftover(present, left, wanted, extras)
    if arguments.counted:
        checks = [f"{_fitting_values(target, wanted)} as {name(KEYS)}"]
        if arguments.booleans:
            checks.append(f"{_booleans(wanted)} as {name(BOOLEANS)}")
        wanted = {key: "DOUBLE" if kind == "BIGINT" else kind for key, kind in wanted.items()}
    else:
        checks = [f"{text} as {name(check_column(key))}" for key, text in _checks(target, arguments).items()]
    transformed = f", json_transform(args, {spec(wanted)}) as a" if wanted else ""
    today = f"{todays_category('source_cat')} as cat, {gpu_pid}::bigint as gpu_pid"
    selected = ", ".join((rows_of(target.table, columns), *checks))
    return f"select {selected} from (select *, {today}{transformed} from events where {where})"


KEYS = "? keys"
"""The column of how many of an event's arguments are known, and fit."""
BOOLEANS = "? booleans"
"""The column of how many of an event's arguments are booleans, and kept as they are."""


def check_column(key: str) -> str:
    """The column that is NULL where an argument is missing, or does not fit its column's type."""
    return f"? {key}"


def countable(target: Mapping, keys: Collection[str], extras: list[str]) -> bool:
    """Whether each of these keys becomes one value, so that counting the values tells whether other keys occur."""
    kinds: dict[str, set[str]] = {key: set() for key in keys}
    for value in target.columns.values():
        for names, kind in value.arguments:
            for key in kinds.keys() & set(names):
                kinds[key].add(kind)
    few = len(kinds) - len(_held(target) & kinds.keys()) <= _FEW
    once = all(len(wanted) <= 1 for wanted in kinds.values()) and not kinds.keys() & set(target.also_held)
    return few and once and plain_keys(keys) and not kinds.keys() & {column.removeprefix("extra ") for column in extras}


def _fitting_values(target: Mapping, wanted: dict[str, str]) -> str:
    """SQL for how many arguments of an event fit their columns; integers come as doubles, which hide no fraction."""
    narrow = narrow_arguments(target)

    def fits(key: str, kind: str) -> str:
        value = f"a.{name(key)}"
        if kind == "BIGINT":
            limit = 1 << (31 if narrow.get(key) == "INTEGER" else 53)
            return f"{value} = trunc({value}) and abs({value}) < {limit}"
        return f"{fitting(key, kind, value, Arguments(wanted)) if kind.endswith('[]') else value} is not null"

    return " + ".join(f"case when {fits(key, kind)} then 1 else 0 end" for key, kind in wanted.items()) or "0"


def _booleans(wanted: dict[str, str]) -> str:
    """SQL for how many arguments of an event are kept as they are, and are booleans."""
    kept = (key for key, kind in wanted.items() if kind == "JSON")
    return " + ".join(f"case when a.{name(key)} in ('true', 'false') then 1 else 0 end" for key in kept) or "0"


def fitting(key: str, kind: str, value: str, arguments: Arguments) -> str:
    """SQL that is NULL where an argument does not fit; `value` is what json_transform makes of it."""
    if kind.endswith("[]"):
        whole = " and ".join(f"{value}[{at}] = trunc({value}[{at}])" for at in (1, 2, 3))
        total = " + ".join(f"{value}[{at}]" for at in (1, 2, 3))
        return f"try_cast(case when len({value}) = 3 and {whole} then {total} end as integer)"
    if key in arguments.doubtful:
        value = _unless_rounded(key, value)
    return f"try_cast({value} as integer)" if kind == "INTEGER" else value


def todays_category(column: str) -> str:
    """SQL for today's name of a category, lower case."""
    whens = " ".join(f"when '{old}' then '{new}'" for old, new in mapping.CATEGORY_ALIASES.items())
    return f"case lower({column}) {whens} else lower({column}) end"


def types_of_integers(target: Mapping) -> str:
    """SQL for the JSON types of the arguments that are integers; NULL where the mapping has none."""
    keys = integer_arguments(target)
    return f"json_type(args, [{', '.join(path(key) for key in keys)}])" if keys else "NULL::varchar[]"


def integer_arguments(target: Mapping) -> list[str]:
    """The arguments of a mapping that are single integers."""
    return [key for key, kind in narrow_arguments(target).items() if kind in ("BIGINT", "INTEGER")]


def _unless_rounded(key: str, value: str) -> str:
    """The value, but NULL where it was rounded from a fraction, or made of true or false."""
    kind = f"json_type(args, {path(key)})"
    exact = f"({kind} = 'DOUBLE' and json_extract(args, {path(key)})::double = {value})"
    return f"case when {kind} in ('BIGINT', 'UBIGINT', 'VARCHAR') or {exact} then {value} end"


def narrow_arguments(target: Mapping) -> dict[str, str]:
    """The arguments of a mapping that are not text, each with the DuckDB type its column asks of it."""
    types = {column.name: column.type for column in schema.BY_NAME[target.table].columns}
    return {
        key: kind.replace("BIGINT", "INTEGER") if types[column] == "int32" else kind
        for column, value in target.columns.items()
        for keys, kind in value.arguments
        for key in keys
        if kind not in ("VARCHAR", "JSON")
    }


def extra_column(key: str) -> str:
    """The column in which a top-level key stands that no table has a column for."""
    return f"extra {key}"


def extras_of(columns: list[str]) -> list[str]:
    """Of the columns of events, those of top-level keys that no table has a column for."""
    return [column for column in columns if column == "extras" or column.startswith("extra ")]


def with_base_columns(events: pa.Table) -> pa.Table:
    """The events with every column that mappings may speak of, be it empty."""
    kinds: dict[str, pa.DataType] = dict.fromkeys(("ph", "source_cat", "name", "pid", "tid", "args"), pa.string())
    kinds |= {"start_ns": pa.int64(), "dur_ns": pa.int64()}
    for column, kind in kinds.items():
        if column not in events.column_names:
            events = events.append_column(column, pa.nulls(len(events)).cast(kind))
    return events


def rows_of(table: str, columns: dict[str, str]) -> str:
    """The select list of a table: the given expressions, as its types; columns not given are left out, and NULL."""
    types = {column.name: column.duckdb for column in schema.BY_NAME[table].columns}
    casts = {column: "try_cast" if types[column] == "integer" else "cast" for column in columns}
    return ", ".join(
        f"{casts[column]}({text} as {types[column]}) as {name(column)}" for column, text in columns.items()
    )


def spec(fields: dict[str, str]) -> str:
    """The json_transform structure of these fields, as a literal."""
    shape = {key: [kind[:-2]] if kind.endswith("[]") else kind for key, kind in fields.items()}
    return literal(json.dumps(shape, ensure_ascii=False))


def path(key: str) -> str:
    """The JSON path of an argument, as a literal."""
    return literal(f'$."{key}"')


def name(text: str) -> str:
    """An SQL identifier."""
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    """An SQL text literal."""
    return "'" + text.replace("'", "''") + "'"


def plain_keys(keys: Collection[str]) -> bool:
    """Whether keys can stand between quotes, and as columns, as they are: they differ by more than case."""
    return all(_PLAIN_KEY.fullmatch(key) for key in keys) and len({key.lower() for key in keys}) == len(keys)


def _checks(target: Mapping, arguments: Arguments) -> dict[str, str]:
    """For each argument that is there and no text: SQL that is NULL where it does not fit."""
    return {
        key: fitting(key, kind, f"a.{name(key)}", arguments)
        for key, kind in narrow_arguments(target).items()
        if key in arguments.present and key not in arguments.unfit
    }


def _held(target: Mapping) -> set[str]:
    used = {key for value in target.columns.values() for keys, _ in value.arguments for key in keys}
    return used | set(target.also_held)


def _first_of(references: list[str], kind: str) -> str:
    if not references:
        return f"(NULL::{kind})"
    return references[0] if len(references) == 1 else f"coalesce({', '.join(references)})"


def _transformed(keys: tuple[str, ...], kind: str, arguments: Arguments, wanted: dict[str, str]) -> str:
    """The first of an argument's names that an event has, as the type that the column wants."""
    references = []
    for key in (key for key in keys if key in arguments.present):
        clash = next((other for other in wanted if other.lower() == key.lower() and other != key), None)
        if clash or wanted.get(key, kind) != kind:  # struct fields cannot differ by case, or have two types
            reference = f"(json_transform(args, {spec({key: kind})})).{name(key)}"
        else:
            wanted[key] = kind
            reference = f"a.{name(key)}"
            if arguments.counted and kind == "BIGINT":
                reference = f"try_cast({reference} as bigint)"
        doubtful = key in arguments.doubtful and kind == "BIGINT"
        references.append(_unless_rounded(key, reference) if doubtful else reference)
    return _first_of(references, kind)


def _leftover(present: set[str], left: set[str], wanted: dict[str, str], extras: list[str]) -> str:
    """The arguments that no column holds, as JSON text; `wanted` gains those that are put together one by one."""
    taken = {key.lower() for key in wanted}
    parts = {column.removeprefix("extra "): name(column) for column in extras if column != "extras"}
    if len(left) <= _FEW and plain_keys(left) and not any(key.lower() in taken for key in left):
        wanted |= dict.fromkeys(sorted(left), "JSON")
        arguments = {key: f"a.{name(key)}" for key in sorted(left)}
        both = {key: f"coalesce({arguments[key]}, {parts[key]})" for key in parts.keys() & left}
        kept = _object(parts | arguments | both)
    else:
        patch = json.dumps(dict.fromkeys(sorted(present - left)), ensure_ascii=False)
        kept = f"case when args is not null then nullif(json_merge_patch(args, {literal(patch)}), '{{}}') end"
        if parts:
            kept = f"nullif(json_merge_patch(coalesce({_object(parts)}, '{{}}'), coalesce({kept}, '{{}}')), '{{}}')"
    if "extras" not in extras:
        return kept
    return f"case when extras is null then {kept} else json_merge_patch(extras, coalesce({kept}, '{{}}'))::varchar end"


def _object(values: dict[str, str]) -> str:
    """SQL for a JSON object of those values, each JSON text, that are not NULL; NULL where all are."""
    if not values:
        return "NULL::varchar"
    _, *others = values
    if len(others) > 1:
        parts = (f"'\"{key}\":' || {value}" for key, value in values.items())
        otherwise = f"'{{' || nullif(concat_ws(',', {', '.join(parts)}), '') || '}}'"
        return f"case {_when_all(values)} else {otherwise} end"
    alone = ({key: value} for key, value in values.items()) if others else ()
    return f"case {' '.join(_when_all(some) for some in (values, *alone))} end"


def _when_all(values: dict[str, str]) -> str:
    """The case that none of the values is NULL: to put them together at once takes half as long as one by one."""
    present = " and ".join(f"{value} is not null" for value in values.values())
    texts = ", ".join(f"'{',' if at else '{'}\"{key}\":', {values[key]}" for at, key in enumerate(values))
    return f"when {present} then concat({texts}, '}}')"
