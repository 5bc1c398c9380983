"""Summaries of the generated jobs, whose losses their simulator knows."""

import runpy
from pathlib import Path

import pytest

import tracelab
from tests.report.leads import LEAST
from tests.report.per_step import check_costs_per_step
from tests.stores import eight_ranks, four_ranks, h200
from tracelab.query.library import find
from tracelab.report.summary.lead import list_single, plain_text
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import summary_lines

DEMO = Path(__file__).parents[2] / "demo" / "run.py"


@pytest.fixture(scope="module")
def job(shared_stores: Path) -> RunSummary:
    (found,) = summarize(eight_ranks(shared_stores), ("generated-8rank-pipeline",))
    return found


def test_the_generated_job_leads_with_its_transfers_and_its_straggler(job: RunSummary) -> None:
    """Without any transfer it would be 16.4 % shorter, without the slow GPU 11.0 % (3.961 ms), by its simulator."""
    first, second, *others = job.leads
    gains = [each.gain for each in job.leads[:3]]
    assert [each and (each.gain_ns, each.window_ns) for each in gains] == [
        (5_936_097, 35_908_181),
        (3_784_886, 35_908_181),
        (2_470_326, 35_908_181),
    ]
    assert [round(each.recoverable, 4) for each in job.leads[:3]] == [0.1653, 0.1054, 0.0688]
    assert (first.query, "sends and receives" in first.sentence) == ("stragglers", True)
    assert (second.query, second.rank) == ("straggler_causes", 2)
    assert plain_text(second.sentence) == (
        "Rank 2 is late because its GPU is slow: it computes for 1.644 times the median of the ranks, and longer in "
        "all of its 6 classes of kernels (gemm 65 %, attention 21 %, norm 5 %, optimizer 5 %). The others wait for it, "
        "most of all in step 5 and 4 other steps. GPUs lose 40.21 ms of 285.7 ms to it. With rank 2 on time, a replay "
        "of the run takes 3.785 ms of 35.91 ms less."
    )
    assert plain_text(second.details).endswith(
        "Rank 2 is the last in 98.18 % (54 of 55) of the collectives; the others wait 47.48 ms for it, added up."
    )
    (loader,) = (each for each in others if each.rank == 5)
    assert (second.step, loader.query, loader.step) == (5, "data_loader_wait", 7)
    (bubble,) = job.unranked
    assert ("sends and receives is waiting" in bubble.sentence, round(bubble.rest, 3)) == (True, 0.155)


def test_findings_are_ranked_by_what_a_step_gains_also_within_the_thresholds(job: RunSummary) -> None:
    shares = [each.recoverable for each in job.leads]
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= LEAST
    within = [each for each in job.leads if each.finding.rule is not None]
    assert within
    assert all(each.evidence.endswith("within the threshold of its rule") for each in within)
    text = " ".join("\n".join(summary_lines([job], 100)).split())
    assert f"{len(job.leads) - 3} more of 1 % or more are not listed: tracelab summary" in text
    assert "not listed" not in "\n".join(summary_lines([job], 100, most_leads=None))


def test_costs_per_step_are_shares_of_the_step_time_also_where_the_windows_lack_steps(
    shared_stores: Path, job: RunSummary
) -> None:
    """The GPU windows of alexnet-batch256 have 298.6 ms for its 3 steps, of which the one that counts has 237.3."""
    (windows,) = summarize(h200(shared_stores), ("alexnet-batch256",))
    assert [check_costs_per_step(each) >= 3 for each in (job, windows)] == [True, True]
    assert windows.measured_step_ns == pytest.approx(298_629_000 / 3, rel=1e-5)
    for lead in (each for each in windows.leads if not each.is_replayed and each.hidden == 0):
        assert windows.cost_per_step_ns(lead.recoverable, is_of_whole_steps=False) == pytest.approx(
            lead.cost_ns / 3, rel=1e-5
        )


def test_a_stalled_loader_has_its_own_time_and_what_the_other_ranks_wait_for_it(shared_stores: Path) -> None:
    """Of 320.0 ms: two steps of 8.903 and 5.303 ms, for which other ranks wait 37.6 ms, most of it in broadcasts."""
    (run,) = summarize(four_ranks(shared_stores), ("generated-4rank-ddp",))
    slow, first = run.leads[:2]
    assert slow.rank == 2  # whose CPU the generator slows down in steps 6 and 7
    assert plain_text(slow.sentence) == (
        "Rank 2 is late because its CPU side launches work later than those of the others, which wait for it, most of "
        "all in steps 6 and 7. GPUs lose 29.05 ms of 320.0 ms to it, and 52.94 ms with 2 lesser causes. With rank 2 on "
        "time, a replay of the run takes 16.53 ms of 80.09 ms less."
    )
    # the program run anew takes 17.38 ms less with a quick CPU, and 7.282 ms less with a loader that never waits
    assert [each.gain and each.gain.gain_ns for each in (slow, first)] == [16_530_148, 7_289_339]
    assert "Rank 2 still computes when the others enter" in plain_text(slow.details)
    assert (first.query, first.cost_ns, first.rank, first.step) == ("data_loader_wait", 14_205_364, 1, 8)
    (waiting,) = first.included
    assert (waiting.query, waiting.cost_ns, waiting.added) == ("straggler_causes", 37_559_900, 2)
    assert first.rest == pytest.approx(first.cost_ns / first.whole_ns + waiting.rest)
    assert plain_text(first.sentence).endswith(
        "In total, 2 steps lose 14.21 ms of 320.0 ms to this, and ranks that wait for it 28.23 ms. Without waits for "
        "data, a replay of the run takes 7.289 ms of 80.09 ms less."
    )
    assert "are waits for data, during which the other ranks wait, too, longest for rank 1 in step 8" in plain_text(
        first.details
    )
    assert first.evidence == (
        "data_loader_wait finds it in 2 of 16 steps; straggler_causes finds it in 2 of 16 causes of late ranks"
    )
    assert not any("broadcasts and reductions is waiting" in plain_text(each.sentence) for each in run.leads)


def test_late_ranks_cost_no_more_than_all_waits(shared_stores: Path, job: RunSummary) -> None:
    lab = tracelab.open(eight_ranks(shared_stores))
    waits = sum(row["wait_ns"] for row in lab.query("stragglers").to_pylist())
    causes = lab.query("straggler_causes").to_pylist()
    assert (waits, sum(row["charged_ns"] for row in causes)) == (65_490_696, 65_490_696)
    late = sum(lead.cost_ns for lead in list_single(job.leads) if lead.query == "straggler_causes")
    assert 0.75 * waits < late <= waits  # the others cost less than 1 % each


def test_evidence_and_sums_count_what_an_engineer_counts(job: RunSummary) -> None:
    slow = next(each for each in job.leads if each.rank == 2)
    assert slow.evidence == "straggler_causes finds it in 1 of 20 causes of late ranks"
    assert "GPUs lose 40.21 ms of 285.7 ms to it." in plain_text(slow.sentence)
    sent = next(each for each in job.leads if each.query == "stragglers")
    assert sent.evidence == "stragglers finds it in all 8 ranks"


def test_an_exposed_collective_has_its_kind_group_and_worst_step_and_ranks_that_are_alike_are_one(
    job: RunSummary,
) -> None:
    """All ranks expose 4.59 to 4.83 ms of transfers in collectives."""
    sent = next(each for each in job.leads if each.query == "stragglers")
    assert plain_text(sent.sentence) == (
        "All 8 ranks: part of their transfers runs while nothing computes, most in all_reduce of the tp group, worst "
        "in step 6 of rank 4: 36.61 % (37.83 ms of 103.3 ms; each 28.59 % to 75.15 %) of their collectives, 5.790 % "
        "(4.383 ms of 75.70 ms; each 2.710 % to 19.30 %) of their sends and receives. In total, 8 ranks lose 42.21 ms "
        "of 285.7 ms to this. With transfers that take no time, a replay of the run takes 5.936 ms of 35.91 ms less."
    )
    assert (sent.rank, sent.step) == (4, 6)
    (bubble,) = job.unranked
    assert plain_text(bubble.sentence).startswith(
        "Ranks 0 and 1: 55.65 % (22.50 ms of 40.44 ms; each 55.24 % to 56.06 %)"
    )
    assert "most in send_recv of the pp group, worst in step 7 of rank 1." in plain_text(bubble.sentence)


def test_the_demo_quotes_of_a_late_rank_what_its_charts_draw_and_the_summary_states(
    shared_stores: Path, job: RunSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(DEMO.parent)
    demo = runpy.run_path(str(DEMO))
    lab = tracelab.open(eight_ranks(shared_stores))
    late = next(each for each in job.leads if each.query == "straggler_causes")
    for query, chosen in (("stragglers", {}), ("straggler_causes", {"cause": "compute"})):
        explain = next(each.explain for each in demo["JOB_QUERIES"] if each.name == query)
        answer = lab.query(query, rank=2)
        rows = answer.to_pylist()
        chart = find(query).chart
        assert chart is not None
        drawn_ns = sum(row[chart.y[-1]] for row in rows if chosen.items() <= row.items())
        assert f" {drawn_ns / 1e6:.1f} ms " in explain(rows)
    assert drawn_ns == late.cost_ns


def test_a_slow_gpu_is_one_finding_and_sends_count_as_transfers(shared_stores: Path, job: RunSummary) -> None:
    lab = tracelab.open(eight_ranks(shared_stores))
    causes = lab.query("straggler_causes", rank=2).to_pylist()
    transfers = lab.query("stragglers").to_pylist()
    window_ns = sum(row["window_ns"] for row in lab.query("gpu_breakdown").to_pylist())
    sent, slow, *_ = job.leads
    assert (slow.cost_ns, slow.whole_ns) == (
        sum(row["charged_ns"] for row in causes if row["cause"] == "compute"),
        window_ns,
    )
    assert sent.cost_ns == sum(row["exposed_transfer_ns"] + row["exposed_p2p_ns"] for row in transfers)
    keys = [(lead.finding.when, lead.rank) for lead in job.leads]
    assert len(set(keys)) == len(keys)
