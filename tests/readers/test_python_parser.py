"""Events parsed in Python, where wasmtime cannot be loaded: the same rows as those of the compiled parser."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import corpus
from tests.readers.parsing import KERNELS, SEVERAL, rewrite_chunk
from tests.readers.small import Lab, ingest_paths
from tests.readers.test_kineto_parser_any import event_text, events, spaces
from tests.traces import write_trace
from tracelab import schema
from tracelab.readers import decompress
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.kineto.chunker import ChunkBuffer, Chunker, Trace
from tracelab.readers.kineto.mapper import borrow_connection, classify_shapes
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
from tracelab.readers.kineto.parser.python_parser import PythonParser
from tracelab.readers.kineto.parser.types import ParsedChunk, RefusedChunkError
from tracelab.readers.kineto.repair import EventRepair

DATA = Path(__file__).parents[2] / "data"
RECORDED = (
    DATA / "cpu" / "alexnet-batch8.pt.trace.json.gz",
    DATA / "generated" / "generated-4rank-ddp" / "rank0.pt.trace.json.gz",
)
SMALL_BYTES = 300_000
BASE_NS = 10**18
KINDS = dict(zip("XYZ", SEVERAL, strict=True))

Rows = dict[int, list[dict[str, object]]]


def rows_of(chunks: list[ParsedChunk]) -> Rows:
    """Return the rows of each kind without their nulls."""
    rows: Rows = {}
    for chunk in chunks:
        for kind, table in chunk.tables.items():
            table.validate(full=True)
            present = [{key: value for key, value in row.items() if value is not None} for row in table.to_pylist()]
            rows.setdefault(kind, []).extend(present)
    return rows


def compare_parsers(path: Path) -> None:
    """Compare what both parsers make of each chunk of a file."""
    compiled, python = CompiledParser(), PythonParser()
    with borrow_connection() as connection, decompress.open_decompressed(path, DiagnosticCounts(), lambda _: None) as f:
        chunker, buffer = Chunker(f, Trace()), ChunkBuffer()
        while (chunk := chunker.next_chunk(buffer)) is not None:
            lines, _ = rewrite_chunk(bytes(chunk.events), BASE_NS, DiagnosticCounts())
            in_python = list(python.parse_repaired(lines, lambda shapes: classify_shapes(shapes, connection)))
            try:
                fast = compiled.parse_chunk(
                    chunk.events, lambda shapes: classify_shapes(shapes, connection), base_ns=BASE_NS
                )
            except RefusedChunkError:
                expected = list(compiled.parse_repaired(lines, lambda shapes: classify_shapes(shapes, connection)))
            else:
                lines, _ = EventRepair(BASE_NS, DiagnosticCounts()).rewrite_all(fast.irregular)
                repaired = compiled.parse_repaired(lines, lambda shapes: classify_shapes(shapes, connection))
                expected = [fast, *repaired]
            assert sort_rows(rows_of(in_python)) == sort_rows(rows_of(expected))
            assert count_unfit(in_python) == count_unfit(expected)


def sort_rows(rows: Rows) -> Rows:
    """Return rows in one order, ids as texts: their type depends on the other events that are parsed with them."""
    for row in itertools.chain.from_iterable(rows.values()):
        row |= {key: str(row[key]) for key in ("pid", "tid") if key in row}
    return {kind: sorted(of_kind, key=repr) for kind, of_kind in sorted(rows.items())}


def count_unfit(chunks: list[ParsedChunk]) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for chunk in chunks:
        for unfit in chunk.unfit:
            counts[unfit.table, unfit.key] += unfit.count
    return counts


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_recorded_events_become_the_same_rows(path: Path) -> None:
    compare_parsers(path)


@pytest.mark.traces
@pytest.mark.skipif(not corpus.ROOT.is_dir(), reason="the shared corpus of traces is not beside this checkout")
def test_events_of_the_corpus_become_the_same_rows() -> None:
    paths = [path for path in corpus.kineto_files() if path.stat().st_size < SMALL_BYTES]
    assert paths
    for path in paths:
        compare_parsers(path)


@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(chunk=st.lists(st.tuples(events, spaces), min_size=1, max_size=12), base_ns=st.integers(0, 10**18))
def test_any_events_become_the_same_tables(chunk: list[tuple[dict, str]], base_ns: int) -> None:
    text = ",".join(event_text(event, space) for event, space in chunk)
    lines, _ = rewrite_chunk(text.encode(), base_ns, DiagnosticCounts())
    results = [
        list(parser.parse_repaired(lines, lambda shapes: [KINDS[shape.ph] for shape in shapes]))
        for parser in (CompiledParser(), PythonParser())
    ]
    assert rows_of(results[0]) == rows_of(results[1])
    for compiled, python in zip(*results, strict=True):
        assert compiled.unfit == python.unfit
        assert {kind: set(table.schema) for kind, table in compiled.tables.items()} == {
            kind: set(table.schema) for kind, table in python.tables.items()
        }


@pytest.mark.parametrize("number", ["1e99999999999999999999", "-1E+9999999999999999999", "1e-9999999999999999999"])
def test_an_exponent_of_any_length_becomes_the_same_row(number: str) -> None:
    lines = [f'{{"ph":"X","ts":1,"args":{{"stream":{number},"device":"{number}"}}}}'.encode()]
    results = [
        list(parser.parse_repaired(lines, lambda shapes: [KERNELS] * len(shapes)))
        for parser in (CompiledParser(), PythonParser())
    ]
    assert rows_of(results[0]) == rows_of(results[1])
    assert [part.unfit for part in results[0]] == [part.unfit for part in results[1]]


@pytest.mark.parametrize(
    ("problem", "is_recorded"),
    [
        ("raise ImportError(\"No module named 'wasmtime'\")", True),
        ('raise RuntimeError("unsupported architecture for wasmtime: riscv64")', False),
        ('raise OSError("_libwasmtime.so: cannot open shared object file")', False),
    ],
    ids=["missing", "unsupported", "broken"],
)
def test_without_wasmtime_a_trace_is_read_and_a_diagnostic_gives_the_reason(
    tmp_path: Path, problem: str, *, is_recorded: bool
) -> None:
    trace = RECORDED[0] if is_recorded else write_trace(tmp_path / "rank0.json", kernels=2)
    package = tmp_path / "broken" / "wasmtime"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(problem)
    path = os.pathsep.join([str(package.parent), *sys.path])
    arguments = ["ingest", str(trace), "--store", str(tmp_path / "python" / "lab"), "--run", "r", "--quiet"]
    command = [sys.executable, "-m", "tracelab", *arguments]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
    compiled, python = ingest_paths(tmp_path, [trace]), Lab(tmp_path / "python" / "lab", None)
    (diagnostic,) = [row for row in python.rows("diagnostics") if row["code"] == "parsed_in_python"]
    reason = problem.split('"')[1]
    assert (diagnostic["severity"], diagnostic["count"]) == ("info", 1)
    assert diagnostic["message"] == (
        f"The compiled parser cannot run here ({reason}); the events were parsed in Python: the same rows, more slowly."
    )
    for table in schema.TABLES:
        if table.name not in ("sources", "diagnostics", "runs"):
            assert python.rows(table.name) == compiled.rows(table.name)
