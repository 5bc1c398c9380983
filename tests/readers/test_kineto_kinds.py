"""The shape of an event decides its kind: the result is that of each condition on the whole event."""

import json
from itertools import product

import pyarrow as pa
import pytest

from tests.readers.parsing import parse
from tracelab.readers.kineto.mapper import Mapper, Rows, borrow_connection, category_sql, classify_shapes
from tracelab.readers.kineto.mapping import ARGUMENT_TYPES, CATEGORY_ALIASES, COUNTERS, KINDS, MAPPINGS
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser

CATEGORIES = (
    *(None, "", "cpu_op", "CPU_OP", "kernel", "Kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cpu_instant_event"),
    *("cuda_runtime", "hip_runtime", "cuda_driver", "_runtime", "user_annotation", "gpu_user_annotation", "ac2g"),
    *("mtia_ccp_events", "mtia_runtime", "xpu_sync"),
    *("python_function", "Trace", *CATEGORY_ALIASES),
)
NAMES = (None, "", "aten::add", "[memory]", "record_param_comms", "Collective name", "dma_request", "synchronize")
ARGUMENTS = (None, {}, {"Collective name": "allreduce"}, {"In": {"Collective name": 1}}, {"a": "Collective name"})
EVENTS = [
    {"ph": ph, "cat": cat, "name": name, "args": args, "pid": number}
    for number, (ph, cat, name, args) in enumerate(product(("X", "C", "i", "s", None), CATEGORIES, NAMES, ARGUMENTS))
]


def test_the_shape_of_an_event_decides_the_first_mapping_whose_condition_holds() -> None:
    whole = pa.table(
        {
            **{key: [event[key] for event in EVENTS] for key in ("ph", "name", "pid")},
            "source_cat": [event["cat"] for event in EVENTS],
            "args": [json.dumps(event["args"], separators=(",", ":")) for event in EVENTS],
        }
    )
    whens = " ".join(f"when {target.where} then {at}" for at, target in enumerate(MAPPINGS))
    with borrow_connection() as con:
        con.register("events", whole)
        expected = con.rows(
            f"select pid, case {whens} when ph = 'C' then {COUNTERS} else {len(MAPPINGS)} end "
            f"from (select *, {category_sql('source_cat')} as cat from events) order by pid"
        )
        chunk = memoryview(",".join(map(json.dumps, EVENTS)).encode())
        parsed = CompiledParser().parse_chunk(chunk, lambda shapes: classify_shapes(shapes, con), base_ns=0)
    assert {kind for _, kind in expected} == set(range(COUNTERS + 1))
    pids = {kind: table.column("pid").to_pylist() for kind, table in parsed.tables.items()}
    assert sorted((pid, kind) for kind in pids for pid in pids[kind]) == expected


VALUES = {"VARCHAR": "DtoH", "DOUBLE": 50, "JSON": [[1, 2]], "INTEGER[3]": [7, 8, 9]}
"""The value of an argument by its type; numbers are those of the event."""


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[f"{kind}-{target.table}" for kind, target in enumerate(KINDS)])
def test_rows_keep_the_order_of_events_though_some_columns_are_computed_and_others_taken_over(kind: int) -> None:
    def event(number: int) -> str:
        args = {key: VALUES.get(type_name, number) for key, type_name in ARGUMENT_TYPES.items()}
        name = f"Memcpy {('HtoD', 'M2D')[number % 2]} (Pinned -> Device)"
        return json.dumps(
            {"ph": "X", "cat": "kernel", "name": name, "pid": number, "tid": number, "ts": number, "args": args}
        )

    events = parse(",".join(map(event, range(2, 100))), kind_of=lambda shape: kind).tables[kind]
    whole, pieces = Rows(), Rows()
    with borrow_connection() as con:
        Mapper(con, gpu_pid=None).add_rows(kind, [events], whole)
        Mapper(con, gpu_pid=None).add_rows(kind, [events[:5], events[5:]], pieces)
    for (table, rows), (_, from_pieces) in zip(whole.tables, pieces.tables, strict=True):
        assert rows.column("time_ns" if table == "memory_events" else "start_ns").to_pylist() == [
            1_000 * number for number in range(2, 100)
        ]
        for column in {"correlation", "external_id", "address"}.intersection(rows.column_names):
            assert rows.column(column).to_pylist() == list(range(2, 100)), column
        assert from_pieces.to_pylist() == rows.to_pylist()
