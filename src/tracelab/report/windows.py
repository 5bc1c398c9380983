"""Create the tables from which costs become shares.

report.windows       the measured time of each run, of which costs are shares, and its mean step
report.recoverable   the part of exposed communication and copies without which the run would be shorter
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from tracelab.query.report_rules import COMMUNICATION_TOPICS, COPY_TOPICS

_NO_WINDOWS = pa.table(
    {
        "run": pa.array([], pa.string()),
        "rank": pa.array([], pa.int32()),
        "window_ns": pa.array([], pa.int64()),
    }
)
_NO_EXPOSURE = pa.table(
    {
        "run": pa.array([], pa.string()),
        **{
            f"{kind}_{name}_ns": pa.array([], pa.int64())
            for kind in ("exposed", "recoverable")
            for name in ("comm", "memory")
        },
    }
)
_RATIOS = {COMMUNICATION_TOPICS: "comm_ratio", COPY_TOPICS: "memory_ratio"}
_CREATE_RECOVERABLE = """
create or replace table report.recoverable as
select
    run,
    sum(recoverable_comm_ns) / nullif(sum(exposed_comm_ns), 0) as comm_ratio,
    sum(recoverable_memory_ns) / nullif(sum(exposed_memory_ns), 0) as memory_ratio
from exposure
group by run
"""
_CREATE = """
create or replace table report.windows as
with on_gpus as (
    select run, sum(window_ns) as window_ns, count(*) as devices from gpu_windows group by run
),
on_cpus as (
    select run, sum(window_ns) as window_ns, count(*) as devices
    from (select run, rank, max(window_ns) as window_ns from cpu_windows group by run, rank)
    where run not in (select run from on_gpus)
    group by run
),
measured as (
    from on_gpus
    union all
    from on_cpus
)
select
    run,
    m.window_ns::double as window_ns,
    s.step_ns,
    s.step_ns * least(1, coalesce(m.window_ns / m.devices / s.recorded_ns, 1)) as measured_step_ns,
    m.window_ns / m.devices as device_ns
from measured as m
full join step_times as s using (run)
"""


@dataclass(frozen=True)
class StepTime:
    """The mean step of a run, and how long all steps of a rank are that a trace marks; None where it marks none.

    Steps without GPU work do not count where others have some: no window covers them.
    """

    step_ns: float
    recorded_ns: float | None


@dataclass(frozen=True)
class MeasuredTime:
    """The measured time of a run, its mean step, and the part of that which the windows cover; None where unknown."""

    window_ns: float | None
    step_ns: float | None
    measured_step_ns: float | None


def ensure_windows(con: duckdb.DuckDBPyConnection) -> None:
    """Create an empty table report.windows unless there is one: costs then have a share where they count steps."""
    con.execute("create schema if not exists report").fetchall()
    con.execute(
        "create table if not exists report.windows "
        "(run varchar, window_ns double, step_ns double, measured_step_ns double, device_ns double)"
    ).fetchall()
    con.execute(
        "create table if not exists report.recoverable (run varchar, comm_ratio double, memory_ratio double)"
    ).fetchall()


def recoverable_ratio_sql(topics: Collection[str]) -> str:
    """Return SQL for the recoverable part of time that is lost to some topics, over a row `x` of report.recoverable."""
    column = next((name for all_topics, name in _RATIOS.items() if set(topics) <= all_topics), None)
    return f"coalesce(x.{column}, 1)" if column else "1"


def create_windows(
    con: duckdb.DuckDBPyConnection,
    gpus: pa.Table | None,
    cpus: pa.Table | None,
    steps: Mapping[str, StepTime],
    exposure: pa.Table | None = None,
) -> None:
    """Create both tables from the answers of gpu_breakdown, cpu_breakdown and recoverable_exposure, and step times.

    A row is a run: `window_ns` is the sum of the windows of its devices, without GPU activity that of the windows of
    its ranks on the CPU, `step_ns` its mean step in `steps`, `measured_step_ns` the part of that which the windows
    cover, and `device_ns` the mean window. An answer of None has no rows;
    without an exposure all of it is recoverable.
    """
    con.execute("create schema if not exists report").fetchall()
    con.register("gpu_windows", _NO_WINDOWS if gpus is None else gpus)
    con.register("cpu_windows", _NO_WINDOWS if cpus is None else cpus)
    times = [
        pa.array([getattr(each, name) for each in steps.values()], pa.float64()) for name in ("step_ns", "recorded_ns")
    ]
    con.register(
        "step_times", pa.table([pa.array(list(steps), pa.string()), *times], ["run", "step_ns", "recorded_ns"])
    )
    con.register("exposure", _NO_EXPOSURE if exposure is None else exposure)
    try:
        con.execute(_CREATE).fetchall()
        con.execute(_CREATE_RECOVERABLE).fetchall()
    finally:
        for name in ("gpu_windows", "cpu_windows", "step_times", "exposure"):
            con.unregister(name)


def measured_times(con: duckdb.DuckDBPyConnection) -> dict[str, MeasuredTime]:
    """Return by run its measured time; runs without any have steps alone."""
    rows = con.execute("select run, nullif(window_ns, 0), step_ns, measured_step_ns from report.windows").fetchall()
    return {run: MeasuredTime(*times) for run, *times in rows}


def mean_windows_ns(con: duckdb.DuckDBPyConnection) -> dict[str, float]:
    """Return by run the mean measured time of its devices; runs without any are left out."""
    rows = con.execute("select run, device_ns from report.windows where device_ns > 0").fetchall()
    return {run: float(device_ns) for run, device_ns in rows}
