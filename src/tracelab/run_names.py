"""The rule for names of runs, one for the store and for collecting; needs no other package."""

import re

from tracelab.errors import UsageError

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def legal_run_name(text: str) -> str:
    """Return the nearest legal run name."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-").lstrip("._-")
    return name[:100] or "run"


def check_run_name(name: str) -> str:
    """Return the name when it is legal; raise UsageError with the nearest legal one otherwise."""
    if not _RUN_NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a valid run name (letters, digits, '.', '_', '-', at most 100, a letter or digit first); "
            f"try {legal_run_name(name)!r}"
        )
    return name
