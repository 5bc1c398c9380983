"""Messages for the diagnostics of reading a run folder."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends in the middle of a line; the lines before it were kept.",
        "Copy the file again; if it does not change, the run was killed at this point.",
    ),
    "line_lost": (
        "error",
        "{n} [line is not a JSON object and was|lines are not JSON objects and were] skipped; the first: {sample}",
        "Copy the file again.",
    ),
    "line_too_long": (
        "error",
        "{n} [line is longer than 1 MiB and was|lines are longer than 1 MiB and were] skipped.",
        "Copy the file again.",
    ),
    "nul_bytes": (
        "warning",
        "{n} [line begins or ends|lines begin or end] with NUL bytes, as a machine crash writes them; "
        "the rest of [it|each] was read.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value does not fit its column's type and was|values do not fit their column's type and were] stored "
        "as NULL; "
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
        "run.json names {n} [file|files] missing from its folder; the first: {sample}",
        "Copy the whole run folder.",
    ),
    "not_finished": (
        "info",
        "The run had not ended when it was read, or it was killed on another machine.",
        "Ingest the folder again after the run has ended, on its machine if it was killed; changed files replace the "
        "stored ones.",
    ),
    "test_failed": (
        "warning",
        "{n} [test|tests] reported no figures; the first: {sample}.",
        "Run them again separately.",
    ),
    "wrong_results": (
        "warning",
        "{n} [measurement|measurements] found wrong values in the result; the first: {sample}",
        "Do not trust this machine's communication until the cause is found.",
    ),
    "collective_unknown": (
        "warning",
        "No collective in the text or the file's name.",
        "Name the file after the program, as all_reduce_perf.txt.",
    ),
    **COMMON_MESSAGES,
}
