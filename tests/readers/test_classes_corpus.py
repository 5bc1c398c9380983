"""The classifier knows the kernels of the machine-learning traces of the corpus."""

import sqlite3
from collections.abc import Container
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.store import rules as name_rules
from tracelab.store import session

pytestmark = corpus.needs_traces

NSYS = ("dlprof", "nersc_sc22", "nsys-ai")
"""The folders of Nsight Systems exports that record machine learning."""

ITS_OWN_NAMES = {
    "kineto/mtia_inference_rank_0": {"merge", "pe_exe", "remote"},
    "ece408/timeline.nvprof": {"_ZN5mxnet2op14forward_kernelEPfPKfS3_iiiiii"},
}
"""Traces with names of the recorded program that show no operation: the parts of a model that an MTIA executes as one,
and a kernel that a student wrote. No rule may guess what these are."""

MOST_UNCLASSIFIED = 0.01

Times = dict[tuple[str, str], int]
"""Kernel time in ns by trace and kernel name."""


def kineto_times(store: Path) -> Times:
    with session.connect(store) as con:
        rows = con.execute("select run, name, sum(dur_ns) from kernels group by run, name").fetchall()
    return {(f"{store.name}/{run}", name): int(time_ns) for run, name, time_ns in rows}


def database_times(path: Path, kernels: str, strings: str) -> Times:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
        rows = con.execute(
            f'select value, sum(k."end" - k.start) from {kernels} join {strings} group by value'
        ).fetchall()
    return {(f"{path.parent.name}/{path.name}", name): time_ns for name, time_ns in rows}


@pytest.fixture(scope="module")
def times(shared_stores: Path) -> Times:
    times = kineto_times(kineto_corpus(shared_stores)) | kineto_times(second_kineto_corpus(shared_stores))
    for folder in NSYS:
        for path in sorted((corpus.ROOT / "nsys" / folder).glob("*.sqlite")):
            times |= database_times(path, "CUPTI_ACTIVITY_KIND_KERNEL as k", "StringIds as s on s.id = k.demangledName")
    path = corpus.ROOT / "nvprof" / "ece408" / "timeline.nvprof"
    return times | database_times(
        path, "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as k", "StringTable as s on s._id_ = k.name"
    )


@pytest.fixture(scope="module")
def unclassified(times: Times, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names that no rule matches."""
    with duckdb.connect() as con:
        con.execute(name_rules.render_rules(name_rules.load_rules(tmp_path_factory.mktemp("store"))))
        con.execute("create table names as select unnest(?) as name", [sorted({name for _, name in times})])
        return {name for (name,) in con.execute("from names where kernel_rule(name) is null").fetchall()}


def unclassified_share(times: Times, unclassified: set[str], traces: Container[str]) -> float:
    total = sum(time_ns for (trace, _), time_ns in times.items() if trace in traces)
    return sum(time for (trace, name), time in times.items() if trace in traces and name in unclassified) / total


def test_at_most_one_percent_of_the_time_of_each_trace_is_unclassified(times: Times, unclassified: set[str]) -> None:
    traces = {trace for trace, _ in times} - set(ITS_OWN_NAMES)
    shares = {trace: unclassified_share(times, unclassified, {trace}) for trace in traces}
    assert len(shares) > 30
    assert {trace: share for trace, share in shares.items() if share > MOST_UNCLASSIFIED} == {}


def test_at_most_one_percent_of_the_time_of_all_traces_is_unclassified(times: Times, unclassified: set[str]) -> None:
    traces = {trace for trace, _ in times}
    assert unclassified_share(times, unclassified, traces - set(ITS_OWN_NAMES)) < 0.0001
    assert unclassified_share(times, unclassified, traces - {"kineto/mtia_inference_rank_0"}) < MOST_UNCLASSIFIED


@pytest.mark.parametrize("trace", ITS_OWN_NAMES)
def test_only_names_of_the_recorded_program_are_unclassified_in_the_traces_that_have_such(
    times: Times, unclassified: set[str], trace: str
) -> None:
    assert {name for at, name in times if at == trace and name in unclassified} == ITS_OWN_NAMES[trace]
