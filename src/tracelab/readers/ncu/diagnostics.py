"""Messages for the diagnostics of reading an ncu report, and for refusing a file without launches."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

EXPORT = "ncu --import REPORT.ncu-rep --csv --page raw > REPORT.csv"
_PERMISSION = (
    "Have an administrator permit access to the counters (developer.nvidia.com/ERR_NVGPUCTRPERM: the module option "
    "NVreg_RestrictProfilingToAdminUsers=0, or the capability SYS_ADMIN), then record again."
)
_KERNELS = "Check ncu's filters (--kernel-name, --launch-skip, --profile-from-start) and at --target-processes all."

RULE_CODE = "ncu_rule"
"""The code of each result of a rule of ncu, which has a message of its own."""

CODES_WITHOUT_MESSAGE = (RULE_CODE,)

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends within a row ({sample}); the row is lost unless its first line is complete.",
        "Export the report again, and wait until ncu has written it.",
    ),
    "row_lost": (
        "error",
        "{n} [row could not be parsed and was|rows could not be parsed and were] skipped; the first: {sample}.",
        f"Export the report without the program's output: {EXPORT}",
    ),
    "row_short": (
        "error",
        "{n} [row lacks its|rows lack their] last metrics; the first: {sample}.",
        "Export the report again.",
    ),
    "launch_lost": (
        "error",
        "{n} [launch of the report was|launches of the report were] not read: {sample}.",
        "Copy the report again.",
    ),
    "metric_lost": (
        "error",
        "{n} [metric of the report is damaged and was|metrics of the report are damaged and were] skipped; the first: "
        "{sample}.",
        "Copy the report again.",
    ),
    "invalid_text": ("warning", "{n} [text is|texts are] not UTF-8; the characters were replaced.", None),
    "line_too_long": (
        "error",
        "{n} [line is longer than 64 MB and was|lines are longer than 64 MB and were] skipped.",
        None,
    ),
    "no_permission": ("error", "ncu had no permission to read the GPU's counters ({sample}).", _PERMISSION),
    "tool_error": ("error", "ncu reported {n} [error|errors]; the first: {sample}.", None),
    "no_kernels": ("warning", "ncu profiled no kernels in one of the processes ({sample}).", _KERNELS),
    "tool_warning": ("warning", "ncu reported {n} [warning|warnings]; the first: {sample}.", None),
    "units_missing": (
        "warning",
        "A raw page has no row of units; its values were stored as written, their units are unknown.",
        f"Export again: {EXPORT}",
    ),
    "number_unreadable": (
        "warning",
        "{n} [value looks like a number but does not fit the file's number format; it was|"
        "values look like numbers but do not fit the file's number format; they were] stored as text; the first: "
        "{sample}",
        "Export with LC_ALL=C.",
    ),
    "text_withheld": (
        "warning",
        "{n} [value was|values were] stored as NULL, since [it|they] can be part of a command line.",
        "Copy or export the report again.",
    ),
    "decimal_comma": ("info", "The file writes numbers with a decimal comma; they were parsed accordingly.", None),
    "not_utf8": (
        "info",
        "{n} [line is|lines are] not UTF-8 ({sample}); [it was|they were] decoded as Windows-1252.",
        None,
    ),
    "stray_line": (
        "info",
        "{n} [line belongs|lines belong] to no table (output of the program); the first: {sample}.",
        None,
    ),
    "advice_beyond_limit": (
        "info",
        "{n} [rule message|rule messages] beyond the first 10,000 [was|were] not kept.",
        None,
    ),
    "ranks_by_pid": ("info", "{sample} processes were profiled; ranks are numbered by process id.", None),
    **COMMON_MESSAGES,
}
"""In the order in which `diagnostics` lists them."""


def explain_empty_report(codes: set[str], error: str, *, has_header: bool) -> str:
    """Return why a file of ncu has no launch, and what to do."""
    if "no_permission" in codes:
        return (
            "ncu had no permission to read the GPU's counters (ERR_NVGPUCTRPERM), so the file has no launch. "
            f"{_PERMISSION}"
        )
    if error:
        return f"has no launch, only an error of ncu: {error}; fix it and record again"
    if "no_kernels" in codes:
        return f"ncu profiled no kernels, so the file has no launch. {_KERNELS}"
    if "row_lost" in codes:
        return f"has rows of ncu, but none is readable; export again: {EXPORT}"
    if has_header:
        return f"has the header of ncu's table, but no launch. {_KERNELS}"
    return f"has messages of ncu, but no table; export one: {EXPORT}"
