"""Messages for the diagnostics of reading an nvprof file."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends in the middle of a row; the rows before it were kept.",
        "Copy the file again, or profile again and wait until nvprof has written it.",
    ),
    "database_cut": (
        "error",
        "The database is shorter than its header declares; all readable rows were kept.",
        "Copy the file again, or profile again; nvprof writes such a file when it is killed while writing.",
    ),
    "table_broken": (
        "error",
        "The database is damaged in {n} [table|tables], the first {sample}; all readable rows were kept.",
        "Copy the file again, or profile again; nvprof writes such a file when it is killed while writing.",
    ),
    "permission_denied": (
        "error",
        "nvprof had no permission to read the GPU's counters.",
        "Run it as an administrator, or permit users to read counters (NVreg_RestrictProfilingToAdminUsers=0).",
    ),
    "profiler_error": ("error", "nvprof reported {n} [error|errors]; the first: {sample}.", None),
    "failed": ("warning", "The profiled program failed: {sample}.", None),
    "timeout": ("warning", "nvprof stopped the program at its time limit (--timeout).", None),
    "no_kernels": (
        "warning",
        "nvprof saw no kernels (or none with the requested counters).",
        "Profile the processes that launch kernels (--profile-child-processes), and call cudaProfilerStop at the end.",
    ),
    "data_not_flushed": (
        "warning",
        "nvprof lost some data because the program ended without cudaProfilerStop.",
        "Call torch.cuda.profiler.stop(), or cudaProfilerStop, before the program ends.",
    ),
    "profiler_warning": ("info", "nvprof printed {n} [warning|warnings]; the first: {sample}.", None),
    "no_result": (
        "error",
        "nvprof started, but the file has no result.",
        "Profile again, and wait until nvprof has finished.",
    ),
    "row_lost": (
        "error",
        "{n} [row is|rows are] mixed with other output or incomplete, and could not be parsed; the first is line "
        "{sample}.",
        "Write nvprof's output to a separate file (--log-file FILE).",
    ),
    "row_repaired": (
        "info",
        "{n} [row had other output or unquoted commas in it and was|"
        "rows had other output or unquoted commas in them and were] repaired.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value of a numeric column is not a number and was|values of numeric columns are not numbers and were] "
        "stored as NULL; the first: {sample}",
        None,
    ),
    "value_invalid": ("warning", "nvprof marks {n} [value|values] as invalid or overflowed; the first: {sample}", None),
    "unit_missing": (
        "warning",
        "{n} [time or size has no unit and was|times and sizes have no unit and were] stored as NULL; the first: "
        "{sample}",
        "Keep the row of units, below the column names, when you edit the file.",
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
    "text_cut": (
        "warning",
        "{n} [text is longer than 16,384 characters and was|texts are longer than 16,384 characters and were] cut.",
        None,
    ),
    "name_cut": ("info", "nvprof truncated {n} [name|names]; the first: {sample}", None),
    "printed_digits": (
        "warning",
        "Start times are printed with a resolution of {sample}; shorter overlaps and gaps may come from rounding.",
        "For exact times, write nvprof's database (-o FILE), or print times in ns (-u ns).",
    ),
    "program_output": (
        "info",
        "{n} [line is output of the profiled program and was|lines are output of the profiled program and were] "
        "skipped.",
        None,
    ),
    "several_processes": (
        "info",
        "The file has {n} [process|processes] ({sample}); ranks are numbered in this order.",
        "Write one file per process (--log-file rank-%q{RANK}.csv) if ranks matter.",
    ),
    **COMMON_MESSAGES,
}
