"""The sentences behind the codes that reading a run folder can leave."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends in the middle of a line; the lines before it were kept.",
        "The run was killed there, or the file was copied while it grew; copy it again.",
    ),
    "line_lost": (
        "error",
        "{n} [line is no JSON object and was|lines are no JSON objects and were] lost; the first: {sample}",
        "Copy the file again.",
    ),
    "line_too_long": (
        "error",
        "{n} [line is longer than a mebibyte and was|lines are longer than a mebibyte and were] lost.",
        "Copy the file again.",
    ),
    "nul_bytes": (
        "warning",
        "{n} [line begins or ends|lines begin or end] with NUL bytes, as a crash of the machine leaves them; "
        "what stands beside was read.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value is not of its column's type, and is|values are not of their column's type, and are] NULL; "
        "the first: {sample}",
        None,
    ),
    "field_unknown": (
        "info",
        "{n} [field has no column and was|fields have no column and were] left out; the first: {sample}",
        None,
    ),
    "expected_missing": (
        "warning",
        "run.json names {n} [file that does|files that do] not stand beside it; the first: {sample}",
        "Copy the whole run folder.",
    ),
    "not_finished": (
        "info",
        "The run had not ended when it was read, or it was killed.",
        "Ingest the folder again when it has ended; what changed replaces what is stored.",
    ),
    "test_failed": (
        "warning",
        "{n} [test|tests] gave no figures; the first: {sample}",
        "Run them again by themselves.",
    ),
    "wrong_results": (
        "warning",
        "{n} [measurement|measurements] found wrong values in the result; the first: {sample}",
        "Do not trust this machine's communication before that is understood.",
    ),
    "collective_unknown": (
        "warning",
        "Neither the text nor the file's name says which collective was measured.",
        "Name the file after the program, as all_reduce_perf.txt.",
    ),
    **COMMON_MESSAGES,
}
