"""Match the ranks of a run ahead of the queries that need it: the store keeps what they would compute first."""

from pathlib import Path

from tracelab.store import computed_tables, rollups, session

_RELATIONS = "clocked_waits, cpu_layers, launched_work, delay_costs, pipeline_passes"
"""The shared relations of communication, with those that they read."""


def match_ranks(store: Path, run: str, sources: int) -> bool:
    """Keep what queries across ranks read of a run that has so many sources; return whether this was done.

    That are the shared relations of its communication, such as the matched collectives, the clocks and what late ranks
    cost, and the graph of its critical path. False where the run has other sources, or ranks that do not wait for each
    other. Raises TracelabError where memory does not suffice.
    """
    read = "\n".join(text for each in computed_tables.condensed_computations() for text in each.texts.values())
    con = session.connect(store, referenced=f"{_RELATIONS}\n{read}", read_runs=[run])
    try:
        stored = rollups.list_runs(con, [run])
        if [each.sources for each in stored] != [sources]:
            return False
        computed_tables.provide(con, "matched_collectives", {"run": run})
        if con.execute("select 1 from matched_collectives limit 1").fetchone() is None:
            return False
        computed_tables.provide(con, _RELATIONS, {"run": run})
        computed_tables.keep_condensed(con, run)
    finally:
        con.close()
    return True
