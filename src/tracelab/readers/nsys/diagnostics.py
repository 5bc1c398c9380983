"""The sentences behind the codes that reading an export can leave."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file is shorter than it says; what stood before the cut was kept.",
        "Copy the file again, or export the report again.",
    ),
    "rows_lost": (
        "error",
        "The export is damaged: at least {n} [row|rows], the first in {sample}, could not be read; what can be "
        "was kept.",
        "Export the report again.",
    ),
    "strings_lost": (
        "error",
        "The export is damaged: at least {n} [text|texts] could not be read; what [it names|they name] has no name.",
        "Export the report again.",
    ),
    "description_lost": (
        "error",
        "The export is damaged: at least {n} [row|rows] about the recording could not be read, the first in {sample}.",
        "Export the report again.",
    ),
    "structure_damaged": (
        "error",
        "The export is damaged: SQLite finds its pages out of order; every row that can be read was kept.",
        "Export the report again.",
    ),
    "table_lost": (
        "error",
        "{n} [table|tables] could not be read at all, the first: {sample}.",
        "Export the report again.",
    ),
    "log_beside": (
        "warning",
        "Beside the file stands {sample}: what was written last is in it, and was not read.",
        "Close the program that has the file open, or run `sqlite3 FILE 'pragma wal_checkpoint'`.",
    ),
    "value_unfit": (
        "warning",
        "{n} [value does not fit its column and was|values do not fit their column and were] stored as NULL; the "
        "first: {sample}",
        None,
    ),
    "time_unreadable": (
        "warning",
        "{n} [time is beyond 73 years and was|times are beyond 73 years and were] stored as NULL; the first: {sample}",
        None,
    ),
    "invalid_text": ("warning", "{n} [text is|texts are] not UTF-8 ({sample}); the characters were replaced.", None),
    "string_missing": (
        "warning",
        "{n} [id of a text has|ids of texts have] no text in StringIds; the first: {sample}.",
        None,
    ),
    "graph_whole": (
        "warning",
        "{n} CUDA graph [launch was|launches were] recorded whole; the kernels inside are not known.",
        "Record with `nsys profile --cuda-graph-trace=node`.",
    ),
    "call_twice": (
        "info",
        "{n} API [call stands|calls stand] twice in the export; the second is among other_events, so that each "
        "counts once.",
        None,
    ),
    "outside_session": (
        "info",
        "{n} [event begins before the session or ends after it; it was|"
        "events begin before the session or end after it; they were] kept.",
        None,
    ),
    "session_start_unknown": (
        "info",
        "The export does not say when the session started; times count from its start.",
        None,
    ),
    "device_unknown": (
        "info",
        "The export lists {n} [GPU and does not say whether a process calls it device 0; its|"
        "GPUs and does not say which of them a process calls device 0; their] ordinal is NULL.",
        "Export with nsys 2023.2 or newer.",
    ),
    "ranks_by_pid": (
        "info",
        "{n} [process used a GPU; its rank is its|processes used a GPU; their ranks are their] order by process id.",
        None,
    ),
    "other_left_out": (
        "warning",
        "{n} [row|rows] that no table is for [was|were] left out, for there are too many; the first in {sample}.",
        "Record less: `nsys profile --sample=none --cpuctxsw=none`.",
    ),
    "call_stacks": ("info", "Call stacks were not stored; tables of them: {n}.", None),
    "profiler_warning": ("warning", "Warnings of nsys itself in the export: {n}; the first: {sample}.", None),
    "profiler_error": ("warning", "Errors of nsys itself in the export: {n}; the first: {sample}.", None),
    "no_events": (
        "warning",
        "The export holds no events: nothing was traced, or nothing of it exported.",
        "Record with `nsys profile --trace=cuda,nvtx`.",
    ),
    **COMMON_MESSAGES,
}

DAMAGE = ("cut_off", "rows_lost", "strings_lost", "description_lost", "structure_damaged", "table_lost")
"""What makes a source incomplete."""
