"""A small store of literal rows, and the command line over it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner, Result

from tests.build import build_store
from tracelab.cli import main
from tracelab.sql import sandbox

HOSTILE = "$x$ <script>|`*_\n\x1b[2J核"

QUESTION = """-- A row is one kernel that ran long enough.
--
-- Kernels of one name are one row.

-- /// query
-- title = "Which kernels ran long enough?"
-- needs = ["kernels"]
-- chart = { kind = "bars", x = "kernel", y = ["dur_ns"], by = "device" }
-- [params]
-- min_dur_ns = { default = 0, about = "Kernels shorter than this are left out." }
-- run = { type = "text", about = "Only this run." }
-- [columns]
-- run = "The run."
-- device = "The GPU."
-- kernel = "Name of the kernel."
-- dur_ns = "Sum of durations."
-- ///

select run, device, name as kernel, sum(dur_ns)::bigint as dur_ns
from kernels
where dur_ns >= $min_dur_ns and ($run is null or run = $run)
group by all
order by dur_ns desc;
"""


def small_store(folder: Path) -> Path:
    """A store of three kernels, with names and times that ask for care."""
    gpu = {"run": "2024-01-05", "source": "a", "start_ns": 10}
    kernels = [
        gpu | {"device": 0, "stream": 7, "name": "gemm", "start_ns": 1_700_000_000_123_456_789, "dur_ns": 2**53 + 1},
        gpu | {"device": 0, "stream": 7, "name": HOSTILE, "dur_ns": 1_500},
        gpu | {"device": 1, "stream": None, "name": "", "dur_ns": 1},
    ]
    return build_store(folder, {"kernels": kernels})


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return small_store(tmp_path / "lab")


@pytest.fixture(scope="module")
def opened_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, duckdb.DuckDBPyConnection]]:
    """A small store that no test may change, and a sandbox over it; its cursors have temporary objects of their own."""
    store = small_store(tmp_path_factory.mktemp("opened") / "lab")
    with sandbox.connect(store) as con:
        yield store, con


@pytest.fixture
def question(tmp_path: Path) -> Path:
    path = tmp_path / "long_kernels.sql"
    path.write_text(QUESTION)
    return path


@pytest.fixture
def run(lab: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`tracelab ARGS…` with the small store for its default."""
    monkeypatch.setenv("TRACELAB_STORE", str(lab))
    return lambda *args, **kwargs: CliRunner().invoke(main, [str(arg) for arg in args], **kwargs)
