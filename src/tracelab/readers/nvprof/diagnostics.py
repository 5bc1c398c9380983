"""The sentences behind the codes that reading an nvprof file can leave."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends in the middle of a row; the rows before it were kept.",
        "Copy the file again, or profile again and leave nvprof the time to write.",
    ),
    "database_cut": (
        "error",
        "The database is shorter than its header says; the rows that could be read were kept.",
        "Copy the file again; nvprof leaves such a file where it is killed while it writes.",
    ),
    "table_broken": (
        "error",
        "The database breaks in {n} of its tables, the first {sample}; the rows that could be read were kept.",
        "Copy the file again; nvprof leaves such a file where it is killed while it writes.",
    ),
    "permission_denied": (
        "error",
        "nvprof had no permission to read the GPU's counters.",
        "Run it as an administrator, or let users read counters (NVreg_RestrictProfilingToAdminUsers=0).",
    ),
    "profiler_error": ("error", "nvprof reported {n} [error|errors] of its own; the first: {sample}", None),
    "failed": ("warning", "The program did not end well: {sample}", None),
    "timeout": ("warning", "nvprof stopped the program when its time (--timeout) was over.", None),
    "no_kernels": (
        "warning",
        "nvprof says that it saw no kernels (or none with the counters asked for).",
        "Profile the processes that launch kernels (--profile-child-processes), and call cudaProfilerStop at the end.",
    ),
    "data_not_flushed": (
        "warning",
        "nvprof says that some data was not recorded, for the program ended without cudaProfilerStop.",
        "Call torch.cuda.profiler.stop(), or cudaProfilerStop, before the program ends.",
    ),
    "profiler_warning": ("info", "nvprof printed {n} [warning|warnings]; the first: {sample}", None),
    "no_result": ("error", "nvprof was started, but the file holds no result.", "Profile again; let nvprof finish."),
    "row_lost": (
        "error",
        "{n} [row could not be read, for other output stands in it or it is|"
        "rows could not be read, for other output stands in them or they are] cut; the first is line {sample}.",
        "Let nvprof write to a file of its own (--log-file FILE).",
    ),
    "row_repaired": (
        "info",
        "{n} [row had other output or unquoted commas in it and was|"
        "rows had other output or unquoted commas in them and were] put right.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value is no number where it should be, and is|values are no numbers where they should be, and are] "
        "NULL; the first: {sample}",
        None,
    ),
    "value_invalid": ("warning", "nvprof marks {n} [value|values] as invalid or overflowed; the first: {sample}", None),
    "unit_missing": (
        "warning",
        "{n} [time or size has no unit and is|times and sizes have no unit and are] NULL; the first: {sample}",
        "Keep the row below the column names when a file is edited.",
    ),
    "invalid_text": (
        "warning",
        "{n} [character is not in the file's encoding and was|"
        "characters are not in the file's encoding and were] replaced.",
        None,
    ),
    "line_too_long": (
        "warning",
        "{n} [line is longer than a mebibyte and was|lines are longer than a mebibyte and were] not read.",
        None,
    ),
    "name_cut": ("info", "{n} [name was|names were] cut short by nvprof; the first: {sample}", None),
    "printed_digits": (
        "warning",
        "Starts are printed to {sample} only: overlaps and gaps shorter than that may come from rounding.",
        "For exact times let nvprof write its database (-o FILE), or print them in ns (-u ns).",
    ),
    "program_output": (
        "info",
        "{n} [line is not nvprof's, but the program's own output; it was|"
        "lines are not nvprof's, but the program's own output; they were] not read.",
        None,
    ),
    "several_processes": (
        "info",
        "The file holds {n} [process|processes] ({sample}); [its rank is its|their ranks are their] order.",
        "Let nvprof write a file for each (--log-file rank-%q{RANK}.csv) where ranks matter.",
    ),
    **COMMON_MESSAGES,
}
