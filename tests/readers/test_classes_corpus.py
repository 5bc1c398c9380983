"""The classifier knows the kernels of the machine-learning traces of the corpus."""

import sqlite3
from collections import defaultdict
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests import corpus
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.store import kernel_classes, session

pytestmark = corpus.needs_traces

NSYS = ("dlprof", "nersc_sc22", "nsys-ai")
"""The folders of Nsight Systems exports that record machine learning."""

WITHOUT_NAMES = "mtia"
"""In traces whose names contain this, device events carry the name of an engine instead of a kernel."""

Times = dict[tuple[str, str], int]
"""Kernel time in ns by trace and kernel name."""


def kineto_times(store: Path) -> Times:
    with session.connect(store) as con:
        rows = con.execute("select run, name, sum(dur_ns) from kernels group by run, name").fetchall()
    return {(f"{store.name}/{run}", name): int(time_ns) for run, name, time_ns in rows if WITHOUT_NAMES not in run}


def nsys_times(path: Path) -> Times:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as con:
        rows = con.execute(
            'select value, sum("end" - start) '
            "from CUPTI_ACTIVITY_KIND_KERNEL join StringIds on id = demangledName group by value"
        ).fetchall()
    return {(f"{path.parent.name}/{path.name}", name): time_ns for name, time_ns in rows}


@pytest.fixture(scope="module")
def times(shared_stores: Path) -> Times:
    times = kineto_times(kineto_corpus(shared_stores)) | kineto_times(second_kineto_corpus(shared_stores))
    for folder in NSYS:
        for path in sorted((corpus.ROOT / "nsys" / folder).glob("*.sqlite")):
            times |= nsys_times(path)
    return times


def test_at_most_one_percent_of_the_time_of_each_trace_is_unclassified(times: Times, tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(kernel_classes.render_rules(kernel_classes.load_rules(tmp_path)))
        con.execute("create table names as select unnest(?) as name", [sorted({name for _, name in times})])
        unclassified = {name for (name,) in con.execute("from names where kernel_rule(name) is null").fetchall()}
    totals: dict[str, int] = defaultdict(int)
    misses: dict[str, dict[str, int]] = defaultdict(dict)
    for (trace, name), time_ns in times.items():
        totals[trace] += time_ns
        if name in unclassified:
            misses[trace][name] = time_ns
    above = {trace: names for trace, names in misses.items() if sum(names.values()) > totals[trace] / 100}
    assert (len(totals) > 30, above) == (True, {})
