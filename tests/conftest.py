"""Fixtures of all tests, and the order in which they run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import properties  # noqa: F401  registers the profiles
from tests.memory import MemoryStore
from tracelab.store import commit

_FIRST = ("unit/test_docs.py", "docs/", "wheel/", "collect/")
"""The longest tests begin first, so that no process is left with one of them at the end."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the tests independent of the shell that they start from, and load the profile of hypothesis."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:  # in the background of a script, and child processes inherit it
            signal.signal(number, handler)
    if "HYPOTHESIS_PROFILE" in os.environ and not config.getoption("--hypothesis-profile"):
        settings.load_profile(os.environ["HYPOTHESIS_PROFILE"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first; within a file, and among the others, the order stays."""

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((at for at, part in enumerate(_FIRST) if f"/tests/{part}" in path), len(_FIRST))

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def _no_flushing() -> Iterator[None]:
    """Write no store of a test through to the disk: that takes longer than to read most of their traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(commit, "_sync_to_disk", lambda path: None)
        yield


@pytest.fixture(scope="session")
def shared_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stores that all processes of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "stores"


@pytest.fixture(scope="session")
def memory() -> Iterator[MemoryStore]:
    """A store without files; each test fills it anew."""
    store = MemoryStore()
    yield store
    store.con.close()
