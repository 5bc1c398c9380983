"""Create the table report.windows: the measured time of each run, of which costs are shares, in all and per step."""

import duckdb
import pyarrow as pa

_NO_WINDOWS = pa.table(
    {
        "run": pa.array([], pa.string()),
        "rank": pa.array([], pa.int32()),
        "window_ns": pa.array([], pa.int64()),
    }
)
_NO_STEPS = pa.table(
    {
        "run": pa.array([], pa.string()),
        "step": pa.array([], pa.int64()),
        "step_ns": pa.array([], pa.int64()),
        "device": pa.array([], pa.int32()),
        "gpu_busy_ns": pa.array([], pa.int64()),
    }
)
_CREATE = """
create or replace table report.windows as
with on_gpus as (
    select run, sum(window_ns) as window_ns from gpu_windows group by run
),
on_cpus as (
    select run, sum(window_ns) as window_ns
    from (select run, rank, max(window_ns) as window_ns from cpu_windows group by run, rank)
    where run not in (select run from on_gpus)
    group by run
),
measured as (
    from on_gpus
    union all
    from on_cpus
),
counted as (  -- of a device that is recorded for some of the steps only these
    select run, count(*) filter (device is null or gpu_busy_ns > 0) as steps, avg(step_ns) as mean_ns
    from step_lengths
    where step is not null
    group by run
)
select run, m.window_ns::double as window_ns, coalesce(m.window_ns / nullif(c.steps, 0), c.mean_ns)::double as step_ns
from measured as m
full join counted as c using (run)
"""


def ensure_windows(con: duckdb.DuckDBPyConnection) -> None:
    """Create an empty table report.windows unless there is one: costs then have a share where they count steps."""
    con.execute("create schema if not exists report").fetchall()
    con.execute("create table if not exists report.windows (run varchar, window_ns double, step_ns double)").fetchall()


def create_windows(
    con: duckdb.DuckDBPyConnection, gpus: pa.Table | None, cpus: pa.Table | None, steps: pa.Table | None
) -> None:
    """Create the table report.windows from the answers of gpu_breakdown, cpu_breakdown and step_breakdown.

    A row is a run: `window_ns` is the sum of the windows of its devices, without GPU activity that of the windows of
    its ranks on the CPU, and `step_ns` that divided by the number of steps on devices. An answer of None has no rows.
    """
    con.execute("create schema if not exists report").fetchall()
    con.register("gpu_windows", _NO_WINDOWS if gpus is None else gpus)
    con.register("cpu_windows", _NO_WINDOWS if cpus is None else cpus)
    con.register("step_lengths", _NO_STEPS if steps is None else steps)
    try:
        con.execute(_CREATE).fetchall()
    finally:
        for name in ("gpu_windows", "cpu_windows", "step_lengths"):
            con.unregister(name)


def measured_times(con: duckdb.DuckDBPyConnection) -> dict[str, tuple[float | None, float | None]]:
    """Return by run its measured time, and that of a step on a device; None where one is not known."""
    rows = con.execute("select run, window_ns, step_ns from report.windows").fetchall()
    return {run: (window_ns or None, step_ns or None) for run, window_ns, step_ns in rows}
