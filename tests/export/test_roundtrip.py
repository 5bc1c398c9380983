"""An export in Perfetto's own engine, and read again by tracelab: nothing is lost, and every nanosecond is the same."""

from pathlib import Path

import duckdb
import pytest

from tests import corpus
from tests.export.perfetto import ask, needs_perfetto
from tests.stores import four_ranks, kineto_corpus
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
KINETO = ["param_dlrm_8ranks", "kineto_tb_plugin"]
"""Runs of the shared store of Kineto traces."""
CORPUS = [
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


def test_an_export_of_a_rank_read_again_has_the_same_rows_to_the_nanosecond(tmp_path, shared_stores):
    _read_again(four_ranks(shared_stores), 2, None, tmp_path)


def test_an_export_with_stacks_read_again_has_the_same_rows_to_the_nanosecond(tmp_path):
    # ranges of the optimizer cross frames of Python, so they come back on a thread of their own
    store = stored(DATA / "cpu/resnet18-batch4-stacks.pt.trace.json.gz", tmp_path / "lab")
    _read_again(store, 0, "tid", tmp_path)


def _read_again(store: Path, rank: int, but: str | None, folder: Path) -> None:
    trace = folder / "again.json"
    with trace.open("wb") as stream:
        write(store, Request(ranks=(rank,)), stream)
    again = stored(trace, folder / "again")
    named = " ".join(TABLES)
    with session.connect(store, referenced=named) as before, session.connect(again, referenced=named) as after:
        for table in TABLES:
            assert rows(after, table, rank, but) == rows(before, table, rank, but), table


def _compare(store: Path, run: str, trace: Path, *queries: str) -> list[list[dict[str, object]]]:
    """Each kind of slice that Perfetto holds, against the store: how many, their durations, first start to last end.

    Returns the rows of more queries.
    """
    with trace.open("wb") as stream:
        done = write(store, Request(runs=(run,)), stream)
    expected = {}
    with session.connect(store, referenced=str(KINDS)) as con:
        for kind, tables in KINDS.items():
            union = " union all ".join(f"select run, start_ns, dur_ns from {each}" for each in tables)
            expected[kind] = con.execute(
                "select count(*), sum(dur_ns)::bigint, (max(start_ns + dur_ns) - min(start_ns))::bigint "
                f"from ({union}) where run = ? and start_ns is not null and dur_ns >= 0",
                [run],
            ).fetchall()[0]
    names = {category: kind for kind, categories in CATEGORIES.items() for category in categories}
    whens = " ".join(f"when '{category}' then '{kind}'" for category, kind in names.items())
    found, *answers = ask(
        trace,
        f"select case category {whens} else 'others' end as kind, count(*) as slices, sum(dur) as dur_ns, "
        "max(ts + dur) - min(ts) as window_ns from slice group by 1",
        *queries,
    )
    slices = {row["kind"]: (row["slices"], row["dur_ns"], row["window_ns"]) for row in found}
    assert sum(row["slices"] for row in found) == done.events
    assert {kind: figures for kind, figures in expected.items() if figures[0]} == {
        kind: figures for kind, figures in slices.items() if kind in expected
    }
    return answers


@needs_perfetto
def test_perfetto_holds_all_of_four_generated_ranks(tmp_path, shared_stores):
    arrows, processes = _compare(
        four_ranks(shared_stores),
        "generated-4rank-ddp",
        tmp_path / "trace.json",
        "select count(*) as arrows from flow",
        "select count(distinct upid) as n from thread join process using (upid) where process.name like 'rank 3 %'",
    )
    assert arrows == [{"arrows": 5860}]  # each of 4,448 kernels, 1,092 copies and 320 fills has its launch
    assert processes[0]["n"] == 3


@needs_perfetto
@pytest.mark.parametrize("name", KINETO)
@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_perfetto_holds_all_of_a_real_kineto_trace(tmp_path, shared_stores, name):
    _compare(kineto_corpus(shared_stores), name, tmp_path / "trace.json")


@needs_perfetto
@pytest.mark.parametrize("name", CORPUS)
@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces does not stand beside this checkout")
def test_perfetto_holds_all_of_a_real_trace(tmp_path, name):
    _compare(stored(corpus.ROOT / name, tmp_path / "lab"), "r", tmp_path / "trace.json")
