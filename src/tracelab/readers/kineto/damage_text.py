"""Describe damaged text for diagnostics without quoting it: it may hold a command line or a secret."""

import re

from tracelab.readers.kineto.mapping import CATEGORY_ALIASES

_PHASE = re.compile(rb'"ph"\s*+:\s*+"([a-zA-Z(),])"')
_CATEGORY = re.compile(rb'"cat"\s*+:\s*+"(\w{1,40})"')
_SEARCHED_BYTES = 1 << 12
_CATEGORIES = {
    *CATEGORY_ALIASES,
    *CATEGORY_ALIASES.values(),
    *("cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "kernel", "gpu_memcpy", "gpu_memset"),
    *("cuda_runtime", "cuda_driver", "cuda_sync", "ac2g", "fwdbwd", "overhead", "cpu_instant_event", "Trace"),
}
"""Only these are named, as any other text may be a secret that damage has moved behind the key."""


def describe_damage(data: bytes, start: int = 0, end: int | None = None) -> str:
    """Describe the part of the data from `start` to `end`: the first phase and known category in it, and its length."""
    end = len(data) if end is None else end
    searched = min(end, start + _SEARCHED_BYTES)
    phase, category = _PHASE.search(data, start, searched), _CATEGORY.search(data, start, searched)
    parts = [f"phase {phase[1].decode()}"] if phase else []
    if category and (name := category[1].decode(errors="replace")) in _CATEGORIES:
        parts.append(f"category {name}")
    return ", ".join([*parts, f"{end - start:,} bytes"])
