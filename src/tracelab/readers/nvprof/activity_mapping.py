"""Map CUPTI activity tables to canonical tables: one mapping per table, one line per canonical column.

The expressions are DuckDB SQL over the rows of one activity table. Its columns are in double quotes; ids of the string
table are replaced by their texts, and bytes by hex. Columns that no expression names go into `args`.
"""

from dataclasses import dataclass, field

PREFIX = "CUPTI_ACTIVITY_KIND_"


@dataclass(frozen=True)
class Mapping:
    """Mapping of the rows of an activity table that pass `where` to one canonical table."""

    table: str
    columns: dict[str, str] = field(default_factory=dict)
    where: str = "true"
    also_mapped: tuple[str, ...] = ()  # columns that a mapped column repeats, or without information


def _id_or_null(name: str) -> str:
    """Return SQL of an id for which -1 and 4294967295 (the unsigned 32-bit -1) mean absence."""
    return f'nullif(nullif("{name}", -1), 4294967295)'


def _case_names(name: str, *texts: str) -> str:
    """Return SQL of the text of a number that counts from 1; other numbers become NULL."""
    whens = " ".join(f"when {number} then '{text}'" for number, text in enumerate(texts, 1))
    return f'case "{name}" {whens} end'


_DIRECTION = (
    "coalesce("
    + _case_names("copyKind", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")
    + ", 'unknown')"
)
_SYNCS = ("Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_MEMORIES = ("Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static")

_TIMES = {  # CUPTI: both are 0 where the time could not be taken
    "start_ns": 'nullif("start", 0)',
    "dur_ns": 'case when "start" <> 0 and "end" <> 0 then try("end" - "start") end',
}
_GPU = {
    "pid": "gpu_pid()",
    "device": _id_or_null("deviceId"),
    "context": _id_or_null("contextId"),
    "stream": _id_or_null("streamId"),
    **_TIMES,
    "correlation": _id_or_null("correlationId"),
}
_SHAPE = {f"{dimension}_{axis.lower()}": f'"{dimension}{axis}"' for dimension in ("grid", "block") for axis in "XYZ"}
_API = {"pid": '"processId"', "tid": '"threadId"', **_TIMES}
_OBJECT = {  # the owner of an event: a process and its thread, or a device
    "pid": 'case when "objectKind" <= 2 then int_at("objectId", 0) else gpu_pid() end',
    "tid": 'case when "objectKind" = 2 then nullif(int_at("objectId", 1), 0) end',
}


def _map_api_calls(api: str) -> Mapping:
    return Mapping(
        "api_calls",
        {
            **_API,
            "api": f"'{api}'",
            "name": f"api_name('{api}', \"cbid\")",
            "correlation": _id_or_null("correlationId"),
            "return_value": '"returnValue"',
        },
    )


_KERNEL = Mapping(
    "kernels",
    {
        **_GPU,
        "name": '"name"',
        **_SHAPE,
        "registers": '"registersPerThread"',
        "shared_static_bytes": '"staticSharedMemory"',
        "shared_dynamic_bytes": '"dynamicSharedMemory"',
    },
)
_COPY = {
    **_GPU,
    "direction": _DIRECTION,
    "src_memory": _case_names("srcKind", *_MEMORIES),
    "dst_memory": _case_names("dstKind", *_MEMORIES),
    "size_bytes": '"bytes"',
}
_MIGRATED = '"counterKind" in (1, 2, 8) and "start" is not null and "end" is not null and "timestamp" is null'
_UNIFIED = (
    *("bytes_transfer_htod", "bytes_transfer_dtoh", "cpu_page_faults", "gpu_page_faults"),
    *("thrashing", "throttling", "remote_map", "bytes_transfer_dtod"),
)
_METRIC = {
    "pid": "gpu_pid()",
    "launch": _id_or_null("correlationId"),
    "device": "kernel_device",
    "context": "kernel_context",
    "stream": "kernel_stream",
    "kernel": "kernel_name",
    **{name: f'"{raw}"' for name, raw in zip(_SHAPE, ("gX", "gY", "gZ", "bX", "bY", "bZ"), strict=True)},
}


def _map_metric(dimension: str, value: str, *, instance: str = "null") -> Mapping:
    return Mapping(
        "kernel_metrics",
        _METRIC | {"metric": f"'{dimension} ' || \"id\"", "value": value, "instance": f"{instance}::varchar"},
    )


def _map_sample(name: str, value: str, unit: str, condition: str) -> Mapping:
    columns = {"pid": "gpu_pid()", "device": _id_or_null("deviceId"), "time_ns": '"timestamp"', "name": f"'{name}'"}
    return Mapping("counters", columns | {"value": value, "unit": f"'{unit}'"}, condition, ("environmentKind", "data"))


OTHER_EVENT = {
    "pid": '"processId"',
    "tid": '"threadId"',
    "start_ns": 'coalesce("timestamp", nullif("start", 0))',
    "dur_ns": 'case when "start" <> 0 and "end" <> 0 then try("end" - "start") end',
    "name": '"name"',
}

MAPPINGS: dict[str, tuple[Mapping, ...]] = {
    "KERNEL": (_KERNEL,),
    "CONCURRENT_KERNEL": (_KERNEL,),
    "CDP_KERNEL": (_KERNEL,),
    "MEMCPY": (Mapping("memcpys", _COPY),),
    "MEMCPY2": (
        Mapping(
            "memcpys", _COPY | {"src_device": _id_or_null("srcDeviceId"), "dst_device": _id_or_null("dstDeviceId")}
        ),
    ),
    "MEMSET": (
        Mapping(
            "memsets",
            _GPU | {"memory": _case_names("memoryKind", *_MEMORIES), "size_bytes": '"bytes"', "value": '"value"'},
        ),
    ),
    "RUNTIME": (_map_api_calls("runtime"),),
    "DRIVER": (_map_api_calls("driver"),),
    "SYNCHRONIZATION": (
        Mapping(
            "syncs",
            _GPU
            | {
                "device": 'device_of("contextId")',
                "kind": f"coalesce({_case_names('type', *_SYNCS)}, 'type ' || \"type\")",
                "event_id": _id_or_null("cudaEventId"),
            },
        ),
    ),
    "UNIFIED_MEMORY_COUNTER": (
        Mapping(
            "memcpys",
            {
                "pid": '"processId"',
                "device": f'case when "counterKind" = 1 then {_id_or_null("dstId")} else {_id_or_null("srcId")} end',
                "stream": 'nullif(nullif(nullif("streamId", -1), 4294967295), 0)',
                **_TIMES,
                "direction": "case \"counterKind\" when 1 then 'UVM HtoD' when 2 then 'UVM DtoH' else 'UVM DtoD' end",
                "src_device": f'case when "counterKind" = 8 then {_id_or_null("srcId")} end',
                "dst_device": f'case when "counterKind" = 8 then {_id_or_null("dstId")} end',
                "size_bytes": '"value"',
            },
            where=_MIGRATED,
            also_mapped=("counterKind",),
        ),
        Mapping(
            "counters",
            {
                "pid": '"processId"',
                "device": f"coalesce({_id_or_null('deviceId')}, "
                f'case when "counterKind" <> 3 then {_id_or_null("srcId")} end)',
                "time_ns": 'coalesce("timestamp", nullif("start", 0))',
                "name": "'unified_memory_' || "
                f'coalesce({_case_names("counterKind", *_UNIFIED)}, "counterKind"::varchar)',
                "value": '"value"',
                "unit": "case when \"counterKind\" in (1, 2, 8) then 'byte' end",
            },
            where=f"({_MIGRATED}) is not true",
        ),
    ),
    "METRIC": (_map_metric("metric", 'metric_value("value")'),),
    "METRIC_INSTANCE": (_map_metric("metric", 'metric_value("value")', instance='"instance"'),),
    "EVENT": (_map_metric("event", '"value"'),),
    "EVENT_INSTANCE": (_map_metric("event", '"value"', instance='"instance"'),),
    "MARKER": (
        Mapping(
            "annotations",
            {
                **_OBJECT,
                "name": '"name"',
                "domain": '"domain"',
                "category": 'nullif("marker_category", 0)::varchar',
                "scope": "case when \"objectKind\" <= 2 then 'cpu' else 'gpu' end",
                "device": 'case when "objectKind" >= 3 then int_at("objectId", 0) end',
                "stream": 'case when "objectKind" = 5 then int_at("objectId", 2) end',
                "start_ns": '"timestamp"',
                "dur_ns": 'try("end_timestamp" - "timestamp")',
                "payload": 'payload("payload_kind", "payload")',
            },
            where='"flags" & 4 = 0',
            also_mapped=("id",),
        ),
        Mapping(
            "other_events",
            {**_OBJECT, "category": "'marker'", "phase": "'end'", "start_ns": '"timestamp"'},
            where='"flags" & 4 <> 0',
        ),
    ),
    "OVERHEAD": (
        Mapping(
            "other_events",
            {
                **_OBJECT,
                "category": "'overhead'",
                "name": "case \"overheadKind\" when 1 then 'driver compiler' when 65536 then 'CUPTI buffer flush' "
                "when 131072 then 'CUPTI instrumentation' when 196608 then 'CUPTI resource' "
                "else 'overhead ' || \"overheadKind\" end",
                **_TIMES,
            },
        ),
    ),
    "ENVIRONMENT": (
        _map_sample("sm_clock", 'int_at("data", 0) * 1e6', "Hz", '"environmentKind" = 1'),
        _map_sample("memory_clock", 'int_at("data", 1) * 1e6', "Hz", '"environmentKind" = 1'),
        _map_sample("temperature", 'int_at("data", 0)', "°C", '"environmentKind" = 2'),
        _map_sample("power", 'int_at("data", 0) / 1000', "W", '"environmentKind" = 3'),
        _map_sample("fan_speed", 'int_at("data", 0)', "%", '"environmentKind" = 4'),
        Mapping("other_events", OTHER_EVENT | {"category": "'environment'"}, '"environmentKind" not in (1, 2, 3, 4)'),
    ),
}
"""By activity kind; rows of all other kinds become `other_events`."""

NOT_EVENTS = {"DEVICE", "MARKER_DATA"}
"""Activity kinds whose rows become part of other rows, or rows of `devices`."""

TEXT_IDS = {"name", "fileName", "srcFile", "funcName", "varName"}
"""Columns with ids of the string table, wherever they occur; `domain` has them in markers only."""

FILE_NAMES = {"fileName", "srcFile"}
"""Columns of paths, whose folders are not kept: they name users."""
