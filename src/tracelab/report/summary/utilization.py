"""The utilization of runs whose FLOPs no profiler counted: by the shapes of their ops."""

from collections.abc import Iterable
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.compute as pc

from tracelab.query import library
from tracelab.query.spec import Value
from tracelab.report.answers import Answer, ReportSession, Workers
from tracelab.report.summary.figures import LEAST_COVERAGE

_MOST_RUNS = 12
_WITH_SHAPES = """
    select distinct run from ops
    where list_contains($runs, run) and input_shapes is not null and run in (select run from kernels)
"""


def submit_utilization(workers: Workers, pending: Iterable["Future[Answer]"]) -> "Future[pa.Table | None]":
    """Submit `add_by_shapes` behind the pending queries of a summary, so that it runs while others do."""

    def run(session: ReportSession) -> pa.Table | None:
        answers = (each.result() for each in pending)
        return add_by_shapes(session, next((each.table for each in answers if each.query.name == "mfu"), None))

    return workers.submit(run)


def add_by_shapes(session: ReportSession, counted: pa.Table | None) -> pa.Table | None:
    """Return the rows of `mfu`, with those by shapes for runs that have no figure by counts, or the reason why not.

    Of many runs none is added, because each costs as much as other figures together.
    """
    known = [] if counted is None else counted.filter(pc.is_valid(counted["mfu_ratio"]))["run"].to_pylist()
    runs = [run for run in session.run_names if run not in known]
    if not runs or len(session.run_names) > _MOST_RUNS:
        return counted
    with_shapes = [run for (run,) in session.con.execute(_WITH_SHAPES, {"runs": runs}).fetchall()]
    if not with_shapes:
        return counted
    values: dict[str, Value] = {"from": "shapes", "min_coverage": LEAST_COVERAGE}
    table = session.run(library.library()["mfu"], values).table
    if table is None:
        return counted
    by_shapes = table.filter(
        pc.and_(pc.is_in(table["run"], pa.array(with_shapes, pa.string())), pc.is_valid(table["flop_source"]))
    )
    if not by_shapes.num_rows:
        return counted
    if counted is None:
        return by_shapes
    others = counted.filter(pc.invert(pc.is_in(counted["run"], by_shapes["run"].combine_chunks())))
    return pa.concat_tables([others, by_shapes], promote_options="permissive")
