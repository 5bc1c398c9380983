"""The questions about the GPU side of a timeline, on every real Kineto trace, against plain Python."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import corpus, timeline
from tests.memory import read_into_memory
from tests.readers.small import Lab
from tests.stores import kineto_corpus
from tests.timeline import Key, Row, place
from tracelab.query import execute, library
from tracelab.store import session

pytestmark = corpus.needs_traces

MIN_GAP_NS = 30_000
ASKED = (
    *("idle_causes", "launch_latency", "memcpy_overlap", "memcpy_sizes", "kernel_class_share", "kernel_shapes"),
    *("stream_summary", "cuda_graphs", "advice", "gpu_breakdown", "kernel_concurrency", "memcpy_throughput"),
    "nccl_share",
)


@dataclass(frozen=True)
class Answers:
    """All traces in one store: its rows as they are, and what the questions answer."""

    lab: Lab
    tables: Mapping[str, list[Row]]
    activity: list[Row]
    classes: Mapping[str, str]
    said: Mapping[str, list[Row]]

    def by_device(self, name: str) -> dict[Key, Row]:
        return {place(row): row for row in self.said[name]}

    def label(self, row: Row) -> str:
        """The class of a kernel; a copy, fill or graph has none."""
        return self.classes[row["name"]] if row["kind"] == "kernel" else row["kind"]


@pytest.fixture(scope="module")
def answers(shared_stores: Path) -> Iterator[Answers]:
    lab = Lab(kineto_corpus(shared_stores), None)
    tables = {name: lab.rows(name) for name in (*timeline.ACTIVITY, "api_calls", "devices", "collectives")}
    with session.connect(lab.store) as con:
        read_into_memory(con)
        said = {name: execute.run(con, library.find(name), {}).to_pylist() for name in ASKED}
        classes = dict(con.execute("select name, class from kernel_classes").fetchall())
    yield Answers(lab, tables, timeline.activity(tables), classes, said)


def test_causes_of_idle_time_add_up_to_that_of_the_breakdown(answers: Answers) -> None:
    breakdown = answers.by_device("gpu_breakdown")
    causes = answers.by_device("idle_causes")
    assert causes.keys() == breakdown.keys()
    assert len(causes) > 15
    for key, row in causes.items():
        parts = sum(row[f"{cause}_ns"] for cause in ("host", "dependency", "overhead", "unknown"))
        assert (key, parts, row["idle_ns"], row["window_ns"]) == (
            *(key, breakdown[key]["idle_ns"], breakdown[key]["idle_ns"]),
            breakdown[key]["window_ns"],
        )


def test_each_cause_has_the_gaps_of_the_oracle(answers: Answers) -> None:
    expected = timeline.idle(answers.activity, timeline.calls(answers.tables["api_calls"]), MIN_GAP_NS)
    for key, row in answers.by_device("idle_causes").items():
        for cause in ("host", "dependency", "overhead", "unknown"):
            gaps = expected[key][cause]
            assert (key, cause, row[f"{cause}_gaps"], row[f"{cause}_ns"]) == (key, cause, len(gaps), sum(gaps))


def test_launches_and_queues_are_those_of_the_oracle(answers: Answers) -> None:
    expected = timeline.launches(answers.activity, timeline.calls(answers.tables["api_calls"]))
    stored = {
        (*place(row), row["pid"], row["context"], row["stream"]): timeline.Stream(
            launches=row["launches"],
            unmatched=row["unmatched"],
            negative=row["negative"],
            negative_queue=row["negative_queue"],
            median_latency_ns=row["median_latency_ns"],
            waiting_ns=row["waiting_ns"] or 0,
            max_queue_depth=row["max_queue_depth"] or 0,
            empty_ns=row["empty_ns"] or 0,
        )
        for row in answers.said["launch_latency"]
    }
    assert stored.keys() == expected.keys()
    for key, stream in expected.items():
        assert abs((stored[key].median_latency_ns or 0) - (stream.median_latency_ns or 0)) <= 0.5  # rounded
        assert (key, {**vars(stored[key]), "median_latency_ns": 0}) == (key, {**vars(stream), "median_latency_ns": 0})


def test_overlap_of_copies_is_that_of_the_oracle(answers: Answers) -> None:
    def kinds(holds):
        return timeline.measure(answers.activity, lambda row: row["kind"], holds)

    expected = {
        "copy_busy_ns": kinds(lambda on: on["memcpy"] > 0),
        "copy_concurrent_ns": kinds(lambda on: on["memcpy"] > 1),
        "kernel_busy_ns": kinds(lambda on: on["kernel"] > 0),
        "overlap_ns": kinds(lambda on: on["memcpy"] > 0 and on["kernel"] > 0),
        "window_ns": kinds(lambda on: True),
    }
    rows = answers.by_device("memcpy_overlap")
    assert rows
    for key, row in rows.items():
        assert (key, {name: row[name] for name in expected}) == (key, {name: of[key] for name, of in expected.items()})


def test_classes_have_the_time_of_the_oracle(answers: Answers) -> None:
    kernels = [row for row in answers.activity if row["kind"] == "kernel"]
    noted = {
        (*place(row), row["start_ns"], row["stream"])
        for row in answers.tables["collectives"]
        if row["origin"] == "kernel"
    }

    def label(row: Row) -> str:
        is_noted = (*place(row), row["start_ns"], row["stream"]) in noted
        return "communication" if is_noted else answers.label(row)

    busy, alone = timeline.parts(kernels, label)
    sums: dict[Key, int] = defaultdict(int)
    for row in kernels:
        sums[*place(row), label(row)] += row["dur_ns"]
    stored = {(*place(row), row["class"]): row for row in answers.said["kernel_class_share"]}
    assert stored.keys() == sums.keys()
    for key, row in stored.items():
        assert (key, row["dur_ns"], row["busy_ns"], row["alone_ns"]) == (key, sums[key], busy[key], alone[key])


def test_streams_are_those_of_the_oracle_and_make_up_the_device(answers: Answers) -> None:
    busy, alone = timeline.parts(answers.activity, lambda row: (row["context"], row["stream"]))
    whole = timeline.measure(answers.activity, lambda row: row["stream"], bool)
    lone: dict[Key, int] = defaultdict(int)
    for row in answers.said["stream_summary"]:
        key = (*place(row), (row["context"], row["stream"]))
        assert (key, row["busy_ns"], row["alone_ns"]) == (key, busy[key], alone[key])
        lone[place(row)] += row["alone_ns"]
    for row in answers.said["stream_summary"]:
        assert row["device_busy_ns"] == whole[place(row)] == lone[place(row)] + row["shared_ns"]


def test_sums_over_streams_are_those_of_the_device(answers: Answers) -> None:
    totals: dict[Key, Counter] = defaultdict(Counter)
    for row in answers.said["stream_summary"]:
        names = ("kernels", "copies", "memsets", "graphs", "dur_ns", "kernel_dur_ns", "comm_dur_ns")
        totals[place(row)].update({name: row[name] for name in names})
    shares = {place(row): row for row in answers.said["nccl_share"] if row["collective"] == "all"}
    counts = Counter((*place(row), row["kind"]) for row in answers.activity)
    for key, total in totals.items():
        assert (key, total["dur_ns"], total["kernel_dur_ns"], total["comm_dur_ns"]) == (
            *(key, shares[key]["gpu_activity_ns"], shares[key]["kernel_sum_ns"]),
            shares[key]["dur_ns"],
        )
        assert (total["kernels"], total["copies"]) == (counts[*key, "kernel"], counts[*key, "memcpy"])


@pytest.mark.parametrize(
    ("name", "share"),
    [
        ("kernel_class_share", "of_kernel_sum_ratio"),
        ("kernel_shapes", "of_kernel_sum_ratio"),
    ],
)
def test_shares_of_a_device_sum_to_one(answers: Answers, name: str, share: str) -> None:
    sums: dict[Key, float] = defaultdict(float)
    for row in answers.said[name]:
        sums[place(row)] += row[share] or 0
    assert sums
    assert all(total == pytest.approx(1, abs=1e-9) for total in sums.values())


def test_sizes_add_up_to_the_copies_of_their_direction(answers: Answers) -> None:
    sums: dict[Key, Counter] = defaultdict(Counter)
    for row in answers.said["memcpy_sizes"]:
        key = (*place(row), row["direction"], row["src_memory"], row["dst_memory"])
        sums[key].update({"copies": row["copies"], "size": row["size_bytes"] or 0, "dur_ns": row["dur_ns"]})
        assert row["size_bytes"] is None or row["from_bytes"] <= row["mean_bytes"] <= row["to_bytes"]
    stored = {
        (*place(row), row["direction"], row["src_memory"], row["dst_memory"]): Counter(
            {"copies": row["copies"], "size": row["size_bytes"], "dur_ns": row["dur_ns"]}
        )
        for row in answers.said["memcpy_throughput"]
    }
    assert dict(sums) == stored


def test_shapes_are_those_of_the_rows(answers: Answers) -> None:
    names = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers")
    expected: dict[Key, Counter] = defaultdict(Counter)
    for row in answers.tables["kernels"]:
        expected[*place(row), row["name"], *(row[name] for name in names)].update(calls=1, dur_ns=row["dur_ns"])
    stored: dict[Key, Counter] = defaultdict(Counter)
    for row in answers.said["kernel_shapes"]:
        key = (*place(row), row["kernel"], *(row[name] for name in names))
        stored[key].update(calls=row["calls"], dur_ns=row["dur_ns"])
    assert stored == expected


def test_blocks_per_multiprocessor_are_those_that_kineto_wrote(answers: Answers) -> None:
    stored = {
        (*place(row), row["blocks"], row["threads_per_block"]): row["blocks_per_sm"]
        for row in answers.said["kernel_shapes"]
    }
    compared = 0
    for row in answers.tables["kernels"]:
        written = json.loads(row["args"] or "{}").get("blocks per SM")
        key = (
            *place(row),
            *(row[f"{of}_x"] * row[f"{of}_y"] * row[f"{of}_z"] for of in ("grid", "block") if row["grid_x"]),
        )
        if written is not None and stored.get(key) is not None:
            assert stored[key] == pytest.approx(written, rel=1e-5, abs=1e-2)  # the oldest wrote two digits
            compared += 1
    assert compared > 50_000


def test_graphs_hold_the_work_that_their_calls_launched(answers: Answers) -> None:
    called = {timeline.process(row) for row in answers.tables["api_calls"] if row["name"].endswith("GraphLaunch")}
    expected = Counter(place(row)[0] for row in answers.activity if timeline.process(row) in called)
    stored: Counter = Counter()
    launches = 0
    for row in answers.said["cuda_graphs"]:
        stored[row["run"]] += row["kernels"] + row["copies"] + row["memsets"]
        launches += row["api_calls"]
    assert +stored == expected
    assert (launches, len(called), sum(expected.values())) == (95, 95, 706)


def test_advice_rests_on_the_figures_of_the_other_queries(answers: Answers) -> None:
    rules = {(*place(row), row["rule"]): row for row in answers.said["advice"]}
    for key, row in answers.by_device("kernel_concurrency").items():
        concurrency, use = rules[*key, "low_kernel_concurrency"], rules[*key, "low_compute_utilization"]
        assert (concurrency["part_ns"], concurrency["whole_ns"]) == (row["concurrent_ns"], row["busy_ns"])
        assert (use["part_ns"], use["whole_ns"]) == (row["busy_ns"], row["window_ns"])
    for key, row in answers.by_device("memcpy_overlap").items():
        rule = rules[*key, "low_compute_copy_overlap"]
        assert (rule["part_ns"], rule["whole_ns"]) == (row["overlap_ns"], row["smaller_busy_ns"])
    small: Counter = Counter()
    for row in answers.said["memcpy_throughput"]:
        small[place(row)] += row["small_dur_ns"]
    for key, part_ns in small.items():
        assert rules[*key, "small_copies"]["part_ns"] == part_ns


def test_rules_of_directions_and_slow_copies_are_those_of_the_oracle(answers: Answers) -> None:
    copies = [row for row in answers.activity if row["kind"] == "memcpy"]
    ways = {"HtoD": "in", "DtoH": "out"}
    moving = [row for row in copies if row["direction"] in ways]
    both = timeline.measure(moving, lambda row: ways[row["direction"]], lambda on: len(on) > 1)
    ins, outs = (
        timeline.measure(moving, lambda row: ways[row["direction"]], lambda on, way=way: on[way] > 0)
        for way in ("in", "out")
    )
    slow: Counter = Counter()
    for row in copies:
        size = row["size_bytes"]
        if size is not None and size >= 65_536 and size < 6 * row["dur_ns"]:
            slow[place(row)] += row["dur_ns"]
    for row in answers.said["advice"]:
        key = place(row)
        if row["rule"] == "low_copy_overlap":
            assert (key, row["part_ns"], row["whole_ns"]) == (
                key,
                both.get(key, 0),
                min(ins.get(key, 0), outs.get(key, 0)),
            )
        if row["rule"] == "slow_copies":
            assert (key, row["part_ns"]) == (key, slow[key])


def test_hardly_a_kernel_is_unclassified(answers: Answers) -> None:
    shares = {place(row): row["unclassified_ratio"] for row in answers.said["kernel_class_share"]}
    mtia = ("mtia_inference_rank_0", 0, 17)  # its jobs have the names of executables: merge, remote
    assert {key: share for key, share in shares.items() if share > 0.001 and key != mtia} == {}
