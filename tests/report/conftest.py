"""Two runs of literal rows with hostile names, and their report."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.build import build_store
from tracelab.report.document import report

HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    '" onmouseover="window.hacked = 3" x=\'',
    "{a|b} ${window.hacked = 4} \x1b[2J\u2028<!-- 核",
)
"""Names that would run as script where a page takes them for markup, attributes, templates or JSON."""

GPU = {"device": 0, "stream": 7}


def rows(run: str, scale: int) -> dict[str, list[dict[str, object]]]:
    """One run: a window of 1000 × scale ns, of which kernels fill 450 and copies 100."""
    gpu = GPU | {"run": run, "source": run}
    kernels = [
        gpu | {"name": "gemm", "start_ns": 0, "dur_ns": 300 * scale, "correlation": 1},
        gpu | {"name": "gemm", "start_ns": 400 * scale, "dur_ns": 100 * scale, "correlation": 2},
        *(
            gpu | {"name": name, "start_ns": (600 + 10 * at) * scale, "dur_ns": 10 * scale}
            for at, name in enumerate(HOSTILE)
        ),
        gpu | {"name": "last", "start_ns": 990 * scale, "dur_ns": 10 * scale},
    ]
    copies = [
        gpu
        | {
            "direction": "HtoD",
            "src_memory": memory,
            "start_ns": at * scale,
            "dur_ns": 50 * scale,
            "size_bytes": 4000 * scale,
        }
        for at, memory in ((700, "Pinned"), (800, HOSTILE[0]))
    ]
    host = {"run": run, "source": run, "tid": 1}
    memory = [
        host
        | {"device": 0, "time_ns": at * scale, "address": at, "size_bytes": 64, "allocated_bytes": 64 * (at // 100)}
        for at in range(100, 1000, 100)
    ]
    ops = [host | {"name": name, "start_ns": 10 * at, "dur_ns": 5} for at, name in enumerate(("aten::mm", *HOSTILE))]
    return {"kernels": kernels, "memcpys": copies, "memory_events": memory, "ops": ops}


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first, second = rows("first", 1_000), rows("second", 7_000_000)
    tables = {name: [*first[name], *second[name]] for name in first}
    return build_store(tmp_path_factory.mktemp("report") / "lab", tables)


@pytest.fixture(scope="session")
def page(lab: Path) -> str:
    return report(lab)


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str], Path]:
    def write(page: str) -> Path:
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        return path

    return write
