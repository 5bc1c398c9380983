"""Small healthy files of each reader, each with a plain oracle of the rows that must not be lost."""

import importlib.util
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tests.ncu import Cell, Kernel, console_text, details_csv, raw_csv
from tests.readers import run_folder, small
from tests.readers import test_ceilings_text as printed_ceilings
from tests.readers import test_ncu_report as ncu_reports
from tests.readers import test_nvprof_text as nvprof_text

SECRET = "hunter2" * 2
NO_LOSS = ("rank_assumed", "session_start_unknown", "no_events", "row_repaired", "decimal_comma", "ranks_by_pid")
"""Diagnostics that report no loss."""

TABLE_LOST = "table_lost"
"""The diagnostic that counts tables, since nothing shows how many rows they have."""

GZIP_MAGIC = b"\x1f\x8b"
Tables = Mapping[str, Sequence[pa.Table]]
Lost = Callable[[Path, Tables], list[object]]
ROWS = 40
COMMAND = f"./train.py --token {SECRET}{SECRET}"


@dataclass(frozen=True)
class Target:
    """Healthy files, and the oracle: what is lost of the damaged source, judged without the reader."""

    source: str
    """Name of the file, or of the folder that is one source."""
    files: Mapping[str, bytes]
    """By path; one of them is damaged."""
    lost: Lost
    intact_bytes: Mapping[str, int]
    """By path, bytes at the beginning that are never damaged: without them the file is another one."""
    is_text: bool = False
    """Whether the oracle reads the file with `read_lines`, so that it may be compressed."""

    def has_intact_beginning(self, path: Path) -> bool:
        """Whether damage left the first bytes as they are: in a compressed file it can be anywhere."""
        if not self.is_text:
            return True
        length = self.intact_bytes[path.name]
        return "\n".join(read_lines(path)).encode("latin-1")[:length] == self.files[path.name][:length]


def target(name: str, content: bytes | str, lost: Lost, intact_bytes: int = 0) -> Target:
    """A source that is one file."""
    is_text = isinstance(content, str)
    data = content.encode() if isinstance(content, str) else content
    return Target(name, {name: data}, lost, {name: intact_bytes}, is_text)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text; of a damaged gzip file, those that zlib decompresses byte by byte."""
    content = path.read_bytes()
    if content.startswith(GZIP_MAGIC):
        unpacker, text = zlib.decompressobj(wbits=31), b""
        with suppress(zlib.error):
            for byte in content:
                text += unpacker.decompress(bytes([byte]))
        content = text
    return content.decode("latin-1").split("\n")


def values(tables: Tables, table: str, column: str) -> set[object]:
    """Return what a column holds."""
    return {
        value
        for part in tables.get(table, ())
        if column in part.column_names
        for value in part.column(column).to_pylist()
    }


def lines_lost(known: Mapping[str, object], table: str, column: str) -> Lost:
    """Build the oracle of a text: the values of the lines that are in the healthy file, too, and not in the table."""

    def lost(path: Path, tables: Tables) -> list[object]:
        lines = read_lines(path)
        return sorted({known[line] for line in lines if line in known} - values(tables, table, column), key=str)

    return lost


def nothing_lost(_path: Path, _tables: Tables) -> list[object]:
    """The oracle of a file that is one JSON object, and refused where it is damaged."""
    return []


_NCU_MESSAGES = f"==PROF== Connected to process 7 ({COMMAND})\n==ERROR== Failed to launch {COMMAND}\n"


def _ncu_rows() -> tuple[tuple[Kernel, Cell], ...]:
    axpy = Kernel("axpy(float*)")
    return tuple((axpy.numbered(at), Cell("Duration", "ns", str(7000 + at), "Speed Of Light")) for at in range(ROWS))


def ncu_csv() -> Target:
    heading, *lines = details_csv(_ncu_rows()).splitlines()
    known = {line: float(7000 + at) for at, line in enumerate(lines)}
    text = "\n".join([f"{_NCU_MESSAGES}{heading}", *lines, ""])
    return target("details.csv", text, lines_lost(known, "kernel_metrics", "value"), text.index(lines[0]))


def ncu_raw() -> Target:
    axpy = Kernel("axpy(float*)")
    launches = [(axpy.numbered(at), [str(7000 + at), "1.5"]) for at in range(ROWS)]
    page = raw_csv({"gpu__time_duration.sum": "nsecond", "dram__bytes.sum": "Kbyte"}, launches)
    *heading, _ = page.split("\n", 2)
    known = {line: float(7000 + at) for at, line in enumerate(page.splitlines()[2:])}
    text = _NCU_MESSAGES + page
    return target(
        "raw.csv", text, lines_lost(known, "kernel_metrics", "value"), text.index(heading[1]) + len(heading[1])
    )


def ncu_console() -> Target:
    text = f"==PROF== Connected to process 7 ({COMMAND})\n{console_text(_ncu_rows())}"
    known = {line: float(line.split()[-1]) for line in text.splitlines() if line.startswith("    Duration")}
    return target("console.txt", text, lines_lost(known, "kernel_metrics", "value"), len(text) // ROWS)


def ncu_report() -> Target:
    launches = 8
    content = ncu_reports.report(launches)
    size = (len(content) - len(ncu_reports.report(0))) // launches
    entries = [content[len(content) - (launches - at) * size :][:size] for at in range(launches)]

    def lost(path: Path, tables: Tables) -> list[object]:
        damaged = path.read_bytes()
        intact = {123456.5 + at for at, entry in enumerate(entries) if entry in damaged}
        return sorted(intact - values(tables, "kernel_metrics", "value"), key=str)

    return target("axpy.ncu-rep", content, lost, 4)


def nvprof_csv() -> Target:
    *start, row = nvprof_text.GPU_TRACE.replace("./secret --token abc", COMMAND).splitlines()
    rows = [row.replace(",13,", f",{at + 100},").replace("30.250000", f"{at + 1}.000000") for at in range(ROWS)]
    known = {row: (at + 1) * 1000 for at, row in enumerate(rows)}
    text = "\n".join([*start, *rows]) + "\n"
    return target("trace.csv", text, lines_lost(known, "kernels", "dur_ns"), len("\n".join(start)) + 1)


def nvprof_console() -> Target:
    head, copy, kernel, rest = re.split(r"(?m)^(?=13)|(?=^\n)", nvprof_text.CONSOLE_TRACE, maxsplit=3)
    rows = [kernel.replace("1.0e-3s ", f"{at + 100}.0us").rstrip("\n") for at in range(ROWS)]
    known = {row: (at + 100) * 1000 for at, row in enumerate(rows)}
    head = head.replace("./secret --token abc", COMMAND)
    text = head + copy + "\n".join([*rows, rest])
    return target("console.txt", text, lines_lost(known, "kernels", "dur_ns"), len(head))


def nvprof_summary() -> Target:
    head, row = nvprof_text.OLD_SUMMARY.replace("./secret --token abc", COMMAND).splitlines(keepends=True)[:4], ""
    rows = [
        f" 50.00%  {at + 1}.0000ms         2  1.5000ms  1.2340us  2.9988ms  scale{at}(float*)" for at in range(ROWS)
    ]
    known = {row: (at + 1) * 1_000_000 for at, row in enumerate(rows)}
    text = "".join(head) + "\n".join([*rows, row])
    return target("summary.txt", text, lines_lost(known, "summaries", "dur_ns"), len("".join(head)))


def _json_lines(kind: str, key: str, rows: Sequence[Mapping[str, object]], name: str) -> Target:
    content = run_folder.lines(kind, *rows, rank=0)
    first, *lines = content.decode().splitlines()
    known = {line: json.loads(line)[key] for line in lines}
    return target(name, content.decode(), lines_lost(known, kind, key), len(first) + 1)


def run_steps() -> Target:
    return _json_lines("steps", "step", [run_folder.step(at) for at in range(ROWS)], "steps.rank0.jsonl")


def run_host_samples() -> Target:
    rows = [{"device": 0, "time_ns": run_folder.FIRST + at, "util_ratio": 0.5} for at in range(ROWS)]
    return _json_lines("host_samples", "time_ns", rows, "host_samples.0.jsonl")


def run_memory_peaks() -> Target:
    rows = [{"device": 0, "step": at, "allocated_bytes": 5} for at in range(ROWS)]
    return _json_lines("memory_peaks", "step", rows, "memory_peaks.rank0.jsonl")


def run_ceilings() -> Target:
    rows = [{"metric": "copy", "device_name": "Card X", "best": 1.5, "size_bytes": at} for at in range(ROWS)]
    return _json_lines("ceilings", "size_bytes", rows, "ceilings.jsonl")


def run_json() -> Target:
    content = {**run_folder.RUN, "command": ["collect", "--token", SECRET], "launch": {"token": SECRET}}
    return target("run.json", json.dumps(content), nothing_lost, 20)


def run_ops() -> Target:
    ops = [{"name": f"aten::op{at}", "calls": at} for at in range(ROWS)]
    content = {"tracelab": "ops/1", "run": "r", "rank": 0, "kind": "key_averages", "ops": ops, "token": SECRET}
    return target("ops.rank0.json", json.dumps(content), nothing_lost, 20)


def nvbandwidth() -> Target:
    return target("bandwidth.json", json.dumps(printed_ceilings.COPIES), nothing_lost, 20)


def nccl_tests() -> Target:
    *head, row, _, _, _ = printed_ceilings.ALL_REDUCE.splitlines()
    rows = [row.replace("        1024  ", f"{1024 + at:>12}  ") for at in range(ROWS)]
    known = {row: 1024 + at for at, row in enumerate(rows)}
    text = "\n".join([f"{COMMAND}", *head, *rows, ""])
    return target("out.txt", text, lines_lost(known, "ceilings", "size_bytes"), text.index(rows[0]))


def kineto() -> Target:
    events = [small.kernel(f"k{at}", ts=1000 + at, dur=5) for at in range(ROWS)]
    events += [small.op(f"aten::op{at}", ts=1000 + at) for at in range(ROWS)]
    known = {f"{json.dumps(event)},": event["name"] for event in events}
    content = small.trace(*events, environment={"TOKEN": SECRET})

    def lost(path: Path, tables: Tables) -> list[object]:
        lines = read_lines(path)
        names = values(tables, "kernels", "name") | values(tables, "ops", "name")
        return sorted({known[line] for line in lines if line in known} - names, key=str)

    return target("trace.json", content, lost, content.index(json.dumps(events[0])))


TEXTS: dict[str, Callable[[], Target]] = {
    "ncu_csv": ncu_csv,
    "ncu_raw": ncu_raw,
    "ncu_console": ncu_console,
    "nvprof_csv": nvprof_csv,
    "nvprof_console": nvprof_console,
    "nvprof_summary": nvprof_summary,
    "run_steps": run_steps,
    "run_host_samples": run_host_samples,
    "run_memory_peaks": run_memory_peaks,
    "run_ceilings": run_ceilings,
    "run_json": run_json,
    "run_ops": run_ops,
    "nvbandwidth": nvbandwidth,
    "nccl_tests": nccl_tests,
    "kineto": kineto,
    **({"ncu_report": ncu_report} if importlib.util.find_spec("ncu_report") else {}),
}
"""Targets other than databases; a binary report needs NVIDIA's module."""
