"""Which table an event is for, as SQL: the number of the mapping that takes it."""

from tracelab.readers.kineto import mapping
from tracelab.readers.kineto.mapping import MAPPINGS

OTHER = len(MAPPINGS)
"""The kind of events that no mapping takes."""
COUNTERS = OTHER + 1
"""The kind of counter events, each of which is a row for every series."""

_PLAIN_CATEGORIES = {
    "cuda_runtime": "api_calls",
    "python_function": "python_frames",
    "cuda_driver": "api_calls",
    "gpu_memcpy": "memcpys",
    "gpu_memset": "memsets",
    "cuda_sync": "syncs",
    "user_annotation": "annotations",
    "gpu_user_annotation": "annotations",
}
"""Categories of complete events that one table takes whatever their names: the more of a trace's events are told by
them, the fewer conditions DuckDB looks at."""

_APART = {
    "cpu_op": (f"name = '{mapping.COMMUNICATION_OP}'", mapping.COMMUNICATION_OPS, mapping.OPS),
    "kernel": (mapping.NAMES_COLLECTIVE, mapping.COLLECTIVE_KERNELS, mapping.KERNELS),
}
"""Categories of complete events of which those that a condition holds for are mapped apart from the others."""


def kind_of_event() -> str:
    """SQL for the number of the mapping that takes an event of `categorised`."""
    whens = " ".join(f"when {target.where} then {at}" for at, target in enumerate(MAPPINGS))
    return f"coalesce(at_once, case {whens} when ph = 'C' then {COUNTERS} else {OTHER} end)::utinyint"


def categorised(events: str) -> str:
    """The common table expressions up to `categorised`: the events with what `kind_of_event` asks of them."""
    return (
        f"told as (select *, {_kind_at_once()} as at_once from {events}), "
        f"categorised as (select *, case when at_once is null then {todays_category('source_cat')} end as cat "
        "from told)"
    )


def todays_category(column: str) -> str:
    """SQL for today's name of a category, lower case."""
    whens = " ".join(f"when '{old}' then '{new}'" for old, new in mapping.CATEGORY_ALIASES.items())
    return f"case lower({column}) {whens} else lower({column}) end"


def _kind_at_once() -> str:
    """SQL for the number of the mapping that takes an event whose category has a plain name; NULL for all others."""
    places = {target.table: at for at, target in enumerate(MAPPINGS)}
    apart = " ".join(
        f"when '{cat}' then case when {condition} then {MAPPINGS.index(those)} else {MAPPINGS.index(others)} end"
        for cat, (condition, those, others) in _APART.items()
    )
    plain = " ".join(f"when '{cat}' then {places[table]}" for cat, table in _PLAIN_CATEGORIES.items())
    return f"case when ph = 'X' then case source_cat {apart} {plain} end when ph in ('s', 'f', 't') then {OTHER} end"
