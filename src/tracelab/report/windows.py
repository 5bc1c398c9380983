"""What the costs of findings are shares of: the window of each device, rank and run, and the length of its steps."""

import duckdb
import pyarrow as pa

_NO_WINDOWS = pa.table(
    {
        "run": pa.array([], pa.string()),
        "rank": pa.array([], pa.int32()),
        "device": pa.array([], pa.int32()),
        "window_ns": pa.array([], pa.int64()),
    }
)
_NO_STEPS = pa.table(
    {
        "run": pa.array([], pa.string()),
        "rank": pa.array([], pa.int32()),
        "step": pa.array([], pa.int64()),
        "step_ns": pa.array([], pa.int64()),
    }
)

_CREATE = """
create or replace table report.windows as
with known as (
    select run, rank, device, window_ns from gpu_windows
),
devices as (
    from known
    union all
    select run, rank, null, max(end_ns) - min(start_ns)
    from ops
    where run not in (select run from known)
    group by run, rank
),
parts as (
    select run, rank, device, window_ns from devices
    union all
    select run, rank, null, sum(window_ns) from devices group by run, rank
    union all
    select run, null, null, sum(window_ns) from devices group by run
),
lengths as (
    select run, rank, median(step_ns) as step_ns from step_lengths where step is not null group by run, rank
    union all
    select run, null, median(step_ns) from step_lengths where step is not null group by run
)
select p.run, p.rank, p.device, max(p.window_ns)::double as window_ns, any_value(l.step_ns) as step_ns
from parts as p
left join lengths as l on p.run = l.run and p.rank is not distinct from l.rank
group by p.run, p.rank, p.device
"""


def ensure_windows(con: duckdb.DuckDBPyConnection) -> None:
    """Create an empty table report.windows unless there is one: findings then have the shares that they bring along."""
    con.execute("create schema if not exists report").fetchall()
    con.execute(
        "create table if not exists report.windows "
        "(run varchar, rank int, device int, window_ns double, step_ns double)"
    ).fetchall()


def create_windows(con: duckdb.DuckDBPyConnection, breakdown: pa.Table | None, steps: pa.Table | None) -> None:
    """Create the table report.windows from the answers of gpu_breakdown and step_breakdown; None are no rows.

    A row is a device, a rank (its devices added up, `device` is NULL) or a run (`rank` is NULL, too). The window of a
    run without GPU activity is that of the ops of each rank. `step_ns` is the median step of the rank or run.
    """
    con.execute("create schema if not exists report").fetchall()
    con.register("gpu_windows", _NO_WINDOWS if breakdown is None else breakdown)
    con.register("step_lengths", _NO_STEPS if steps is None else steps)
    try:
        con.execute(_CREATE).fetchall()
    finally:
        con.unregister("gpu_windows")
        con.unregister("step_lengths")
