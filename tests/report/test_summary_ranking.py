"""The leads of a summary count each time once: explained, joined, bounded, and in order."""

from dataclasses import replace
from typing import Any

import pytest

from tests.report.leads import LEAST, lead
from tracelab.query.report_rules import Cost, Finding
from tracelab.report.summary.alike import join_alike
from tracelab.report.summary.derivation import derive_shares
from tracelab.report.summary.lead import Ceiling, Lead, order_with_losses
from tracelab.report.summary.ranking import add_consequences, explain, limit, rank_leads
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary
from tracelab.report.summary.text import format_recoverable, format_short


def rests(*found: Lead) -> list[tuple[str, float]]:
    return [(each.sentence, round(each.rest, 6)) for each in explain(found, LEAST)]


def test_a_cause_explains_its_symptom() -> None:
    cause, symptom = lead("cause", 0.3, 3, "waiting"), lead("symptom", 0.35, 1, "waiting")
    assert rests(symptom, cause) == [("cause", 0.3)]


def test_a_tenth_of_the_run_that_is_left_of_a_cause_is_listed_and_of_a_figure_it_is_not() -> None:
    loader = lead("loader", 0.4, 2, "data")
    assert rests(loader, lead("host", 0.55, 1, "host", "data")) == [("loader", 0.4), ("host", 0.15)]
    assert rests(loader, lead("host", 0.45, 1, "host", "data")) == [("loader", 0.4)]
    assert rests(loader, lead("idle", 0.55, 0, "host", "data")) == [("loader", 0.4)]
    late = lead("late", 0.4, 2, "waiting")
    assert rests(late, lead("waits", 0.55, 1, "waiting")) == [("late", 0.4)]


def test_what_is_left_of_a_cause_is_listed_where_it_costs_as_much_as_another_finding() -> None:
    """The loader explains 0.29 of 0.384; the rest is more than the copies, and of 0.31 it is less."""
    loader, copies = lead("loader", 0.29, 2, "data"), lead("copies", 0.03, 2, "copies")
    copies = replace(copies, finding=replace(copies.finding, rule="x"))
    for host, names in ((0.384, ["loader", "host", "copies"]), (0.31, ["loader", "copies"])):
        found = rank_leads([loader, lead("host", host, 1, "host", "data")], [copies], [], 0)
        assert [each.sentence.split()[0] for each in found.leads] == names
        assert sum(each.rest for each in found.leads) == pytest.approx(0.414 if "host" in names else 0.32)
    alone = rank_leads([loader, lead("host", 0.384, 1, "host", "data")], [], [], 0)
    assert [each.sentence.split()[0] for each in alone.leads] == ["loader"]


def test_a_larger_loss_of_unknown_cause_is_listed_in_its_place_without_a_number() -> None:
    """The late start of 30 % is between findings of 40 and 20 %; a kernel of 50 % is no loss, a bound of 45 % is."""
    leads = [lead("host", 0.4, 1, "host"), lead("late CPU", 0.2, 2, "waiting")]
    copies = bounded("copies", 0.45)
    notes = [
        lead("kernel", 0.5, 1, "kernels"),
        copies,
        lead("start", 0.3, 2, "waiting"),
        lead("late", 0.1, 2, "waiting"),
    ]
    placed, others = order_with_losses(leads, notes)
    assert [(number, each.sentence) for number, each in placed] == [
        *((None, "copies"), (1, "host"), (None, "start"), (2, "late CPU")),
    ]
    assert [each.sentence for each in others] == ["kernel", "late"]
    assert [format_recoverable(each) for each in (copies, leads[0])] == ["45.0 % at most", "40.0 %"]
    assert [format_short(each) for each in (copies, leads[0])] == ["≤ 45.0 %", "40.0 %"]


def bounded(name: str, share: float) -> Lead:
    found = lead(name, share, 1, "kernels")
    cost = replace(found.finding.cost, is_bound=True) if found.finding.cost else None
    return replace(found, finding=replace(found.finding, cost=cost))


def test_what_is_left_of_a_symptom_is_ranked_by_the_rest() -> None:
    cause, symptom = lead("cause", 0.3, 3, "waiting"), lead("symptom", 0.8, 1, "waiting", "transfer")
    other = lead("other", 0.4, 2, "data")
    assert rests(symptom, cause, other) == [("symptom", 0.5), ("other", 0.4), ("cause", 0.3)]


def test_findings_together_cost_no_more_than_the_figure_that_they_are_part_of() -> None:
    late, sent, idle = lead("late", 0.3, 3, "waiting"), lead("sent", 0.1, 2, "transfer"), lead("idle", 0.2, 1, "host")
    ceilings = [
        Ceiling(frozenset({"waiting", "transfer"}), 0.2, "exposed communication"),
        Ceiling(frozenset({"host"}), 0.5, "idle time"),
    ]
    limited = limit(explain([late, sent, idle], LEAST), ceilings, LEAST)
    assert [(each.sentence, round(each.rest, 6)) for each in limited] == [("idle", 0.2), ("late", 0.15), ("sent", 0.05)]


def test_causes_of_one_detail_stand_beside_each_other() -> None:
    assert rests(lead("a", 0.1, 3, "waiting"), lead("b", 0.2, 3, "waiting")) == [("b", 0.2), ("a", 0.1)]


def test_less_than_one_percent_is_left_out() -> None:
    assert rests(lead("a", 0.0099, 3, "waiting"), lead("b", 0.01, 1, "data")) == [("b", 0.01)]


def test_what_others_lose_to_a_cause_is_no_finding_beside_it() -> None:
    loader, waits, other = (
        lead("loader", 0.1, 2, "data"),
        lead("waits", 0.3, 3, "waiting"),
        lead("other", 0.2, 1, "host"),
    )
    loader = replace(loader, query="data_loader_wait")
    cost = replace(waits.finding.cost, adds_to="data_loader_wait")  # type: ignore[type-var]
    waits = replace(waits, query="straggler_causes", finding=replace(waits.finding, cost=cost))
    first, second = add_consequences([waits, other, loader])
    assert (second.sentence, second.topics, round(second.rest, 6)) == ("loader", ("data", "waiting"), 0.4)
    assert (round(second.rest_of(["data"]), 6), round(second.rest_of(["waiting"]), 6)) == (0.1, 0.3)
    assert (first.sentence, second.included) == ("other", (waits,))
    assert add_consequences([waits, other]) == [waits, other]  # without the cause among them it is a finding


def late(name: str, share: float, rank: int, cause: str, **cost: Any) -> Lead:
    found = lead(f"{name}.", share, 3, "waiting")
    of_cause = replace(found.finding, text=cause, cost=replace(found.finding.cost, joins=True, adds=("rank",), **cost))  # type: ignore[type-var]
    return replace(found, rank=rank, finding=of_cause)


def test_a_rule_within_and_above_its_threshold_is_one_finding_unless_each_is_about_its_own_kernel() -> None:
    """The one above the threshold is first, though it is smaller."""
    cost = Cost("1", None, adds=(), topics=("transfer",), detail=2)
    above = replace(lead("rank 2.", 0.02, 2, "transfer"), rank=2, finding=Finding("a", "1", "t", None, 1, None, cost))
    within = replace(above, sentence="3 ranks.", rest=0.03, added=3, added_rows="3 ranks", matching=3, checked=4)
    within = replace(within, query="stragglers", finding=replace(above.finding, when="b", rule="a"))
    above = replace(above, query="stragglers", checked=4)
    (found,) = derive_shares(join_alike([within, above], [], []), ())
    assert (found.rank, round(found.rest, 9), found.evidence) == (2, 0.05, "stragglers finds it in all 4 ranks")
    assert found.sentence == "rank 2. It costs 20.00 µs of 1.000 ms, and 50.00 µs with the same in 3 ranks."
    assert found.details == "The same costs 30.00 µs in 3 ranks, within the threshold of the rule."
    own = [
        replace(each, finding=replace(each.finding, cost=replace(cost, adds=("kernel",)))) for each in (within, above)
    ]
    assert join_alike(own, [], []) == own


def test_late_ranks_that_share_a_rank_or_a_cause_are_one_finding() -> None:
    """Ranks 7 and 5 share a cause, rank 7 has another one; rank 2 shares nothing, and explains nothing of rank 7."""
    first, second, third = (
        late("7 host", 0.1, 7, "host"),
        late("5 host", 0.06, 5, "host"),
        late("7 compute", 0.04, 7, "compute"),
    )
    other, start = late("2 slow", 0.15, 2, "slow"), late("7 start", 0.3, 7, "start", ranked=False)
    waits, last = (replace(late(name, 0.5, 7, name), query="stragglers") for name in ("waits", "last"))
    waits, last = (
        replace(each, finding=replace(each.finding, cost=replace(each.finding.cost, opens="advice", adds=adds)))  # type: ignore[type-var]
        for each, adds in ((waits, ()), (last, None))
    )
    host = lead("idle", 0.17, 1, "host")
    leads = join_alike([host, other, first, second, third], [last, waits], [start])
    found = {each.sentence: round(each.rest, 6) for each in leads}
    assert found == {"idle": 0.17, "2 slow.": 0.15, "7 host.": 0.2}
    assert ([each.sentence for each in leads[1].symptoms], leads[1].notes) == ([], ())
    joined = derive_shares(leads, ())[2]
    assert joined.sentence == (
        "7 host. It costs 100.0 µs of 1.000 ms, and 200.0 µs with the same on rank 5 and 1 lesser cause."
    )
    assert joined.details == "waits. last. The same costs 60.00 µs on rank 5. 7 compute. That is 40.00 µs."
    assert [each.sentence for each in joined.notes] == ["7 start. That is 300.0 µs of 1.000 ms."]
    run = RunSummary("r", "", (), "", (joined,), "", ended=("status failed: killed",))
    rows = summary_rows([run]).to_pylist()
    assert [(row["kind"], row["rank"], row["value"]) for row in rows] == [
        ("note", None, None),
        *(("finding", 7, pytest.approx(0.2)), ("part", 7, 0.1), ("part", 5, 0.06), ("part", 7, 0.04)),
    ]
    assert (rows[0]["name"], rows[0]["text"]) == ("recording", "status failed: killed")
    assert order_with_losses([joined], [start]) == ([(1, joined)], [])
    placed, _ = order_with_losses([host], [start])  # without its finding, which may not be listed
    assert [number for number, _ in placed] == [None, 1]
