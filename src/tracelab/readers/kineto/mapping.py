"""Map Kineto events to canonical tables: one mapping a table, one line a canonical column.

The expressions are DuckDB SQL over the relation `events` that `mapper.py` registers: `source_cat` and `cat` (the
category as the file has it, and its current name in lower case), `ph`, `name`, `pid` and `tid` (as the file has them),
`start_ns`, `dur_ns`, and `gpu_pid`, the process to which GPU rows are assigned. Arguments are named with `_arg` and its
siblings, so that the parser returns them as columns; the others are kept as JSON. The conditions of `where` are
evaluated on the shapes of events (`mapper.classify_shapes`), which have only a few names and one argument.
`cut_groups` maps the names of process groups, of which events list only the first ranks, to their members; each key
begins with `group_prefix`, which distinguishes the groups of several files.
"""

from dataclasses import dataclass, field

from tracelab import schema

US_PER_TICK = 1_000  # Kineto times are microseconds, with up to three decimals; ours are whole nanoseconds

CATEGORY_ALIASES = {  # torch 1.8 to 1.11, already lower case
    "operator": "cpu_op",
    "runtime": "cuda_runtime",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "user": "user_annotation",
}
OP_CATEGORIES = ("cpu_op", *(old for old, new in CATEGORY_ALIASES.items() if new == "cpu_op"))


@dataclass(frozen=True)
class Value:
    """An expression over events; `{0}`, `{1}` … are its arguments, each with its aliases and DuckDB type."""

    template: str
    arguments: tuple[tuple[tuple[str, ...], str], ...] = ()
    column: str | None = None
    """The column of events that has the values, where its type is that of the table's column."""
    text: str | None = None
    """The column of events, `name` or `source_cat`, on which the value alone depends where the arguments have none."""


@dataclass(frozen=True)
class Mapping:
    """How the events of one kind become rows of one table; columns not named are NULL."""

    table: str
    where: str
    columns: dict[str, Value] = field(default_factory=dict)
    also_omitted: tuple[str, ...] = ()  # arguments that repeat the value of a column


ARGUMENT_ITSELF = "{0}"
"""The template of a column that is an argument, or the first of its aliases that has a value."""


def _arg(*keys: str, kind: str = "BIGINT") -> Value:
    return Value(ARGUMENT_ITSELF, ((keys, kind),))


def _text(*keys: str) -> Value:
    return _arg(*keys, kind="VARCHAR")


NO_ID, NO_ID32 = -1, 4294967295
"""The ids that mean that there is none: -1, and the unsigned 32-bit -1."""
_ID = f"nullif(nullif({{}}, {NO_ID}), {NO_ID32})"
ID_ITSELF = _ID.format(ARGUMENT_ITSELF)
"""The template of a column that is an id, or NULL where there is none."""


def _id(*keys: str, otherwise: str | None = None) -> Value:
    template = _ID.format(f"coalesce({ARGUMENT_ITSELF}, {otherwise})") if otherwise else ID_ITSELF
    return Value(template, ((keys, "BIGINT"),))


def _of_category(text: str) -> Value:
    return Value(text, text="source_cat")


def _of_name(text: str) -> Value:
    return Value(text, text="name")


def _sql(text: str) -> Value:
    return Value(text)


def _column(name: str) -> Value:
    """A column of events."""
    return Value(name, column=name)


def _id_column(name: str) -> Value:
    """A column of events that are texts where any of them is no number."""
    return Value(f"try_cast({name} as bigint)", column=name)


def _item(key: str, index: int) -> Value:
    return Value(f"{{0}}[{index}]", (((key,), "INTEGER[3]"),))


_PID, _TID = _id_column("pid"), _id_column("tid")
_TIMES = {"start_ns": _column("start_ns"), "dur_ns": _column("dur_ns")}
_NAME = {"name": _column("name")}
_EXTERNAL = {"external_id": _arg("External id", "external id")}

_STREAM_OF_TRACK = "try_cast(regexp_replace(tid::varchar, '^stream ', '') as bigint)"  # torch 1.9: 'stream 7'
_GPU = {
    "pid": _sql("gpu_pid"),
    "device": Value(  # a PtoP copy has inDevice instead of device
        "nullif(nullif(coalesce({0}, {1}, try_cast(pid as bigint)), -1), 4294967295)",
        ((("device",), "BIGINT"), (("inDevice",), "BIGINT")),
    ),
    "context": _id("context"),
    "stream": _id("stream", otherwise=_STREAM_OF_TRACK),
    **_TIMES,
    "correlation": _id("correlation"),
    "graph": Value("nullif({0}, 0)", ((("graph id",), "BIGINT"),)),  # CUPTI: 0 where no graph launched it
    "graph_node": Value("nullif({0}, 0)", ((("graph node id",), "BIGINT"),)),
}
_CPU = {"pid": _PID, "tid": _TID, **_TIMES}

_DIRECTIONS = " ".join(  # not `in`, with whose values DuckDB would join: a join may reorder rows
    f"when '{direction}' then '{direction}'"
    for direction in ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA")
)
_XPU_DIRECTIONS = "when 'M2D' then 'HtoD' when 'D2M' then 'DtoH' when 'D2D' then 'DtoD' when 'M2M' then 'HtoH'"
_MEMORIES = (  # of Memcpy HtoD (Pinned -> Device), and of an XPU's Memcpy M2D (MEMORY(Unknown) -> DEVICE)
    "case when contains(name, '(') and ends_with(name, ')') then name[strpos(name, '(') + 1:-2] else '' end"
)

COLLECTIVE_KIND = r"""case
    when {0} is null then null
    when regexp_matches({0}, '(?i)all_?reduce') then 'all_reduce'
    when regexp_matches({0}, '(?i)all_?gather') then 'all_gather'
    when regexp_matches({0}, '(?i)reduce_?scatter') then 'reduce_scatter'
    when regexp_matches({0}, '(?i)all_?to_?all') then 'all_to_all'
    when regexp_matches({0}, '(?i)broadcast') then 'broadcast'
    when regexp_matches({0}, '(?i)reduce') then 'reduce'
    when regexp_matches({0}, '(?i)send|recv') then 'send_recv'
    else 'other' end"""
"""SQL for the kind of collective that a name shows."""

_IS_P2P = f"nullif({COLLECTIVE_KIND}, 'other') = 'send_recv'"
"""SQL for whether a name is that of a send or a receive; a coalesced operation may be either."""

_ELEMENT_BYTES = r"""case
    when regexp_matches({0}, '(?i)^(byte|char|bool|u?int8|q?u?int8|float8.*)$') then 1
    when regexp_matches({0}, '(?i)^(half|bfloat16|float16|short|u?int16)$') then 2
    when regexp_matches({0}, '(?i)^(float|float32|int|u?int32|complexhalf)$') then 4
    when regexp_matches({0}, '(?i)^(double|float64|long|u?int64|complexfloat)$') then 8
    when regexp_matches({0}, '(?i)^complexdouble$') then 16 end"""

_IN = ("In msg nelems", "In msg size")  # renamed on 2023-12-15; both count elements
_OUT = ("Out msg nelems", "Out msg size")

LISTED_RANKS = 30
"""Ranks of a group that torch lists on an event; the list of a larger group ends in '...'."""
GROUPS_TYPE = "map(varchar, struct(start integer, stride integer, ranks bigint[]))"
NO_GROUPS = f"null::{GROUPS_TYPE}"
"""SQL for the groups of a trace whose events list all members."""

_GROUP_NAME = (("Process Group Name", "PG ID", "Process Group ID"), "VARCHAR")
_GROUP_RANKS = (("Process Group Ranks",), "VARCHAR")
_IS_CUT = "contains({0}, '...')"
_CUT_GROUP = "cut_groups[group_prefix || {1}]"

_COLLECTIVE = {
    "start_ns": _column("start_ns"),
    "dur_ns": _column("dur_ns"),
    "external_id": _arg("External id", "external id"),
    "collective": Value(COLLECTIVE_KIND, ((("Collective name",), "VARCHAR"),)),
    "raw_name": _text("Collective name"),
    "in_elements": _arg(*_IN),
    "out_elements": _arg(*_OUT),
    "dtype": _text("dtype"),
    "size_bytes": Value(
        f"try(greatest({{1}}, {{2}}) * ({_ELEMENT_BYTES}))",
        ((("dtype",), "VARCHAR"), (_IN, "BIGINT"), (_OUT, "BIGINT")),
    ),
    "bytes_source": Value(
        f"case when try(greatest({{1}}, {{2}}) * ({_ELEMENT_BYTES})) is not null then 'trace' end",
        ((("dtype",), "VARCHAR"), (_IN, "BIGINT"), (_OUT, "BIGINT")),
    ),
    "group_name": _text(*_GROUP_NAME[0]),
    "group_size": _arg("Group size", kind="INTEGER"),
    "group_ranks": Value(
        f"case when not {_IS_CUT} then nullif(try_cast({{0}} as bigint[]), []) else {_CUT_GROUP}.ranks end",
        (_GROUP_RANKS, _GROUP_NAME),
    ),
    "comm_id": _text("NCCL communicator ID"),  # only in what `tracelab export` writes of an Nsight Systems report
    "comms_id": _text("Comms Id"),
    "group_description": Value(  # c10d's name for none
        "nullif(nullif({0}, ''), 'undefined')", ((("Process Group Description",), "VARCHAR"),)
    ),
    # torch writes these on ops alone, not on the kernels that they launch
    "group_start": Value(
        f"coalesce({{2}}, case when {_IS_CUT} then {_CUT_GROUP}.start end)",
        (_GROUP_RANKS, _GROUP_NAME, (("Global rank start",), "INTEGER")),
    ),
    "group_stride": Value(
        f"coalesce({{2}}, case when {_IS_CUT} then {_CUT_GROUP}.stride end)",
        (_GROUP_RANKS, _GROUP_NAME, (("Global rank stride",), "INTEGER")),
    ),
    "is_p2p": Value(_IS_P2P, ((("Collective name",), "VARCHAR"),)),
    "src_rank": _id("Src Rank"),
    "dst_rank": _id("Dst Rank"),
    "seq": _arg("Seq"),
    "root": _id("Root Rank", "Root"),
    "peer": Value(  # a send may name its own rank as the source
        "nullif(nullif(case when contains(lower({2}), 'send') then coalesce({1}, {0}) else coalesce({0}, {1}) end, "
        "-1), 4294967295)",
        ((("Src Rank",), "BIGINT"), (("Dst Rank",), "BIGINT"), (("Collective name",), "VARCHAR")),
    ),
}

MEMORY_EVENT = "[memory]"
COMMUNICATION_OP = "record_param_comms"
_OP = {
    **_CPU,
    **_NAME,
    **_EXTERNAL,
    "sequence_number": _id("Sequence number"),
    "forward_tid": _arg("Fwd thread id"),
    "input_shapes": _arg("Input Dims", kind="JSON"),
    "input_types": _arg("Input type", kind="JSON"),
}
OPS = Mapping("ops", f"cat = 'cpu_op' and ph = 'X' and name is distinct from '{COMMUNICATION_OP}'", _OP)
STEP_PREFIX = "ProfilerStep#"
"""The names of the profiler's steps begin like this; torch 1.8 to 1.11 files them under ops, later ones do not."""
COMMUNICATION_OPS = Mapping("ops", "cat = 'cpu_op' and ph = 'X'", _OP)
"""Separate from the other ops, because their many arguments would make common ops slow to map."""

_KERNEL = {
    **_GPU,
    **_NAME,
    **{f"grid_{axis}": _item("grid", 1 + at) for at, axis in enumerate("xyz")},
    **{f"block_{axis}": _item("block", 1 + at) for at, axis in enumerate("xyz")},
    "registers": _arg("registers per thread", kind="INTEGER"),
    "occupancy_ratio": Value("{0} / 100", ((("est. achieved occupancy %",), "DOUBLE"),)),
    **_EXTERNAL,
}
NAME_OF_COLLECTIVE = "Collective name"
NAMES_COLLECTIVE = f"json_exists(args, '$.\"{NAME_OF_COLLECTIVE}\"')"
COLLECTIVE_KERNELS = Mapping("kernels", f"cat = 'kernel' and ph = 'X' and {NAMES_COLLECTIVE}", _KERNEL)
"""Separate from the other kernels for the same reason."""
KERNELS = Mapping("kernels", "cat = 'kernel' and ph = 'X'", _KERNEL)
"""All other kernels: the first mapping that accepts an event takes it."""

_ANNOTATION = {
    "pid": _sql("case when cat = 'gpu_user_annotation' then gpu_pid else try_cast(pid as bigint) end"),
    **_NAME,
    "category": _sql("cat"),
    "scope": _sql("case when cat = 'gpu_user_annotation' then 'gpu' else 'cpu' end"),
    "tid": _sql("case when cat <> 'gpu_user_annotation' then try_cast(tid as bigint) end"),
    # the track is the device, except in what `tracelab export` writes, where the arguments have it
    "device": Value(
        "case when cat = 'gpu_user_annotation' then nullif(coalesce({0}, try_cast(pid as bigint)), -1) end",
        ((("device",), "BIGINT"),),
    ),
    "stream": Value(
        f"case when cat = 'gpu_user_annotation' then nullif(coalesce({{0}}, {_STREAM_OF_TRACK}), -1) end",
        ((("stream",), "BIGINT"),),
    ),
    **_TIMES,
}
STEPS = Mapping("annotations", OPS.where, _ANNOTATION | {"category": _column("source_cat")})
"""The steps among the ops: only their names distinguish them, so `Mapper` separates them."""

_MTIA_DMA = "dma_request"
_MTIA_SYNCS = ("event_record", "event_wait", "synchronize")
_MTIA = {  # the track is no stream; runtime events call the argument stream_id
    **_GPU,
    "stream": Value("coalesce({0}, {1})", ((("stream",), "BIGINT"), (("stream_id",), "BIGINT"))),
}

MAPPINGS: tuple[Mapping, ...] = (
    OPS,
    COMMUNICATION_OPS,
    Mapping(
        "syncs",  # the runtime's one is the device's half of a call that has another name
        f"cat in ('mtia_ccp_events', 'mtia_runtime') and ph = 'X' and name in {_MTIA_SYNCS}",
        {**_MTIA, "kind": _column("name"), "waits_for_stream": _id("wait_on_stream")},
    ),
    Mapping(
        "memcpys",
        f"cat = 'mtia_ccp_events' and ph = 'X' and name = '{_MTIA_DMA}'",
        {
            **_MTIA,
            "direction": Value(
                "case {0} when 'HOST_TO_DEVICE' then 'HtoD' when 'DEVICE_TO_HOST' then 'DtoH' "
                "when 'DEVICE_TO_DEVICE' then 'DtoD' else 'unknown' end",
                ((("direction",), "VARCHAR"),),
            ),
            "size_bytes": _arg("size"),
        },
    ),
    Mapping("kernels", "cat = 'mtia_ccp_events' and ph = 'X'", {**_MTIA, **_NAME}),
    Mapping(
        "syncs",  # of an XPU: recorded on the waiting thread, without device and queue
        "cat = 'xpu_sync' and ph = 'X'",
        {"pid": _sql("gpu_pid"), **_TIMES, "correlation": _id("correlation"), "kind": _arg("Type", kind="VARCHAR")},
    ),
    Mapping(
        "api_calls",
        "ph = 'X' and (ends_with(cat, '_runtime') or ends_with(cat, '_driver'))",
        {
            **_CPU,
            "api": _of_category("case when ends_with(cat, '_driver') then 'driver' else 'runtime' end"),
            **_NAME,
            "correlation": _id("correlation"),
            **_EXTERNAL,
        },
    ),
    COLLECTIVE_KERNELS,
    KERNELS,
    Mapping(
        "memcpys",
        "cat = 'gpu_memcpy' and ph = 'X'",
        {
            **_GPU,
            # string functions: a regular expression costs ten times as much on each row
            "direction": Value(
                f"coalesce(case split_part(name, ' ', 2) {_DIRECTIONS} end, case {{0}} {_DIRECTIONS} end, "
                f"case split_part(name, ' ', 2) {_XPU_DIRECTIONS} end, 'unknown')",
                ((("kind",), "VARCHAR"),),
                text="name",
            ),
            "src_memory": _of_name(f"nullif(split_part({_MEMORIES}, ' -> ', 1), '')"),
            "dst_memory": _of_name(f"nullif(split_part({_MEMORIES}, ' -> ', 2), '')"),
            "src_device": _arg("fromDevice"),
            "dst_device": _arg("toDevice"),
            "size_bytes": _arg("bytes"),
            **_EXTERNAL,
        },
    ),
    Mapping(
        "memsets",
        "cat = 'gpu_memset' and ph = 'X'",
        {
            **_GPU,
            "memory": _of_name(
                f"nullif(split_part({_MEMORIES}, ' -> ', -1), '')"
            ),  # of an XPU, (0 -> Device) has the value
            "value": _of_name(f"try_cast(nullif(split_part({_MEMORIES}, ' -> ', -2), '') as bigint)"),
            "size_bytes": _arg("bytes"),
            **_EXTERNAL,
        },
    ),
    Mapping(
        "syncs",
        "cat = 'cuda_sync' and ph = 'X'",
        {
            **_GPU,
            # since 2026-04 the track of a stream's synchronization is its stream + 1,000,000
            "stream": _id("stream", otherwise="try_cast(tid as bigint) % 1000000"),
            # what torch before 2.3 writes for -1 stays, because HTA takes it for a stream
            "args": Value(
                "case when {0} = 4294967295 "
                """then json_merge_patch(coalesce(args, '{{}}'), '{{"stream":4294967295}}')::varchar else args end""",
                ((("stream",), "BIGINT"),),
            ),
            "kind": Value("coalesce({0}, name)", ((("cuda_sync_kind",), "VARCHAR"),)),
            "event_id": _id("wait_on_cuda_event_id"),
            "waits_for_stream": _id("wait_on_stream"),
            "waits_for_correlation": _id("wait_on_cuda_event_record_corr_id"),
        },
    ),
    Mapping("annotations", "ph = 'X' and cat in ('user_annotation', 'gpu_user_annotation')", _ANNOTATION),
    Mapping(
        "python_frames",
        "cat = 'python_function' and ph = 'X'",
        {
            **_CPU,
            **_NAME,
            "frame": _arg("Python id"),
            "parent_frame": _arg("Python parent id"),
            "module": _arg("Python module id"),
        },
    ),
    Mapping(
        "memory_events",
        f"name = '{MEMORY_EVENT}' and (cat is null or cat = 'cpu_instant_event') "
        "and coalesce(ph, '') not in ('s', 't', 'f')",  # flow events carry no memory event
        {
            "pid": _PID,
            "tid": _TID,
            "time_ns": _column("start_ns"),
            "device": Value(  # a Device Type of 0 is the host
                "case when {1} is null or {1} <> 0 then nullif(nullif({0}, -1), 4294967295) end",
                ((("Device Id",), "BIGINT"), (("Device Type",), "BIGINT")),
            ),
            "address": _arg("Addr"),
            "size_bytes": _arg("Bytes"),
            "allocated_bytes": _arg("Total Allocated"),
            "reserved_bytes": _arg("Total Reserved"),
        },
    ),
)
"""Each event becomes a row of the first table whose condition holds, else of `counters` or `other_events`."""

WATCHED_NAMES = (COMMUNICATION_OP, MEMORY_EVENT, _MTIA_DMA, *_MTIA_SYNCS)
"""The names of events that conditions of `MAPPINGS` use; no condition may depend on any other name."""
WATCHED_KEY = NAME_OF_COLLECTIVE
"""The same for the keys of arguments."""

KERNEL_COLLECTIVES = Mapping(
    "collectives",
    "cat = 'kernel' and ph = 'X'",
    {
        "origin": _sql("'kernel'"),
        "pid": _GPU["pid"],
        "device": _GPU["device"],
        "stream": _GPU["stream"],
        "correlation": _GPU["correlation"],
        **_COLLECTIVE,
    },
    also_omitted=(
        *("context", "queued", "registers per thread", "shared memory", "blocks per SM", "warps per SM"),
        *("grid", "block", "est. achieved occupancy %", "graph id", "graph node id"),
    ),
)
OP_COLLECTIVES = Mapping(
    "collectives",
    "cat = 'cpu_op' and ph = 'X'",
    {"origin": _sql("'op'"), "pid": _PID, "tid": _TID, **_COLLECTIVE},
    also_omitted=("Sequence number", "Fwd thread id", "Input Dims", "Input type"),
)
COLLECTIVE_KEYS = (NAME_OF_COLLECTIVE, *_IN)
"""A kernel or op with one of these arguments also has a row in `collectives`."""

OTHER = Mapping(
    "other_events",
    "true",
    {
        "pid": _PID,
        "category": _column("source_cat"),
        "phase": _column("ph"),
        **_NAME,
        "tid": _TID,
        "track": _sql(
            "case when try_cast(pid as bigint) is null or try_cast(tid as bigint) is null then nullif(concat_ws('/', "
            "case when try_cast(pid as bigint) is null then pid::varchar end, "
            "case when try_cast(tid as bigint) is null then tid::varchar end), '') end"
        ),
        **_TIMES,
    },
)

KINDS = (*MAPPINGS, OTHER)
"""The mapping of each kind of event; the kind is the index."""
COUNTERS = len(KINDS)
"""The kind of counter events, each of which becomes one row for every series."""

GPU_TABLES = ("kernels", "memcpys", "memsets", "syncs", "collectives", "annotations")
"""Tables with GPU rows, which name no process: their pid is the file's only process."""

ID32 = "ID32"
"""The type of arguments with a column of 32 bits where 4294967295, the unsigned -1, means that there is none."""
REDUNDANT = "REDUNDANT"
"""The type of arguments without a column, because they repeat the value of another one."""

LEFTOVER = "args"
"""The column of the arguments that have no column of their own, as JSON."""
SECONDARY_LEFTOVER = "secondary args"
"""The same for the second table that some events have a row in."""


@dataclass(frozen=True)
class ArgumentPlan:
    """Where the arguments of one kind of event are stored: in columns, in the leftover JSON, or not at all."""

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


def argument_column(key: str) -> str:
    """Return the column of an argument; unlike keys, columns may not differ by case alone."""
    return f"arg {ARGUMENT_NUMBERS[key]}"


def secondary_mapping(target: Mapping) -> Mapping | None:
    """Return the mapping that makes a second row of events that carry communication metadata."""
    if target is COMMUNICATION_OPS:
        return OP_COLLECTIVES
    return KERNEL_COLLECTIVES if target.table == "kernels" else None


def argument_keys(target: Mapping) -> frozenset[str]:
    """Return the arguments that a mapping uses."""
    return frozenset(key for value in target.columns.values() for keys, _ in value.arguments for key in keys)


def argument_table(kind: int, key: str) -> str:
    """Return the first table of a kind with a column for an argument."""
    target = KINDS[kind]
    secondary = secondary_mapping(target)
    return secondary.table if secondary and key not in argument_keys(target) else target.table


def argument_types(target: Mapping) -> dict[str, str]:
    """Return the arguments that a mapping uses, each with the DuckDB type that its column requires."""
    types = {column.name: column.type for column in schema.BY_NAME[target.table].columns}
    return {
        key: ID32 if kind == "BIGINT" and types[name] == "int32" else kind
        for name, value in target.columns.items()
        for keys, kind in value.arguments
        for key in keys
    }


def plan_arguments(kind: int) -> ArgumentPlan:
    """Return where the arguments of a kind of event are stored."""
    if kind == COUNTERS:
        return ArgumentPlan(keeps_all=True)
    target = KINDS[kind]
    keys, secondary = argument_keys(target), secondary_mapping(target)
    if secondary is None:
        return ArgumentPlan(keys, omitted=_omitted(target))
    return ArgumentPlan(
        keys | argument_keys(secondary), argument_keys(secondary), _omitted(target), _omitted(secondary)
    )


def _omitted(target: Mapping) -> frozenset[str]:
    return argument_keys(target) | frozenset(target.also_omitted)


_MAPPED = (*KINDS, KERNEL_COLLECTIVES, OP_COLLECTIVES)

ARGUMENT_TYPES: dict[str, str] = dict.fromkeys(
    (key for target in _MAPPED for key in target.also_omitted), REDUNDANT
) | {key: kind for target in _MAPPED for key, kind in argument_types(target).items()}
"""All arguments that any mapping uses, each with the one DuckDB type that all of them require."""

ARGUMENT_NUMBERS = {key: number for number, key in enumerate(ARGUMENT_TYPES)}
