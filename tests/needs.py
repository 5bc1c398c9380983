"""What some tests need and not every machine has; torch is imported when a test first uses it, not when it is found."""

import importlib.util
from typing import Any

import pytest

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("PIL") is None,
    reason="training needs torch and pillow: make venv",
)


class _LazyTorch:
    """The module torch, which takes as long to import as all other modules together."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_", "pytest")):  # pytest looks for fixtures and marks
            raise AttributeError(name)
        import torch

        return getattr(torch, name)


torch = _LazyTorch()
