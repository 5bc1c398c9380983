"""An export in Perfetto's own engine, and read again by tracelab: nothing is lost, and every nanosecond is the same."""

from pathlib import Path

import duckdb
import pytest

from tests import corpus
from tests.export.perfetto import ask, needs_perfetto
from tracelab import schema
from tracelab.export import Request, write
from tracelab.ingest import pipeline
from tracelab.store import session

DATA = Path(__file__).resolve().parents[2] / "data"
TABLES = ("kernels", "memcpys", "memsets", "syncs", "ops", "api_calls", "annotations", "python_frames", "collectives")
KINDS = {
    "gpu": ("kernels", "memcpys", "memsets", "graph_launches", "syncs"),
    "calls": ("api_calls",),
    "ops": ("ops", "python_frames"),
}
CATEGORIES = {
    "gpu": ("kernel", "gpu_memcpy", "gpu_memset", "gpu_graph", "cuda_sync"),
    "calls": ("cuda_runtime", "cuda_driver", "osrt", "cublas", "cudnn", "api"),
    "ops": ("cpu_op", "python_function"),
}
CORPUS = [
    "kineto/param_dlrm_8ranks",
    "kineto/kineto_tb_plugin/worker0.1623143089861.pt.trace.json.gz",
    "nsys/nsys-ai/mfu_2gpu_before.sqlite",
    "nsys/dlprof/nsys_profile.sqlite",
    "nvprof/ece408/timeline.nvprof",
]


def rows(con: duckdb.DuckDBPyConnection, table: str, rank: int, but: str | None) -> list[tuple]:
    """Every column of a table but what names the file, and what no column holds."""
    columns = [c.name for c in schema.BY_NAME[table].columns if c.name not in {"run", "source", "args", but}]
    names = ", ".join(f'"{name}"' for name in columns)
    return con.execute(f"select {names} from {table} where rank = ? order by all", [rank]).fetchall()


def stored(path: Path, store: Path) -> Path:
    report = pipeline.ingest([str(path)], store, run="r")
    assert report.exit_code == 0
    return store


@pytest.mark.parametrize(
    ("source", "rank", "but"),
    [
        ("generated/generated-4rank-ddp", 2, None),
        # ranges of the optimizer cross frames of Python, so they come back on a thread of their own
        ("cpu/resnet18-batch4-stacks.pt.trace.json.gz", 0, "tid"),
    ],
)
def test_an_export_read_again_has_the_same_rows_to_the_nanosecond(tmp_path, source, rank, but):
    store, trace = stored(DATA / source, tmp_path / "lab"), tmp_path / "again.json"
    with trace.open("wb") as stream:
        write(store, Request(ranks=(rank,)), stream)
    again = stored(trace, tmp_path / "again")
    with session.connect(store) as before, session.connect(again) as after:
        for table in TABLES:
            assert rows(after, table, rank, but) == rows(before, table, rank, but), table


def _compared(store: Path, trace: Path) -> None:
    """Each kind of slice that Perfetto holds, against the store: how many, their durations, first start to last end."""
    with trace.open("wb") as stream:
        done = write(store, Request(), stream)
    expected = {}
    with session.connect(store) as con:
        for kind, tables in KINDS.items():
            union = " union all ".join(f"select start_ns, dur_ns from {each}" for each in tables)
            expected[kind] = con.execute(
                "select count(*), sum(dur_ns)::bigint, (max(start_ns + dur_ns) - min(start_ns))::bigint "
                f"from ({union}) where start_ns is not null and dur_ns >= 0"
            ).fetchall()[0]
    names = {category: kind for kind, categories in CATEGORIES.items() for category in categories}
    whens = " ".join(f"when '{category}' then '{kind}'" for category, kind in names.items())
    found = ask(
        trace,
        f"select case category {whens} else 'others' end as kind, count(*) as slices, sum(dur) as dur_ns, "
        "max(ts + dur) - min(ts) as window_ns from slice group by 1",
    )
    slices = {row["kind"]: (row["slices"], row["dur_ns"], row["window_ns"]) for row in found}
    assert sum(row["slices"] for row in found) == done.events
    assert {kind: figures for kind, figures in expected.items() if figures[0]} == {
        kind: figures for kind, figures in slices.items() if kind in expected
    }


@needs_perfetto
def test_perfetto_holds_all_of_four_generated_ranks(tmp_path):
    store = stored(DATA / "generated/generated-4rank-ddp", tmp_path / "lab")
    _compared(store, tmp_path / "trace.json")
    arrows = ask(tmp_path / "trace.json", "select count(*) as arrows from flow")
    assert arrows == [{"arrows": 5860}]  # each of 4,448 kernels, 1,092 copies and 320 fills has its launch
    processes = ask(
        tmp_path / "trace.json",
        "select count(distinct upid) as n from thread join process using (upid) where process.name like 'rank 3 %'",
    )
    assert processes[0]["n"] == 3


@needs_perfetto
@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_perfetto_holds_all_of_a_real_trace(tmp_path, name):
    _compared(stored(corpus.ROOT / name, tmp_path / "lab"), tmp_path / "trace.json")
