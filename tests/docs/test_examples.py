"""Figures of the pages are those of the data, and links of the top-level pages exist."""

import json
import re
from pathlib import Path

import pytest

from tracelab.client import Lab
from tracelab.ingest import pipeline
from tracelab.query import spec

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
EXACT_TIME = (ROOT / "docs/concepts/exact-time.md").read_text("utf-8")
REPORTS = (ROOT / "docs/guides/reports.md").read_text("utf-8")
DENOMINATORS = (ROOT / "docs/concepts/denominators.md").read_text("utf-8")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("readme") / "lab"
    generated = ROOT / "data" / "generated"
    pipeline.ingest([ROOT / "data" / "cpu", generated / "generated-4rank-ddp", generated / "ncu-forward"], store=store)
    return Lab(store)


def test_the_kernels_of_the_page_overlap_as_doubles_only(tmp_path: Path) -> None:
    (text,) = re.findall(r"```json\n(.*?)```", EXACT_TIME, re.DOTALL)
    first, second = json.loads(text)["traceEvents"]
    (tmp_path / "trace.json").write_text(text)
    pipeline.ingest([tmp_path / "trace.json"], store=tmp_path / "lab")
    (row,) = Lab(tmp_path / "lab").query("kernel_concurrency").to_pylist()
    assert (first["ts"] + first["dur"] - second["ts"], row["concurrent_ns"]) == (0.25, 0)


def test_the_denominators_of_the_page(lab: Lab) -> None:
    listed = re.findall(
        r"^\| (?:all|the (?:time|window)).* \| ([\d,]+) ns \| ([\d.]+) % \|$", DENOMINATORS, re.MULTILINE
    )
    (share,) = (row for row in lab.query("nccl_share", rank=0).to_pylist() if row["collective"] == "broadcast")
    names = ("gpu_activity", "kernel_sum", "kernel_busy", "window")
    assert listed == [(f"{share[f'{name}_ns']:,}", f"{share[f'of_{name}_ratio'] * 100:.1f}") for name in names]


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "data/README.md"])
def test_a_link_leads_somewhere(document: str) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / document).read_text("utf-8"))
    assert [link for link in links if not (ROOT / document).parent.joinpath(link).exists()] == []


def test_the_report_header_of_the_page_is_valid(tmp_path: Path) -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", CONTRIBUTING, re.DOTALL)
    (header,) = re.findall(r"```sql\n(-- \[report\].*?)```", REPORTS, re.DOTALL)
    without_subject = query.replace('-- subject = "launches"\n', "")
    (tmp_path / "launch_gaps.sql").write_text(without_subject.replace("-- ///\nwith", f"{header}-- ///\nwith"))
    report = spec.parse(tmp_path / "launch_gaps.sql").report
    assert report is not None
    assert (report.section, [finding.by for finding in report.findings]) == ("launches", ["gap_ns"])


def test_the_example_query_runs(lab: Lab, tmp_path: Path) -> None:
    (text,) = re.findall(r"```sql\n(.*?)```", CONTRIBUTING, re.DOTALL)
    (tmp_path / "launch_gaps.sql").write_text(text)
    answer = lab.query(str(tmp_path / "launch_gaps.sql"), shortest_ns=5000)
    assert {row["stream"] for row in answer.to_pylist()} == {7, 20, 28}
