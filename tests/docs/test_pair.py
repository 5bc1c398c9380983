"""docs/guides/comparing.md shows the query's answer for two real runs, and their nsys reports match those of nsys."""

import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from tests import corpus
from tests.compare.test_agreement import assert_agreement
from tracelab.client import Lab
from tracelab.compare import writers
from tracelab.ingest import pipeline
from tracelab.output.labels import Quantity, format_scaled

pytestmark = corpus.needs_traces

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "comparing.md").read_text("utf-8")
FILES = {
    run: corpus.ROOT / "nsys" / "nersc_sc22" / f"4gpu_{run}.qdrep.nsys2022_4.sqlite"
    for run in ("baseline", "nobroadcast")
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    store = tmp_path_factory.mktemp("pair") / "lab"
    for run, path in FILES.items():
        pipeline.ingest([path], store=store, run=run)
    return Lab(store)


def test_the_difference_on_the_page_is_that_of_the_files(lab: Lab) -> None:
    (table,) = re.findall(r"<!-- pair -->\n(.*?)<!-- /pair -->", PAGE, re.DOTALL)
    told = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]
    answer = {(row["section"], row["name"]): row for row in lab.query("run_difference").to_pylist()}
    shown = []
    for section, name, *_ in told:
        row = answer[section, name]
        sides = [
            row[f"{side}_said"] or format_scaled(row[f"{side}_each_ns"], Quantity.DURATION)
            for side in ("before", "after")
        ]
        change = "" if row["change_ratio"] is None else f"{row['change_ratio']:+.1%}".replace("%", " %")
        shown.append([section, name, *sides, change, row["change"]])
    assert told == shown
    assert (answer["memcpys", "DtoD"]["before_count"], answer["memcpys", "DtoD"]["after_count"]) == (596, 54)
    assert len(answer) == int(re.findall(r"some of the (\d+) rows", PAGE)[0])


def test_the_comparison_on_the_page_is_that_of_the_files(lab: Lab) -> None:
    page = (Path(__file__).parents[2] / "docs" / "guides" / "regressions.md").read_text("utf-8")
    (shown,) = re.findall(r"<!-- comparison -->\n```text\n(.*?)```\n<!-- /comparison -->", page, re.DOTALL)
    assert shown == writers.write_text(lab.compare("baseline", "nobroadcast").comparison, width=100)


def test_the_comparison_and_the_difference_have_the_same_figures(lab: Lab) -> None:
    comparison = lab.compare("baseline", "nobroadcast").comparison
    difference = lab.query("run_difference", top_rows=999).to_pylist()
    shared = assert_agreement(comparison, difference)
    assert shared >= {row.metric for row in comparison.rows if row.family in ("kernel", "copy")}
    assert shared >= {"step_time", "exposed_communication", "exposed_copies", "idle"}
    (copies,) = [row for row in difference if (row["section"], row["name"]) == ("memcpys", "DtoD")]
    assert (copies["before_each_ns"], copies["after_each_ns"]) == (852_093, 0)


def test_sums_are_those_of_plain_sqlite(lab: Lab) -> None:
    rows = {(row["section"], row["name"]): row for row in lab.query("run_difference", top_rows=999).to_pylist()}
    for side, run in (("before", "baseline"), ("after", "nobroadcast")):
        with closing(sqlite3.connect(f"file:{FILES[run]}?mode=ro&immutable=1", uri=True)) as file:
            kernels = file.execute(
                "select value, count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_KERNEL "
                "join StringIds on id = demangledName group by value"
            ).fetchall()
            copies = file.execute(
                "select count(*), sum(end - start) from CUPTI_ACTIVITY_KIND_MEMCPY where copyKind = 8"
            ).fetchone()
        found = {
            name: (row[f"{side}_count"], row[f"{side}_ns"])
            for (section, name), row in rows.items()
            if section == "kernels"
        }
        assert {name: (count, dur) for name, count, dur in kernels} == {
            name: told for name, told in found.items() if told[0]
        }
        assert (rows["memcpys", "DtoD"][f"{side}_count"], rows["memcpys", "DtoD"][f"{side}_ns"]) == copies


@pytest.mark.parametrize(
    ("report", "row", "name"),
    [
        ("cuda_gpu_kern_sum", ("11.8", 156900460, 184, "852719.9", "758635.5", 105119, 5701790, "687495.4"), "nccl"),
        (
            "cuda_gpu_mem_time_sum",
            ("13.3", 25109550, 596, "42130.1", "8384.0", 3232, 226238, "54548.3"),
            "Device-to-Device",
        ),
        ("cuda_api_sum", ("39.4", 583392679, 87, "6705663.0", "133678.0", 3567, 27439013, "9549045.5"), "StreamSync"),
        ("nvtx_sum", ("13.4", 472389396, 29, "16289289.5", "16194453.0", 16166299, 18740633, "473303.2"), "forward"),
    ],
)
def test_a_row_of_a_report_is_what_nsys_2023_4_prints(
    lab: Lab, report: str, row: tuple[object, ...], name: str
) -> None:
    (found,) = (each for each in lab.query(report, run="baseline").to_pylist() if name in str(list(each.values())[-1]))
    numbers = [
        value for title, value in found.items() if title.endswith((" (%)", " (ns)", "Instances", "Count", "Calls"))
    ]
    assert [str(value) if isinstance(value, Decimal) else value for value in numbers] == list(row)


def test_the_sizes_are_what_nsys_2023_4_prints(lab: Lab) -> None:
    found = [
        tuple(map(str, row.values()))[2:] for row in lab.query("cuda_gpu_mem_size_sum", run="baseline").to_pylist()
    ]
    assert found == [
        ("16365.350", "805", "20.330", "0.008", "0.000", "134.234", "40.841", "[CUDA memset]"),
        ("14083.775", "596", "23.630", "0.066", "0.000", "134.218", "36.305", "[CUDA memcpy Device-to-Device]"),
        ("3624.407", "912", "3.974", "4.194", "0.001", "5.243", "1.786", "[CUDA memcpy Host-to-Device]"),
        ("0.000", "23", "0.000", "0.000", "0.000", "0.000", "0.000", "[CUDA memcpy Device-to-Host]"),
    ]


def test_a_launch_is_what_nsys_2023_4_prints(lab: Lab) -> None:
    (found,) = (
        row
        for row in lab.query("cuda_kern_exec_sum", run="baseline").to_pylist()
        if row["Kernel Name"].startswith("CudaCodeGen::kernel1(")
    )
    numbers = (
        "23 23 338075878.0 338319674.0 333868602 338364903 929209.1 10355.8 7966.0 7565 57922 10391.4 "
        "337665773.7 337911272.0 333406426 337958504 940556.3 399748.5 400189.0 396382 404254 1841.5 cuLaunchKernel"
    )
    assert " ".join(map(str, list(found.values())[5:-1])) == numbers
