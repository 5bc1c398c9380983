"""NCCL's NVTX payloads: which communicator, how many bytes, which root or peer."""

import json
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
_PER_RANK = ("all_gather", "reduce_scatter", "all_to_all")
"""Collectives whose message is one rank's share: what is moved is as many times as much as there are ranks."""


def build_collectives(annotations: pa.Table) -> pa.Table | None:
    """Rows of `collectives` for the calls whose payload tells a size; None where there are none."""
    called = pc.is_in(annotations.column("name"), value_set=pa.array(list(_KINDS)))
    calls = annotations.filter(pc.and_kleene(called, pc.is_valid(annotations.column("payload"))))
    if not calls.num_rows:
        return None
    rows = [row for call in calls.to_pylist() if (row := _build_row(call)) is not None]
    return pa.Table.from_pylist(rows, pa.schema(_TYPES)) if rows else None


_TYPES: dict[str, Any] = {
    **dict.fromkeys(("origin", "collective", "raw_name", "bytes_source", "comm_id", "args"), pa.string()),
    **dict.fromkeys(("pid", "tid", "start_ns", "dur_ns", "size_bytes"), pa.int64()),
    **dict.fromkeys(("root", "peer", "group_size"), pa.int32()),
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
        # the share of one rank where it is not known how many there are would be a wrong size
        "size_bytes": None if collective in _PER_RANK and not ranks else moved,
        "bytes_source": "nvtx",
        "comm_id": None if communicator is None else str(communicator),
        "group_size": ranks,
        "root": _find_number(fields, "root"),
        "peer": _find_number(fields, "peer rank", "peer"),
        "args": json.dumps({"message_bytes": message_bytes}),
    }


def _flatten_payload(payload: str) -> dict[str, object]:
    """The payload's fields by lower-case name, however deep they stand."""
    try:
        content = json.loads(payload)
    except ValueError:
        return {}
    found: dict[str, object] = {}
    waiting = [content]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            if isinstance(part.get("name"), str) and "value" in part:
                found.setdefault(part["name"].lower(), part["value"])
            for key, value in part.items():
                if isinstance(value, dict | list):
                    waiting.append(value)
                else:
                    found.setdefault(key.lower(), value)
    return found


def _find_number(fields: dict[str, object], *names: str) -> int | None:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
            return value
    return None
