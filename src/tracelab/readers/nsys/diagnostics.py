"""Messages for the diagnostics of reading an Nsight Systems export."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file is shorter than its header declares; all rows before the cut were kept.",
        "Copy the file again, or export the report again.",
    ),
    "rows_lost": (
        "error",
        "The export is damaged: at least {n} [row|rows], the first in {sample}, could not be read; all "
        "others were kept.",
        "Export the report again.",
    ),
    "strings_lost": (
        "error",
        "The export is damaged: at least {n} [text|texts] could not be read; the events that [it names|they name] "
        "have no name.",
        "Export the report again.",
    ),
    "description_lost": (
        "error",
        "The export is damaged: at least {n} [row|rows] about the recording could not be read, the first in {sample}.",
        "Export the report again.",
    ),
    "structure_damaged": (
        "error",
        "The export is damaged: SQLite finds its pages out of order; every readable row was kept.",
        "Export the report again.",
    ),
    "table_lost": (
        "error",
        "{n} [table|tables] could not be read at all, the first: {sample}.",
        "Export the report again.",
    ),
    "log_beside": (
        "warning",
        "The write-ahead log {sample} is next to the file; the rows written last are in it and were not read.",
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
    "invalid_text": (
        "warning",
        "{n} [text is|texts are] not UTF-8, the first in column {sample}; the characters were replaced.",
        None,
    ),
    "text_cut": (
        "warning",
        "{n} [text is|texts are] longer than a mebibyte, or than 16,384 characters where each row has a copy, and cut; "
        "the first in column {sample}.",
        None,
    ),
    "string_missing": (
        "warning",
        "{n} [string id has|string ids have] no text in StringIds; the first: {sample}.",
        None,
    ),
    "text_withheld": (
        "warning",
        "{n} [text was|texts were] not stored as the name of an event, since [it|they] can be a command line, "
        "environment settings or output of the program.",
        "Export the report again.",
    ),
    "graph_whole": (
        "warning",
        "{n} CUDA graph [launch was|launches were] recorded as a whole; the kernels inside are unknown.",
        "Record with `nsys profile --cuda-graph-trace=node`.",
    ),
    "call_twice": (
        "info",
        "{n} API [call appears|calls appear] twice in the export; the second is in other_events, so that each "
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
        "The export has no start time of the session; times are relative to that start.",
        None,
    ),
    "device_unknown": (
        "info",
        "The export lists {n} [GPU|GPUs] without CUDA ordinals; [its|their] device is NULL.",
        "Export with nsys 2023.2 or newer.",
    ),
    "ranks_by_pid": (
        "info",
        "{n} [process|processes] used a GPU; ranks are numbered by process id.",
        None,
    ),
    "other_left_out": (
        "warning",
        "{n} [row|rows] without a canonical table [was|were] left out, beyond the limit of 2,000,000; the first "
        "in {sample}.",
        "Record less: `nsys profile --sample=none --cpuctxsw=none`.",
    ),
    "call_stacks": ("info", "{n} [table|tables] of call stacks [was|were] not stored.", None),
    "profiler_warning": ("warning", "nsys reported {n} [warning|warnings]; the first: {sample}.", None),
    "profiler_error": ("warning", "nsys reported {n} [error|errors]; the first: {sample}.", None),
    "no_events": (
        "warning",
        "The export has no events: nothing was traced, or nothing was exported.",
        "Record with `nsys profile --trace=cuda,nvtx`.",
    ),
    **COMMON_MESSAGES,
}

DAMAGE = ("cut_off", "rows_lost", "strings_lost", "description_lost", "structure_damaged", "table_lost")
"""Codes that mark a source as incomplete."""
