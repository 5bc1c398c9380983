"""Each check of the doctor finds what it is for, counts it, and leaves what is sound alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.build import build_store
from tests.memory import MemoryStore
from tests.unit.doctor_cases import CASES
from tests.unit.doctor_cases.rows import CALL, DAY_NS, KERNEL, LOADER, call, kernel, source
from tracelab import doctor
from tracelab.errors import NoDataError, UsageError
from tracelab.readers.base import diagnostic_codes
from tracelab.store import session

SOUND: dict[str, list[dict[str, object]]] = {
    "sources": [{"path": "traces/rank-0.json", "clock": "unix", "complete": True, "events_read": 9}],
    "devices": [{"rank": 0, "device": 0, "uuid": "GPU-a"}],
    "api_calls": [CALL | {"start_ns": DAY_NS, "dur_ns": 5, "correlation": 1}],
    "kernels": [KERNEL | {"start_ns": DAY_NS + 10, "dur_ns": 20, "correlation": 1, "grid_x": 1, "block_x": 32}],
    "memcpys": [{"direction": "HtoD", "device": 0, "pid": 1, "start_ns": DAY_NS + 40, "dur_ns": 5}],
    "ops": [{"name": "aten::mm", "pid": 1, "tid": 2, "start_ns": DAY_NS, "dur_ns": 9}],
    "annotations": [
        {"name": name, "scope": "cpu", "pid": 1, "tid": 2, "start_ns": DAY_NS, "dur_ns": duration}
        for name, duration in (("ProfilerStep#1", 90), (LOADER, 5))
    ],
}


def examined(memory: MemoryStore, *, run: str | None = None, codes: Sequence[str] = ()) -> list[dict[str, Any]]:
    return doctor.examine(memory.con, run, codes).to_pylist()


def found(memory: MemoryStore, code: str) -> list[dict[str, Any]]:
    return [row for row in examined(memory, codes=[code]) if row["run"] == "r"]


@pytest.mark.parametrize(("code", "tables", "expected"), CASES, ids=[case[0] for case in CASES])
def test_a_check_finds_what_it_is_for(
    code: str, tables: Mapping[str, list[dict[str, object]]], expected: list[tuple[object, ...]], memory: MemoryStore
) -> None:
    rows = found(memory.filled(tables), code)
    assert sorted(((row["severity"], row["rank"], row["count"], row["message"]) for row in rows), key=str) == expected


def test_every_check_has_a_case() -> None:
    assert {check.code for check in doctor.checks()} - {case[0] for case in CASES} == {"reader_note"}


def test_a_sound_run_has_no_finding(memory: MemoryStore) -> None:
    assert [row for row in examined(memory.filled(SOUND)) if row["code"] != "not_answerable"] == []


def test_what_readers_noticed_is_reported_with_their_own_words_once_a_run(memory: MemoryStore) -> None:
    note = {
        "severity": "info",
        "code": "rank_assumed",
        "count": 1,
        "message": "Rank 0 was assumed.",
        "how_to_fix": "X.",
    }
    tables = {
        "sources": [source("a"), source("b"), source("c", run="s")],
        "diagnostics": [
            note | {"source": "a"},
            note | {"source": "b", "count": 4},
            note | {"source": "c", "run": "s", "severity": "error", "how_to_fix": None},
            note | {"source": "c", "run": "s", "code": "negative_duration"},
        ],
    }
    rows = examined(memory.filled(tables), codes=["reader_note"])
    assert [
        (row["severity"], row["code"], row["run"], row["count"], row["message"], row["how_to_fix"]) for row in rows
    ] == [
        ("error", "rank_assumed", "s", 1, "c.json: Rank 0 was assumed.", None),
        ("info", "rank_assumed", "r", 5, rows[1]["message"], "X."),
    ]
    assert (
        rows[1]["message"].removeprefix(rows[1]["message"][0])
        == ".json: Rank 0 was assumed. (The same of 1 more source.)"
    )


def test_queries_without_rows_are_named_with_the_way_to_get_them(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0), kernel(0, run="s", source="b")], "memcpys": [{"run": "s", "source": "b"}]}
    rows = examined(memory.filled(tables))
    lacking = [row for row in rows if row["code"] == "not_answerable" and "memcpy_throughput" in row["message"]]
    assert [(row["severity"], row["run"]) for row in lacking] == [("info", "r")]
    assert "tables are empty: memcpys" in lacking[0]["message"]
    assert "kernel_summary" not in "".join(row["message"] for row in rows)
    assert lacking[0]["how_to_fix"]


def test_a_query_that_no_run_can_answer_is_reported_once(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0), kernel(0, run="s", source="b")]}
    rows = examined(memory.filled(tables))
    (lacking,) = [row for row in rows if "nvtx_sum" in row["message"]]
    assert (lacking["run"], "no data of all 2 runs" in lacking["message"]) == (None, True)


def test_of_several_runs_that_cannot_answer_a_query_the_first_are_named(memory: MemoryStore) -> None:
    runs = [kernel(0, run=run, source=run) for run in ("a", "b", "c", "d")]
    tables = {"kernels": runs, "ops": [{"run": "e", "source": "e", "start_ns": 0, "dur_ns": 5}]}
    messages = [row["message"] for row in examined(memory.filled(tables)) if row["code"] == "not_answerable"]
    assert any("no data of 4 of 5 runs (a, b, c, …), because" in message for message in messages)


def test_findings_are_of_the_run_that_is_requested(memory: MemoryStore) -> None:
    tables = {"kernels": [kernel(0, -1), kernel(0, -1, run="s", source="b")]}
    assert {row["run"] for row in examined(memory.filled(tables), run="s")} == {"s"}


def test_the_worst_comes_first(memory: MemoryStore) -> None:
    tables = {"sources": [source("a", complete=False)], "kernels": [kernel(0, 0), kernel(5, -1)]}
    severities = [row["severity"] for row in examined(memory.filled(tables))]
    assert severities == sorted(severities, key=doctor.SEVERITIES.index)
    assert set(severities) == {"error", "warning", "info"}


def test_an_unknown_run_is_no_data(memory: MemoryStore) -> None:
    with pytest.raises(NoDataError, match="no run 'rr'; nearest: r"):
        examined(memory.filled(SOUND), run="rr")


def test_every_printed_code_selects_its_findings(memory: MemoryStore) -> None:
    note = {"severity": "warning", "count": 1, "message": "M.", "how_to_fix": None}
    noted = ("ncu_rule", "cut_off", "device_unknown")  # the last is a check too
    tables = {
        "sources": [source("a", complete=False)],
        "kernels": [kernel(0, -1), kernel(0, 0, rank=1, device=None)],
        "diagnostics": [note | {"source": "a", "code": code} for code in noted],
    }
    rows = examined(memory.filled(tables))
    codes = [row["code"] for row in rows]
    assert {*noted, "source_incomplete", "not_answerable"} <= set(codes)
    assert codes.count("device_unknown") == 2
    for code in codes:
        selected = examined(memory, codes=[code])
        assert sorted(row["message"] for row in selected) == sorted(r["message"] for r in rows if r["code"] == code)


def test_a_code_of_a_reader_or_of_verify_is_no_unknown_check() -> None:
    codes = {*diagnostic_codes(), *doctor.BUILT_IN_CHECKS}
    assert {"ncu_rule", "compressed_cut_off", "rank_assumed", "damaged_file"} <= codes
    assert "reader_note" in {check.code for check in doctor.find_checks(sorted(codes))}


def test_an_unknown_check_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'rank_twice'"):
        doctor.find_checks(["rank_twise"])


def test_of_names_that_took_equally_long_the_last_is_reported(memory: MemoryStore) -> None:
    names = [f"mystery{number}" for number in (3, 9, 1, 7, 5)]
    kernels = [
        {"name": name, "device": 0, "stream": 7, "start_ns": 10 * at, "dur_ns": 10} for at, name in enumerate(names)
    ]
    (row,) = found(memory.filled({"kernels": kernels}), "unclassified")
    assert row["message"].endswith("unclassified, in 5 names; the longest: mystery9.")


def test_the_unclassified_share_is_that_of_the_breakdown(memory: MemoryStore) -> None:
    memory.filled(next(case[1] for case in CASES if case[0] == "unclassified"))
    ratios = memory.query("gpu_breakdown").column("unclassified_ratio").to_pylist()
    assert ratios == [0.05, 0.6]
    assert [row["message"].split("(")[1].split(")")[0] for row in found(memory, "unclassified")] == ["60 %", "5 %"]


@pytest.mark.parametrize("check", doctor.checks(), ids=[check.code for check in doctor.checks()])
def test_rendered_sql_finds_the_same(check: doctor.Check, memory: MemoryStore) -> None:
    memory.filled(next((case[1] for case in CASES if case[0] == check.code), SOUND))
    for run in (None, "r"):
        rendered = memory.con.sql(doctor.render_sql(check, run)).to_arrow_table().to_pylist()
        assert sorted(row["message"] for row in rendered) == sorted(
            row["message"] for row in examined(memory, run=run, codes=[check.code])
        )


def test_rendered_sql_runs_in_another_client_after_init(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", SOUND)
    with duckdb.connect() as other:
        other.execute(session.init_sql(store))
        for check in doctor.checks():
            other.sql(doctor.render_sql(check, "r")).fetchall()


@pytest.mark.parametrize("check", doctor.checks(), ids=[check.code for check in doctor.checks()])
def test_a_check_states_what_a_row_is_and_what_to_do(check: doctor.Check) -> None:
    assert "A row is" in check.prose
    assert check.how_to_fix.endswith(".") or check.code == "reader_note"
    assert check.sql.splitlines()[-1].startswith("order by")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select 1", "c.sql:1: no header; write one between the lines `-- /// check`"),
        ('-- /// check\n-- title = "T"\n-- ///\nselect 1', "c.sql:2: the header of a check has title, severity, how"),
        (
            '-- /// check\n-- title = "T"\n-- severity = "bad"\n-- how_to_fix = "X."\n-- ///\nselect 1',
            "c.sql:2: severity is one of error, warning, info",
        ),
    ],
)
def test_a_malformed_check_names_file_and_line(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "c.sql"
    path.write_text(text)
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        doctor.parse_check(path)


def test_no_value_of_64_bits_makes_the_doctor_fail(memory: MemoryStore) -> None:
    numbers = (-(2**63), -(2**62), -1, 0, 2**62, 2**63 - 1)
    times = [
        {"source": label, "pid": 1, "correlation": 1, "start_ns": start_ns, "dur_ns": dur_ns}
        for label in "ab"
        for start_ns in numbers
        for dur_ns in numbers
    ]
    spans = [{name: time[name] for name in ("source", "pid", "start_ns", "dur_ns")} for time in times]
    tables = {
        "sources": [source("a"), source("b")],
        "kernels": [time | {"device": 0, "stream": 7, "name": "what"} for time in times]
        + [kernel(-DAY_NS - 2**62, correlation=2)],
        "graph_launches": [time | {"device": 0} for time in times],
        "api_calls": [time | {"api": "runtime"} for time in times] + [call(2**62 - DAY_NS - 6, correlation=2)],
        "other_events": [span | {"category": "overhead"} for span in spans],
        "ops": spans,
        "diagnostics": [{"source": "a", "severity": "info", "code": "x", "count": 2**63 - 1, "message": "M."}] * 2,
    }
    codes = {row["code"] for row in examined(memory.filled(tables))}
    assert {"negative_duration", "kernel_before_launch", "stream_overlap", "profiler_overhead"} <= codes
