"""The sentences behind the codes that reading a report can leave, and those that refuse a file without launches."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

EXPORT = "ncu --import REPORT.ncu-rep --csv --page raw > REPORT.csv"
_PERMISSION = (
    "Let an administrator open the counters (developer.nvidia.com/ERR_NVGPUCTRPERM: the module option "
    "NVreg_RestrictProfilingToAdminUsers=0, or the capability SYS_ADMIN), then record again."
)
_KERNELS = "Look at ncu's filters (--kernel-name, --launch-skip, --profile-from-start) and at --target-processes all."

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends within a row ({sample}), which is lost unless its first line says enough.",
        "Export the report again, or leave ncu time to write it.",
    ),
    "row_lost": (
        "error",
        "{n} [row could not be taken apart and was|rows could not be taken apart and were] skipped; the first: "
        "{sample}.",
        f"Export without the program's output between the rows: {EXPORT}",
    ),
    "row_short": (
        "error",
        "{n} [row lacks its|rows lack their] last metrics; the first: {sample}.",
        "Export the report again.",
    ),
    "line_too_long": (
        "error",
        "{n} [line is longer than 64 MB and was|lines are longer than 64 MB and were] skipped; the first: {sample}",
        None,
    ),
    "no_permission": ("error", "ncu was not permitted to read the GPU's counters ({sample}).", _PERMISSION),
    "tool_error": ("error", "ncu itself told of {n} [error|errors]; the first: {sample}", None),
    "no_kernels": ("warning", "ncu profiled no kernels in one of the processes ({sample}).", _KERNELS),
    "tool_warning": ("warning", "ncu itself warned {n} [time|times]; the first: {sample}", None),
    "units_missing": (
        "warning",
        "A raw page has no row of units; the values of its metrics are as they stand, their units unknown.",
        f"Export again: {EXPORT}",
    ),
    "number_unreadable": (
        "warning",
        "{n} [value looks like a number and is none as this file writes them; it stands|"
        "values look like numbers and are none as this file writes them; they stand] in text; the first: {sample}",
        "Export with LC_ALL=C.",
    ),
    "decimal_comma": ("info", "The file writes numbers with a decimal comma; they were read so.", None),
    "not_utf8": (
        "info",
        "{n} [line is|lines are] not UTF-8 ({sample}); [it was|they were] read as Windows-1252.",
        None,
    ),
    "stray_line": (
        "info",
        "{n} [line belongs|lines belong] to no table (output of the program); the first: {sample}.",
        None,
    ),
    "advice_beyond_limit": (
        "info",
        "{n} [message of ncu's rules, behind the first 10,000, was|"
        "messages of ncu's rules, behind the first 10,000, were] not kept.",
        None,
    ),
    "ranks_by_pid": ("info", "{sample} processes were profiled; each was given a rank, by process id.", None),
    **COMMON_MESSAGES,
}
"""In the order in which they are told."""


def nothing_in_it(codes: set[str], error: str, *, has_header: bool) -> str:
    """Why a file of ncu's holds no launch, and what to do."""
    if "no_permission" in codes:
        return (
            f"ncu was not permitted to read the GPU's counters (ERR_NVGPUCTRPERM), so it holds no launch. {_PERMISSION}"
        )
    if error:
        return f'holds no launch, only an error of ncu: "{error}"; mend that and record again'
    if "no_kernels" in codes:
        return f"ncu profiled no kernels, so it holds no launch. {_KERNELS}"
    if "row_lost" in codes:
        return f"holds rows of ncu, none of which can be read; export again: {EXPORT}"
    if has_header:
        return f"holds the header of ncu's table and no launch. {_KERNELS}"
    return f"holds messages of ncu and no table; export one: {EXPORT}"
