"""Summaries of real traces: what leads, and that no time is counted twice."""

import re
from collections import Counter
from pathlib import Path

import pytest

import tracelab
from tests import corpus
from tests.report.per_step import check_costs_per_step
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.report.summary.lead import list_single, order_with_losses, plain_text
from tracelab.report.summary.replays import change_of
from tracelab.report.summary.rows import summary_rows
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.text import format_recoverable, summary_lines

pytestmark = corpus.needs_traces

LEAST = 0.01
MOST_SENTENCES = 3


@pytest.fixture(scope="module")
def found(shared_stores: Path) -> dict[str, RunSummary]:
    return {each.run: each for each in summarize(kineto_corpus(shared_stores))}


@pytest.fixture(scope="module")
def second(shared_stores: Path) -> list[RunSummary]:
    return summarize(second_kineto_corpus(shared_stores), all_findings=True)


def test_dlrm_has_one_finding_of_its_late_ranks_with_the_late_start_in_it(found: dict[str, RunSummary]) -> None:
    dlrm = found["param_dlrm_8ranks"]
    notes = {each.name: each.note for each in dlrm.figures}
    assert notes["exposed communication"].startswith("of the windows; waiting for late ranks 38.6 %; all communication")
    host, loader, late, *others = dlrm.leads
    assert (host.query, host.rest) == ("idle_causes", host.share)  # its loaders work before the GPUs do: no part of it
    assert (host.gain and host.gain.gain_ns, round(host.recoverable, 4)) == (9_748_000, 0.4672)  # of 20.87 ms
    assert plain_text(late.sentence) == (
        "Rank 7 is late because its CPU side launches work later than those of the others, which wait for it, most of "
        "all in step 10. GPUs lose 4.992 ms of 117.3 ms to it, and 10.52 ms with the same on ranks 5 and 4. With rank "
        "7 on time, a replay of the run takes 494.8 µs of 20.87 ms less."
    )
    assert plain_text(late.details) == (
        "All 8 ranks: of their collectives 96.50 % (46.84 ms of 48.54 ms; each 87.86 % to 98.14 %) is waiting for "
        "ranks that enter later, most in all_to_all (its group is not recorded), worst in step 10 of rank 1, which "
        "waits most for rank 7. Rank 7 is the last in 62.50 % (5 of 8) of the collectives; the others wait 35.55 ms "
        "for it, added up. The same costs 3.370 ms on rank 5 and 2.155 ms on rank 4. Measured together: 17.43 ms, "
        "minus 6.914 ms in which the GPU would wait for the CPU side anyway."
    )
    assert (loader.query, round(loader.rest, 4), loader.gain and loader.gain.gain_ns) == (
        *("data_loader_wait", 0.0099),
        1_157_000,  # of 20.87 ms, though the GPUs lose 1.156 of 117.3 ms
    )
    kept = 28_291_000 / 46_890_000  # of the exposed communication of all ranks
    assert late.rest == pytest.approx(kept * (8_273_783 + 5_585_800 + 3_571_026) / 117_319_000)
    assert late.evidence == "straggler_causes finds it in 3 of 14 causes of late ranks"
    assert not any(each.query == "straggler_causes" for each in others)
    (start,) = late.notes
    assert plain_text(start.sentence).startswith("Rank 7 enters its first collective late, and the others wait for it.")
    assert [each.cost_ns for each in dlrm.unranked] == [start.cost_ns] == [27_591_906]
    (line,) = (each for each in summary_lines([dlrm], 10_000) if "Not ranked" in each)
    assert line.startswith("     Not ranked, 14.2 %: Rank 7 enters")


def test_findings_of_recorded_runs_cost_what_what_if_gains_and_come_in_that_order(
    shared_stores: Path, found: dict[str, RunSummary]
) -> None:
    lab = tracelab.open(kineto_corpus(shared_stores))
    checked = []
    for summary in found.values():
        shares = [each.recoverable for each in summary.leads if not each.part_of]
        assert shares == sorted(shares, reverse=True), summary.run
        for lead in summary.leads:
            assert (lead.gain is None) == (lead.what_if_command is None), (summary.run, lead.sentence)
            if lead.gain is not None:
                change = dict(change_of(lead.finding, lead.rank) or ())
                rows = lab.query("what_if", run=summary.run, **change).to_pylist()
                assert {(row["time_before_ns"], row["gain_ns"]) for row in rows} == {
                    (lead.gain.window_ns, lead.gain.gain_ns)
                }
                assert not lead.is_bounded or lead.recoverable <= lead.gain.bound
                checked.append((summary.run, lead.query))
    dlrm, owlv2 = "param_dlrm_8ranks", "google_owlv2-large-patch14-ensemble__1016001"
    assert {(dlrm, "straggler_causes"), (dlrm, "idle_causes"), (owlv2, "memcpy_throughput")} <= set(checked)


def test_costs_per_step_of_recorded_runs_are_their_shares_of_the_time_that_the_heading_has(
    found: dict[str, RunSummary], second: list[RunSummary]
) -> None:
    assert sum(map(check_costs_per_step, (*found.values(), *second))) >= 40


def test_a_step_costs_no_more_than_its_window_has(found: dict[str, RunSummary]) -> None:
    """The only step takes 1.211 s, of which the window has 1.078 s, and half of the unaligned products 114.9 ms."""
    owlv2 = found["google_owlv2-large-patch14-ensemble__1016001"]
    (row,) = (each for each in summary_rows([owlv2]).to_pylist() if each["text"].startswith("Matrix products"))
    (lead,) = (each for each in owlv2.leads if plain_text(each.sentence) == row["text"])
    assert (row["step_ns"], lead.is_replayed) == (lead.cost_ns, False)
    (softmax,) = (each for each in owlv2.leads if plain_text(each.sentence).startswith("Softmax"))
    assert (softmax.cost_ns, softmax.gain and softmax.gain.gain_ns, softmax.has_bound) == (
        262_538_215,
        262_538_215,
        True,
    )
    text = " ".join(" ".join(summary_lines([owlv2], 100)).split())
    assert "and of the 1.078 s of a mean step that the windows cover (by a replay, of all 1.211 s)." in text
    assert "51.1 % by a replay, 619.0 ms a step" in text


def test_windows_of_recorded_runs_have_the_path_of_the_whole(shared_stores: Path) -> None:
    lab = tracelab.open(kineto_corpus(shared_stores))
    run = "param_dlrm_8ranks"
    rows = lab.query("critical_path_rows", run=run, step=10).to_pylist()
    assert lab.scoped(steps="10", by="execution").query("critical_path_rows", run=run).to_pylist() == rows
    whole, parts = Counter[str](), Counter[str]()
    for row in lab.query("critical_path", run=run).to_pylist():
        whole[row["class"]] += row["dur_ns"]
    for part in (lab.scoped(to="9ms"), lab.scoped(from_="9ms")):
        for row in part.query("critical_path", run=run).to_pylist():
            parts[row["class"]] += row["dur_ns"]
    assert (parts, whole.total()) == (whole, 20_866_000)


def test_findings_of_recorded_runs_do_not_count_time_twice(found: dict[str, RunSummary]) -> None:
    """No symptom stands beside causes that explain most of it, and no topic has more than the whole time.

    A cause of which others explain most stands there if it costs 10 %, or as much as another finding.
    """
    assert sum(bool(each.leads) for each in found.values()) >= 5
    for summary in found.values():
        for each in list_single(summary.leads):
            assert max(each.rest, each.recoverable) >= LEAST and each.rest <= each.share <= 1
            others = [one.rest for one in summary.leads if (one.query, one.finding) != (each.query, each.finding)]
            is_cause = each.detail > 0 and "waiting" not in each.topics
            assert each.rest >= (min(each.share / 2, 0.1, *others) if is_cause else each.share / 2)


def test_exposed_time_that_only_makes_a_gpu_wait_for_its_host_costs_nothing(found: dict[str, RunSummary]) -> None:
    """Of df_index_resolver 20.6 % is exposed communication; the replay without any transfer is as long as the run."""
    run = found["df_index_resolver"]
    notes = {each.name: each.note for each in run.figures}
    assert "; none of it can be saved: without it the GPUs would wait for" in notes["exposed communication"]
    assert [each.query for each in run.leads] == ["idle_causes"]
    assert "Of the exposed communication and copies, a part of 21.9 % of the measured time cannot be" in run.balance


def test_a_wait_that_the_loader_explains_has_no_details_of_the_whole(
    found: dict[str, RunSummary], second: list[RunSummary]
) -> None:
    """The loader explains 286.9 of 383.1 ms, and most of what passes before what aten::to launches."""
    for run in (found["kineto_tb_plugin"], next(each for each in second if each.run == "nw0b")):
        loader, host, _ = map(plain_text, (each.sentence for each in run.leads))
        assert "All 6 steps wait for data" in loader
        assert "5 steps lose" in loader
        assert host.startswith("The GPU waits for the host for ")
        assert " of its window. It costs " in host


def test_kernels_that_fusing_may_save_come_before_what_costs_less(second: list[RunSummary]) -> None:
    """Of 49.65 ms, 768 elementwise kernels take 17.54 ms and 349 that copy 10.13 ms; a product of 12.79 is no loss."""
    qwen = next(each for each in second if each.run.startswith("Qwen") and each.leads[0].query == "idle_causes")
    placed, notes = order_with_losses(qwen.leads, qwen.unranked)
    assert [(number, each.cost_ns, format_recoverable(each)) for number, each in placed[:2]] == [
        (None, 17_544_382, "35.3 % at most"),
        (None, 10_126_038, "20.4 % at most"),
    ]
    assert [number for number, _ in placed[2:]] == [*range(1, len(qwen.leads) + 1)]
    assert ["One kernel" in each.sentence for each in notes] == [True]


def test_a_server_that_waits_for_its_first_request_is_no_finding_without_that(second: list[RunSummary]) -> None:
    """Of 494.5 ms in which the GPU waits for the host, one gap of 493.3 ms precedes the first request."""
    (server,) = (each for each in second if each.run.startswith("sglang_Qwen3"))
    assert plain_text(server.leads[0].sentence).endswith(
        "Up to 494.5 ms of the loss precede the first 1 % of the GPUs' work, as while a program starts or waits."
    )


def test_layout_conversions_beside_convolutions_name_channels_last(
    shared_stores: Path, found: dict[str, RunSummary], second: list[RunSummary]
) -> None:
    """Of nccl_data 633 kernels take 15.12 ms of 660.6 ms, but it waits for its host: without them it is as long."""
    run = next(each for each in second if each.run == "resnet_act_checkpoint")
    (layouts,) = (each for each in run.leads if "NCHW" in each.sentence)
    assert layouts.rest == pytest.approx(layouts.cost_ns / layouts.whole_ns)
    assert plain_text(layouts.sentence).startswith("943 kernels that only convert between the layouts NCHW and NHWC")
    assert "torch.channels_last" in plain_text(layouts.advice)
    assert not any("NCHW" in each.sentence for each in found["nccl_data"].leads)
    lab = tracelab.open(kineto_corpus(shared_stores))
    rows = lab.query("what_if", run="nccl_data", change="scale", kernel="(?i)nchwToNhwc|nhwcToNchw", factor=0.0)
    assert {(row["changed_rows"], row["gain_ns"]) for row in rows.to_pylist()} == {(633, 0)}


def test_each_finding_of_recorded_runs_takes_three_sentences_at_most(found: dict[str, RunSummary]) -> None:
    sentences = [plain_text(each.sentence) for summary in found.values() for each in summary.leads]
    assert len(sentences) >= 20
    assert [each for each in sentences if len(re.findall(r"\.(?= [A-Z]|$)", each)) > MOST_SENTENCES] == []


IDLE = frozenset({"data", "host", "launches", "dependency"})
COMMUNICATION = frozenset({"waiting", "transfer", "receiving"})
EXCLUSIVE = (
    ("straggler_causes", "its GPU is slow", "its kernels take longer than those", "in all it computes no longer"),
    ("stragglers", "of its broadcasts and reductions is transfer", "of its broadcasts and reductions runs"),
)
"""Texts of a query of which at most one holds for a run and rank."""
EPSILON = 1e-9


def figure(summary: RunSummary, name: str) -> float | None:
    return next((each.value for each in summary.figures if each.name == name), None)


def test_findings_that_exclude_each_other_are_never_together(
    found: dict[str, RunSummary], second: list[RunSummary]
) -> None:
    """Findings cost no more than the figure that they are part of, and of rules that exclude each other one holds."""
    checked = 0
    for summary in (*found.values(), *second):
        leads = [*summary.leads, *summary.unranked]
        whole = [each for each in leads if each.is_counted]
        if (busy := figure(summary, "GPU busy")) is not None:
            idle = sum(each.rest for each in whole if set(each.topics) <= IDLE)
            assert idle <= 1 - busy + EPSILON, summary.run
            exposed = figure(summary, "exposed communication") or 0
            assert sum(each.rest for each in whole if set(each.topics) <= COMMUNICATION) <= exposed + EPSILON, (
                summary.run
            )
            checked += len(whole)
        for query, *texts in EXCLUSIVE:
            stated = [
                (each.rank, text)
                for each in list_single(leads)
                if each.query == query
                for text in texts
                if text in plain_text(each.sentence)
            ]
            assert len({rank for rank, _ in stated}) == len(stated), (summary.run, stated)
    assert checked >= 30
