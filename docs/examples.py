"""Questions of the library asked of the recorded runs in data/: what the pages of docs/reference/queries show."""

import io
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from PIL import Image

from tracelab import plot
from tracelab.client import Lab
from tracelab.errors import NoDataError, TracelabError
from tracelab.ingest import pipeline
from tracelab.output.text_table import table_lines
from tracelab.query.spec import Query, Value

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))
from tests.build import build_store  # noqa: E402
from tests.golden import cases  # noqa: E402

RUN = "generated-4rank-ddp"
CHANGED = "generated-4rank-nobroadcast"
_MANY = ("sweeps", "nvprof")
ROWS = 8
WIDTH = 118
COLOURS = 64
"""Of a picture in the repository: a third of the bytes of one in full colour, and looks the same."""


@dataclass(frozen=True)
class Example:
    """One question as it was asked, its answer, and its picture; `none` says why there is no answer.

    `case` is the golden case that it was asked of, where no recorded run can answer it.
    """

    command: str
    answer: pa.Table | None
    picture: bytes | None = None
    none: str = ""
    case: str = ""


def printed(answer: pa.Table) -> str:
    """The first rows of an answer, as a terminal shows them."""
    lines = list(table_lines(answer.slice(0, ROWS), width=WIDTH, color=False))
    if answer.num_rows > ROWS:
        lines.append(f"… {answer.num_rows - ROWS:,} more rows")
    return "\n".join(line.rstrip() for line in lines)


@contextmanager
def recorded() -> Iterator[Lab]:
    """A store of single runs: among the hundred of the sweeps no picture would show one."""
    with _store([ROOT / "data" / "cpu", *_generated(CHANGED, *_MANY)]) as lab:
        yield lab


@contextmanager
def swept() -> Iterator[Lab]:
    """A store of everything in data/ but the run that is there for a comparison."""
    with _store([ROOT / "data" / "cpu", *_generated(CHANGED)]) as lab:
        yield lab


@contextmanager
def compared() -> Iterator[Lab]:
    """A store of the two runs that differ in one thing."""
    with _store([ROOT / "data" / "generated" / run for run in (RUN, CHANGED)]) as lab:
        yield lab


def _generated(*but: str) -> list[Path]:
    return sorted(path for path in (ROOT / "data" / "generated").iterdir() if path.name not in but)


@contextmanager
def _store(paths: Sequence[Path]) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="tracelab-docs-") as folder:
        here = Path.cwd()
        os.chdir(ROOT)  # the paths in `sources` are then the same on every machine
        try:
            pipeline.ingest([path.relative_to(ROOT) for path in paths], store=Path(folder) / "lab")
        finally:
            os.chdir(here)
        yield Lab(Path(folder) / "lab")


def asked(lab: Lab, query: Query) -> Example:
    """Ask a question: with the examples its header names, else of the generated run, else of all runs."""
    problem = ""
    for values in _choices(query):
        command = _command(query, values)
        try:
            answer = lab.ask(query, values)
        except NoDataError as error:
            problem = problem or str(error)
            continue
        except TracelabError as error:
            problem = str(error)
            continue
        if answer.num_rows:
            return Example(command, answer)
    return Example(_command(query, {}), None, none=problem or "The recorded runs have no row for it.")


def asked_case(query: Query) -> Example:
    """Ask a question of its golden case with the longest answer."""
    case = max(sorted((cases.FOLDER / query.name).iterdir()), key=lambda each: len(cases.expected(each)))
    values = cases.params(case)
    with tempfile.TemporaryDirectory(prefix="tracelab-docs-") as folder:
        answer = Lab(build_store(Path(folder) / "lab", cases.tables(case))).ask(query, values)
    return Example(_command(query, values), answer, case=case.relative_to(ROOT).as_posix())


def drawn(query: Query, example: Example, *, small: bool) -> Example:
    """The example with its picture, where the question has a chart and there is an answer.

    `small`: packed as well as can be, which takes a third of the time and changes no pixel.
    """
    if example.answer is None:
        return example
    return replace(example, picture=_picture(query, example.answer, small=small))


def _choices(query: Query) -> Iterator[dict[str, Value]]:
    needed = {param.name: param.example for param in query.params if param.example is not None}
    if needed:
        yield needed
    if any(param.name == "run" for param in query.params):
        yield {"run": RUN}
    yield {}


def _command(query: Query, values: Mapping[str, Value]) -> str:
    defaults = {param.name: param.default for param in query.params}
    given = {name: value for name, value in values.items() if value != defaults[name]}
    options = "".join(f" --{name.replace('_', '-')}{_value(value)}" for name, value in given.items())
    return f"tracelab query {query.name}{options}"


def _value(value: Value) -> str:
    return "" if value is True else f" {shlex.quote(str(value))}"


def _picture(query: Query, answer: pa.Table, *, small: bool) -> bytes | None:
    if query.chart is None:
        return None
    drawn, packed = io.BytesIO(), io.BytesIO()
    try:
        plot.save(plot.figure(answer, query), drawn, fmt="png")
    except NoDataError:
        return None
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(packed, "png", optimize=small)
    return packed.getvalue()
