"""The order of the tests: what takes longest begins first, so that no process is left with it at the end."""

import pytest

_FIRST = ("unit/test_docs.py", "docs/", "wheel/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first; within a file, and among the others, the order stays."""

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((at for at, part in enumerate(_FIRST) if f"/tests/{part}" in path), len(_FIRST))

    items.sort(key=place)
