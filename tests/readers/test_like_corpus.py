"""Questions in the definitions of other tools, on the corpus: the digits that those tools print of the same files."""

import ast
import csv
import gzip
import json
import sqlite3
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests import corpus
from tests.build import build_store
from tests.readers.small import ingest_paths
from tests.stores import kineto_corpus, second_kineto_corpus
from tracelab.client import Lab
from tracelab.paths import hta

pytestmark = corpus.needs_traces

KINETO = corpus.ROOT / "kineto"
NVPROF = corpus.ROOT / "nvprof"
HTA = [
    ("control", {}, (62119, 234760, 86525, 383404, 16.2, 61.23, 22.57), 47.03),
    ("control", {"include_last_profiler_step": True}, (76007, 281336, 107251, 464594, 16.36, 60.56, 23.08), 46.24),
    ("rank-0", {"doubles": True}, (10113, 372150, 2371, 384634, 2.63, 96.75, 0.62), None),
    (
        *("rank-0", {"doubles": True, "include_last_profiler_step": True}),
        *((12143, 464915, 2971, 480029, 2.53, 96.85, 0.62), None),
    ),
    ("negative_queue_length_values_check", {}, (705853, 143836, 166865, 1016554, 69.44, 14.15, 16.41), 1.37),
    (
        "negative_queue_length_values_check",
        {"include_last_profiler_step": True},
        (848216, 179676, 201180, 1229072, 69.01, 14.62, 16.37),
        1.47,
    ),
    ("nccl_data", {}, (338781, 75169, 21636, 435586, 77.78, 17.26, 4.97), 14.31),
    ("nccl_data", {"include_last_profiler_step": True}, (506512, 113012, 41026, 660550, 76.68, 17.11, 6.21), 15.14),
    ("df_index_resolver", {}, (643612, 496485, 256572, 1396669, 46.08, 35.55, 18.37), 0.0),
    ("kineto_tb_plugin", {}, (327463, 492891, 10140, 830494, 39.43, 59.35, 1.22), None),
    (
        "kineto_tb_plugin",
        {"include_last_profiler_step": True},
        (392919, 591532, 12026, 996477, 39.43, 59.36, 1.21),
        None,
    ),
    ("google_owlv2", {}, (516680, 547123, 14484, 1078287, 47.92, 50.74, 1.34), None),
]
"""What HTA 0.5.0 answers: idle, compute, non-compute and kernel time in us, their percentages, and the overlap's."""

HTA_RANKS = {
    0: (6419, 1034, 5556, 13009, 49.34, 7.95, 42.71),
    1: (6428, 1246, 11075, 18749, 34.28, 6.65, 59.07),
    2: (7046, 1068, 3236, 11350, 62.08, 9.41, 28.51),
    3: (8145, 1240, 9468, 18853, 43.2, 6.58, 50.22),
    4: (8887, 1126, 6576, 16589, 53.57, 6.79, 39.64),
    5: (9121, 1041, 6230, 16392, 55.64, 6.35, 38.01),
    6: (7051, 1051, 3308, 11410, 61.8, 9.21, 28.99),
    7: (8308, 1059, 1600, 10967, 75.75, 9.66, 14.59),
}
"""The same of the eight ranks of one run."""

HTA_OF_STORES = [
    ("first", "benchmark_result_2869224_1695835535_trace", (12929684, 10637, 55690, 12996011, 99.49, 0.08, 0.43), None),
    ("first", "event_sync_trace", (19132, 371, 3, 19506, 98.08, 1.9, 0.02), None),
    ("first", "triton_example", (0, 94, 0, 94, 0.0, 100.0, 0.0), None),
    ("first", "mtia_inference_rank_0", (19235, 419614, 4426, 443275, 4.34, 94.66, 1.0), None),
    ("first", "eager_trace", (73669, 10153, 664, 84486, 87.2, 12.02, 0.79), 0.0),
    ("first", "Qwen_Qwen1.5-0.5B-Chat__1016005", (5537, 41548, 0, 47085, 11.76, 88.24, 0.0), None),
    ("second", "benchmark_result_493459_1694039959_trace", (16414376, 10676, 39287, 16464339, 99.7, 0.06, 0.24), None),
    ("second", "event_sync_trace", (207, 49, 7, 263, 78.71, 18.63, 2.66), None),
    ("second", "2021b_nw4", (63988, 505812, 16630, 586430, 10.91, 86.25, 2.84), None),
    ("second", "nw0b", (219798, 492770, 9033, 721601, 30.46, 68.29, 1.25), None),
    ("second", "graph_capture_rank_0.1773709742341309550", (57375, 413, 7, 57795, 99.27, 0.71, 0.01), None),
    ("second", "sglang_Qwen3-8B_prefilldecode", (495017, 492240, 31, 987288, 50.14, 49.86, 0.0), None),
    ("second", "vllm_decode_full_graph_execution", (458, 10250, 34, 10742, 4.26, 95.42, 0.32), None),
]
"""The same of runs in the stores of the first and second set of traces."""

HTA_OVERLAPS = {0: 4.5, 1: 2.47, 2: 7.88, 3: 3.31, 4: 0.56, 5: 0.64, 6: 7.56, 7: 9.51}

FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
HTA_PATHS = [
    ("first", "benchmark_result_2869224_1695835535_trace", FORWARD, 1, (149, 110, 4, 1, 32, 1), (32042, 3712, 30, 50)),
    (
        "first",
        "benchmark_result_2869224_1695835535_trace",
        "",
        0,
        (948, 763, 106, 18, 41, 19),
        (43283339, 60572, 2035, 9709),
    ),
    ("first", "event_sync_trace", "", 0, (59, 52, 4, 1, 1, 0), (1025, 124, 14, 15)),
    ("second", "benchmark_result_493459_1694039959_trace", FORWARD, 1, (315, 288, 20, 1, 5, 0), (241190, 508, 17, 9)),
    (
        "second",
        "benchmark_result_493459_1694039959_trace",
        "",
        0,
        (1160, 957, 152, 18, 14, 18),
        (41380750, 40992, 1595, 11897),
    ),
    ("second", "event_sync_trace", "ProfilerStep", 0, (40, 28, 7, 2, 0, 2), (2335, 38, 28, 0)),
]
"""What HTA 0.5.0 finds on the critical path: nodes, edges by type, and us by what bounds them."""

TRACELENS = [
    ("control", {}, "464.594 282.582 87.267 18.738 76.007 163.535"),
    ("rank-0", {"doubles": True}, "480.029 468.761 0.000 3.701 7.567 0.000"),
]
"""What TraceLens (171dd74) prints: total, computation, exposed communication and copies, idle, communication, in ms."""

TRACELENS_REPORTS = {
    "h100/Qwen_Qwen1.5-0.5B-Chat__1016005_perf_report_csvs": ("second", "Qwen_Qwen1.5-0.5B-Chat__1016005"),
    "h100/gaunernst_bert-small-uncased__1016001_perf_report_csvs": ("first", "gaunernst_bert-small-uncased__1016001"),
    "h100/google_owlv2-large-patch14-ensemble__1016001_perf_report_csvs": (
        "first",
        "google_owlv2-large-patch14-ensemble__1016001",
    ),
    "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005_perf_report_csvs": ("first", "Qwen_Qwen1.5-0.5B-Chat__1016005"),
    "mi300/google_owlv2-large-patch14-ensemble__1016001_perf_report_csvs": (
        "second",
        "google_owlv2-large-patch14-ensemble__1016001",
    ),
    "inference/sglang_prefilldecode/perf_csvs": ("second", "sglang_Qwen3-8B_prefilldecode"),
    "inference/vllm_decode_full/perf_csvs": ("second", "vllm_decode_full_graph_execution"),
    "inference/vllm_prefilldecode_piecewise/perf_csvs": ("first", "graph_execution"),
}
"""Reports of TraceLens (171dd74), and the set of traces and the run that each is of."""

RECOMPUTING = "mi300/resnet_act_checkpoint_recompute_perf_report_csvs"
"""The report of a run that computes activations twice, in two parts: without and with the second time."""

DOUBLES_MS = 5e-5
"""TraceLens adds up thousands of differences of doubles that are 0.5 ns apart."""


class Answers:
    """Rows of queries on the stores of both sets of traces; those of all runs come from one query."""

    def __init__(self, labs: dict[str, Lab]) -> None:
        self.labs = labs
        self._rows: dict[str, list[dict[str, Any]]] = {}

    def rows(self, traces: str, query: str, like: str, run: str, **params: object) -> list[dict[str, Any]]:
        """The rows of the run whose name begins so."""
        key = repr((traces, query, like, sorted(params.items())))
        if key not in self._rows:
            self._rows[key] = self.labs[traces].query(query, like=like, **params).to_pylist()
        return [
            row for row in self._rows[key] if row["run"] == run or f"{row['run']}".startswith((f"{run}.", f"{run}-"))
        ]


@pytest.fixture(scope="module")
def sets(shared_stores: Path) -> dict[str, Lab]:
    return {"first": Lab(kineto_corpus(shared_stores)), "second": Lab(second_kineto_corpus(shared_stores))}


@pytest.fixture(scope="module")
def answers(sets: dict[str, Lab]) -> Answers:
    return Answers(sets)


def tracelens_report(name: str) -> list[dict[str, float]]:
    """Read what a report has for each part of the time in ms, once for every value of is_recompute."""
    path = corpus.ROOT / "tracelens_reference" / name / "gpu_timeline.csv"
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        parts[row.get("is_recompute", "")][row["type"].replace("_time", "_ns")] = float(row["time ms"])
    return list(parts.values())


def temporal(row: dict[str, object]) -> tuple[object, ...]:
    """A row as HTA prints it: whole us, and percentages."""
    parts = ("idle", "compute", "non_compute", "kernel")
    times = [divmod(int(str(row[f"{part}_ns"])), 1000) for part in parts]
    assert {rest for _, rest in times} == {0}
    return (*(us for us, _ in times), *(row[f"{part}_percent"] for part in parts[:-1]))


@pytest.mark.parametrize(("name", "params", "printed", "overlap"), HTA)
def test_hta_prints_the_same(answers: Answers, name: str, params: dict, printed: tuple, overlap: float | None) -> None:
    (row,) = answers.rows("first", "gpu_breakdown", "hta", name, **params)
    (share,) = answers.rows("first", "nccl_share", "hta", name, **params)
    assert (temporal(row), share["comp_comm_overlap_percent"]) == (printed, overlap)


@pytest.mark.parametrize(("traces", "run", "printed", "overlap"), HTA_OF_STORES)
def test_hta_prints_the_same_of_a_run_in_a_store(
    answers: Answers, traces: str, run: str, printed: tuple, overlap: float | None
) -> None:
    (row,) = answers.rows(traces, "gpu_breakdown", "hta", run)
    (share,) = answers.rows(traces, "nccl_share", "hta", run)
    assert (temporal(row), share["comp_comm_overlap_percent"]) == (printed, overlap)


def test_hta_prints_the_same_of_eight_ranks(answers: Answers) -> None:
    breakdown = answers.rows("first", "gpu_breakdown", "hta", "param_dlrm_8ranks")
    found = {row["rank"]: temporal(row) for row in breakdown}
    shares = answers.rows("first", "nccl_share", "hta", "param_dlrm_8ranks")
    assert found == HTA_RANKS
    assert {row["rank"]: row["comp_comm_overlap_percent"] for row in shares} == HTA_OVERLAPS


@pytest.mark.parametrize("path", HTA_PATHS, ids=lambda path: f"{path[1]}-{path[4][0]}")
def test_hta_finds_the_same_critical_path(sets: dict[str, Lab], path: tuple) -> None:
    traces, run, annotation, instance, counts, times = path
    rows = (
        sets[traces]
        .query("critical_path", like="hta", run=run, in_annotation=annotation, instance=instance)
        .to_pylist()
    )
    types = ("operator", "dependency", "kernel_launch_delay", "kernel_kernel_delay", "sync_dependency")
    bounds = ("cpu_bound", "gpu_compute_bound", "gpu_kernel_launch_overhead", "gpu_kernel_kernel_overhead")
    edges = [sum(row["edges"] for row in rows if row["type"] == each) for each in types]
    assert ({row["path_nodes"] for row in rows}, *edges) == ({counts[0]}, *counts[1:])
    assert tuple(sum(row["dur_ns"] for row in rows if row["bound_by"] == each) // 1000 for each in bounds) == times


def test_the_graph_has_the_launch_and_the_kernel_edge_that_hta_checks(sets: dict[str, Lab]) -> None:
    """HTA's own test looks at these two edges of its graph; they are not on its path of 315 nodes."""
    names = "pid, tid, stream, kind, name, start_us, end_us, correlation, waits_for_stream, waits_for_correlation"
    listed = sets["second"].sql(f"select {names} from hta_path_events('benchmark_result_493459_1694039959_trace')")
    graph = hta.build_graph([hta.Event(**_as_event(row)) for row in listed.to_pylist()], FORWARD, 1)
    assert graph is not None
    edges = {
        (near[0].correlation, near[0].kind, far[0].correlation, kind): weight
        for far, before in graph.before.items()
        for near, (weight, kind) in before.items()
    }
    assert edges[5597, "cpu", 5597, "kernel_launch_delay"] == 27
    assert edges[5597, "gpu", 5604, "kernel_kernel_delay"] == 7
    assert (5604, "cpu", 5604, "kernel_launch_delay") not in edges


def _as_event(row: dict[str, Any]) -> dict[str, Any]:
    fields = {
        "start_us": "start",
        "end_us": "end",
        "waits_for_stream": "awaited_stream",
        "waits_for_correlation": "awaited",
    }
    return {fields.get(name, name): value for name, value in row.items()}


@pytest.mark.parametrize(("name", "params", "printed"), TRACELENS)
def test_tracelens_prints_the_same(answers: Answers, name: str, params: dict, printed: str) -> None:
    (row,) = answers.rows("first", "gpu_breakdown", "tracelens", name, **params)
    parts = ("total", "computation", "exposed_comm", "exposed_memcpy", "idle", "total_comm")
    assert " ".join(f"{row[f'{part}_ns'] / 1e6:.3f}" for part in parts) == printed


@pytest.mark.parametrize("report", TRACELENS_REPORTS)
def test_tracelens_reports_the_same(answers: Answers, report: str) -> None:
    traces, run = TRACELENS_REPORTS[report]
    (row,) = answers.rows(traces, "gpu_breakdown", "tracelens", run)
    (expected,) = tracelens_report(report)
    assert len(expected) == 8
    assert {part: row[part] / 1e6 for part in expected} == pytest.approx(expected, abs=DOUBLES_MS)


OPS_REPORTS = {
    **{report: place for report, place in TRACELENS_REPORTS.items() if not report.startswith("inference/")},
    RECOMPUTING: ("second", "resnet_act_checkpoint"),
}
"""Reports with tables of ops; those of inference list ops of captured graphs, by parent module."""


@pytest.mark.parametrize("report", OPS_REPORTS)
@pytest.mark.parametrize(("by", "table"), [("name", "ops_summary"), ("shape", "ops_unique_args")])
def test_tracelens_reports_the_same_ops(answers: Answers, report: str, by: str, table: str) -> None:
    traces, run = OPS_REPORTS[report]
    path = corpus.ROOT / "tracelens_reference" / report / f"{table}.csv"
    csv.field_size_limit(1 << 24)
    expected: dict[tuple[object, ...], list[float]] = defaultdict(lambda: [0, 0, 0])
    recompute = report == RECOMPUTING  # recomputed calls have rows of their own there
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        key = (row["name"], row["is_recompute"] == "True" if recompute else None)
        sums = expected[*key, *(_parse_nested(row[name]) for name in TRACELENS_ARGUMENTS if by == "shape")]
        sums[0] += int(row["Count" if by == "name" else "operation_count"])
        sums[1] += float(row["total_direct_kernel_time_sum"])
        sums[2] += float(row["total_subtree_kernel_time_sum"])
    reported = {
        (
            row["op"],
            row["is_recompute"],
            *(_parse_nested(row[name]) for name in TRACELENS_ARGUMENTS.values() if by == "shape"),
        ): [*(row["calls"], row["direct_ns"] / 1e3, row["subtree_ns"] / 1e3)]
        for row in answers.rows(traces, "op_summary", "tracelens", run, by=by, recompute=recompute)
    }
    assert reported == {key: pytest.approx(sums, abs=DOUBLES_MS * 1e3) for key, sums in expected.items()}


TRACELENS_ARGUMENTS = {
    "Input Dims": "shapes",
    "Input type": "types",
    "Input Strides": "strides",
    "Concrete Inputs": "argument_values",
}
"""The columns of TraceLens that tell arguments apart, and ours."""


def _parse_nested(text: str) -> object:
    """Parse a list, written as JSON or as a tuple of Python, into tuples."""

    def freeze(value: object) -> object:
        return tuple(map(freeze, value)) if isinstance(value, list | tuple) else value

    return freeze(ast.literal_eval(text))


def test_tracelens_leaves_out_what_was_launched_before_the_recording(answers: Answers) -> None:
    (row,) = answers.rows("second", "gpu_breakdown", "tracelens", "resnet_act_checkpoint")
    first, again = tracelens_report(RECOMPUTING)
    same = ("total_ns", "total_comm_ns", "total_memcpy_ns", "exposed_memcpy_ns")
    expected = {part: first[part] for part in same} | {
        "computation_ns": first["computation_ns"] + again["computation_ns"]
    }
    assert {part: row[part] / 1e6 for part in expected} == pytest.approx(expected, abs=DOUBLES_MS)
    assert round(row["total_comm_ns"] / 1e6, 6) == 47.200310


def test_tracelens_counts_what_was_launched_before_the_recording_on_request(sets: dict[str, Lab]) -> None:
    params = {"like": "tracelens", "run": "resnet_act_checkpoint", "linked_only": False}
    (row,) = sets["second"].query("gpu_breakdown", **params).to_pylist()
    assert round(row["total_comm_ns"] / 1e6, 3) == 71.517


def test_exact_times_give_another_idle_time_than_tracelens_prints(answers: Answers) -> None:
    (row,) = answers.rows("first", "gpu_breakdown", "tracelens", "rank-0")
    assert (row["idle_ns"], row["total_ns"], row["busy_ns"]) == (7_574_738, 480_029_179, 472_454_441)


def test_collectives_take_as_long_as_tracelens_reports(sets: dict[str, Lab]) -> None:
    path = corpus.ROOT / "tracelens_reference" / RECOMPUTING / "coll_analysis.csv"
    expected = {
        int(float(row["In msg nelems"])): (int(row["operation_count"]), round(float(row["dur_sum"]) * 1000))
        for row in csv.DictReader(path.read_text("utf-8").splitlines())
        if row["Collective name"] == "allreduce"
    }
    rows = sets["second"].query("collective_summary", like="tracelens", run="resnet_act_checkpoint").to_pylist()
    assert len(expected) == 2
    assert {row["in_elements"]: (row["count"], row["total_comm_latency_ns"]) for row in rows} == expected


def test_collectives_have_the_bandwidth_of_tracelens_formulas(answers: Answers) -> None:
    events = json.loads(gzip.decompress((KINETO / "hta" / "nccl_data.json.gz").read_bytes()))["traceEvents"]
    groups = defaultdict(list)
    for event in events:
        noted = event.get("args", {})
        if event.get("cat") == "kernel" and noted.get("Collective name") == "allreduce":
            gib = noted["In msg nelems"] * {"Float": 4, "Long": 8}[noted["dtype"]] / 1024**3
            groups[noted["dtype"], noted["In msg nelems"]].append((event["dur"] / 1e6, gib, noted["Group size"]))
    expected = {
        key: (len(calls), mean(gib / s for s, gib, _ in calls), mean(gib / s * 2 * (n - 1) / n for s, gib, n in calls))
        for key, calls in groups.items()
    }
    rows = answers.rows("first", "collective_summary", "tracelens", "nccl_data")
    found = {
        (row["dtype"], row["in_elements"]): (row["count"], row["algo_bw_mean_gib_per_s"], row["bus_bw_mean_gib_per_s"])
        for row in rows
    }
    assert len(found) == 5
    assert found.keys() == expected.keys()
    for key, figures in found.items():
        assert figures == pytest.approx(expected[key], rel=1e-9)


def test_api_calls_have_the_percentages_that_nvprof_printed(tmp_path: Path) -> None:
    path = NVPROF / "pranshu777" / "out.resnet18_64_0.01_k80_full_mem.757751"
    printed = [row for row in csv.reader(path.read_text("utf-8").splitlines()) if row[0] == "API calls"]
    calls = [
        {"api": "runtime" if name.startswith("cuda") else "driver", "name": name, "start_ns": 0, "dur_ns": dur_ns}
        for _, _, total, count, _, _, _, name in printed
        for dur_ns in split(round(float(total) * 1e6), int(count))
    ]
    lab = Lab(build_store(tmp_path / "lab", {"api_calls": calls}))
    rows = lab.query("api_summary", like="nvprof").to_pylist()
    assert len(rows) == 11
    assert {row["name"]: (f"{row['time_percent']:.6f}", row["calls"]) for row in rows} == {
        row[7]: (row[1], int(row[3])) for row in printed
    }


def split(total: int, parts: int) -> list[int]:
    """Whole numbers that add up."""
    return [total // parts + (place < total % parts) for place in range(parts)]


def test_copies_have_the_throughput_that_nvprof_printed(tmp_path: Path) -> None:
    path = NVPROF / "nanzifan" / "print-gpu-trace.csv"
    lines = [line for line in path.read_text("utf-8").splitlines() if not line.startswith("==")]
    printed = [float(row["Throughput"]) for row in csv.DictReader(lines) if row["Name"] == "[CUDA memcpy DtoD]"]
    lab = Lab(ingest_paths(tmp_path, [path]).store)
    rows = {row["name"]: row for row in lab.query("memcpy_throughput", like="nvprof").to_pylist()}
    row = rows["[CUDA memcpy DtoD]"]
    assert row["copies"] == len(printed) == 2000
    figures = (row["avg_gib_per_s"], row["min_gib_per_s"], row["max_gib_per_s"])
    assert figures == pytest.approx((mean(printed), min(printed), max(printed)), abs=1e-5)


def test_gpu_activities_are_those_of_nvprofs_database(tmp_path: Path) -> None:
    path = NVPROF / "ece408" / "timeline.nvprof"
    sums: dict[str, list[int]] = {}
    with sqlite3.connect(f"file:{path}?immutable=1", uri=True) as db:
        for name, of_kind in (("CONCURRENT_KERNEL", "kernel"), ("MEMCPY", "memcpy"), ("MEMSET", "memset")):
            rows = db.execute(f"select end - start from CUPTI_ACTIVITY_KIND_{name}")
            sums[of_kind] = [dur_ns for (dur_ns,) in rows]
    db.close()
    lab = Lab(ingest_paths(tmp_path, [path]).store)
    rows = lab.query("kernel_summary", like="nvprof").to_pylist()
    total = sum(map(sum, sums.values()))
    (memsets,) = (row for row in rows if row["name"] == "[CUDA memset]")
    assert {row["gpu_activities_ns"] for row in rows} == {total}
    assert sum(row["time_ns"] for row in rows if row["name"].startswith("[CUDA memcpy")) == sum(sums["memcpy"])
    assert (memsets["calls"], memsets["time_percent"]) == (9, round(100 * sum(sums["memset"]) / total, 6))
    assert sum(row["time_percent"] for row in rows) == pytest.approx(100, abs=1e-5)


def test_kernels_run_at_once_as_nvvp_would_print_it(answers: Answers) -> None:
    (row,) = answers.rows("first", "kernel_concurrency", "nvprof", "control")
    assert (row["concurrent_ns"], row["kernel_ns"], row["concurrency_percent"]) == (77_556_000, 369_257_000, 21.0)
