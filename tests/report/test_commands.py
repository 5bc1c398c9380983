"""Every command that a summary or a report shows runs as it is, pasted into a shell in the same folder."""

import html
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracelab
from tests.build import build_store
from tests.report.few_queries import report_of
from tests.stores import eight_ranks
from tracelab.cli import main
from tracelab.output.commands import StoreCommands
from tracelab.query.library import library
from tracelab.report.summary import summarize
from tracelab.report.summary.text import Summaries

JOB = "generated-8rank-pipeline"
COMMAND = re.compile(r"tracelab [a-z]")
METRIC = {"launch": 0, "device": 0, "kernel": "k", "metric": "dram__bytes.sum", "value": 7.0}


@pytest.fixture(scope="module")
def job(shared_stores: Path) -> Summaries:
    return tracelab.open(eight_ranks(shared_stores)).summary()


def fails(command: str) -> bool:
    """Return whether a command fails that a shell splits into words."""
    program, *words = shlex.split(command)
    return program != "tracelab" or CliRunner().invoke(main, words).exit_code != 0


def commands_of_text(text: str) -> list[str]:
    """Return the commands of a text; each ends its line."""
    return [line[line.index("tracelab ") :] for line in text.splitlines() if COMMAND.search(line)]


def commands_of_page(page: str) -> list[str]:
    """Return the commands on a page, but for the bare names of commands in sentences."""
    codes = [html.unescape(each) for each in re.findall(r"<code>(.*?)</code>", page)]
    return [each for each in codes if COMMAND.match(each) and len(each.split()) > 2]


def test_every_command_of_a_summary_runs(job: Summaries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = commands_of_text(repr(job))
    monkeypatch.setattr(summarize, "needed_queries", lambda: [library()["gpu_breakdown"]])  # all take seconds
    first = job[0].leads[:3]
    assert len(shown) == sum(1 + (each.next_command != each.figures_command) for each in first) + 4
    as_data = [row[name] for row in job.rows.to_pylist() for name in ("next", "figures", "what_if") if row[name]]
    assert f"tracelab query what_if --run {JOB} --change on_time --of-rank 2 --store {job[0].commands.store}" in as_data
    on_page = commands_of_page(job._repr_html_())
    (whole,) = set(shown) - {*as_data, *on_page}  # data and page have all findings
    assert whole.startswith(f"tracelab summary --run {JOB} --all-findings --store ")
    of_query = {" ".join(each.split()[:3]): each for each in (*as_data, *on_page) if "--columns" in each}
    others = {each for each in (*shown, *as_data, *on_page) if "--columns" not in each}
    assert [command for command in {*others, *of_query.values()} if fails(command)] == []


def test_the_command_of_a_finding_shows_its_figures(job: Summaries, monkeypatch: pytest.MonkeyPatch) -> None:
    """The late rank's factor and cost, and the times of the step that waits longest for data."""
    late = next(each for each in job[0].leads if each.query == "straggler_causes")
    loader = next(each for each in job[0].leads if each.query == "data_loader_wait")
    for lead, exact in (
        (late, ("1.6439293297719695", "gemm 65 %", "step 5 and 4 other steps")),
        (loader, ("3193122",)),
    ):
        assert lead.figures_command.split()[:5] == ["tracelab", "query", lead.query, "--run", JOB]
        _, *words = shlex.split(lead.figures_command)
        shown = CliRunner().invoke(main, words).stdout
        assert [each for each in exact if each not in shown] == [], shown


def test_every_command_of_a_report_runs(shared_stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = eight_ranks(shared_stores)
    page = report_of(("gpu_breakdown", "straggler_causes"), store)
    shown = set(commands_of_page(page))
    assert f"tracelab query straggler_causes --format csv --store {store}" in shown
    own = [command for command in shown if "--format csv" in command]
    assert [command for command in own if fails(command)] == []


def test_the_commands_of_a_run_without_findings_name_the_store(tmp_path: Path) -> None:
    tables = {
        "kernel_metrics": [METRIC | {"run": "counted"}],
        "summaries": [{"run": "summed", "kind": "gpu_activities", "name": "k", "calls": 1, "dur_ns": 5}],
        "sources": [{"run": "empty", "source": "s"}],
    }
    store = build_store(tmp_path / "my lab", tables)
    shown = commands_of_text(repr(tracelab.open(store).summary()))
    options = f"--store '{store}'"
    assert shown == [
        f"tracelab query roofline --run counted {options}",
        f"tracelab query recordings --run empty {options}",
        f"tracelab query profiler_summary --run summed {options}",
    ]
    assert [command for command in shown if fails(command)] == []


def test_the_default_store_needs_no_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = build_store(tmp_path / "lab", {"kernel_metrics": [METRIC | {"run": "counted"}]})
    shown = "tracelab query roofline --run counted"
    assert commands_of_text(repr(tracelab.open(store).summary())) == [f"{shown} --store {store}"]
    monkeypatch.setenv("TRACELAB_STORE", str(store))
    assert commands_of_text(repr(tracelab.open(store).summary())) == [shown]


def test_commands_name_a_store_and_what_they_read_of_it() -> None:
    assert StoreCommands().query("mfu", run="r") == "tracelab query mfu --run r"
    assert StoreCommands(Path("lab")).compare("a", "b") == "tracelab compare a b --store lab"
    assert StoreCommands(aligned=True).summary("--run", "r") == "tracelab summary --run r --aligned"
