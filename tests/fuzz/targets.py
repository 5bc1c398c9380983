"""The tolerant parsers as functions of bytes: whatever they get, they may raise nothing but the readers' errors."""

import contextlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.ncu import Cell, Kernel, Rule, console_text, details_csv, golden_roofline, raw_csv
from tests.readers import run_folder as run_files
from tests.readers import test_ceilings_text as printed_ceilings
from tests.readers import test_nvprof_text as nvprof_forms
from tests.readers.parsing import rewrite_chunk
from tests.readers.small import kernel, op
from tracelab.ingest.archives import unpack
from tracelab.ingest.discovery import copies_folder
from tracelab.readers.decompress import SNIFF_BYTES, is_archive
from tracelab.readers.diagnostics import DiagnosticCounts, build_diagnostics
from tracelab.readers.kineto.diagnostics import MESSAGES as OF_KINETO
from tracelab.readers.kineto.parser.compiled_parser import CompiledParser
from tracelab.readers.kineto.parser.types import RefusedChunkError
from tracelab.readers.ncu import probe
from tracelab.readers.ncu.diagnostics import MESSAGES as OF_NCU
from tracelab.readers.ncu.read_report import parse_lines
from tracelab.readers.ncu.report_builder import ReportBuilder
from tracelab.readers.nvprof import sniff as sniff_nvprof
from tracelab.readers.nvprof.diagnostics import MESSAGES as OF_NVPROF
from tracelab.readers.nvprof.read_text import build_table
from tracelab.readers.nvprof.table_parser import TableParser
from tracelab.readers.run_folder import nccl_tests, nvbandwidth
from tracelab.readers.run_folder import sniff as sniff_run
from tracelab.readers.run_folder.coerce import build_row, loads
from tracelab.readers.run_folder.coerce import build_table as run_table
from tracelab.readers.run_folder.diagnostics import MESSAGES as OF_RUNS
from tracelab.readers.run_folder.json_lines import Line, iter_objects
from tracelab.readers.run_folder.json_lines import iter_lines as lines_of_run
from tracelab.readers.run_folder.metadata import build_run_row, missing_files
from tracelab.readers.text_lines import iter_blocks, iter_lines


@dataclass(frozen=True)
class Target:
    """One parser, what it should begin with, and the marks of its format."""

    run: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    words: tuple[str, ...]


def ncu_text(data: bytes) -> None:
    """All of a report but for the store."""
    probe.sniff(data)
    probe.probe_file(Path("x.csv"))
    report = ReportBuilder(lambda name, rows: rows.validate(full=True))
    parse_lines(iter_lines(io.BytesIO(data), report.diagnostics), report)
    report.devices.table(lambda _: 0)
    build_diagnostics(report.diagnostics, OF_NCU)


def nvprof_text(data: bytes) -> None:
    """All of a printed result but for the store."""
    sniff_nvprof(data)
    printed = TableParser(DiagnosticCounts())
    for block in iter_blocks(io.BytesIO(data), printed.diagnostics):
        printed.parse_block(block)
    for table, rows in printed.rows.items():
        build_table(table, rows).validate(full=True)
    build_diagnostics(printed.diagnostics, OF_NVPROF)


def kineto_recovery(data: bytes) -> None:
    """Recover the events of a damaged chunk; the parser takes every rewritten one."""
    diagnostics = DiagnosticCounts()
    lines, _ = rewrite_chunk(data, 1_700_000_000_000_000_000, diagnostics)
    for parsed in _parser().parse_repaired(lines, lambda shapes: [0] * len(shapes)):
        assert not parsed.irregular
        for table in parsed.tables.values():
            table.validate(full=True)
    build_diagnostics(diagnostics, OF_KINETO)


def kineto_parser(data: bytes) -> None:
    """The same piece as the parser sees it first: it refuses it, or what it makes of it is valid."""
    with contextlib.suppress(RefusedChunkError):
        parsed = _parser().parse_chunk(
            memoryview(data), lambda shapes: [at % 13 for at in range(len(shapes))], base_ns=0
        )
        for table in parsed.tables.values():
            table.validate(full=True)


@cache
def _parser() -> CompiledParser:
    return CompiledParser()


def run_lines(data: bytes) -> None:
    """A file of JSON lines as rows of each table."""
    sniff_run(data)
    for table in ("steps", "ceilings", "host_samples"):
        diagnostics = DiagnosticCounts()
        found = [fields for fields in iter_objects(io.BytesIO(data), diagnostics) if fields is not None]
        run_table(table, [build_row(table, fields, diagnostics) for fields in found]).validate(full=True)
        build_diagnostics(diagnostics, OF_RUNS)


def run_json(data: bytes) -> None:
    """A description of a run, and nvbandwidth's JSON."""
    diagnostics = DiagnosticCounts()
    try:
        content = loads(data.decode(errors="replace"))
    except ValueError:
        return
    if isinstance(content, dict):
        run_table("runs", [build_run_row(content, Path("run"), diagnostics)]).validate(full=True)
        missing_files(content, Path("/nowhere"))
        run_table("ceilings", list(nvbandwidth.build_rows(content, diagnostics))).validate(full=True)
    build_diagnostics(diagnostics, OF_RUNS)


def nccl_text(data: bytes) -> None:
    """What nccl-tests print."""
    report = nccl_tests.Report(DiagnosticCounts())
    rows = list(report.rows(line.content.decode(errors="replace") for line in lines_of_bytes(data)))
    run_table("ceilings", rows).validate(full=True)
    build_diagnostics(report.diagnostics, OF_RUNS)


def archive(data: bytes) -> None:
    """The members of a tar or zip archive, as copies."""
    if not is_archive(data[:SNIFF_BYTES]):
        return
    with copies_folder() as create:
        folder = create()
        path = folder / "archive"
        path.write_bytes(data)
        unpacked = unpack(path, Path("/data/archive"), folder)
        inside = {file.relative_to(folder).parts[:2] for file in folder.rglob("*") if file.is_file()}
        assert inside <= {("archive",), ("data", "archive!")}
        assert all((unpacked.copies.root / name).stat().st_size for name in unpacked.copies.written)


def packed_members() -> Iterator[bytes]:
    """A tar and a zip archive of two small files, one of which no reader accepts."""
    members = {"rank0.json": _SMALLEST_TRACE, "notes.txt": b"text"}
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    yield file.getvalue()[:4096]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    yield file.getvalue()


def lines_of_bytes(data: bytes) -> Iterator[Line]:
    """The lines of a text in memory."""
    return lines_of_run(io.BytesIO(data), DiagnosticCounts())


_SMALLEST_TRACE = b'{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "k", "ts": 1, "dur": 1}]}'
_AXPY = Kernel("void axpy<float, (int)4>(T1 *, T1)")
_ROWS = (
    (_AXPY, Cell("Duration", "us", "1,234.56", "GPU Speed Of Light Throughput")),
    (_AXPY, Cell("inst_executed", "inst", "60 (0x10: 20; 0x20: 40)")),
    (_AXPY, Rule("SOLBottleneck", "OPT", "Est. Local Speedup: 12.5%")),
    (_AXPY.numbered(1), Cell("dram__bytes.sum", "Mbyte", "n/a")),
)
_SESSION = 'Device Attributes\n"Device Attribute","Device 0"\n"clock_rate","1410000"\n'
_MESSAGES = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM\n==WARNING== No kernels were profiled.\n"
_PAGES = (
    details_csv(_ROWS),
    details_csv(_ROWS, separator=";"),
    raw_csv({"dram__bytes.sum": "Kbyte", "device__attribute_total_memory": ""}, [(_AXPY, ["1.5", "42949672960"])]),
    console_text(_ROWS),
    console_text(_ROWS, widths=(23, 13, 12), headings=True),
    golden_roofline(),
    _SESSION,
    _MESSAGES,
)
_ALLREDUCE = kernel("ncclKernel_AllReduce", ts="1.5", **{"Process Group Ranks": "[0, 1]", "In msg nelems": 5})
_PIECES = (
    ",\n".join(json.dumps(event) for event in (kernel(), op(), _ALLREDUCE)),
    '{"ph":"X","cat":"kernel","name":"a","ts":1700000000000000.123,"dur":NaN,"args":{"stream":-1,"x":[1,2',
    '{"ph":"X","ts":1,"args":{"Process Group Ranks": [0, 1, ..., 7], "a": none}} , {"ph":"i","ts":"2"} ], ]',
)

_RUN = json.dumps(run_files.RUN).encode()
_STEPS = run_files.lines("steps", run_files.step(0), b"\0" * 9, run_files.step(1, more=[1.5]), rank=1)

TARGETS = {
    "archive": Target(archive, tuple(packed_members()), ("../", "PK\x01\x02", "0000644", "ustar", "L", "\0")),
    "run_lines": Target(run_lines, (_STEPS,), ('{"', '": ', "NaN", "1e999", "\\ud800", "\0", "\n")),
    "run_json": Target(
        run_json,
        (_RUN, json.dumps(printed_ceilings.COPIES).encode()),
        ('"tags": {', '"N/A"', "NaN", "null", '"ranks"', "[", "1e999"),
    ),
    "nccl_text": Target(
        nccl_text, (printed_ceilings.ALL_REDUCE.encode(),), ("# ", "  0  ", "N/A", "1e+09", "nan", "-1", "float")
    ),
    "ncu_text": Target(
        ncu_text,
        (*(page.encode() for page in _PAGES), _PAGES[0].encode("utf-16")),
        (
            '","',
            '"0","4242",',
            "Metric Value",
            "Section: ",
            "----- ",
            ", Context 1, Stream 7",
            "[1] a@b",
            "==ERROR==",
            "1e9",
        ),
    ),
    "nvprof_text": Target(
        nvprof_text,
        tuple(
            text.encode()
            for text in (
                nvprof_forms.GPU_TRACE,
                nvprof_forms.CONSOLE_TRACE,
                nvprof_forms.SUMMARY,
                nvprof_forms.OLD_SUMMARY,
                nvprof_forms.LAUNCHES,
            )
        ),
        (
            '","',
            "==77== ",
            "Profiling result:",
            'Device "',
            "Kernel: ",
            "[CUDA memcpy ",
            "Time(%)",
            "  ",
            "KB",
            "1e999",
        ),
    ),
    **{
        name: Target(
            run,
            tuple(text.encode() for text in _PIECES),
            ('{"ph":', '"args":{', '"ts":', "},", "NaN", "\\u00", "]"),
        )
        for name, run in (("kineto_recovery", kineto_recovery), ("kineto_parser", kineto_parser))
    },
}
"""One line for each parser."""
