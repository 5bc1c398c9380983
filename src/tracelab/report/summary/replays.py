"""Replay a run without what each finding is about: how much shorter it is."""

from collections.abc import Sequence
from dataclasses import replace

from tracelab.computations import REPLAYED_GAINS
from tracelab.errors import TracelabError
from tracelab.paths.gains import Change, write_changes
from tracelab.query.report_rules import Finding
from tracelab.report.answers import ReportSession
from tracelab.report.summary.lead import Gain, Lead
from tracelab.store.computed_tables import compute_tables


def change_of(finding: Finding, rank: int | None) -> Change | None:
    """Return the change of what_if that removes the loss of a finding about a rank; None where there is none."""
    if finding.what_if is None or not finding.what_if.is_of_a_rank:
        return None if finding.what_if is None else finding.what_if.params
    return None if rank is None else (*finding.what_if.params, ("of_rank", rank))


def has_replay(session: ReportSession, run: str) -> bool:
    """Return whether a run can be replayed: it has kernels, and the figures are of all rows of a window of time."""
    sql = "select 1 from kernels where run = $run limit 1"
    is_of_window = session.mask is None or not session.mask.scope.chooses_rows
    return is_of_window and bool(session.con.execute(sql, {"run": run}).fetchall())


def replay_leads(session: ReportSession, run: str, leads: Sequence[Lead]) -> list[Lead]:
    """Add to each finding what a replay of the run without its loss gains, where there is one that answers."""
    changes = dict.fromkeys(each for lead in leads if (each := change_of(lead.finding, lead.rank)))
    if not changes or not has_replay(session, run):
        return list(leads)
    params = {**REPLAYED_GAINS.params, "changes": write_changes(changes)}
    try:
        tables = compute_tables(session.con, REPLAYED_GAINS, run, params)
    except TracelabError:  # the memory limit; the shares do not need a replay
        return list(leads)
    if not tables:
        return list(leads)
    gains = {
        change: Gain(row["gain_ns"], row["window_ns"], row["open_ns"])
        for change, row in zip(changes, tables["gains"].to_pylist(), strict=True)
        if row["gain_ns"] is not None and not row["ranks_left_out"]
    }
    return [
        lead
        if change is None
        else replace(lead, gain=gains.get(change), what_if_command=lead.what_if_command if change in gains else None)
        for lead in leads
        for change in (change_of(lead.finding, lead.rank),)
    ]
