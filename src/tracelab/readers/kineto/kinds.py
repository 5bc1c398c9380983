"""Which table an event is for, as SQL: the number of the mapping that takes it."""

import json
from collections.abc import Sequence

import pyarrow as pa

from tracelab.readers.kineto import mapping, select
from tracelab.readers.kineto.connection import Connection
from tracelab.readers.kineto.mapping import COUNTERS, MAPPINGS
from tracelab.readers.kineto.parser import Shape

_known: dict[Shape, int] = {}


def kinds_of(shapes: Sequence[Shape], connection: Connection) -> list[int]:
    """The number of the mapping that takes events of each shape; DuckDB is asked once for each."""
    new = [shape for shape in dict.fromkeys(shapes) if shape not in _known]
    if new:
        columns = ("ph", "source_cat", "name")
        asked = {column: pa.array([getattr(shape, column) for shape in new], pa.string()) for column in columns}
        asked["args"] = pa.array([_KEYED if shape.keyed else "{}" for shape in new])
        connection.register("shapes", pa.table(asked))
        kinds: list[int] = connection.arrow(_QUERY).column("kind").to_numpy().tolist()
        connection.unregister("shapes")
        _known.update(zip(new, kinds, strict=True))
    return [_known[shape] for shape in shapes]


_KEYED = json.dumps(dict.fromkeys([mapping.WATCHED_KEY]))
_WHENS = " ".join(f"when {target.where} then {at}" for at, target in enumerate(MAPPINGS))
_QUERY = f"""
    with categorised as (select *, {select.todays_category("source_cat")} as cat from shapes)
    select case {_WHENS} when ph = 'C' then {COUNTERS} else {len(MAPPINGS)} end as kind from categorised
"""
