"""What every query file promises: a complete header, and an answer that is what the header says."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from duckdb import DuckDBPyConnection

from tests.build import Rows, build_store
from tests.memory import MemoryStore
from tracelab import schema
from tracelab.cli import COMMANDS
from tracelab.client import Lab
from tracelab.errors import NoDataError, UsageError
from tracelab.output.labels import column_unit
from tracelab.query import execute, library, spec
from tracelab.report.costs import matching_rows_sql
from tracelab.report.document import SECTIONS
from tracelab.report.windows import ensure_windows
from tracelab.store import computed_tables, execution, session, shared_relations

VARIANTS = [each for tools in library.variants().values() for each in tools.values() if " --like " in each.name]
QUERIES = sorted([*library.library().values(), *VARIANTS], key=lambda each: each.name)
ids = [each.name for each in QUERIES]
ROWS = {
    "kernels": [
        {"name": name, "device": 0, "start_ns": 0, "dur_ns": 10, "correlation": 1}
        for name in ("volta_sgemm_128x32_nt", "triton_poi_fused_add_0")
    ],
    "memcpys": [{"direction": "HtoD", "device": 0, "start_ns": 5, "dur_ns": 10, "size_bytes": 7}],
    "memsets": [{"device": 0, "start_ns": 5, "dur_ns": 10, "size_bytes": 7}],
    "api_calls": [{"api": "runtime", "name": "cudaLaunchKernel", "start_ns": 0, "dur_ns": 2, "correlation": 1}],
    "annotations": [
        {"name": "ProfilerStep#1", "scope": "cpu", "start_ns": 0, "dur_ns": 12},
        {"name": "gloo:all_reduce", "scope": "cpu", "start_ns": 4, "dur_ns": 3},
        {"name": "execute_context_0(0)_generation_2(2)", "scope": "cpu", "start_ns": 0, "dur_ns": 3},
    ],
    "ops": [
        {"name": "aten::mm", "start_ns": 0, "dur_ns": 4, "external_id": 1},
        {"name": "Torch-Compiled Region: 0/0", "start_ns": 0, "dur_ns": 4},
    ],
    "python_frames": [{"name": "nn.Module: Linear_0", "start_ns": 0, "dur_ns": 12}],
    "collectives": [{"origin": "kernel", "raw_name": "allreduce", "start_ns": 0, "dur_ns": 10, "group_size": 2}],
    "memory_events": [{"device": 0, "time_ns": 1, "address": 64, "size_bytes": 8, "allocated_bytes": 8}],
    "kernel_metrics": [
        {"launch": 0, "device": 0, "kernel": "volta_sgemm_128x32_nt", "metric": "dram__bytes.sum", "value": 7.0}
    ],
    "host_samples": [{"host": "h", "device": 0, "time_ns": 5, "sm_clock_hz": 1e9, "throttle_reasons": "sw_power_cap"}],
    "summaries": [{"kind": "api_calls", "name": "cudaMalloc", "calls": 1, "dur_ns": 3, "mean_ns": 3.0}],
}
TRAINED = {"model": "resnet18", "batch_size": 8, "world_size": 1, "status": "ok", "flop_per_sample": 7.0}
RUNS = [
    {"run": "r", "gpus": 1, "pin_memory": False, "tags": [("machine", "a")]},
    {"run": "s", "gpus": 2, "pin_memory": False, "tags": [("machine", "a")]},
    {"run": "pinned", "gpus": 1, "pin_memory": True, "tags": [("machine", "a")]},
    {"run": "elsewhere", "gpus": 1, "pin_memory": False, "tags": [("machine", "b")]},
]
"""Cells that differ in one thing each, so that questions about pairs of runs have an answer."""
NAMES = ("volta_sgemm_128x32_nt", "nccl_kernel", "ncclDevKernel_AllToAll", "what")
PHASES = ("train", "epoch", "validate", "prefill", "decode")
STEP = {"phase": "train", "epoch": 0, "step": 0, "start_ns": 0, "dur_ns": 9, "samples": 8, "loss": 2.0, "accuracy": 0.5}
DOUBLES = (
    *("_ratio", "_percent", "_per_s", "_per_byte", "_factor", "_per_sm", "_per_step", "_ppb", "_hz"),
    *(
        "threshold",
        "mean_queue_depth",
        "mean_kernels",
        "elasticity",
        "accuracy",
        "accuracy_change",
        "loss",
        "standard_error",
        "chance",
        "mean_w",
        "highest_c",
    ),
    "value",
)


def _some_value(param: spec.Param) -> spec.Value:
    if param.choices:
        return param.choices[0]
    if param.name == execute.SETTING_PARAM:  # one that a run has
        return param.default
    return {"text": "r", "run": "r", "integer": 0, "number": 0.0, "flag": True}[param.type]


def _nothing(each: spec.Query) -> dict[str, spec.Value]:
    """What no row passes: a rank, a sweep or a run that there is not, by what the query has."""
    names = {param.name for param in each.params}
    return {"rank": 99} if "rank" in names else {"sweep" if "sweep" in names else "run": "none such"}


def rows_of_two_runs() -> dict[str, Rows]:
    """Return rows of two runs, r and s, in every table that a query needs."""
    twice = {name: [row | {"run": run} for run in ("r", "s") for row in rows] for name, rows in ROWS.items()}
    trained = {"runs": [TRAINED | row for row in RUNS[:2]], "steps": [STEP | {"run": row["run"]} for row in RUNS[:2]]}
    return twice | trained


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_store(tmp_path_factory.mktemp("sound") / "lab", rows_of_two_runs())


@pytest.fixture(scope="module")
def rows() -> MemoryStore:
    return MemoryStore().filled(rows_of_two_runs())


@pytest.fixture(scope="module")
def con(store: Path) -> Iterator[DuckDBPyConnection]:
    """A session over the store."""
    with session.connect(store) as opened:
        yield opened


@pytest.fixture(scope="module")
def other(store: Path) -> Iterator[DuckDBPyConnection]:
    """Another client of DuckDB, which has read the session's text."""
    with duckdb.connect() as opened:
        opened.execute(session.init_sql(store))
        yield opened


@pytest.mark.parametrize("query", QUERIES, ids=ids)
def test_header_is_complete(query: spec.Query) -> None:
    problems = []
    if not query.title:
        problems.append("no title")
    if "A row is" not in query.prose:
        problems.append("the prose does not say what a row is: 'A row is'")
    if not query.needs or not set(query.needs) <= set(schema.BY_NAME):
        problems.append(f"needs tables that do not exist: {query.needs}")
    alone = spec.prune_blocks(query.sql, {spec.ORDERED: False})
    if not alone.removesuffix("-- /// end").rstrip().splitlines()[-1].startswith("order by"):
        problems.append("the SQL does not end with `order by`")
    following = [name for finding in (query.report.findings if query.report else ()) for name in finding.next_queries]
    if unknown := {name for name in following if name is not None} - set(library.library()):
        problems.append(f"[[report.findings]] has next = {sorted(unknown)[0]!r}, which is not a query")
    recorded = {column.name for table in query.needs for column in schema.BY_NAME[table].columns}
    for name, meaning in query.columns.items():
        terms = set(meaning.rstrip(".").split(" / "))
        if name.endswith("_ratio") and name not in recorded and not terms <= set(query.columns):
            problems.append(f"{name} is described by terms that are no columns: {terms}")
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES, ids=ids)
def test_answer_is_what_the_header_promises(query: spec.Query, rows: MemoryStore, other: DuckDBPyConnection) -> None:
    values = {param.name: _some_value(param) for param in query.params}
    answer = rows.run_query(query, values)
    assert answer.column_names == list(query.columns)
    expected = {field.name: _expected_type(field) for field in answer.schema}
    assert {field.name: field.type for field in answer.schema if field.type != expected[field.name]} == {}
    sql, _ = shared_relations.write_unkept(spec.prune_blocks(query.sql, {spec.KEPT: False}))
    empty = execution.fetch_table(rows.con, sql, execute.bind(query, _nothing(query)))
    assert (empty.num_rows, empty.schema) == (0, answer.schema), "no row matches, and the answer differs in more"
    _check_report_rules(rows.con, query, empty)
    if shared_relations.named_computations(query.sql):
        computed_tables.provide(other, query.sql, execute.bind(query, values))
    rendered = execution.fetch_table(other, execute.render_sql(query, values))
    assert rendered.to_pylist() == answer.to_pylist(), "another client has another answer"


def _check_report_rules(con: DuckDBPyConnection, query: spec.Query, empty: pa.Table) -> None:
    """Check that each rule of a header is SQL over the answer, which no row of an empty answer fulfills."""
    if query.report is None:
        return
    ensure_windows(con)
    con.register("answer", empty)
    scopes = ("", "run") if "run" in empty.column_names else ("",)
    texts = [
        matching_rows_sql(finding, scope, empty.column_names) for finding in query.report.findings for scope in scopes
    ]
    if query.report.show_if:
        texts.append(f"select 1 from answer where {query.report.show_if}")
    assert [con.execute(text).fetchall() for text in texts] == [[] for _ in texts]
    con.unregister("answer")


def _expected_type(field: pa.Field) -> pa.DataType:
    """Return the type of a column by its name: counts, times and bytes are whole, ratios are doubles."""
    if field.name.startswith("is_"):  # true or false
        return pa.bool_()
    if field.name in {"rank", "device", "DevId"}:
        return pa.int32()
    if field.name.endswith("value") and pa.types.is_string(field.type):  # of a setting, which may be a word
        return field.type
    if field.name.endswith(DOUBLES) and field.name != "flop_per_step":  # a count by itself, no mean of steps
        return pa.float64()
    if re.search(r"[(](%|MB)[)]$", field.name):
        return pa.decimal128(24, 3 if field.name.endswith("(MB)") else 1)
    if re.search(r"(Avg|Med|StdDev) [(]ns[)]$", field.name):
        return pa.decimal128(24, 1)
    return field.type if pa.types.is_string(field.type) else pa.int64()


def test_definitions_of_other_tools_say_how_they_differ() -> None:
    for query in VARIANTS:
        ((tool, name),) = query.like.items()
        assert tool in {"hta", "tracelens", "nvprof"}, query.name
        assert f"It differs from {name}" in query.prose.replace("\n", " "), query.name
        assert query.title != library.library()[name].title, query.name


def test_percentages_have_their_terms_beside_them() -> None:
    for query in VARIANTS:
        for name in (name for name in query.columns if name.endswith("_percent")):
            terms = re.match(r"(\w+) in percent of (\w+)[.,]", query.columns[name])
            assert terms is not None, (query.name, name)
            assert set(terms.groups()) <= set(query.columns), (query.name, name)


def test_no_finding_repeats_the_unit_of_a_value() -> None:
    texts = [
        text for each in QUERIES if each.report for found in each.report.findings for text in (found.text, found.every)
    ]
    units = [pair for text in texts if text for pair in re.findall(r"\{(\w+)\} ([^\s\].,;]+)", text)]
    assert not [pair for pair in units if column_unit(pair[0]) == pair[1]]


def test_a_part_of_the_report_that_a_function_makes_has_no_query() -> None:
    assert [each.name for each in QUERIES if each.report and each.report.section in SECTIONS] == ["timeline"]


def test_only_commands_and_readers_that_exist_are_advised() -> None:
    hints = " ".join(table.capture_hint for table in schema.TABLES)
    assert not [verb for verb in re.findall(r"`tracelab (\w+)", hints) if verb not in COMMANDS]
    assert not [tool for tool in ("rocprof", "vtune") if tool in hints]


def test_common_meanings_are_those_of_the_schema() -> None:
    runs = {column.name: column.doc for column in schema.BY_NAME["runs"].columns}
    common = library.find("sweep_runtime").columns
    assert common["status"] == runs["status"]


def test_every_query_has_the_definitions_that_other_tools_have() -> None:
    assert {name: list(tools) for name, tools in library.variants().items()} == {
        "api_summary": ["nsys", "nvprof"],
        "collective_summary": ["tracelens"],
        "critical_path": ["hta"],
        "gpu_breakdown": ["hta", "tracelens"],
        "kernel_concurrency": ["nvprof"],
        "kernel_summary": ["nsys", "nvprof"],
        "launch_latency": ["nsys"],
        "memcpy_sizes": ["nsys"],
        "memcpy_throughput": ["nsys", "nvprof"],
        "nccl_share": ["hta"],
        "op_flop": ["tracelens"],
        "op_summary": ["tracelens"],
    }


def test_a_report_of_the_library_is_the_definition_of_its_tool() -> None:
    assert library.find("kernel_summary", "nsys") is library.find("cuda_gpu_kern_sum")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gpu_breakdown", "gpu_breakdown has no definition like 'nvvp'; there are hta, tracelens"),
        ("kernel_shapes", "kernel_shapes has no definition of another tool; these queries have: api_summary, coll"),
    ],
)
def test_a_definition_that_there_is_not_is_refused(name: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        library.find(name, "nvvp")


def test_no_parameter_takes_the_place_of_like() -> None:
    assert "like" not in {param.name for each in QUERIES for param in each.params}


def meanings_of(query: spec.Query) -> dict[str, str]:
    """Return what the header says of each parameter, and of the columns that all queries share."""
    shared = {"run", "rank", "device"} & set(query.columns)
    return {param.name: param.about for param in query.params} | {
        f"column {name}": query.columns[name] for name in shared
    }


@pytest.mark.parametrize("query", QUERIES, ids=ids)
def test_one_name_has_one_meaning_everywhere(query: spec.Query) -> None:
    others = {name: said for each in QUERIES if each is not query for name, said in meanings_of(each).items()}
    differing = [name for name, said in meanings_of(query).items() if others.get(name, said) != said]
    assert not differing, f"{query.name} describes {differing} unlike other queries: take their words, or other names"


def test_replays_without_kernels_leave_out_those_of_a_macro() -> None:
    findings = [finding for each in QUERIES if each.report for finding in each.report.findings]
    replays = [dict(each.what_if.params) for each in findings if each.what_if]
    patterns = {str(each["kernel"]) for each in replays if each["change"] == "scale" and "kernel" in each}
    macros = (session.MACROS / "35_names.sql").read_text(encoding="utf-8")
    assert len(patterns) == 3
    assert {pattern for pattern in patterns if f"'{pattern}'" not in macros} == set()


def test_missing_tables_are_named_with_the_way_to_get_them(tmp_path: Path) -> None:
    lab = Lab(build_store(tmp_path / "lab", {"kernels": ROWS["kernels"]}))
    with pytest.raises(NoDataError, match=r"needs memcpys.*ProfilerActivity\.CUDA"):
        lab.query("memcpy_throughput")


def test_unknown_run_is_no_data_with_the_nearest(con: DuckDBPyConnection) -> None:
    with pytest.raises(NoDataError, match="no run 'rr'; nearest: r"):
        execute.run(con, library.find("kernel_summary"), {"run": "rr"})


def test_a_pattern_of_runs_is_refused_with_the_runs_that_it_matches(con: DuckDBPyConnection) -> None:
    reason = r"no run is named 'r\*', and a pattern is not read here; name one of r"
    with pytest.raises(NoDataError, match=reason):
        execute.run(con, library.find("kernel_summary"), {"run": "r*"})


def test_an_unknown_run_is_named_before_tables_that_the_store_lacks(tmp_path: Path) -> None:
    lab = Lab(build_store(tmp_path / "lab", {"kernels": ROWS["kernels"]}))
    with pytest.raises(NoDataError, match=r"^the store has no run 'rr'; nearest: "):
        lab.query("memcpy_throughput", run="rr")


def test_a_run_without_rows_is_answered_with_a_few_of_many_runs(tmp_path: Path) -> None:
    kernels = [{"name": "k", "device": 0, "run": f"r{number:02}"} for number in range(30)]
    lab = Lab(build_store(tmp_path / "lab", {"kernels": kernels, "memcpys": [{"run": "copies", "device": 0}]}))
    few = "r00, r01, r02, r03, r04, r05, r06, r07, r08, r09, r10, r11, …"
    with pytest.raises(NoDataError, match=f"kernels have no row of run copies; there are runs {few}$"):
        lab.query("kernel_summary", run="copies")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rank": 77}, "kernel_summary: kernels have no row of rank 77; there are ranks 0–2, 5"),
        ({"run": "s", "rank": 1}, "kernels have no row of rank 1 in run s; there is rank 0"),
        ({"rank": 1, "device": 0}, "kernels have no row of device 0 in rank 1; there is device 1"),
        ({"run": "copies"}, "kernels have no row of run copies; there are runs r, s"),
    ],
)
def test_a_filter_that_nothing_passes_names_what_there_is(
    values: dict[str, spec.Value], said: str, tmp_path: Path
) -> None:
    kernels = [{"name": "k", "device": rank, "rank": rank} for rank in (0, 1, 2, 5)] + [
        {"name": "k", "device": 0, "run": "s"}
    ]
    lab = Lab(build_store(tmp_path / "lab", {"kernels": kernels, "memcpys": [{"run": "copies", "device": 0}]}))
    with pytest.raises(NoDataError) as raised:
        lab.run_query(library.find("kernel_summary"), values)
    assert said in str(raised.value)


def test_a_setting_that_no_run_has_is_answered_with_those_there_are(tmp_path: Path) -> None:
    runs = [{"run": "r", "workers": 2, "tags": [("rack", "7")]}]
    steps = [{"run": "r", "phase": "train", "epoch": 0, "step": 0, "start_ns": 0, "dur_ns": 1}]
    asked = library.find("setting_effect")
    lab = Lab(build_store(tmp_path / "lab", {"runs": runs, "steps": steps}))
    assert lab.run_query(asked, {"setting": "workers"}).num_rows == 0
    with pytest.raises(NoDataError, match="no run has a setting 'wrokers'; there are rack, workers"):
        lab.run_query(asked, {"setting": "wrokers"})


def test_an_empty_answer_of_rows_that_exist_is_an_answer(store: Path) -> None:
    assert Lab(store).run_query(library.find("kernel_summary"), {"rank": 0, "top": 0}).num_rows == 0


def test_finding_a_query_parses_no_other() -> None:
    code = (
        "from tracelab.query import library; library.find('mfu'); print(library.shipped.cache_info().currsize)\n"
        "print(library.variants_of('mfu'), library.shipped.cache_info().currsize)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    named_by_tools = {name for name, query in library.library().items() if query.like}
    assert printed == f"1\n{{}} {1 + len(named_by_tools)}\n"


def test_unknown_query_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'nccl_share'"):
        library.find("ncl_share")


@pytest.mark.parametrize(
    ("word", "suggested"),
    [
        ("flame_graph", "'stacks'"),
        ("flamegraph", "'stacks'"),
        ("graph_breaks", "'compiled_regions'"),
        ("torch_compile", "'compiled_regions'"),
        ("vllm", "'serving_phases' or 'serving_steps'"),
        ("modules", "'module_time'"),
        ("flops", "'op_flop' or 'sweep_flop'"),
        ("xyz", "'"),
    ],
)
def test_the_word_of_a_subject_names_the_queries_about_it(word: str, suggested: str) -> None:
    with pytest.raises(UsageError, match=f"no query '{word}'; did you mean {suggested}"):
        library.find(word)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"rnak": 1}, "no parameter 'rnak'; it has run, rank, device, top"),
        ({"rank": "one"}, "rank = 'one' is not of type integer"),
        ({"rank": True}, "not of type integer"),
        ({"run": 3}, "not of type text"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, spec.Value], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        execute.bind(library.find("kernel_summary"), values)


def test_values_come_as_text_or_typed() -> None:
    each = library.find("memcpy_throughput")
    assert execute.bind(each, {"rank": "1", "small_bytes": 10}) == {
        "run": None,
        "rank": 1,
        "device": None,
        "small_bytes": 10,
    }


def test_a_choice_is_one_of_its_choices() -> None:
    each = library.find("roofline")
    assert execute.bind(each, {"half": "scalar"})["half"] == "scalar"
    with pytest.raises(UsageError, match="half = 'both' is not one of packed, scalar"):
        execute.bind(each, {"half": "both"})


@pytest.mark.parametrize("name", execute.RUN_PARAMS[1:])
def test_every_parameter_that_names_a_run_must_name_one_of_the_store(name: str, con: DuckDBPyConnection) -> None:
    each = next(each for each in QUERIES if name in {param.name for param in each.params})
    with pytest.raises(NoDataError, match="no run 'rr'; nearest: r"):
        execute.run(con, each, {name: "rr"})


@pytest.mark.parametrize("query", QUERIES, ids=ids)
def test_a_wide_answer_names_the_columns_of_its_table(query: spec.Query) -> None:
    many = len(query.columns) > spec.MOST_SHOWN
    assert bool(query.show) == many, (
        f"{len(query.columns)} columns: {'add show = […] to' if many else 'no show in'} the header"
    )


@pytest.mark.parametrize("query", library.library().values(), ids=list(library.library()))
def test_every_query_of_the_library_has_a_subject(query: spec.Query) -> None:
    assert query.subject is not None


@pytest.fixture(scope="module")
def extreme() -> MemoryStore:
    """A store of rows of the largest and smallest numbers."""
    numbers = (-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 2, 2**63 - 1)
    events = [
        {"source": source, "device": 0, "correlation": 1, "start_ns": start_ns, "dur_ns": dur_ns}
        for source in "abc"
        for start_ns in numbers
        for dur_ns in numbers
    ]
    named = [event | {"name": name} for event in events for name in NAMES]
    named += [event | {"name": "triton_poi_fused_add_0"} for event in events if event["source"] == "a"]
    sized = [event | {"direction": "HtoD", "size_bytes": size} for event in events for size in (-(2**63), 7, 2**63 - 1)]
    spans = [{name: event[name] for name in ("source", "start_ns", "dur_ns")} for event in events]
    tables = {"kernels": named, "memcpys": sized, "memsets": events, "graph_launches": events}
    tables |= {"api_calls": [span | {"api": "driver", "correlation": 1} for span in spans]}
    graph_calls = ("hipGraphLaunch", "hipStreamBeginCapture", "hipStreamEndCapture")
    tables["api_calls"] += [
        span | {"api": "runtime", "name": name, "correlation": 1} for span in spans for name in graph_calls
    ]
    style = {"scope": "cpu", "args": '{"style": "push_pop"}'}
    tables |= {"annotations": [span | style | {"name": f"step {at}"} for at, span in enumerate(spans)]}
    named_ranges = ("gloo:all_reduce", f"execute_context_{2**63 - 1}({2**63 - 1})_generation_1({2**63 - 1})")
    tables["annotations"] += [span | style | {"name": name} for span in spans for name in named_ranges]
    largest = {
        "input_shapes": f"[[{2**63 - 1},{2**63 - 1}],[{2**63 - 1},{2**63 - 1}]]",
        "input_types": '["float","float"]',
    }
    tables |= {"ops": [span | {"name": "aten::mm"} | shapes for span in spans for shapes in ({}, largest)]}
    tables["ops"] += [span | {"name": f"Torch-Compiled Region: 0/{2**63 - 1}"} for span in spans]
    tables |= {"python_frames": [span | {"name": f"nn.Module: Linear_{at}"} for at, span in enumerate(spans)]}
    noted = {"origin": "kernel", "raw_name": "allreduce", "dtype": "Float", "in_elements": 2**63 - 1, "group_size": 2}
    tables |= {"collectives": [event | noted | {"size_bytes": 2**63 - 1} for event in events]}
    tables |= {
        "memory_events": [
            {"device": 0, "time_ns": at, "address": 1, "size_bytes": by, "allocated_bytes": by}
            for at in numbers
            for by in numbers
        ]
    }
    numbers = (-1.7e308, 0.0, 1.7e308)
    metrics = ("gpu__time_duration.sum", "dram__bytes.sum", "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum")
    tables["kernel_metrics"] = [
        {"launch": at, "device": 0, "kernel": "what", "metric": metric, "value": number}
        for at, number in enumerate(numbers)
        for metric in metrics
    ]
    sums = {"kind": "api_calls", "calls": 2**63 - 1, "min_ns": -(2**63), "mean_ns": 1.7e308, "flop": 1.7e308}
    tables["summaries"] = [sums | {"name": str(by), "dur_ns": by} for by in (-(2**63), 0, 2**63 - 1, 2**63 - 2)]
    tables["runs"] = [TRAINED | {"batch_size": 2**31 - 1, "world_size": 2**31 - 1} | row for row in RUNS]
    steps = [span | {"phase": phase, "epoch": 2**31 - 1, "samples": 7} for span in spans for phase in PHASES]
    hostile = {"data_wait_ns": 2**63 - 1, "loss": 1.7e308, "accuracy": 1.7e308}
    tables["steps"] = [step | hostile | {"run": row["run"]} for step in steps for row in RUNS]
    tables["host_samples"] = [
        {"host": "h", "device": 0, "time_ns": 2**63 - 1, "sm_clock_hz": hz} for hz in (1.7e308, 1.0)
    ]
    tables["memory_peaks"] = [{"device": at, "allocated_bytes": by} for at in (0, 1) for by in (-(2**63), 2**63 - 1)]
    return MemoryStore().filled(tables)


@pytest.mark.slow
@pytest.mark.parametrize("each", QUERIES, ids=ids)
def test_no_value_of_64_bits_makes_a_query_fail(each: spec.Query, extreme: MemoryStore) -> None:
    answer = extreme.run_query(each, {param.name: "r" for param in each.params if param.type == "run"})
    assert answer.num_rows > 0, (
        f"{each.name} selects none of the rows, and proves nothing: add one that it selects to `extreme`"
    )
