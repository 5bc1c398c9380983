"""What a user gets who installs tracelab: the wheel alone, in a clean environment, answers with the right numbers."""

import csv
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tracelab
from tests.wheel.conftest import CHECKOUT, Run
from tracelab.query.library import library

pytestmark = pytest.mark.wheel

RUN = CHECKOUT / "data" / "generated" / "generated-4rank-ddp"
TRUTH = json.loads((CHECKOUT / "data" / "generated" / "truth.json").read_text("utf-8"))["ranks"]["0"]

FIGURES = {
    "gpu_breakdown": ({}, "idle_ns", TRUTH["idle_ns"]),
    "kernel_concurrency": ({}, "concurrent_ns", TRUTH["concurrent_ns"]),
    "kernel_summary": (
        {"kernel": "triton_poi_fused_add_relu_0"},
        "dur_ns",
        TRUTH["kernel_summary"]["triton_poi_fused_add_relu_0"]["dur_ns"],
    ),
    "memcpy_throughput": (
        {"direction": "HtoD", "src_memory": "Pinned"},
        "size_bytes",
        TRUTH["copies"]["Memcpy HtoD (Pinned -> Device)"]["size_bytes"],
    ),
    "nccl_share": ({"collective": "broadcast"}, "dur_ns", TRUTH["collectives"]["broadcast"]["dur_ns"]),
}
"""Of each query: which row of rank 0, which column, and what the generator of the trace says is in it."""


@pytest.fixture(scope="module")
def answered(installed: Run) -> Run:
    generated = RUN.parent
    recorded = CHECKOUT / "data" / "cpu" / "alexnet-batch8.pt.trace.json.gz"
    sweep = generated / "sweeps" / "generated-training"
    installed("ingest", RUN, recorded, generated / "ncu-forward", generated / "nvprof", sweep)
    return installed


LIST_COLUMNS = """
import json
from tracelab.query.library import library
print(json.dumps({name: list(query.columns) for name, query in library().items()}))
"""


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def ours(folder: Path) -> set[str]:
    """The files of a folder of the checkout, as paths below it."""
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".pyc"} and "__pycache__" not in path.parts
    }


def test_the_version(installed: Run) -> None:
    assert installed("--version") == f"tracelab {tracelab.__version__}\n"


def test_the_installed_library_is_the_checkouts(installed: Run) -> None:
    assert {row["query"] for row in rows(installed("query"))} == set(library())


def test_every_query_of_the_wheel_loads(python: Run) -> None:
    listed = json.loads(python("-c", LIST_COLUMNS))
    assert listed == {name: list(query.columns) for name, query in library().items()}


@pytest.fixture(scope="module")
def answers(answered: Run, python: Run) -> dict[str, list[dict[str, str]]]:
    """The rows of each query that has a figure, by one process, which takes longer to start than to answer."""
    options = ["--format", "csv", "--run", RUN.name, "--rank", "0"]
    texts = json.loads(python("-c", ASK, *(json.dumps(["query", name, *options]) for name in FIGURES)))
    return {name: rows(text) for name, text in zip(FIGURES, texts, strict=True)}


ASK = """
import contextlib, io, json, sys
from tracelab.cli import main
texts = []
for arguments in map(json.loads, sys.argv[1:]):
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(stream):
        main(arguments, standalone_mode=False)
    stream.flush()
    texts.append(stream.buffer.getvalue().decode())
print(json.dumps(texts))
"""


@pytest.mark.parametrize(("name", "row", "column", "figure"), [(name, *rest) for name, rest in FIGURES.items()])
def test_a_figure_is_the_generators(
    answers: dict[str, list[dict[str, str]]], name: str, row: dict[str, str], column: str, figure: Any
) -> None:
    assert [each[column] for each in answers[name] if row.items() <= each.items()] == [str(figure)]


def test_a_recorded_trace_can_be_queried(answered: Run) -> None:
    asked = "select count(*) as ops from ops where run = 'alexnet-batch8'"
    assert rows(answered("sql", asked, "--format", "csv")) == [{"ops": "1536"}]


def test_a_plot_is_drawn(answered: Run, tmp_path: Path) -> None:
    answered("query", "gpu_breakdown", "--plot", tmp_path / "breakdown.svg")
    assert (tmp_path / "breakdown.svg").read_text("utf-8").startswith("<?xml")


def test_a_report_is_written(answered: Run, tmp_path: Path) -> None:
    answered("report", "--run", RUN.name, "-o", tmp_path / "report.html")
    assert f'<td title="{TRUTH["idle_ns"]} ns">' in (tmp_path / "report.html").read_text("utf-8")


def test_the_wheel_holds_the_package_the_queries_the_collectors_and_the_examples_and_nothing_else(wheel: Path) -> None:
    expected = {f"tracelab/{name}" for name in ours(CHECKOUT / "src" / "tracelab")}
    expected |= {f"tracelab/_queries/{name}" for name in ours(CHECKOUT / "queries")}
    expected |= {f"tracelab/_collectors/{name}" for name in ours(CHECKOUT / "collectors")}
    for shown in ("studies", "smoke", "generated/ncu-forward", "generated/nvprof", "generated/sweeps"):
        expected |= {f"tracelab/_data/{shown}/{name}" for name in ours(CHECKOUT / "data" / shown)}
    licences = ("licenses/LICENSE", "licenses/src/tracelab/report/assets/echarts.LICENSE")
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", *licences)
    expected |= {f"tracelab-{tracelab.__version__}.dist-info/{name}" for name in metadata}
    with zipfile.ZipFile(wheel) as archive:
        assert set(archive.namelist()) == expected
        altered = [
            name
            for name in expected
            if name.startswith("tracelab/_queries/")
            and archive.read(name) != (CHECKOUT / "queries" / name.removeprefix("tracelab/_queries/")).read_bytes()
        ]
    assert altered == []


def test_the_sdist_holds_no_leftovers(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = archive.getnames()
    assert [name for name in names if {".venv", "__pycache__", "demo-out", "lab"} & set(Path(name).parts)] == []
