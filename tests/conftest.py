"""Fixtures of all tests, and the order in which they run."""

import atexit
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from hypothesis import settings

from tests import allocator, properties, rights
from tests.fork_server import ForkServer
from tests.memory import MemoryStore
from tracelab.collect.process import launch
from tracelab.collect.program import process as program_process
from tracelab.store import files

_SLOW = (
    *("collect/test_option_pairs.py", "readers/test_kineto_corpus.py", "collect/test_program_status.py", "study/"),
    *("readers/test_kineto_recovery.py", "export/test_roundtrip.py", "wheel/", "report/test_summary_small_runs.py"),
    *("report/test_summary_job.py", "readers/test_op_flop_corpus.py", "collect/test_faults.py", "report/test_costs.py"),
    *("collect/test_program_runs.py", "report/test_browser.py"),
    *("compare/test_comparison", "report/test_commands.py", "collect/test_gpu_runs.py", "collect/test_gpu_check.py"),
    *("unit/test_h200.py", "unit/test_kept_", "unit/test_matched_at_ingest.py"),
    *("compare/test_replacements.py", "readers/test_compiled_corpus.py", "unit/test_blocks.py"),
    *("readers/test_serving_corpus.py", "unit/test_shared_relations.py", "readers/test_kineto_recovery_work.py"),
    *("readers/test_stacks_corpus.py", "readers/test_kineto_arguments.py", "readers/test_wasm_parser.py"),
    *("unit/test_training_health.py", "unit/test_pandas_import.py", "readers/test_kineto_collectives.py"),
    *("collect/test_train.py", "docs/test_notebook.py", "report/test_content.py", "readers/test_host_corpus.py"),
    *("unit/test_intervals.py", "readers/test_like_corpus.py", "export/", "readers/test_secrets.py", "docs/", "fuzz/"),
    *("readers/test_nsys_corpus.py", "cli/test_streaming.py", "unit/test_session.py", "cli/test_sql.py"),
    *("unit/test_ranks.py", "unit/test_result.py", "unit/test_roofline.py", "collect/test_ceilings.py"),
    *("unit/test_simulated_clocks.py", "unit/test_integrity.py", "unit/test_commits.py"),
    *("unit/test_compaction.py", "cli/test_query.py"),
    *("readers/test_module_time_corpus.py", "collect/test_gpu_workloads.py", "collect/test_ceilings_on_gpus.py"),
    *("unit/test_matching.py", "unit/test_store.py", "unit/test_like.py", "unit/test_job_simulator.py"),
    *("report/", "readers/test_kineto_cut.py", "readers/test_kineto_damage.py", "unit/test_timeline.py"),
    *("unit/test_alignment.py", "readers/test_kineto_parser_any.py", "readers/test_summary_corpus.py"),
    *("unit/test_computed_tables.py", "collect/test_nvidia_train.py", "readers/test_nvprof_database.py"),
    *("cli/test_terminal.py", "collect/test_sweep_settings.py", "unit/test_clocks.py", "unit/test_timeline_bins.py"),
    *("unit/test_doctor.py", "readers/test_timeline_corpus.py", "cli/test_shell.py", "unit/test_generated_trace.py"),
    *("collect/test_sweep_runs.py", "unit/test_run_folder.py", "unit/test_nesting.py", "cli/test_cli.py"),
    *("collect/test_nvidia_captures.py", "readers/test_python_parser.py", "readers/test_ranks_corpus.py"),
    *("unit/test_simulated_paths.py", "readers/test_kineto_any_damage.py", "unit/test_plot_room.py"),
    *("readers/test_nsys_damage.py", "cli/test_doctor.py", "readers/test_kineto_times.py", "unit/test_module_count.py"),
    *("readers/test_kineto_accelerators.py", "readers/test_ncu_damage.py", "unit/test_run_difference.py"),
    *("unit/test_steps.py", "unit/test_paths.py", "unit/test_plot_roofline.py", "unit/test_sweeps.py"),
    *("collect/test_bare.py", "collect/test_model_cost.py", "unit/test_delays.py", "readers/test_nvprof_corpus.py"),
    *("readers/test_ncu_corpus.py", "readers/test_classes_corpus.py", "readers/test_slowdown_corpus.py"),
    *("compare/test_corpus.py", "compare/test_verdicts.py", "compare/test_agreement.py"),
    *("collect/test_decoder.py", "collect/test_accumulation.py", "collect/test_sharding.py", "collect/test_fp8.py"),
    *("collect/test_weights.py", "collect/test_cupti.py"),
    *("collect/test_huggingface.py", "collect/test_op_flop.py", "collect/test_script_recording.py"),
    *("unit/test_measured_ceilings.py", "unit/test_scope", "unit/test_cluster.py"),
    *("unit/test_small_files.py", "readers/test_graph_replays_corpus.py", "readers/test_nvtx_modules_corpus.py"),
    "collect/test_program_",
    *("unit/test_remote_", "unit/test_rollups.py", "unit/test_archives.py"),
)
"""Files that take more than about three seconds, and the tests of the corpus: `make check` leaves them out.

A folder means all of its files, and a name without its suffix for all that begin with it.
"""

_FIRST = ("golden/", "unit/test_query_headers.py", *_SLOW)
"""Files that take long, roughly those that take longest first: the order in which the processes of a run begin them.

`make check` also runs the golden cases, and what is quick of the headers of queries.
"""


def pytest_configure(config: pytest.Config) -> None:
    """Make the tests independent of the shell that they start from, and load the profile of hypothesis."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:  # in the background of a script, and child processes inherit it
            signal.signal(number, handler)
    if "PYTEST_XDIST_WORKER" in os.environ:
        allocator.leave_to_workers()
    elif getattr(config.option, "numprocesses", None):  # else this process runs the tests, and starts what they measure
        allocator.use_in_workers()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads of tiny models wait for each other, and waiting takes time
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", properties.USUAL))
    gc.disable()  # the thousands of tests that are collected all stay, and to look at them is a third of the time


def pytest_collection_finish() -> None:
    """Keep the garbage collector from the thousands of tests: to look at them time and again is 5 % of a run.

    They stay frozen until pytest has ended, which collects five times; modules in C report a leak of what stays longer.
    Their garbage stays, too: it is small, and to look for it takes longer than to keep it.
    """
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, and run long files first, so that no process is left with one at the end."""

    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((at for at, part in enumerate(_FIRST) if f"/tests/{part}" in path), len(_FIRST))

    for item in items:
        at = place(item)
        if at < len(_FIRST) and _FIRST[at] in _SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def _no_flushing() -> Iterator[None]:
    """Write no store of a test through to the disk: that takes longer than to read most of their traces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "sync_to_disk", lambda path: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Run each DuckDB on one thread: several processes share the cores, and threads of their own cost a fifth more."""
    connect = duckdb.connect

    def connect_with_one_thread(*args: Any, config: dict[str, Any] | None = None, **options: Any) -> Any:
        return connect(*args, config={"threads": "1"} | (config or {}), **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connect_with_one_thread)
        yield


def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all processes of this test run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session", autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give this test run a cache of its own, which the commands that tests start use, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(_shared_folder(tmp_path_factory) / "cache"))
        yield


@pytest.fixture(scope="session")
def shared_stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the stores that all processes of this test run share."""
    return _shared_folder(tmp_path_factory) / "stores"


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


@pytest.fixture(scope="session")
def _fork_server() -> Iterator[ForkServer | None]:
    """A process that has imported torch; None where it cannot fork."""
    server = ForkServer() if sys.platform == "linux" else None
    yield server
    if server:
        server.close()


@pytest.fixture(scope="module")
def _forked_ranks(_fork_server: ForkServer | None) -> Iterator[None]:
    """Start ranks as forks of a process that has imported torch, where Linux can do that."""
    with pytest.MonkeyPatch.context() as patch:
        if _fork_server:
            patch.setattr(launch, "subprocess", SimpleNamespace(Popen=_fork_server.popen, STDOUT=subprocess.STDOUT))
        yield


@pytest.fixture(scope="module")
def _forked_programs(_fork_server: ForkServer | None) -> Iterator[None]:
    """Start recorded scripts as forks of a process that has imported torch, where Linux can do that."""
    with pytest.MonkeyPatch.context() as patch:
        if _fork_server:
            kept = {name: getattr(subprocess, name) for name in ("DEVNULL", "PIPE")}
            patch.setattr(program_process, "subprocess", SimpleNamespace(Popen=_fork_server.popen_program, **kept))
        yield
