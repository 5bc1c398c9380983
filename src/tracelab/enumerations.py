"""Closed sets of values that schema, collectors and command line share; imports nothing."""

RUN_STATUSES = ("ok", "oom", "timeout", "profiler_error", "no_kernels", "permission_denied", "failed", "not_run")
SOURCE_FORMATS = ("kineto", "chrome", "nsys", "ncu", "nvprof", "run")
RUN_PROFILERS = ("kineto", "nsys", "ncu", "nvprof", "none")
PARALLELISMS = ("none", "dp", "ddp", "fsdp", "tp")
MULTI_PROCESS_PARALLELISMS = ("ddp", "fsdp", "tp")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")
