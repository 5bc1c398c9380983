"""What stands in a report: the answers' exact figures, what they mean, and nothing that a name smuggles in."""

import base64
import hashlib
import re
from pathlib import Path

import pytest

from tests.build import build_store
from tests.report.conftest import GPU, HOSTILE
from tests.report.few_queries import report_of
from tests.report.reading import Found, column, read
from tracelab.errors import NoDataError
from tracelab.query import spec
from tracelab.query.library import library
from tracelab.report.answers import open_report_session
from tracelab.report.document import report
from tracelab.report.findings import limit_paper
from tracelab.report.health import render_checks
from tracelab.report.page import SCRIPTS, json_in_html
from tracelab.report.verdict import compare_pair, render_verdict

ENTERING = [each for each in library().values() if each.report is not None]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """The report of one run: 500 kernels on each of four devices, and two on a fifth."""
    kernels = [
        GPU | {"name": f"k{at}", "device": device, "start_ns": 20 * at, "dur_ns": 10 + at % 5}
        for device in range(4)
        for at in range(500)
    ]
    kernels += [
        GPU | {"name": "long", "device": 4, "start_ns": 0, "dur_ns": 2**53 + 1},
        GPU | {"name": "short", "device": 4, "start_ns": 2**53 + 5, "dur_ns": 3},
    ]
    store = build_store(tmp_path_factory.mktemp("many") / "lab", {"kernels": kernels})
    return read(report_of(("kernel_summary", "gpu_breakdown", "memcpy_throughput", "memory_live"), store))


def test_figures_in_the_tables_are_the_answers_to_the_nanosecond(many: Found) -> None:
    assert column(many, "kernel_summary", "dur_ns")[-2:] == ["9007199254740993", "3"]
    assert column(many, "gpu_breakdown", "idle_ns")[-1] == "4"


def test_a_part_without_data_is_one_line_at_the_end_with_the_way_to_capture_it(many: Found) -> None:
    assert "memcpy_throughput" not in many.tables
    assert "Memory copy throughput" in many.texts["section-lacking"]
    assert "profile with the PyTorch profiler and profile_memory=True" in many.texts["section-lacking"]
    assert ("section", {"id": "memory", "aria-labelledby": "memory-title"}) not in many.elements


def test_a_long_answer_is_cut_with_a_count_and_the_command_that_gives_all(many: Found) -> None:
    shown = len(many.tables["kernel_summary"])
    assert 100 <= shown <= 300
    assert (
        f"{2_002 - shown:,} rows are not shown; all: tracelab query kernel_summary --format csv"
        in (many.texts["kernel_summary"])
    )


def test_each_device_keeps_its_first_rows_where_an_answer_is_cut(many: Found) -> None:
    devices = column(many, "kernel_summary", "device")
    assert {devices.count(device) for device in "0123"} == {(len(devices) - 2) // 4}
    assert set(column(many, "kernel_summary", "dur_ns")[:-2]) == {"14"}


def test_two_runs_are_compared_also_where_the_store_has_more(lab: Path) -> None:
    found = read(report_of(("run_difference", "gpu_breakdown"), lab, ("second", "first")))
    assert set(column(found, "run_difference", "before")) == {"second"}
    assert column(found, "gpu_breakdown", "run") == ["second", "first"]


def test_two_runs_differ_in_kernels_where_one_takes_a_percent_more_of_the_time(tmp_path: Path) -> None:
    """Of windows of 1,000 and 1,010 ns, a kernel of 100 ns takes 110, or 109, in the second run."""
    texts = []
    for more in (110, 109):
        kernels = [
            GPU | {"run": run, "name": name, "start_ns": start, "dur_ns": dur_ns}
            for run, spent in (("a", 100), ("b", more))
            for name, start, dur_ns in (("long", 0, 900), ("short", 900, spent))
        ]
        store = build_store(tmp_path / str(more), {"kernels": kernels})
        texts.append(read(report_of(("run_difference",), store, ("a", "b"))).texts["run_difference"])
    assert ["the kernels of the two runs is short: 10 ns per" in each.replace("\u00a0", " ") for each in texts] == [
        *(True, False),
    ]
    assert ["no kernel and no op differs by 1 % of the time" in each for each in texts] == [False, True]


def test_an_unknown_run_is_refused_with_the_nearest(lab: Path) -> None:
    with pytest.raises(NoDataError, match="no run 'frist'; nearest: first"):
        report(lab, ("frist",))


def test_hostile_names_are_text_and_nothing_else(page: str) -> None:
    found = read(page)
    scripts = [tag for tag, _ in found.elements].count("script")
    assert (len(found.scripts), len(found.blocks), scripts) == (len(SCRIPTS) + 2, 1, len(SCRIPTS) + 3)  # the timeline's
    assert not [tag for tag, _ in found.elements if tag in {"img", "iframe", "object", "link", "base", "form"}]
    assert not [name for _, attributes in found.elements for name in attributes if name.startswith("on")]
    shown = column(found, "kernel_summary", "kernel")
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[2]} <= set(shown)
    assert "\x1b" not in page


def test_commands_leave_times_as_they_are_recorded(page: str) -> None:
    assert "--aligned" not in page


def test_nothing_is_loaded_from_anywhere(page: str) -> None:
    for tag, attributes in read(page).elements:
        assert "src" not in attributes, tag
        assert (attributes.get("href") or "#").startswith("#")


def test_the_policy_names_exactly_the_scripts_of_the_page(page: str) -> None:
    found = read(page)
    (policy,) = (each["content"] for _, each in found.elements if each.get("http-equiv") == "Content-Security-Policy")
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found.scripts]
    assert re.findall(r"'sha256-([^']+)'", str(policy)) == digests
    assert str(policy).startswith("default-src 'none'; script-src 'sha256-")


def test_the_report_of_two_runs_begins_with_the_verdict_on_them(page: str) -> None:
    assert re.findall(r'<section id="section-(\w+)"', page)[:2] == ["comparison", "summary"]
    article = page[page.index("<article id=verdict") : page.index('id="run_difference"')]
    assert "first → second" in article
    assert "tracelab compare first second" in article


def test_the_run_that_is_named_first_is_the_base(lab: Path) -> None:
    with open_report_session(lab, ("second", "first")) as session:
        assert "second → first" in render_verdict(session, compare_pair(session))


def test_a_check_that_finds_something_in_several_runs_is_one_item() -> None:
    found = {"severity": "warning", "rank": None, "count": 1, "how_to_fix": "Record <again>."}
    rows = [found | {"code": "late", "run": run, "message": f"{run} is late"} for run in ("a", "<b>")]
    rows += [found | {"code": "cut", "run": "a", "rank": rank, "message": "cut"} for rank in (0, 1)]
    late, cut = render_checks(rows)
    assert late.count("<li") == 3
    assert "2 runs, such as: a is late" in late
    assert late.count("Record &lt;again&gt;.") == 1
    assert '<li data-run="&lt;b&gt;">' in late
    assert cut.count("<li") == 1
    assert "a · rank 0 · and 1 more<br>cut" in cut


def test_paper_has_three_findings_of_a_query_and_counts_the_others() -> None:
    items = [f"<li data-finding={at}>{at}" for at in range(5)]
    assert limit_paper(items[:3]) == "".join(items[:3])
    assert limit_paper(["", *items]) == (
        "<li data-finding=0>0<li data-finding=1>1<li data-finding=2>2<li class=screen data-finding=3>3"
        "<li class=screen data-finding=4>4<li class=paper>2 more findings are in the file."
    )


def test_json_for_scripts_cannot_end_its_element() -> None:
    assert json_in_html({"name": "</script>&<!--"}) == r'{"name":"\u003c/script\u003e\u0026\u003c!--"}'


def test_every_part_has_a_heading_a_definition_and_sql(page: str) -> None:
    found = read(page)
    for name in found.tables.keys() - {"verdict"}:
        text = found.texts[name]
        assert library()[name].title in text
        assert "Definition" in text
        assert library()[name].sql.splitlines()[-1] in text


def test_a_query_whose_hints_exclude_any_figure_does_not_run(tmp_path: Path) -> None:
    store = build_store(tmp_path / "lab", {"kernels": [GPU | {"run": "r", "name": "k", "start_ns": 0, "dur_ns": 9}]})
    with open_report_session(store, ()) as session:
        causes, stragglers, breakdown = (
            session.run_for_section(library()[name]) for name in ("straggler_causes", "stragglers", "gpu_breakdown")
        )
    assert (causes.table, causes.sql, stragglers.table, stragglers.sql) == (None, "", None, "")
    assert causes.missing_reason.endswith("ingest the traces of all ranks as one run")
    assert stragglers.missing_reason.startswith("no collective was found on several ranks")
    assert breakdown.table is not None
    assert breakdown.sql


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cells of one sweep, one of another, and a run of none."""
    sweeps = {"a1": "a", "a2": "a", "b1": "b", "free": None}
    described = [{"run": run, "source": run, "sweep": sweep, "status": "ok"} for run, sweep in sweeps.items()]
    kernels = [GPU | {"run": run, "source": run, "name": "k", "start_ns": 0, "dur_ns": 9} for run in sweeps]
    return build_store(tmp_path_factory.mktemp("swept") / "lab", {"runs": described, "kernels": kernels})


def test_of_chosen_runs_only_their_own_sweeps_are_shown(swept: Path) -> None:
    assert column(read(report_of(("sweep_status",), swept, ("b1", "a2"))), "sweep_status", "sweep") == ["a", "b"]
    found = read(report_of(("sweep_status",), swept, ("b1",)))
    assert column(found, "sweep_status", "sweep") == ["b"]
    assert "tracelab query sweep_status --sweep b --format csv" in found.texts["sweep_status"]


def test_runs_that_are_no_cells_have_no_part_about_sweeps(swept: Path) -> None:
    found = read(report_of(("sweep_status",), swept, ("free",)))
    assert "sweep_status" not in found.tables
    assert "none of the runs is a cell of a sweep" in found.texts["section-lacking"]


def test_a_part_names_the_runs_that_it_is_about(swept: Path) -> None:
    found = read(report_of(("gpu_breakdown", "sweep_status", "sweep_coverage"), swept))
    parts = {each["id"]: each.get("data-runs") for tag, each in found.elements if tag == "article"}
    assert parts["gpu_breakdown"] is None  # all of them
    assert (parts["sweep_status"], parts["sweep_coverage"]) == ("0 1 2", "0 1 2")


@pytest.mark.parametrize("each", ENTERING, ids=lambda each: each.name)
def test_every_query_has_sentences_and_each_advises(each: spec.Query) -> None:
    assert each.report is not None
    assert each.report.findings
    assert all(say.advice for say in each.report.findings)
