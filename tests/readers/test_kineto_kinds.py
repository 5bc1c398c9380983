"""The shape of an event decides its kind: the result is that of each condition on the whole event."""

import json
from itertools import product

import pyarrow as pa
import pytest

from tests.readers.parsing import parse
from tracelab.readers.kineto import mapper
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


@pytest.mark.parametrize("kind", range(len(KINDS)), ids=[f"{kind}-{target.table}" for kind, target in enumerate(KINDS)])
def test_columns_computed_once_for_each_text_are_those_computed_for_each_event(
    kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (
        "Memcpy HtoD (Pinned -> Device)",
        "Memcpy D2M (DEVICE -> MEMORY)",
        "Memset (0 -> Device)",
        "Memset",
        "",
        None,
    )
    categories = ("cuda_runtime", "CUDA_DRIVER", "memcpy", "", None)
    events = [
        json.dumps({key: value for key, value in event.items() if value is not None})
        for name, cat, args in product(names, categories, ({"correlation": 7}, {"correlation": -1, "bytes": 1}, {}))
        for event in [{"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 2, "ts": 3, "dur": 4, "args": args}]
    ]
    chunks = [parse(",".join(part), kind_of=lambda shape: kind).tables[kind] for part in (events[:20], events[20:])]
    found = []
    for fewest in (0, len(events) + 1):
        monkeypatch.setattr(mapper, "_MIN_EVENTS_BY_TEXT", fewest)
        rows = Rows()
        with borrow_connection() as con:
            Mapper(con, gpu_pid=1).add_rows(kind, chunks, rows)
        found.append([(table, part.to_pylist()) for table, part in rows.tables])
    assert found[0] == found[1]


def test_columns_of_texts_and_ids_have_the_values_of_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapper, "_MIN_EVENTS_BY_TEXT", 0)
    kind = next(at for at, target in enumerate(KINDS) if target.table == "api_calls")
    calls = [("cuda_driver", 5), ("cuda_runtime", 2**32 - 1), ("hip_runtime", 2**32), ("cuda_driver", -1)]
    text = ",".join(
        json.dumps({"ph": "X", "cat": cat, "name": "n", "ts": 1, "args": {"correlation": number}})
        for cat, number in calls
    )
    rows = Rows()
    with borrow_connection() as con:
        Mapper(con, gpu_pid=None).add_rows(kind, [parse(text, kind_of=lambda shape: kind).tables[kind]], rows)
    ((_, found),) = rows.tables
    assert found.column("api").to_pylist() == ["driver", "runtime", "runtime", "driver"]
    assert found.column("correlation").to_pylist() == [5, None, 2**32, None]
