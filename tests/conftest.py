"""Fixtures of all tests, and the order in which they run."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests import properties, rights
from tests.memory import MemoryStore
from tracelab.store import commit

_SLOW = (
    *("wheel/", "collect/test_train.py", "docs/", "study/test_examples.py", "fuzz/"),
    *("collect/test_faults.py", "readers/test_kineto_corpus.py", "export/", "report/test_content.py"),
    *("collect/test_nvidia_captures.py", "collect/test_nvidia_train.py", "collect/test_ceilings.py"),
    *("collect/test_sweep_settings.py", "collect/test_sweep_runs.py", "collect/test_bare.py"),
    *("collect/test_model_cost.py", "readers/test_host_corpus.py", "readers/test_timeline_corpus.py"),
    *("readers/test_like_corpus.py", "readers/test_nsys_corpus.py", "readers/test_nvprof_corpus.py"),
    *("readers/test_ncu_corpus.py", "readers/test_nsys_damage.py", "unit/test_store.py"),
    *("study/test_corrections.py", "report/test_cli.py", "report/test_browser.py"),
    "unit/test_simulated_clocks.py",
)
"""Files that take long, those that take longest first: the order in which the processes of a test run begin them."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the tests independent of the shell that they start from, and load the profile of hypothesis."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:  # in the background of a script, and child processes inherit it
            signal.signal(number, handler)
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", properties.USUAL))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, and run them first, so that no process is left with one at the end."""

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((at for at, part in enumerate(_SLOW) if f"/tests/{part}" in path), len(_SLOW))

    for item in items:
        if place(item) < len(_SLOW):
            item.add_marker(pytest.mark.slow)
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


@pytest.fixture
def modes_bind(tmp_path: Path) -> Iterator[None]:
    """Let the modes of files bind whoever runs the tests, root too."""
    if not rights.can_be_dropped:
        pytest.skip("root may read and write everything here")
    with rights.without_roots_access_to_files():
        yield


@pytest.fixture(scope="session")
def memory() -> Iterator[MemoryStore]:
    """A store without files; each test fills it anew."""
    store = MemoryStore()
    yield store
    store.con.close()
