"""Read NCCL's NVTX payloads: communicator, bytes, root or peer."""

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_KINDS = {
    "ncclAllReduce": "all_reduce",
    "ncclAllGather": "all_gather",
    "ncclReduceScatter": "reduce_scatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclAlltoAll": "all_to_all",
    "ncclAllToAll": "all_to_all",
    "ncclSend": "send_recv",
    "ncclRecv": "send_recv",
    "ncclGather": "other",
    "ncclScatter": "other",
}
_DECODER = json.JSONDecoder(parse_float=Decimal)
_DIGITS_OF_INT64 = 19
_PER_RANK = ("all_gather", "reduce_scatter", "all_to_all")
"""Collectives whose message is the share of one rank; the size is that times the number of ranks."""


def build_collectives(annotations: pa.Table) -> pa.Table | None:
    """Build rows of `collectives` for the calls with a size in their payload; None if there are none."""
    is_collective = pc.is_in(annotations.column("name"), value_set=pa.array(list(_KINDS)))
    calls = annotations.filter(pc.and_kleene(is_collective, pc.is_valid(annotations.column("payload"))))
    if not calls.num_rows:
        return None
    rows = [row for call in calls.to_pylist() if (row := _build_row(call)) is not None]
    return pa.Table.from_pylist(rows, pa.schema(_TYPES)) if rows else None


_TYPES: dict[str, Any] = {
    **dict.fromkeys(("origin", "collective", "raw_name", "bytes_source", "comm_id", "args"), pa.string()),
    **dict.fromkeys(("pid", "tid", "start_ns", "dur_ns", "size_bytes"), pa.int64()),
    **dict.fromkeys(("root", "peer", "group_size"), pa.int32()),
    "is_p2p": pa.bool_(),
}


def _build_row(call: dict[str, Any]) -> dict[str, object] | None:
    fields = _flatten_payload(call["payload"])
    message_bytes = _find_number(fields, "message size [bytes]", "message size", "bytes")
    if message_bytes is None:
        return None
    collective, ranks = _KINDS[call["name"]], _find_number(fields, "no. of ranks", "number of ranks")
    moved = message_bytes * ranks if ranks and collective in _PER_RANK else message_bytes
    communicator = fields.get("nccl communicator id", fields.get("communicator"))
    return {
        "origin": "op",
        **{key: call[key] for key in ("pid", "tid", "start_ns", "dur_ns")},
        "collective": collective,
        "raw_name": call["name"],
        # without the number of ranks, the share of one rank would be a wrong size
        "size_bytes": None if collective in _PER_RANK and not ranks else moved,
        "bytes_source": "nvtx",
        "comm_id": None if communicator is None else str(communicator),
        "group_size": ranks,
        "root": _find_number(fields, "root"),
        "peer": _find_number(fields, "peer rank", "peer"),
        "is_p2p": collective == "send_recv",
        "args": json.dumps({"message_bytes": message_bytes}),
    }


def _flatten_payload(payload: str) -> dict[str, object]:
    """Return the fields of a payload by lower-case name, at any depth."""
    try:
        content = _DECODER.decode(payload)
    except (ValueError, RecursionError):
        return {}
    fields: dict[str, object] = {}
    pending = [content]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            if isinstance(part.get("name"), str) and "value" in part:
                fields.setdefault(part["name"].lower(), part["value"])
            for key, value in part.items():
                if isinstance(value, dict | list):
                    pending.append(value)
                else:
                    fields.setdefault(key.lower(), value)
    return fields


def _find_number(fields: dict[str, object], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS_OF_INT64:
            value = int(value)
        if isinstance(value, Decimal) and value.adjusted() < _DIGITS_OF_INT64 and value == value.to_integral_value():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
            return value
    return None
