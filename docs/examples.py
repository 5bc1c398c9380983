"""Run queries on the runs in data/, for the examples of the documentation."""

import io
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from matplotlib.text import Text
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from tracelab import plot
from tracelab.client import Lab
from tracelab.errors import NoDataError, TracelabError
from tracelab.ingest import pipeline
from tracelab.output.table_view import view_lines
from tracelab.output.text_table import table_lines
from tracelab.query import library
from tracelab.query.spec import Query, Value

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from tests.build import build_store  # noqa: E402
from tests.golden import cases  # noqa: E402
from tests.stores import shared_store, study_examples  # noqa: E402

RUN = "generated-4rank-ddp"
CHANGED_RUN = "generated-4rank-nobroadcast"
JOB_RUN = "generated-8rank-pipeline"
JOB_QUERIES = frozenset(
    (
        *("clock_offsets", "collective_wait", "critical_path", "critical_path_rows", "critical_path_timeline"),
        *("pipeline_bubble", "process_groups", "rank_balance", "role_overlap", "step_frontier", "step_lateness"),
        *("straggler_causes", "stragglers", "what_if"),
    )
)
"""Queries across ranks, whose pages show the simulated job of eight ranks, all of them."""
GPU_QUERIES: dict[str, dict[str, Value]] = {
    "roofline": {"run": "resnet18-ncu"},
    "mfu": {"run": "vgg16-batch64", "from": "shapes"},
    "kernel_concurrency": {"run": "streams"},
}
"""Queries whose pages show what was recorded on a GPU, and their parameters."""
_FOLDERS_OF_MANY_RUNS = ("sweeps", "nvprof")
ROWS = 8
WIDTH = 118
PICTURE_TEXTS = "Texts"
"""Key of a picture's metadata: what is written in it, a line each."""
COLORS = 64
"""Colors of a picture in the repository: looks like full color in a third of the bytes."""


STORES = "TRACELAB_DOCS_STORES"
"""Environment variable: a folder where ingested stores are kept and shared with the tests; a temporary one if unset."""


@dataclass(frozen=True)
class Example:
    """A query's command, answer and picture.

    Without an answer, `problem` is the reason. `case` is the golden case that supplied the rows if no run in data/ can.
    """

    command: str
    answer: pa.Table | None
    picture: bytes | None = None
    problem: str = ""
    case: str = ""


def format_answer(answer: pa.Table, show: Sequence[str] | None = None) -> str:
    """Return the first rows of an answer as a terminal shows them: of a query with the columns that it shows."""
    first = answer.slice(0, ROWS)
    lines = list(table_lines(first, width=WIDTH) if show is None else view_lines(first, show, width=WIDTH))
    if answer.num_rows > ROWS:
        lines.append(f"… {answer.num_rows - ROWS:,} more rows")
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def open_recorded_runs() -> Iterator[Lab]:
    """Ingest the single runs; among the hundred runs of the sweeps, no picture would show one."""
    with stores_folder() as folder:
        yield Lab(recorded_runs(folder))


@contextmanager
def open_all_runs() -> Iterator[Lab]:
    """Ingest everything in data/ except the run that exists for a comparison, and the job of eight ranks."""
    with stores_folder() as folder:
        many = [ROOT / "data" / "generated" / name for name in _FOLDERS_OF_MANY_RUNS]
        yield Lab(_ingest(folder, "all", many, base=recorded_runs(folder)))


@contextmanager
def open_run_pair() -> Iterator[Lab]:
    """Ingest the two runs that differ in one setting."""
    with stores_folder() as folder:
        yield Lab(_ingest(folder, "pair", [ROOT / "data" / "generated" / run for run in (RUN, CHANGED_RUN)]))


@contextmanager
def open_multi_rank_runs() -> Iterator[Lab]:
    """Ingest the generated run of four ranks and the simulated job of eight."""
    with stores_folder() as folder:
        yield Lab(_ingest(folder, "ranks", [ROOT / "data" / "generated" / run for run in (RUN, JOB_RUN)]))


@contextmanager
def open_gpu_runs() -> Iterator[Lab]:
    """Ingest what was recorded on a GPU."""
    with stores_folder() as folder:
        yield Lab(_ingest(folder, "gpu", [ROOT / "data" / "h200"]))


@contextmanager
def study_runs() -> Iterator[Path]:
    """Return a store of the runs that rows of studies name as their examples."""
    with stores_folder() as folder:
        yield study_examples(folder)


@contextmanager
def stores_folder() -> Iterator[Path]:
    """Return the folder of the stores."""
    if STORES in os.environ:
        yield Path(os.environ[STORES])
        return
    with tempfile.TemporaryDirectory(prefix="tracelab-docs-") as folder:
        yield Path(folder)


def recorded_runs(folder: Path) -> Path:
    """Return the store of the single runs."""
    single = _generated_folders_except(CHANGED_RUN, JOB_RUN, *_FOLDERS_OF_MANY_RUNS)
    return _ingest(folder, "recorded", [ROOT / "data" / "cpu", *single])


def _generated_folders_except(*names: str) -> list[Path]:
    return sorted(path for path in (ROOT / "data" / "generated").iterdir() if path.name not in names)


def _ingest(folder: Path, name: str, paths: Sequence[Path], base: Path | None = None) -> Path:
    def fill(store: Path) -> None:
        if base is not None:
            shutil.copytree(base, store)
        working_folder = Path.cwd()
        os.chdir(ROOT)  # makes the paths in `sources` the same on every machine
        try:
            pipeline.ingest([path.relative_to(ROOT) for path in paths], store=store)
        finally:
            os.chdir(working_folder)

    return shared_store(folder, name, fill)


def run_example(lab: Lab, query: Query, choices: Iterable[Mapping[str, Value]] | None = None) -> Example:
    """Run a query with the first of these values that give rows.

    Without `choices`: with the example values of its header, else for the generated run, else for all runs.
    """
    problem = ""
    for values in _parameter_choices(query) if choices is None else choices:
        command = _format_command(query, values)
        try:
            answer = lab.run_query(query, values)
        except NoDataError as error:
            problem = problem or str(error)
            continue
        except TracelabError as error:
            problem = str(error)
            continue
        if answer.num_rows:
            return Example(command, answer)
    return Example(_format_command(query, {}), None, problem=problem or "The recorded runs have no row for it.")


def run_golden_case(query: Query) -> Example:
    """Run a query on its golden case with the longest answer."""
    case = max(sorted((cases.FOLDER / query.name).iterdir()), key=lambda each: len(cases.expected(each)))
    values = cases.params(case)
    with tempfile.TemporaryDirectory(prefix="tracelab-docs-") as folder:
        answer = Lab(build_store(Path(folder) / "lab", cases.tables(case))).run_query(query, values)
    return Example(_format_command(query, values), answer, case=case.relative_to(ROOT).as_posix())


def with_picture(query: Query, example: Example, *, small: bool) -> Example:
    """Return the example with its chart, if the query has one and there is an answer.

    `small` optimizes the PNG, which takes three times as long and changes no pixel.
    """
    if example.answer is None:
        return example
    return replace(example, picture=_draw_png(query, example.answer, small=small))


def draw_svg(lab: Lab, name: str, params: Mapping[str, Value]) -> bytes:
    """Return the chart of a query."""
    query, drawing = library.find(name), io.BytesIO()
    plot.save(plot.figure(lab.run_query(query, params), query), drawing, fmt="svg")
    return drawing.getvalue()


def _parameter_choices(query: Query) -> Iterator[dict[str, Value]]:
    examples = {param.name: param.example for param in query.params if param.example is not None}
    if examples:
        yield examples
    if any(param.name == "run" for param in query.params):
        yield {"run": RUN}
    yield {}


def _format_command(query: Query, values: Mapping[str, Value]) -> str:
    defaults = {param.name: param.default for param in query.params}
    changed = {name: value for name, value in values.items() if value != defaults[name]}
    options = "".join(f" --{name.replace('_', '-')}{_format_value(value)}" for name, value in changed.items())
    return f"tracelab query {query.name}{options}"


def _format_value(value: Value) -> str:
    return "" if value is True else f" {shlex.quote(str(value))}"


def _draw_png(query: Query, answer: pa.Table, *, small: bool) -> bytes | None:
    if query.chart is None:
        return None
    drawing, reduced = io.BytesIO(), io.BytesIO()
    try:
        figure = plot.figure(answer, query)
        plot.save(figure, drawing, fmt="png")
    except NoDataError:
        return None
    texts = PngInfo()
    texts.add_text(PICTURE_TEXTS, "\n".join(sorted({each.get_text() for each in figure.findobj(Text)})), zip=True)
    picture = Image.open(drawing).convert("RGB").quantize(COLORS, Image.Quantize.FASTOCTREE)  # others mix rare colors
    picture.save(reduced, "png", optimize=small, compress_level=9 if small else 1, pnginfo=texts)
    return reduced.getvalue()
