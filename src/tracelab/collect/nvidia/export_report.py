"""Export reports right after the capture, with the version that wrote them, and count the GPU work in them."""

import contextlib
import csv
import io
import os
import re
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracelab.collect.nvidia.capture import Capture
from tracelab.collect.nvidia.command import capture_record, ncu_import_command, nsys_export_command

EXPORT_TIMEOUT_S = 1800
_KERNELS = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE")
_COPIES = ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET")
_IMPORTER = "host-linux-*/QdstrmImporter"
_UNIMPORTED = ".qdstrm"
_TAIL = 500


@dataclass(frozen=True)
class Export:
    """The files of a capture: reports, their exports, the GPU work in them, and the first error."""

    reports: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    kernels: int = 0
    copies: int = 0
    """Memory copies and memsets."""
    error: str | None = None


def export_reports(capture: Capture, environ: Mapping[str, str], timeout_s: float = EXPORT_TIMEOUT_S) -> Export:
    """Export every report of the capture, each completely or not at all; reports are always kept."""
    nsys = capture.tool.name == "nsys"
    errors = _import_streams(capture, environ, timeout_s) if nsys else []
    reports = _reports(capture.base, (".nsys-rep", ".qdrep") if nsys else (".ncu-rep", ".ncu-repz"))
    one = _nsys_export if nsys else _ncu_export
    files, kernels, copies = [], 0, 0
    for report in reports:
        try:
            file, launched, copied = one(capture, report, _runner(environ, timeout_s))
        except _FailedError as error:
            errors.append(f"{report.name} could not be exported: {error}")
        else:
            files.append(file)
            kernels, copies = kernels + launched, copies + copied
    return Export(tuple(reports), tuple(files), kernels, copies, errors[0] if errors else None)


class _FailedError(Exception):
    """An export failed; the message is the tool's."""


_Run = Callable[[Sequence[str], Path | None], None]


def _nsys_export(capture: Capture, report: Path, run: _Run) -> tuple[Path, int, int]:
    target = report.with_suffix(".sqlite")
    aside = report.with_name(f".{report.stem}.partial.sqlite")
    with _gone(aside):
        run(nsys_export_command(capture.tool, report, aside), None)
        rows = _rows(aside)
        _settle(aside, target)
    return target, sum(map(rows.__getitem__, _KERNELS)), sum(map(rows.__getitem__, _COPIES))


def _ncu_export(capture: Capture, report: Path, run: _Run) -> tuple[Path, int, int]:
    target = report.with_suffix(".ncu.csv")
    aside = report.with_name(f".{report.stem}.partial.csv")
    with _gone(aside):
        aside.write_text(_session(capture), encoding="utf-8")
        run(ncu_import_command(capture.tool, report), aside)
        launches = _launches(aside)
        _settle(aside, target)
    return target, launches, 0


def _session(capture: Capture) -> str:
    """Return the session page that the raw page lacks and its reader needs, above all for the clock setting."""
    recorded = capture_record(capture)
    text = io.StringIO("Session Info\n", newline="")
    text.seek(0, io.SEEK_END)
    rows = csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n")
    rows.writerow(["Session Attribute", "Value"])
    rows.writerow(["Nsight Compute", recorded["tool_version"]])
    rows.writerow(["Profiler Command Line", " ".join(recorded["tool_command"])])
    return f"{text.getvalue()}\n"


def _rows(path: Path) -> Counter[str]:
    """Count the rows of the GPU tables of an SQLite export; raises _FailedError if it is not one."""
    if not path.is_file():
        raise _FailedError("nsys wrote no file")
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            tables = {name for (name,) in base.execute("select name from sqlite_master where type = 'table'")}
            if not tables:
                raise _FailedError("nsys wrote an empty database")
            there = [name for name in (*_KERNELS, *_COPIES) if name in tables]
            return Counter({name: base.execute(f"select count(*) from {name}").fetchone()[0] for name in there})
    except sqlite3.DatabaseError as error:
        raise _FailedError(f"nsys wrote no database ({error})") from error


def _launches(path: Path) -> int:
    """Count the rows of a raw page without its row of units; ncu may print messages around the table."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = csv.reader(line for line in file if not line.startswith("=="))
        header = next((row for row in rows if row[:1] == ["ID"]), None)
        return 0 if header is None else sum(1 for row in rows if row and row[0].isdecimal())


def _runner(environ: Mapping[str, str], timeout_s: float) -> _Run:
    """Return a function that runs a command, and appends its output to a file if given."""

    def run(command: Sequence[str], output: Path | None) -> None:
        with contextlib.ExitStack() as stack:
            out = stack.enter_context(output.open("ab")) if output else subprocess.PIPE
            try:
                done = subprocess.run(
                    command,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    timeout=timeout_s,
                    env={**environ, "LC_ALL": "C"},
                )
            except OSError as error:
                raise _FailedError(error.strerror or str(error)) from error
            except subprocess.TimeoutExpired as error:
                raise _FailedError(f"no end after {timeout_s:.0f} s") from error
        if done.returncode:
            output_bytes = done.stderr + (done.stdout or b"") + (output.read_bytes()[-_TAIL:] if output else b"")
            raise _FailedError(_last_line(output_bytes) or f"exit code {done.returncode}")

    return run


def _import_streams(capture: Capture, environ: Mapping[str, str], timeout_s: float) -> list[str]:
    """Import recordings that nsys could not import itself, because its package misplaces the importer."""
    errors = []
    for stream in _reports(capture.base, (_UNIMPORTED,)):
        report, aside = stream.with_suffix(".nsys-rep"), stream.with_name(f".{stream.stem}.partial.nsys-rep")
        folders = [parent for path in _links(Path(capture.tool.path)) for parent in path.parents[:3]]
        importer = next((path for folder in folders for path in sorted(folder.glob(_IMPORTER))), None)
        if report.exists():
            continue
        if importer is None:
            errors.append(f"{stream.name} is no report yet; make one with NVIDIA's QdstrmImporter -i {stream.name}")
            continue
        try:
            with _gone(aside):
                _runner(environ, timeout_s)([str(importer), "-i", str(stream), "-o", str(aside)], None)
                _settle(aside, report)
                stream.unlink()
        except _FailedError as error:
            errors.append(f"{stream.name} could not be made a report: {error}")
    return errors


def _links(path: Path) -> Iterator[Path]:
    """Yield a path and each target of its links: packages spread a tool over several folders."""
    for _ in range(10):
        yield path
        if not path.is_symlink():
            return
        path = Path(os.path.normpath(path.parent / path.readlink()))


def _reports(base: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """rank0.nsys-rep, and rank0.1.nsys-rep … of a window that opened several times; none of rank01."""
    name = re.compile(rf"{re.escape(base.name)}(?:\.(\d+))?({'|'.join(re.escape(suffix) for suffix in suffixes)})")
    matches = [(match, path) for path in base.parent.glob("*") if (match := name.fullmatch(path.name))]
    return [path for match, path in sorted(matches, key=lambda item: int(item[0][1] or 0)) if path.stat().st_size]


def _settle(aside: Path, target: Path) -> None:
    """Sync a complete file to disk and rename it to its target."""
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(target)


@contextlib.contextmanager
def _gone(path: Path) -> Iterator[None]:
    """Delete partial files after the block."""
    try:
        yield
    except OSError as error:
        raise _FailedError(error.strerror or str(error)) from error
    finally:
        for leftover in path.parent.glob(f"{path.name}*"):  # SQLite's journal too
            leftover.unlink(missing_ok=True)


def _last_line(output_bytes: bytes) -> str:
    lines = [line.strip() for line in output_bytes.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("==ERROR==").strip()[:_TAIL] if lines else ""
