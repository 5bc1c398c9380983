"""What Kineto records on request, as options of every command that runs it."""

KINETO_FLAGS = {
    "memory": "Also record allocations (kineto).",
    "shapes": "Also record input shapes (kineto).",
    "stacks": "Also record Python stacks (kineto).",
    "flops": "Write FLOPs per operator next to the trace (kineto).",
    "syncs": "Also record which streams and events GPU work waits for (kineto).",
    "keep_attached": "Leave CUPTI attached after each window (kineto).",
}
"""The options and their help texts, in order."""

_WORDS = [f"--{name.replace('_', '-')}" for name in KINETO_FLAGS]
NEEDS_KINETO = f"{', '.join(_WORDS[:-1])} and {_WORDS[-1]} need --profiler kineto"
"""The sentence that refuses them for another profiler."""
