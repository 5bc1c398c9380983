"""The cost of a finding has one definition: of the run's measured time, in the summary, the sections, and the rules."""

import html
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.build import build_store
from tests.report.few_queries import report_of
from tracelab.query.report_rules import Cost, Finding
from tracelab.report.costs import ADDED, COST_SHARE, MATCHING, matching_rows_sql
from tracelab.report.summary.derivation import derive_shares
from tracelab.report.summary.lead import Ceiling, FoundLeads, Lead, plain_text
from tracelab.report.summary.losses import Losses, describe_balance
from tracelab.report.summary.ranking import rank_within
from tracelab.report.summary.summarize import RunSummary, summarize
from tracelab.report.summary.symptoms import relate
from tracelab.report.summary.text import Summaries
from tracelab.report.windows import StepTime, create_windows

COLUMNS = ("run", "rank", "kind", "lost_ns", "step_ns")
WINDOWS = {"a": 4000, "b": 1000}


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = duckdb.connect()
    windows = [
        {"run": run, "rank": rank, "window_ns": total // 4} for run, total in WINDOWS.items() for rank in range(4)
    ]
    create_windows(con, pa.Table.from_pylist(windows), None, {})
    yield con
    con.close()


def finding(adds: tuple[str, ...] | None, of: str | None = None) -> Finding:
    cost = Cost("lost_ns", of, adds, ("host",), 1)
    return Finding("lost_ns > 10", "lost_ns", "{kind}", None, 1_000, None, cost)


@pytest.mark.parametrize("adds", [None, (), ("rank",), ("rank", "kind")])
@pytest.mark.parametrize("of", [None, "step_ns"])
def test_shares_are_those_of_a_plain_sum(con: duckdb.DuckDBPyConnection, adds: tuple[str, ...], of: str | None) -> None:
    draw = random.Random(7)
    rows: list[dict[str, Any]] = [
        {
            "run": draw.choice("ab"),
            "rank": draw.randrange(4),
            "kind": draw.choice("xy"),
            "lost_ns": draw.choice([None, 5, draw.randrange(11, 60)]),
            "step_ns": draw.randrange(50, 99),
        }
        for _ in range(80)
    ]
    con.register("answer", pa.Table.from_pylist(rows))
    answer = con.sql(matching_rows_sql(finding(adds, of), "", COLUMNS, least_share=0)).to_arrow_table().to_pylist()
    expected = []
    for row in rows:
        if (row["lost_ns"] or 0) <= 10:
            continue
        own = [each for each in rows if each["run"] == row["run"]]
        whole = sum(each["step_ns"] for each in own) if of else WINDOWS[row["run"]]
        added = [
            each for each in own if (each["lost_ns"] or 0) > 10 and all(each[name] == row[name] for name in adds or ())
        ]
        costs = [each["lost_ns"] for each in added] if adds is not None else [row["lost_ns"]]
        expected.append(
            (row["run"], row["rank"], row["kind"], row["lost_ns"], len(costs), round(sum(costs) / whole, 9))
        )
    found = [
        (*(each[name] for name in ("run", "rank", "kind", "lost_ns")), each[ADDED], round(each[COST_SHARE], 9))
        for each in answer
    ]
    assert sorted(found) == sorted(expected)
    assert [each[COST_SHARE] for each in answer] == sorted((each[COST_SHARE] for each in answer), reverse=True)


def test_the_most_expensive_of_rows_that_add_up_remains(con: duckdb.DuckDBPyConnection) -> None:
    """Of 4000 ns, rank 0 loses 20 + 30 ns and rank 1 loses 40."""
    rows = [("a", 0, "x", 20), ("a", 0, "y", 30), ("a", 1, "x", 40), ("a", 1, "y", 10)]
    con.register("answer", pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=False)) for row in rows]))
    sql = matching_rows_sql(finding(("rank",)), "", COLUMNS[:4], least_share=0, by_cost=True)
    answer = con.sql(sql).to_arrow_table().to_pylist()
    assert [(row["rank"], row["kind"], row[COST_SHARE], row[MATCHING]) for row in answer] == [
        (0, "y", 50 / 4000, 2),
        (1, "x", 40 / 4000, 1),
    ]


def test_rows_that_cost_nothing_are_not_counted_among_those_that_add_up(con: duckdb.DuckDBPyConnection) -> None:
    """A step that waits for data while its GPU works loses nothing: of three steps with the finding two lose time."""
    rows = [("a", 0, "x", 20), ("a", 1, "x", 30), ("a", 2, "x", 0)]
    con.register("answer", pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=False)) for row in rows]))
    every = replace(finding(()), when="true")
    for row_key in (None, "rank"):
        sql = matching_rows_sql(every, "", COLUMNS[:4], least_share=0, by_cost=True, row_key=row_key)
        (row,) = con.sql(sql).to_arrow_table().to_pylist()
        assert (row["rank"], row[ADDED], row[COST_SHARE], row[MATCHING]) == (1, 2, 50 / 4000, 3)


def test_a_run_without_gpu_activity_is_measured_by_its_ranks_on_the_cpu() -> None:
    con = duckdb.connect()
    gpus = [{"run": "a", "rank": 0, "window_ns": 100}, {"run": "a", "rank": 0, "window_ns": 60}]
    threads = [("a", 0, 900), ("b", 0, 300), ("b", 0, 200), ("b", 1, 500)]
    cpus = [dict(zip(("run", "rank", "window_ns"), each, strict=True)) for each in threads]
    create_windows(con, *map(pa.Table.from_pylist, (gpus, cpus)), {"a": StepTime(60.5, 160), "c": StepTime(30.0, None)})
    assert con.sql("from report.windows order by run").fetchall() == [
        ("a", 160.0, 60.5, 60.5 * 80 / 160, 80.0),  # the windows cover half of the recorded steps
        ("b", 800.0, None, None, 400.0),
        ("c", None, 30.0, 30.0, None),
    ]
    con.close()


QUERIES = ("gpu_breakdown", "idle_causes", "advice")


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunSummary, list[str]]:
    """Eight GPUs with windows of 1000 ns, of which one idles for 400 ns before work whose launch is not known."""
    kernels = [
        {"rank": rank, "device": 0, "stream": 7, "name": "gemm", "start_ns": start, "dur_ns": dur}
        for rank in range(8)
        for start, dur in (((0, 500), (900, 100)) if rank == 5 else ((0, 1000),))
    ]
    devices = [{"rank": rank, "device": 0, "sm_count": 1} for rank in range(8)]
    store = build_store(tmp_path_factory.mktemp("idle") / "lab", {"kernels": kernels, "devices": devices})
    (found,) = summarize(store)
    items = re.findall(r"<li data-finding=.*?(?=<li|</ul>)", report_of(QUERIES, store), re.DOTALL)
    return found, [html.unescape(re.sub(r"<[^>]+>", "", each)).replace("\xa0", " ") for each in items]


def test_a_gpu_of_eight_that_idles_for_40_percent_costs_the_run_5(idle: tuple[RunSummary, list[str]]) -> None:
    (lead,) = idle[0].leads
    assert (lead.query, lead.rest, lead.cost_ns, lead.whole_ns) == ("idle_causes", 0.05, 400, 8000)
    assert "so that the cause is not known either. It costs 400 ns of 8.000 µs." in lead.sentence.replace("\xa0", " ")


def test_sections_and_rules_repeat_the_cost_of_the_summary_or_name_the_finding(
    idle: tuple[RunSummary, list[str]],
) -> None:
    _, items = idle
    costs = [
        re.split(r"[.:] (?=Symptom|Bound|Finding)|(?<=summary\.) |(?<=time\.) |(?<=rank it\.) ", each) for each in items
    ]
    assert [(each[0].split(":")[0], each[1]) for each in costs] == [
        (
            "Rank 5 is idle for 40.00 % (400 ns of 1.000 µs) of its window",
            "Symptom of finding 1 of the summary: 5.000 % of the run's measured time.",
        ),
        (
            "From 500 ns on, rank 5 idles for 100.0 % (125 ns of 125 ns)",
            "Symptom of finding 1 of the summary: 1.562 % of the run's measured time.",
        ),
        (
            "Rank 5 idles for 40.00 % (400 ns of 1.000 µs) of its window before work whose launch is not known, so "
            "that the cause is not known either",
            "Finding 1 of the summary: 5.000 % of the run's measured time.",
        ),
        (
            "low_compute_utilization, most of all on rank 5",
            "Symptom of finding 1 of the summary: 5.000 % of the run's measured time.",
        ),
        (
            "low_kernel_concurrency, most of all on rank 0",
            "Bound: at most 47.50 % of the run's measured time, in 8 GPUs in total; the summary does not rank it.",
        ),
    ]


def lead(query: str, share: float, topic: str, detail: int, rank: int | None, rest: float | None = None) -> Lead:
    rule = Finding("true", "1", query, None, 1, None, Cost("1", None, None, (topic,), detail))
    kept = share if rest is None else rest
    return Lead(
        *(query, rule, 1e6 * share, 1e6, 1, share, kept, kept, rank, None),
        *(f"{query}.", "", 1, 1, ""),
    )


def test_a_symptom_names_the_findings_that_explain_most_of_it() -> None:
    leads = [lead("late", 0.2, "waiting", 3, 2), lead("data", 0.1, "data", 2, 5), lead("host", 0.05, "host", 2, 1)]
    bound = Cost("1", None, None, ("data", "host"), 0, leads=False)
    idle = Finding("true", "1", "idle", None, 1, None, bound)
    everywhere = relate(leads, "idle", replace(idle, cost=replace(bound, adds=())), None)
    assert (everywhere.numbers, round(everywhere.explained, 9)) == ((2, 3), 0.15)
    assert everywhere.is_symptom(0.3)
    assert not everywhere.is_symptom(0.31)
    assert relate(leads, "idle", idle, 5).numbers == (2,)
    waiting = replace(idle, cost=replace(bound, topics=("waiting",)))
    assert relate(leads, "waits", waiting, 7).numbers == (1,)  # rank 7 waits because rank 2 is late
    assert relate(leads, "late", leads[0].finding, 2).is_lead == 1


def test_a_share_that_is_not_the_cost_states_why() -> None:
    late, idle = lead("late", 0.2, "waiting", 3, 2), lead("waits", 0.5, "waiting", 1, None, rest=0.3)
    first, second = derive_shares([idle, late], ())
    assert first.sentence == (
        "waits. It costs 300.0 µs of 1.000 ms (500.0 µs measured, minus 200.0 µs counted in finding 2)."
    )
    assert second.sentence == "late. It costs 200.0 µs of 1.000 ms."
    (scaled,) = derive_shares(
        [replace(late, rest=0.1)], [Ceiling(frozenset({"waiting"}), 0.1, "exposed communication")]
    )
    assert scaled.sentence.endswith(
        "It costs 100.0 µs of 1.000 ms (200.0 µs measured, minus 100.0 µs as several findings share the 100.0 µs of "
        "exposed communication of the run)."
    )
    (short,) = derive_shares([replace(late, rest=0.05, part_of=(1,))], ())
    assert short.sentence == (
        "late. It costs 50.00 µs of 1.000 ms (200.0 µs measured, minus 150.0 µs that finding 1 does not have). That is "
        "part of finding 1."
    )


@pytest.fixture(scope="module")
def small_losses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One GPU with a window of 1000 ns: it computes 885, idles 60, communicates 50 and copies 5."""
    gpu = {"device": 0, "stream": 7}
    kernels = [
        gpu | {"name": "gemm", "start_ns": 0, "dur_ns": 800},
        gpu | {"name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)", "start_ns": 860, "dur_ns": 50},
        gpu | {"name": "gemm", "start_ns": 910, "dur_ns": 85},
    ]
    copies = [gpu | {"direction": "HtoD", "size_bytes": 100, "start_ns": 995, "dur_ns": 5}]
    folder = tmp_path_factory.mktemp("small")
    return build_store(folder / "lab", {"kernels": kernels, "memcpys": copies})


def test_the_largest_losses_are_listed_also_within_the_thresholds(small_losses: Path) -> None:
    """Below 1 % are two findings of copies: of gpu_breakdown and memcpy_throughput."""
    (whole,) = summarize(small_losses)
    known = (
        "GPUs compute for 88.5 % of the measured time; the rest: idle 6.0 %, exposed communication 5.0 %, "
        "exposed copies 0.5 %."
    )
    assert [(each.query, each.rest) for each in whole.leads] == [("idle_causes", 0.06), ("nccl_share", 0.05)]
    assert whole.balance == (
        f"{known} Of the 11.5 % in which the GPUs do not compute, findings 1 and 2 explain 11.0 %, and 0.5 % has other "
        "causes. 2 findings cost, or gain by a replay, less than 1 % each."
    )
    text = repr(Summaries([whole]))
    assert ("1. 6.0 %: " in text, "2. 5.0 %: " in text, "not listed" in text) == (True, True, False)


def test_what_cannot_be_recovered_is_a_part_of_the_measured_time_and_not_of_what_is_explained() -> None:
    """Of 52 % idle and 40 % exposed communication 24 % is recoverable: 16 % is not, and 76 % is left to explain.

    What kernels take, the first finding, is none of the time in which GPUs do not compute.
    """
    shares = {"compute": 0.08, "idle": 0.52, "exposed_comm": 0.4, "exposed_memory": 0.0, "out_of_scope": 0.0}
    losses = Losses(shares, {"exposed_comm": 0.24, "exposed_memory": 0.0}, None)
    leads = (lead("kernels", 0.7, "kernels", 1, None), lead("waits", 0.6, "waiting", 1, None))
    assert describe_balance(losses, FoundLeads(leads, 0)) == (
        "GPUs compute for 8.0 % of the measured time; the rest: idle 52.0 %, exposed communication 40.0 %, exposed "
        "copies 0.0 %. Of the exposed communication and copies, a part of 16.0 % of the measured time cannot be "
        "recovered: the GPUs would wait for the CPU side in its place (recoverable_exposure). Of the other 76.0 % in "
        "which the GPUs do not compute, finding 2 explains 60.0 %, and 16.0 % has other causes."
    )


def test_sections_list_losses_within_the_thresholds_on_request(small_losses: Path) -> None:
    idle = "before work whose launch is not known"
    assert not any(idle in each for each in _findings_in(report_of(QUERIES[:2], small_losses)))
    page = report_of((*QUERIES[:2], "nccl_share"), small_losses, all_findings=True)
    (found,) = (each for each in _findings_in(page) if idle in each)
    assert "Finding 1 of the summary" in found
    assert "<code>unknown_ns &gt; 0.1 * nullif(window_ns, 0)</code>, not true, with a cost, for <span>1 of 1" in found


def _findings_in(page: str) -> list[str]:
    return re.findall(r"<li data-finding=.*?</details>", page, re.DOTALL)


def test_findings_within_the_thresholds_follow_and_change_nothing() -> None:
    """Of the host's 50 %, 5 % is waiting for data; the others share the 4 % that idle time has left."""
    host, data = lead("host", 0.5, "host", 1, None), lead("data", 0.05, "data", 2, None)
    host = with_topics(host, "host", "data")
    launches, dependency = lead("launches", 0.06, "launches", 1, None), lead("depends", 0.02, "dependency", 1, None)
    idle = Ceiling(frozenset({"host", "data", "launches", "dependency"}), 0.54, "idle time")
    found = rank_within([data, launches, dependency], [host], [], [idle])
    assert [(each.query, round(each.rest, 9), each.part_of) for each in found] == [
        ("data", 0.05, (1,)),
        ("launches", 0.03, ()),
        ("depends", 0.01, ()),
    ]
    (_, first, *_) = derive_shares([host, *found], [idle])
    assert first.sentence == "data. It costs 50.00 µs of 1.000 ms. That is part of finding 1."


def with_topics(found: Lead, *topics: str) -> Lead:
    assert found.finding.cost is not None
    return replace(found, finding=replace(found.finding, cost=replace(found.finding.cost, topics=topics)))


def test_rows_within_a_threshold_are_those_with_a_cost_for_which_the_rule_does_not_hold(
    con: duckdb.DuckDBPyConnection,
) -> None:
    """Of 4000 ns, 10 + 4 are lost within the threshold of more than 10."""
    rows = [("a", 0, "x", 20), ("a", 0, "y", 10), ("a", 1, "x", 4), ("a", 1, "y", 0), ("a", 2, "x", None)]
    con.register("answer", pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=False)) for row in rows]))
    within = finding(()).within_threshold()
    assert within is not None
    sql = matching_rows_sql(within, "", COLUMNS[:4], least_share=0, by_cost=True)
    (row,) = con.sql(sql).to_arrow_table().to_pylist()
    assert (row["rank"], row["lost_ns"], row[ADDED], row[COST_SHARE]) == (0, 10, 2, 14 / 4000)
    assert within.rule == "lost_ns > 10"


@pytest.mark.parametrize(("first_ns", "expected"), [(450, []), (300, [("data_loader_wait", 100 / 700)])])
def test_waiting_for_data_costs_only_what_lies_in_the_window(
    tmp_path: Path, first_ns: int, expected: list[tuple[str, float]]
) -> None:
    """A step of 1000 ns waits for data for 400; the window of the GPU begins behind that, or 100 ns before its end."""
    cpu = {"scope": "cpu", "pid": 1, "tid": 1}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    tables = {
        "annotations": [
            cpu | {"name": name, "start_ns": 0, "dur_ns": dur}
            for name, dur in (("ProfilerStep#1", 1000), (loader, 400))
        ],
        "kernels": [
            {"name": "gemm", "pid": 1, "device": 0, "stream": 7, "start_ns": start, "dur_ns": dur}
            for start, dur in ((first_ns, 0), (400, 600))
        ],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    assert [(each.query, each.rest) for each in found.leads if "data" in each.topics] == expected
    for each in found.leads:
        assert "in all steps" not in each.sentence


def test_waiting_for_data_on_the_cpu_is_a_share_of_the_window_as_other_findings_are(tmp_path: Path) -> None:
    """Of a window of 1000 ns, three steps of 200 wait for 150 each; 390 before have no op. The loop ran 10 steps."""
    cpu = {"scope": "cpu", "pid": 1, "tid": 1}
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    starts = (400, 600, 800)
    marks = [(f"ProfilerStep#{at}", start, 200) for at, start in enumerate(starts)]
    ops = [(0, 10), *((start + 150, 50) for start in starts)]
    loop = [("warmup", 9), *(("train", at) for at in range(10)), ("epoch", None)]
    tables = {
        "annotations": [
            cpu | {"name": name, "start_ns": start, "dur_ns": dur}
            for name, start, dur in [*marks, *((loader, start, 150) for start in starts)]
        ],
        "ops": [{"name": "aten::mm", "pid": 1, "tid": 1, "start_ns": start, "dur_ns": dur} for start, dur in ops],
        "steps": [
            {"phase": phase, "step": step, "start_ns": 0, "dur_ns": 100, "data_wait_ns": 90} for phase, step in loop
        ],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    assert found.window_ns == 1000
    assert [(each.query, each.rest) for each in found.leads] == [("data_loader_wait", 0.45), ("cpu_breakdown", 0.39)]
    assert "450 ns of 1.000 µs" in found.leads[0].sentence.replace("\u00a0", " ")
    (waiting,) = (each for each in found.figures if each.name == "waiting for data")
    assert (waiting.value, waiting.note) == (0.9, "of 10 timed steps, as the loop measured")
    for row in tables["steps"]:
        row["profiler_state"] = "recording" if row["step"] in (2, 3) else "off"
        row["data_wait_ns"] = 10 if row["step"] in (2, 3) else 90
    unmarked = {"steps": tables["steps"], "ops": tables["ops"], "annotations": tables["annotations"][:3]}
    (of_loop,) = summarize(build_store(tmp_path / "looped", unmarked))
    (waiting,) = (each for each in of_loop.figures if each.name == "waiting for data")
    assert (waiting.value, waiting.note) == (0.1, "of 2 recorded steps, as the loop measured")
    (of_trace,) = summarize(build_store(tmp_path / "traced", {name: tables[name] for name in ("annotations", "ops")}))
    (waiting,) = (each for each in of_trace.figures if each.name == "waiting for data")
    assert (waiting.value, waiting.note) == (0.75, "of 3 recorded steps")


def broadcast_of(entries: dict[int, int]) -> dict[str, list[dict[str, Any]]]:
    """Ranks that compute until each enters a broadcast, which ends after 1000 ns on all."""
    tables: dict[str, list[dict[str, Any]]] = {"kernels": [], "collectives": []}
    for rank, entry_ns in entries.items():
        placed = {"rank": rank, "device": 0, "stream": 7, "pid": rank}
        at = {"start_ns": entry_ns, "dur_ns": 1000 - entry_ns, "correlation": 2}
        tables["kernels"] += [
            placed | {"name": "gemm", "start_ns": 0, "dur_ns": entry_ns},
            placed | at | {"name": "ncclDevKernel_Broadcast_RING_LL"},
        ]
        noted = {"origin": "kernel", "collective": "broadcast", "group_name": "dp", "group_size": 2, "seq": 1}
        tables["collectives"].append(placed | at | noted)
    return tables


def test_a_broadcast_that_waits_is_no_transfer(tmp_path: Path) -> None:
    """Rank 0 enters after 100 ns and waits 800 for rank 1; then both transfer for 100 of their 1000 ns."""
    (found,) = summarize(build_store(tmp_path / "lab", broadcast_of({0: 100, 1: 900})))
    wait, transfer = found.leads
    (other,) = transfer.included  # within the threshold, 100 of 1000 ns
    assert (wait.topics, wait.rank, wait.rest) == (("receiving",), 0, 0.4)
    assert "waits most for rank 1" in plain_text(wait.sentence)
    assert (transfer.topics, transfer.rank, transfer.rest) == (("transfer",), 1, pytest.approx(0.1))
    assert plain_text(transfer.sentence).endswith("It costs 100 ns of 2.000 µs, and 200 ns with the same on rank 0.")
    assert (other.topics, other.rank, other.rest) == (("transfer",), 0, pytest.approx(0.05))


def test_a_broadcast_that_is_not_found_on_other_ranks_counts_whole_and_states_it(tmp_path: Path) -> None:
    (found,) = summarize(build_store(tmp_path / "lab", broadcast_of({0: 100})))
    (lead,) = found.leads
    assert (lead.query, lead.topics, lead.rest) == ("stragglers", ("transfer",), 0.9)
    assert (
        "that may include waiting for ranks, which is not known of those that are not found on all ranks ("
        in lead.sentence
    )


def test_a_recording_that_begins_late_is_noted_and_not_ranked(tmp_path: Path) -> None:
    """Rank 0 waits 300 of its 400 ns for rank 1, of which the first 300 are not recorded and 100 are."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    gpu = {"device": 0, "stream": 7}
    rows = [(0, "gemm", 0, 50), (0, name, 50, 350), (1, "gemm", 300, 50), (1, name, 350, 50)]
    kernels = [gpu | dict(zip(("rank", "name", "start_ns", "dur_ns"), row, strict=True)) for row in rows]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    late, kernel = found.unranked
    assert (late.rank, late.rest) == (1, 0.6)
    assert (kernel.query, kernel.rank, kernel.rest) == ("kernel_class_share", 1, 0.1)
    assert all(each.query != "straggler_causes" and "waiting" not in each.topics for each in found.leads)
    text = " ".join(repr(Summaries([found])).split())
    assert "Not ranked, 60.0 %: Rank 1 enters its first collective late" in text
    assert "60.0 % is not ranked" in text
    notes = [row for row in Summaries([found]).rows.to_pylist() if row["kind"] == "note"]
    assert [(row["rank"], row["value"]) for row in notes] == [(1, 0.6), (1, 0.1)]


@pytest.mark.parametrize(("gpu", "rests"), [("NVIDIA A100-SXM4-40GB", [0.35]), ("Tesla V100-SXM2-16GB", [])])
def test_products_in_fp32_cost_what_tf32_would_save_by_the_data_sheet(
    tmp_path: Path, gpu: str, rests: list[float]
) -> None:
    """Of 1000 ns products take 400, which an A100 computes 8 times as fast in TF32; a V100 has no TF32."""
    tables = {
        "kernels": [
            {"device": 0, "stream": 7, "name": name, "start_ns": start, "dur_ns": dur_ns}
            for name, start, dur_ns in (("ampere_sgemm_128x64_nn", 0, 400), ("elementwise_kernel", 400, 600))
        ],
        "devices": [{"rank": 0, "device": 0, "name": gpu}],
    }
    (found,) = summarize(build_store(tmp_path / "lab", tables))
    assert [each.rest for each in found.leads] == rests
    if rests:
        assert plain_text(found.leads[0].sentence) == (
            "Matrix products and convolutions in fp32, outside the tensor cores, take 40.00 % (400 ns of 1.000 µs) of "
            "the kernel time; in TF32 this GPU computes up to 8.000 times as fast. It costs at most 350 ns of 1.000 µs."
        )


def test_a_kernel_that_runs_twice_at_once_costs_no_more_than_the_window(tmp_path: Path) -> None:
    """On each of two streams one kernel runs for the 1000 ns of the window."""
    kernels = [
        {"device": 0, "stream": stream, "name": "scan_outer_dim<float>", "start_ns": 0, "dur_ns": 1_000}
        for stream in (7, 8)
    ]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    (longest,) = found.unranked
    assert longest.recoverable == 1
    assert plain_text(longest.sentence) == (
        "One kernel, scan_outer_dim<float>, takes 100.0 % (2.000 µs of 2.000 µs) of the kernel time. "
        "That is 1.000 µs of 1.000 µs."
    )


def test_softmax_and_unaligned_products_lead_and_the_longest_kernel_is_noted(tmp_path: Path) -> None:
    """Of 1000 ns softmax takes 150, unaligned products 300, of which half counts, and one other kernel 400."""
    rows = [
        ("void cunn_SoftMaxForward<8, float, at::native::SoftMaxForwardEpilogue>(float*)", 150),
        ("cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1", 300),
        ("void flash_fwd_kernel<64>(Params)", 400),
        ("elementwise_kernel", 150),
    ]
    starts = [sum(dur_ns for _, dur_ns in rows[:at]) for at in range(len(rows))]
    kernels = [
        {"device": 0, "stream": 7, "name": name, "start_ns": start, "dur_ns": dur_ns}
        for start, (name, dur_ns) in zip(starts, rows, strict=True)
    ]
    (found,) = summarize(build_store(tmp_path / "lab", {"kernels": kernels}))
    assert [(plain_text(each.sentence), each.rest) for each in found.leads] == [
        (
            "Softmax takes 15.00 % (150 ns of 1.000 µs) of the kernel time, in kernels of its own "
            "(cunn_SoftMaxForward<8, float, SoftMaxForwardEpilogue>).",
            0.15,
        ),
        (
            "Matrix products on tensor cores that load one or two elements at once, because a size is no multiple of "
            "16 bytes, take 30.00 % (300 ns of 1.000 µs) of the kernel time. It costs 150 ns of 1.000 µs.",
            0.15,
        ),
    ]
    (longest,) = found.unranked
    assert plain_text(longest.sentence).startswith(
        "One kernel, flash_fwd_kernel<64>, takes 40.00 % (400 ns of 1.000 µs) of the kernel time."
    )
    assert found.balance.startswith("GPUs compute for 100.0 % of the measured time")
    assert "explain" not in found.balance
